"""Required affinity of pods to their own group, which a topology constraint makes superfluous.

Such terms are for autoscalers. Where a group has a required constraint by the same key, all of its
pods share a domain: the first of them may go anywhere, as each matches its own term, and the others
go where the first one is. So the filter would exclude nothing that the constraint allows, and the
pods of a gang cost what they cost without the terms. A term that no constraint stands for, however
it came into the pod, is a term like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.groups.groups import Group
from scheduler.core.values.model import GroupTerm, PodTerm


def terms_to_consider(terms: Sequence[GroupTerm], group: Group | None) -> tuple[PodTerm, ...]:
    """Those of the terms that no constraint of the pod's PodGroup, or above it, stands for.

    None as long as a group of the tree is not there: nothing is placed before.
    """
    groups = _upwards(group)
    if not groups or any(each.spec is None for each in groups):
        return ()
    return tuple(each.term for each in terms if not _is_met(each, groups[each.above :]))


def _is_met(each: GroupTerm, groups: list[Group]) -> bool:
    constraints = (group.topology for group in groups)
    return any(it and it.key == each.term.key and not it.preferred for it in constraints)


def _upwards(group: Group | None) -> list[Group]:
    found = []
    while group is not None:
        found.append(group)
        group = group.parent
    return found
