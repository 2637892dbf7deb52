"""Groups for PodGroups of KEP-3370 and of scheduler-plugins, which pods name by a label.

One subset is one PodGroup. It has the same name, or, if its pods name the subset, the name that
results from that. Several subsets are a gang CompositePodGroup of the same name above a PodGroup
for each subset, with the Workload that it needs.
"""

from collections.abc import Mapping
from typing import Any

from api import names
from api.constants import (
    ANNOTATION_SCHEDULE_TIMEOUT,
    COMPOSITE_POD_GROUP,
    LABEL_SUBSET,
    POD_GROUP,
    KindName,
)
from api.integration.common import objects
from api.ownership import Owner
from api.reading import dig, integer, mapping, mappings, text

Json = dict[str, Any]

# About eleven days, as the scheduler does not parse more digits.
_LONGEST = 999_999
"""Seconds of a schedule timeout. A longer one counts as this."""

# There are at most 8 subsets, so one of these and two more names is free.
_SPARE = tuple(f"all-{number}" for number in range(8))


def subsets_of(obj: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return name and minimum number of members of each subset, for either kind."""
    spec = mapping(obj.get("spec"))
    if "subsets" not in spec:
        return [("", max(1, integer(spec.get("minMember")) or 1))]
    found = mappings(spec, "subsets")
    return [(text(it.get("name")), max(1, integer(it.get("minMember")) or 1)) for it in found]


def coscheduling_objects(
    kind: KindName,
    obj: Mapping[str, Any],
    workload: str | None = None,
    priority_class: str = "",
    named: str = "",
) -> list[Json]:
    """Return the objects of one such group: a PodGroup, or Workload, composite and PodGroups.

    `priority_class` is that of the group's pods, which share one. `named` is the subset that they
    name, which they need not do if there is only one.
    """
    name, namespace = text(dig(obj, "metadata", "name")), text(dig(obj, "metadata", "namespace"))
    owner = Owner(kind, namespace, name, text(dig(obj, "metadata", "uid")))
    priority = {"priorityClassName": priority_class} if priority_class else {}
    subsets = subsets_of(obj)
    if len(subsets) == 1:
        subset, count = subsets[0]
        subset = subset if subset == named else ""
        alone = _of_subset(owner, subset, "", _leaf("", count, priority))
        # The group has no Workload, so it must not name one.
        del alone["spec"]["workloadRef"]
        return [_timed(alone, obj)]
    workload = workload or names.workload_name(POD_GROUP.kind, name)
    leaves = [_leaf(subset, count, priority) for subset, count in subsets]
    root = {
        "name": _root_name(subsets),
        "schedulingPolicy": {"gang": {"minGroupCount": len(leaves)}},
    } | priority
    return [
        objects.workload_object(
            owner,
            workload,
            {"compositePodGroupTemplates": [root | {"podGroupTemplates": leaves}]},
        ),
        _timed(objects.group_object(COMPOSITE_POD_GROUP, owner, name, workload, root), obj),
        *(_of_subset(owner, leaf["name"], workload, leaf, parent=name) for leaf in leaves),
    ]


def _of_subset(owner: Owner, subset: str, workload: str, leaf: Json, parent: str = "") -> Json:
    """Return the PodGroup of the pods that name the subset, if any."""
    name = names.subset_pod_group(owner.name, subset)
    group = objects.group_object(POD_GROUP, owner, name, workload, leaf, parent=parent)
    if subset:
        # The name ends in a hash, so it does not state the subset.
        group["metadata"]["labels"][LABEL_SUBSET] = subset
    return group


def _timed(root: Json, obj: Mapping[str, Any]) -> Json:
    """Return the root with the timeout for its Bindings, if the user set one."""
    seconds = integer(dig(obj, "spec", "scheduleTimeoutSeconds"))
    if seconds is not None:
        root["metadata"]["annotations"][ANNOTATION_SCHEDULE_TIMEOUT] = f"{min(seconds, _LONGEST)}s"
    return root


def _leaf(name: str, count: int, priority: Json) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}} | priority


def _root_name(subsets: list[tuple[str, int]]) -> str:
    """Return a template name that no subset has, as names are unique in a tree."""
    taken = {name for name, _ in subsets}
    return next(name for name in ("all", "all-subsets", *_SPARE) if name not in taken)
