"""The time when a group had the members that it needs, as far as existing members show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from api.wording import count
from scheduler.core.groups.forest import Group


@dataclass(frozen=True, slots=True)
class Quorum:
    """The time (in the format of `created`), and a sentence with the numbers at that time."""

    at: str
    sentence: str


def quorum(group: Group) -> Quorum | None:
    """Return when the group reached its minimum; None if it has not, or needs none.

    Recreated pods count from their own creation: their predecessors are deleted.
    """
    spec = group.spec
    if spec is None or not spec.gang or not group.minimum:
        return None
    moments = sorted(_moments(group))
    if len(moments) < group.minimum:
        return None
    at = moments[group.minimum - 1]
    there = sum(moment <= at for moment in moments)
    if group.composite:
        children = count(len(group.children), "child group")
        sentence = f"{there} of {children} are complete; minGroupCount is {group.minimum}"
    else:
        pods = count(len(group.members), "pod")
        sentence = f"{there} of {pods} exist; minCount is {group.minimum}"
    return Quorum(at, sentence)


def _moments(group: Group) -> Iterator[str]:
    """Yield the time when each member began to count: a pod that exists, or a child group."""
    if not group.composite:
        for pod in group.members.values():
            counts = pod.waiting or pod.running or pod.ended
            if counts and pod.info.created and not pod.info.expected:
                yield pod.info.created
        return
    for child in group.children_in_order():
        at = _complete(child)
        if at:
            yield at


def _complete(child: Group) -> str:
    """Return when a child group began to count for its parent; empty if it does not."""
    if child.spec is not None and child.spec.gang and child.minimum:
        reached = quorum(child)
        return "" if reached is None else reached.at
    return min(_moments(child), default="")
