"""The objects that a Job or a JobSet gets: Workload, composites, PodGroups.

Counts and names follow KEP-1068; mode Composite is Muster's own tree of JobSet, replicatedJobs
and Jobs. Objects come out complete but for what only a live object has (the Workload's UID).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from api import names
from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PROVISIONING_REQUEST,
    COMPOSITE_POD_GROUP,
    JOBSET,
    JOBSET_LABEL_JOB_INDEX,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    POD_GROUP,
    WORKLOAD,
    KindName,
    finalizer_of,
)
from api.integration.options import ALL, BASIC, COMPOSITE, SINGLE, Options
from api.integration.shared_claims import group_entries, templates_of
from api.integration.view import SCOPE_JOB, SCOPE_JOBSET, JobSetView, ReplicatedJob
from api.ownership import OwnerId
from api.reading import text

Json = dict[str, Any]

NO_TEMPLATES: Final[Mapping[str, str]] = {}
_MODES: Final = {SINGLE: "single", ALL: "all"}


@dataclass(frozen=True, slots=True)
class Owner:
    """The Job or JobSet the objects are made for."""

    kind: KindName
    namespace: str
    name: str
    uid: str


def jobset_objects(view: JobSetView, workload: str | None = None) -> list[Json]:
    """Workload, composites from the root down, PodGroups; empty where nothing marked has pods.

    A replicatedJob without pods has no part in them: the others would wait for it for ever.
    """
    jobs = [job for job in view.marked if not job.is_empty]
    if not jobs:
        return []
    owner = Owner(JOBSET, view.namespace, view.name, view.uid)
    workload = workload or names.workload_name(JOBSET.kind, view.name, view.namespace)
    if view.options.mode == COMPOSITE:
        return _composite_objects(owner, workload, view, jobs)
    if view.options.asks:
        return _wide_objects(owner, workload, view, jobs)
    return _separate_objects(owner, workload, view, jobs)


def pod_group_names(view: JobSetView, job: ReplicatedJob) -> list[str]:
    """The PodGroups of one replicatedJob."""
    if job.group_scope == SCOPE_JOB:
        return [pod_group_name(view, job, index) for index in job.indexes]
    return [pod_group_name(view, job, 0)]


def pod_group_name(view: JobSetView, job: ReplicatedJob, index: int) -> str:
    """The PodGroup of the replicatedJob's Job of this index."""
    taken = view.names_taken
    if job.group_scope == SCOPE_JOB:
        return names.jobset_pod_group(view.namespace, view.name, job.name, index, taken=taken)
    if job.group_scope == SCOPE_JOBSET:
        return names.jobset_pod_group(view.namespace, view.name, taken=taken)
    return names.jobset_pod_group(view.namespace, view.name, job.name, taken=taken)


def group_names(view: JobSetView) -> list[tuple[str, str]]:
    """Kind and name of every group that a new JobSet asks for, under the usual names."""
    leaves = [(POD_GROUP.kind, name) for job in view.wanted for name in pod_group_names(view, job)]
    if view.options.mode != COMPOSITE or not leaves:
        return leaves
    above = ["", *(job.name for job in view.wanted)]
    made = [names.jobset_composite(view.namespace, view.name, job) for job in above]
    return [*((COMPOSITE_POD_GROUP.kind, name) for name in made), *leaves]


def jobset_labels(labels: Mapping[str, Any]) -> tuple[str, str, int | None]:
    """JobSet, replicatedJob and Job index, from the labels of a JobSet's Job."""
    index = text(labels.get(JOBSET_LABEL_JOB_INDEX))
    return (
        text(labels.get(JOBSET_LABEL_NAME)),
        text(labels.get(JOBSET_LABEL_REPLICATED_JOB)),
        int(index) if index.isascii() and index.isdigit() else None,
    )


