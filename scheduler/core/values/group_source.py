"""The object that a group was created from: what messages tell its user to change."""

from __future__ import annotations

from scheduler.core.values.model import POD_GROUP, SINGLE_POD, WORKLOAD, GroupSpec


def lower_minimum(spec: GroupSpec | None, to: int | None = None) -> str:
    """Return the change that lets a PodGroup start with fewer pods, in words.

    minCount of a group follows that of the object it was created from, so that has to change.
    """
    kind, name = (spec.owner if spec is not None else None) or ("", "")
    number = "" if to is None else f" to {to}"
    if kind == POD_GROUP:
        return f'lower minMember of coscheduling PodGroup "{name}"{number}'
    if kind == WORKLOAD and spec is not None:
        return f'lower minCount of template "{spec.template}" of Workload "{name}"{number}'
    if kind == SINGLE_POD:
        return f"lower minCount{number} with the min-count annotation of its pods"
    # In a tree, the annotation of the owner counts child groups. Elsewhere it is next to gang-mode,
    # in the owner itself or in one of its pod templates.
    if not kind or (spec is not None and spec.parent is not None):
        return f"lower minCount{number}"
    return (
        f'lower minCount{number} with the min-count annotation next to gang-mode in {kind} "{name}"'
    )


def create_again(spec: GroupSpec | None) -> str:
    """Return, in words, which object to create again to change an immutable field."""
    kind, name = (spec.owner if spec is not None else None) or ("", "")
    # Its objects were created from the owner. A group of a template may have any creator.
    if not kind or kind == WORKLOAD:
        return "create the group again"
    if kind == SINGLE_POD:
        return "create its pods again"
    return f'create {"coscheduling " * (kind == POD_GROUP)}{kind} "{name}" again'
