"""Validation of trees that must not be tried, however much capacity is free.

The counters of the groups show at once where flaws are (`Group.faulty`), before any pod exists.
This module finds the first flaw, parents first, and builds the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.core.groups.group_counters import has_other_priorities
from scheduler.core.groups.groups import MAX_DEPTH, Group, by_creation
from scheduler.core.values.wording import count

_STEPS: Final = 4 * MAX_DEPTH
"""Names that are followed to tell a cycle from a tree that is too deep."""

_SAME: Final = "Give all its pods the same"
_TREE: Final = "Give all groups of a tree the same"
_MOST_LEVELS: Final = f"A tree can have {MAX_DEPTH} levels. Remove a level."

_SHOWN: Final = 5
"""Priorities that the message names."""

_CYCLE: Final = (
    "The parents of the group form a cycle. Remove parentCompositePodGroupName from one of them."
)


@dataclass(frozen=True, slots=True)
class TreeFlaw:
    """A flaw, and the group `at` which it is."""

    at: Group
    message: str


def check(top: Group) -> TreeFlaw | None:
    """Return the first flaw of a tree, parents first, the oldest child first; None without flaws.

    Visits only the children of faulty groups on the way, and no pod.
    """
    group = top
    while group.faulty:
        own = _of_its_own(group) or _of_slices(group)
        if own:
            return TreeFlaw(group, own)
        suspects = list(group.faulty_children.values()) + list(group.cut_children.values())
        # `clashing` is only a number, so find the children that it counts.
        if group.clashing:
            suspects += [child for child in group.children.values() if _clash(child, group)]
        child = min(suspects, key=by_creation)
        message = _too_far(child) if child.cut_from is group else _clash(child, group)
        if message:
            return TreeFlaw(child, message)
        group = child
    return None


def _of_its_own(group: Group) -> str:
    """Return a group's own flaw, which does not come from its children; empty if it has none."""
    if group.cut_from is not None:
        return _too_far(group)
    if group.template_flaw:
        return group.template_flaw
    if not group.known:
        return ""
    if group.foreign:
        pods = count(group.foreign, "pod")
        return f"The group has {pods} of another scheduler. {_SAME} schedulerName."
    if _mixes_schedulers(group):
        first, *others = (f'"{name}"' for name in sorted(group.schedulers))
        return (
            f"The group has pods of schedulerName {first} and {', '.join(others)}."
            f" {_SAME} schedulerName."
        )
    if has_other_priorities(group) and group.spec is not None:
        own = group.spec.priority
        if group.created_by_muster:
            return f"The group {has_pods_of_priorities(group)}. {_SAME} priorityClassName."
        other = min(priority for priority in group.priorities if priority != own)
        return (
            f"The group has priority {own}, one of its pods {other}."
            " Use the same priorityClassName for the group and its pods."
        )
    return ""


def _of_slices(group: Group) -> str:
    """Return what is wrong with the slices of a group; empty if nothing is."""
    return "" if group.slicing is None else group.slicing.flaw


def has_pods_of_priorities(group: Group) -> str:
    """Return the priorities of a group's pods as text; only some of them if there are many."""
    shown = sorted(group.priorities)[:_SHOWN]
    more = ", ..." if len(group.priorities) > len(shown) else ""
    several = "priorities" if len(group.priorities) > 1 else "priority"
    return f"has pods of {several} {', '.join(map(str, shown))}{more}"


def priorities_differ(top: Group) -> str:
    """Return the message for a tree that runs though priorities differ; empty if they do not.

    Kubernetes gives only new pods the current value of a PriorityClass.
    """
    own = top.spec.priority if top.spec is not None else None
    if own is None or not top.priorities or set(top.priorities) == {own}:
        return ""
    return (
        f"The group has priority {own} and {has_pods_of_priorities(top)} because a PriorityClass"
        f" changed since the group was created. The scheduler uses {top.priority}."
    )


def _mixes_schedulers(group: Group) -> bool:
    """Return True if its pods name several of this scheduler's names, and no single child does."""
    if len(group.schedulers) < 2:
        return False
    # If one child alone mixes the names, the user has to change that child.
    return not any(len(child.schedulers) > 1 for child in group.faulty_children.values())


def _clash(child: Group, parent: Group) -> str:
    """Return why the two must not be in one tree; empty if they may, or without a policy."""
    mine, theirs = child.traits, parent.traits
    if mine is None or theirs is None or parent.spec is None:
        return ""
    if mine.workload != theirs.workload:
        return (
            f"The group belongs to workload {_quoted(mine.workload)}, its root to"
            f" {_quoted(theirs.workload)}. {_TREE} workloadRef.workloadName."
        )
    # A PriorityClass may change while the tree runs. New groups of a running tree may then differ.
    if mine.priority != theirs.priority and not parent.initially_scheduled:
        return (
            f"The group has priority {_quoted(mine.priority)}, its root {_quoted(theirs.priority)}."
            f" {_TREE} priorityClassName."
        )
    if mine.disruption == "single" and theirs.disruption == "all":
        return (
            f'The group has disruptionMode single, its parent "{parent.name}" has all.'
            " Use the same disruptionMode for both."
        )
    # None: the Workload is not known yet.
    if mine.below not in (None, parent.spec.template):
        wanted = f'under "{mine.below}"' if mine.below else "at the top"
        return (
            f'The parent "{parent.name}" is of template "{parent.spec.template}", but workload'
            f' "{mine.workload}" has the template of the group {wanted}. Correct the parent.'
        )
    return ""


def _too_far(group: Group) -> str:
    """Return why the group's link to its parent is cut."""
    above: Group | None = group
    seen: set[Group] = set()
    # Cut links are followed as well, so without a limit this walk could be very long.
    while above is not None and above not in seen and len(seen) < _STEPS:
        seen.add(above)
        above = above.cut_from or above.parent
    if above is group:
        return _CYCLE
    if above in seen:
        return f'The group is below a cycle of parents, such as "{above.name}". Break the cycle.'
    level = f"{len(seen)} or deeper" if above is not None else str(len(seen))
    if group.height == 1 and len(seen) > MAX_DEPTH:
        return f"The group is on level {level} of its tree. {_MOST_LEVELS}"
    return (
        f"The group is on level {level} of its tree and has {group.height} levels below and"
        f" including its own. {_MOST_LEVELS}"
    )


def _quoted(value: int | str | None) -> str:
    if value is None:
        return "none"
    return f'"{value}"' if isinstance(value, str) else str(value)
