"""Checks for trees that must not be tried, however much room there is."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.forest import MAX_DEPTH, Group


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong, and at which group (`at`)."""

    at: Group
    message: str


def check(root: Group) -> Flaw | None:
    """The first flaw found, parents first. Visits each group once and no pod.

    None if there is no flaw. Raises LookupError if the root has no spec.
    """
    if root.spec is None:
        raise LookupError(root.key)
    stack = [(root, 1)]
    while stack:
        group, level = stack.pop()
        if level > MAX_DEPTH:
            return Flaw(
                group,
                f"is on level {level} of its tree, {MAX_DEPTH} are the most: take out one above it",
            )
        flaw = _against_root(group, root) or _against_members(group)
        if flaw is not None:
            return flaw
        # A child without a spec or policy is not checked yet, and neither is its subtree.
        stack.extend((child, level + 1) for child in group.children_in_order() if child.known)
    return None


def _against_root(group: Group, root: Group) -> Flaw | None:
    spec, top = group.spec, root.spec
    if spec is None or top is None:
        return None
    if spec.workload != top.workload:
        return Flaw(
            group,
            f"belongs to workload {_said(spec.workload)}, its root to {_said(top.workload)}:"
            " give all groups of a tree the same workloadRef.workloadName",
        )
    if spec.priority != top.priority:
        return Flaw(
            group,
            f"has priority {_said(spec.priority)}, its root {_said(top.priority)}:"
            " give all groups of a tree the same priorityClassName",
        )
    parent = group.parent.spec if group.parent else None
    if parent is not None and parent.disruption == "all" and spec.disruption == "single":
        return Flaw(
            group,
            f'has disruption mode single under the all of "{parent.key[2]}":'
            " give both the same disruptionMode",
        )
    return None


def _against_members(group: Group) -> Flaw | None:
    if group.foreign:
        pods = "1 pod" if group.foreign == 1 else f"{group.foreign} pods"
        return Flaw(
            group, f"has {pods} of another scheduler: give all its pods the same schedulerName"
        )
    if group.spec is None or group.spec.priority is None:
        return None
    for priority in sorted(group.priorities):
        if priority != group.spec.priority:
            return Flaw(
                group,
                f"has priority {group.spec.priority}, one of its pods {priority}:"
                " give the group and its pods the same priorityClassName",
            )
    return None


def _said(value: int | str | None) -> str:
    if value is None:
        return "none"
    return f'"{value}"' if isinstance(value, str) else str(value)
