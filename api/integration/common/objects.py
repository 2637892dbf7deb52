"""The generated objects of an owner: Workload, CompositePodGroups, PodGroups.

Counts and names follow KEP-1068. The objects are complete, except for the Workload's UID, which
only a live object has.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from api.constants import (
    ANNOTATION_SLICE_JOB_PODS,
    POD_GROUP,
    WORKLOAD,
    KindName,
    finalizer_of,
)
from api.integration.common.options import ALL, BASIC, SINGLE, Options
from api.integration.common.shared_claims import group_entries
from api.integration.common.trees import Shared, Tree
from api.ownership import Owner
from api.reading import text

Json = dict[str, Any]

NO_TEMPLATES: Final[Mapping[str, str]] = {}
_MODES: Final = {SINGLE: "single", ALL: "all"}


def template(
    name: str,
    options: Options,
    members: int,
    priority: Json,
    *,
    composite: bool = False,
    claims: Mapping[str, str] = NO_TEMPLATES,
) -> Json:
    """Return a template: policy with minCount, topology, disruption mode and PriorityClass.

    minCount is explicit, or else counts all `members`. `claims` are the ResourceClaimTemplates of
    the entries that its pods may share.
    """
    made: Json = {"name": name, "schedulingPolicy": _policy(options, members, composite)}
    if options.topology:
        entry: Json = {"key": options.topology}
        if options.preferred:
            entry["preferred"] = True
        made["schedulingConstraints"] = {"topology": [entry]}
    if options.disruption:
        made["disruptionMode"] = {_MODES[options.disruption]: {}}
    shared = group_entries(options.claims, claims)
    if shared:
        made["resourceClaims"] = shared
    return made | priority


def priority_of(*pod_specs: Mapping[str, Any]) -> Json:
    """Return PriorityClass and preemption policy if all pod templates agree."""
    said: Json = {}
    for key in ("priorityClassName", "preemptionPolicy"):
        values = {text(spec.get(key)) for spec in pod_specs}
        if len(values) == 1 and values != {""}:
            said[key] = values.pop()
    return said


def shared_by(tree: Tree, pod_specs: Iterable[tuple[str, Mapping[str, Any]]]) -> Shared:
    """Return what an owner with these pod templates shares with the others of its tree."""
    named = priority_of(*(spec for _, spec in pod_specs))
    return Shared(tree, named.get("priorityClassName", ""))


def workload_object(owner: Owner, name: str, templates: Json) -> Json:
    """Return the Workload with `podGroupTemplates` or `compositePodGroupTemplates`."""
    controller = {"apiGroup": owner.kind.group, "kind": owner.kind.kind, "name": owner.name}
    return _object(WORKLOAD, owner, name, {"controllerRef": controller} | templates)


def group_object(
    kind: KindName, owner: Owner, name: str, workload: str, made_from: Json, *, parent: str = ""
) -> Json:
    """Return a PodGroup or CompositePodGroup that is created from a template."""
    spec: Json = {"workloadRef": {"workloadName": workload, "templateName": made_from["name"]}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    children = {"name", "podGroupTemplates", "compositePodGroupTemplates"}
    spec |= {key: value for key, value in made_from.items() if key not in children}
    spec.setdefault("disruptionMode", {"single": {}})
    return _object(kind, owner, name, spec)


def as_root(root: Json, options: Options) -> Json:
    """Return the root group with its owner's annotations for capacity, preemption and start.

    A PodGroup gets those of its slices, too.
    """
    asked = {key: value for key, value in options.of_root.items() if value}
    root["metadata"]["annotations"] |= asked
    return in_slices(root, options) if root["kind"] == POD_GROUP.kind else root


def in_slices(group: Json, options: Options, job_pods: int = 0) -> Json:
    """Return the PodGroup with the annotations of its slices, if it has any.

    `job_pods` is the number of indexes of each Job if several Jobs have pods in the group; 0 if
    they differ.
    """
    if options.slices is not None:
        notes = group["metadata"]["annotations"]
        notes |= options.slices.annotations
        if job_pods:
            notes[ANNOTATION_SLICE_JOB_PODS] = str(job_pods)
    return group


def _policy(options: Options, members: int, composite: bool) -> Json:
    if options.mode == BASIC:
        return {"basic": {}}
    minimum = members if options.min_count is None else min(options.min_count, members)
    if options.slices is not None and not composite:
        # Of an owner whose number of pods changes, the rest is no complete slice.
        minimum = max(minimum - minimum % options.slices.size, min(options.slices.size, minimum))
    return {"gang": {"minGroupCount" if composite else "minCount": max(1, minimum)}}


def _object(kind: KindName, owner: Owner, name: str, spec: Json) -> Json:
    made = owner.generated(kind, name, blocks=True)
    finalizer = finalizer_of(kind.kind)
    if finalizer:
        made["metadata"]["finalizers"] = [finalizer]
    return made | {"spec": spec}
