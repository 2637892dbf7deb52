"""Groups of KEP-3370 and of scheduler-plugins: pods name them by a label, the groups are made here.

One subset is one PodGroup: of the same name, or, where its pods name the subset, of the name that
they say then. Several subsets are a gang composite of the same name above
a PodGroup for each subset, with the Workload that a composite needs.
"""

from collections.abc import Mapping
from typing import Any

from api import names
from api.constants import (
    ANNOTATION_SCHEDULE_TIMEOUT,
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    WORKLOAD,
    KindName,
)
from api.integration.common import objects
from api.reading import dig, integer, listing, mapping, text

Json = dict[str, Any]

# About eleven days: more digits the scheduler does not read.
_LONGEST = 999_999
"""Seconds of a schedule timeout. A longer one counts as this."""

# There are 8 subsets at most, so one of ten names is free.
_SPARE = tuple(f"all-{number}" for number in range(8))


def subsets_of(obj: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Name and least number of members of each subset, in either kind's words."""
    spec = mapping(obj.get("spec"))
    if "subsets" not in spec:
        return [("", max(1, integer(spec.get("minMember")) or 1))]
    found = [mapping(item) for item in listing(spec.get("subsets"))]
    return [(text(it.get("name")), max(1, integer(it.get("minMember")) or 1)) for it in found]


def coscheduling_objects(
    kind: KindName,
    obj: Mapping[str, Any],
    workload: str | None = None,
    priority_class: str = "",
    named: str = "",
) -> list[Json]:
    """The objects of one such group: a PodGroup alone, or Workload, composite and PodGroups.

    `priority_class` is that of the group's pods, which all share one. `named` is the subset that
    they name, which they need not do where there is one only.
    """
    name, namespace = text(dig(obj, "metadata", "name")), text(dig(obj, "metadata", "namespace"))
    owner = objects.Owner(kind, namespace, name, text(dig(obj, "metadata", "uid")))
    priority = {"priorityClassName": priority_class} if priority_class else {}
    subsets = subsets_of(obj)
    if len(subsets) == 1:
        subset, count = subsets[0]
        group = f"{name}-{subset}" if subset and subset == named else name
        alone = objects.group_object(POD_GROUP, owner, group, "", _leaf("", count, priority))
        del alone["spec"]["workloadRef"]
        return [_timed(alone, obj)]
    workload = workload or names.shorten(f"w-pg-{name}", WORKLOAD.kind, namespace)
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
        *(
            objects.group_object(
                POD_GROUP, owner, f"{name}-{leaf['name']}", workload, leaf, parent=name
            )
            for leaf in leaves
        ),
    ]


def _timed(root: Json, obj: Mapping[str, Any]) -> Json:
    """The root with the time that its bindings may take, where the user gave one."""
    seconds = integer(dig(obj, "spec", "scheduleTimeoutSeconds"))
    if seconds is not None:
        root["metadata"]["annotations"][ANNOTATION_SCHEDULE_TIMEOUT] = f"{min(seconds, _LONGEST)}s"
    return root


def _leaf(name: str, count: int, priority: Json) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}} | priority


def _root_name(subsets: list[tuple[str, int]]) -> str:
    """A template name that no subset has: names are unique over the tree."""
    taken = {name for name, _ in subsets}
    return next(name for name in ("all", "all-subsets", *_SPARE) if name not in taken)
