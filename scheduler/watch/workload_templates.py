"""Event handler of Workloads, and their decoding to templates that groups are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.core.groups.workload_templates import GroupTemplate, TemplateKey
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP
from scheduler.decoding.decode import topology_of
from scheduler.decoding.objects import LeafTemplate, LowestTemplate, Workload


def templates_of(workload: Workload) -> dict[TemplateKey, GroupTemplate]:
    """Return all templates by kind and name, the first of a name. Equal ones share one value."""
    found: dict[TemplateKey, GroupTemplate] = {}
    values: dict[GroupTemplate, GroupTemplate] = {}
    spec = workload.spec
    for key, template in _walk(spec.pod_group_templates, spec.composite_pod_group_templates, ""):
        found.setdefault(key, values.setdefault(template, template))
    return found


def _walk(
    leaves: Sequence[LeafTemplate], composites: Sequence[LowestTemplate], above: str
) -> Iterator[tuple[TemplateKey, GroupTemplate]]:
    """Yield the templates. The structs have four levels, so the recursion is no deeper."""
    for leaf in leaves:
        yield (POD_GROUP, leaf.name), _template(leaf, above)
    for composite in composites:
        yield (COMPOSITE_POD_GROUP, composite.name), _template(composite, above)
        # The lowest level has none.
        below = getattr(composite, "composite_pod_group_templates", ())
        yield from _walk(composite.pod_group_templates, below, composite.name)


def _template(obj: LeafTemplate, below: str) -> GroupTemplate:
    policy, mode = obj.scheduling_policy, obj.disruption_mode
    return GroupTemplate(
        below,
        gang=policy.gang is not None if policy is not None else None,
        topology=topology_of(obj.scheduling_constraints),
        disruption=("all" if "all" in mode else "single") if mode else None,
        priority_class=obj.priority_class_name,
        priority=obj.priority,
    )
