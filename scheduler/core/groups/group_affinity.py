"""Required affinity of pods to their own group, which a topology constraint makes superfluous.

Such terms are for autoscalers. If a group has a required constraint by the same key, all of its
pods share a domain. The first of them may go anywhere, as each matches its own term, and the others
follow it. So the filter would exclude nothing that the constraint allows. Without the terms, the
pods cost no more than those of other gangs. A term without such a constraint, whatever its origin,
is a term like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.groups.groups import Group
from scheduler.core.values.model import GroupTerm, PodTerm


def terms_to_consider(terms: Sequence[GroupTerm], group: Group | None) -> tuple[PodTerm, ...]:
    """Return the terms that no constraint of the pod's PodGroup, or above it, covers.

    None as long as a group of the tree does not exist: nothing is placed before.
    """
    groups = _upwards(group)
    if not groups or any(each.spec is None for each in groups):
        return ()
    # A constraint below the term's group would keep only a part of that group together.
    return tuple(each.term for each in terms if not _is_met(each, groups[each.above :]))


def _is_met(each: GroupTerm, groups: list[Group]) -> bool:
    constraints = (group.topology for group in groups)
    # A preferred constraint does not keep the pods together, so the term still counts.
    return any(it and it.key == each.term.key and not it.preferred for it in constraints)


def _upwards(group: Group | None) -> list[Group]:
    found = []
    while group is not None:
        found.append(group)
        group = group.parent
    return found
