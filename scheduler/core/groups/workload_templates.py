"""The templates of Workloads, and whether a group matches the one that it names (KEP-6012).

Admission cannot prove it, because objects arrive in any order. Without the Workload, nothing is
checked. A group may set what its template leaves unset. minCount and minGroupCount may differ, as
they are mutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from scheduler.core.values.model import POD_GROUP, GroupSpec, Topology

TemplateKey = tuple[str, str]
"""(kind of the groups created from it, name) of a template; unique in its Workload."""

WorkloadKey = tuple[str, str]
"""(namespace, name) of a Workload."""


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    """The values that a template fixes; None or empty if it does not.

    `below` is the template that it is under.
    """

    below: str = ""
    gang: bool | None = None
    topology: Topology | None = None
    disruption: Literal["single", "all"] | None = None
    priority_class: str = ""
    priority: int | None = None


Templates = Mapping[TemplateKey, GroupTemplate]

_LISTS: Final = {POD_GROUP: "podGroupTemplates"}


def template_of(spec: GroupSpec, templates: Templates) -> GroupTemplate | None:
    """Return the template that a group names; None if its Workload has no such template."""
    return templates.get((spec.key[0], spec.template))


def contradiction(spec: GroupSpec, templates: Templates) -> str:
    """Return how a group contradicts its Workload; empty if it does not."""
    template = template_of(spec, templates)
    name, workload = spec.template, spec.workload
    if template is None:
        where = _LISTS.get(spec.key[0], "compositePodGroupTemplates")
        return (
            f'The group names template "{name}", which workload "{workload}" does not have in its'
            f" {where}. Correct the name, or add the template."
        )
    differing = _differing_field(spec, template)
    if not differing:
        return ""
    return (
        f'The {differing} of the group differs from its template "{name}" of workload'
        f' "{workload}". Recreate the group with that of the template.'
    )


def _differing_field(spec: GroupSpec, template: GroupTemplate) -> str:
    """Return the first field that the template sets and the group sets otherwise."""
    pairs = (
        # Without a policy, `gang` is only a default.
        ("schedulingPolicy", template.gang, spec.gang if spec.minimum is not None else None),
        ("topology constraint", template.topology, spec.topology),
        ("disruptionMode", template.disruption, spec.disruption),
        ("priorityClassName", template.priority_class, spec.priority_class),
        ("priority", template.priority, spec.priority),
    )
    for field, fixed, own in pairs:
        if fixed not in (None, "") and own not in (None, "") and fixed != own:
            return field
    return ""