def template(
    name: str,
    options: Options,
    members: int,
    priority: Json,
    *,
    composite: bool = False,
    claims: Mapping[str, str] = NO_TEMPLATES,
) -> Json:
    """A template: policy with minCount (explicit, else all `members`), topology, mode, class.

    `claims` are the ResourceClaimTemplates of the entries that its pods may share.
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
    """Class and preemption policy where all pod templates agree."""
    said: Json = {}
    for key in ("priorityClassName", "preemptionPolicy"):
        values = {text(spec.get(key)) for spec in pod_specs}
        if len(values) == 1 and values != {""}:
            said[key] = values.pop()
    return said


def workload_object(owner: Owner, name: str, templates: Json) -> Json:
    """The Workload with its templates (`podGroupTemplates` or `compositePodGroupTemplates`)."""
    controller = {"apiGroup": owner.kind.group, "kind": owner.kind.kind, "name": owner.name}
    return _object(WORKLOAD, owner, name, {"controllerRef": controller} | templates)


def group_object(
    kind: KindName, owner: Owner, name: str, workload: str, made_from: Json, *, parent: str = ""
) -> Json:
    """A PodGroup or CompositePodGroup made from a template."""
    spec: Json = {"workloadRef": {"workloadName": workload, "templateName": made_from["name"]}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    children = {"name", "podGroupTemplates", "compositePodGroupTemplates"}
    spec |= {key: value for key, value in made_from.items() if key not in children}
    spec.setdefault("disruptionMode", {"single": {}})
    return _object(kind, owner, name, spec)


def as_root(root: Json, options: Options) -> Json:
    """The root group with what its owner asks for it: a request for capacity, a delay."""
    asked = {
        ANNOTATION_PROVISIONING_REQUEST: options.request,
        ANNOTATION_PREEMPTION_DELAY: options.delay,
    }
    root["metadata"]["annotations"] |= {key: value for key, value in asked.items() if value}
    return root


def _wide_objects(
    owner: Owner, workload: str, view: JobSetView, jobs: list[ReplicatedJob]
) -> list[Json]:
    """One PodGroup for the whole JobSet."""
    made_from = template(
        names.template_name("pg", view.name, view.namespace),
        view.options,
        sum(job.replicas * job.members for job in jobs),
        priority_of(*(job.pod_spec for job in jobs)),
        claims=templates_of(job.pod_spec for job in jobs),
    )
    name = names.jobset_pod_group(view.namespace, view.name, taken=view.names_taken)
    return [
        workload_object(owner, workload, {"podGroupTemplates": [made_from]}),
        as_root(group_object(POD_GROUP, owner, name, workload, made_from), view.options),
    ]


def _separate_objects(
    owner: Owner, workload: str, view: JobSetView, jobs: list[ReplicatedJob]
) -> list[Json]:
    """A PodGroup for each replicatedJob, or for each of its Jobs."""
    templates: list[Json] = []
    groups: list[Json] = []
    # One Workload has one priority: where the trees differ only the groups say theirs.
    shared = priority_of(*(job.pod_spec for job in jobs))
    for job in jobs:
        members = job.members if job.group_scope == SCOPE_JOB else job.replicas * job.members
        made_from = _leaf(view, job, members, shared)
        templates.append(made_from)
        own = made_from | priority_of(job.pod_spec)
        groups += [
            as_root(group_object(POD_GROUP, owner, name, workload, own), job.options)
            for name in pod_group_names(view, job)
        ]
    return [workload_object(owner, workload, {"podGroupTemplates": templates}), *groups]


def _composite_objects(
    owner: Owner, workload: str, view: JobSetView, jobs: list[ReplicatedJob]
) -> list[Json]:
    """A composite for the JobSet, one for each replicatedJob, a PodGroup for each Job."""
    priority = priority_of(*(job.pod_spec for job in jobs))
    root = template(
        _root_template_name(view, jobs), view.options, len(jobs), priority, composite=True
    )
    taken = view.names_taken
    root_name = names.jobset_composite(view.namespace, view.name, taken=taken)
    children: list[Json] = []
    made = group_object(COMPOSITE_POD_GROUP, owner, root_name, workload, root)
    composites = [as_root(made, view.options)]
    leaves: list[Json] = []
    for job in jobs:
        outer = _inherited(job.outer, view.options)
        name = names.template_name("cpg", job.name, view.namespace)
        child = template(name, outer, job.replicas, priority, composite=True)
        leaf = _leaf(view, job, job.members, priority, above=outer)
        children.append(child | {"podGroupTemplates": [leaf]})
        parent = names.jobset_composite(view.namespace, view.name, job.name, taken=taken)
        composites.append(
            group_object(COMPOSITE_POD_GROUP, owner, parent, workload, child, parent=root_name)
        )
        leaves += [
            group_object(POD_GROUP, owner, group, workload, leaf, parent=parent)
            for group in pod_group_names(view, job)
        ]
    templates = {"compositePodGroupTemplates": [root | {"compositePodGroupTemplates": children}]}
    return [workload_object(owner, workload, templates), *composites, *leaves]


def _leaf(
    view: JobSetView, job: ReplicatedJob, members: int, priority: Json, above: Options | None = None
) -> Json:
    options = _inherited(job.options, above) if above else job.options
    name = names.template_name("pg", job.name, view.namespace)
    return template(name, options, members, priority, claims=templates_of([job.pod_spec]))


def _root_template_name(view: JobSetView, jobs: list[ReplicatedJob]) -> str:
    name = names.template_name("cpg", view.name, view.namespace)
    # Template names are unique over the tree: a replicatedJob named like its JobSet has this one.
    if any(job.name == view.name for job in jobs):
        return names.hashed(name, "Template", view.namespace)
    return name


def _inherited(options: Options, above: Options) -> Options:
    """A level without a disruption mode inherits an All from above."""
    if options.disruption or above.disruption != ALL:
        return options
    return replace(options, disruption=ALL)


def _policy(options: Options, members: int, composite: bool) -> Json:
    if options.mode == BASIC:
        return {"basic": {}}
    minimum = members if options.min_count is None else min(options.min_count, members)
    return {"gang": {"minGroupCount" if composite else "minCount": max(1, minimum)}}


def _object(kind: KindName, owner: Owner, name: str, spec: Json) -> Json:
    metadata: Json = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {LABEL_MANAGED_BY: MANAGED_BY},
        "annotations": {
            ANNOTATION_MADE_FOR: OwnerId(
                owner.kind.group, owner.kind.kind, owner.name, owner.uid
            ).annotation()
        },
        "ownerReferences": [
            {
                "apiVersion": owner.kind.api_version,
                "kind": owner.kind.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    finalizer = finalizer_of(kind.kind)
    if finalizer:
        metadata["finalizers"] = [finalizer]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }
