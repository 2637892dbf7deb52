"""Single pods of one shape in one go, each as if it had been decided alone in its turn.

On fullest nodes first, the next pod goes where the last one went until that node is full: what one
fill gives to many pods is what many decisions give to one pod each, at the cost of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.budget import Budget
from scheduler.core.forest import Group, Pod
from scheduler.core.placement import Placement, place
from scheduler.core.shapes import Shape
from scheduler.core.state import State
from scheduler.core.values import SINGLE_POD, GroupKey, GroupSpec


def together(state: State, shape: Shape) -> bool:
    """Whether pods of the shape may be decided in one go: nothing but room is between them."""
    held = next(iter(state.holds), None) is not None or state.door.closed is not None
    return not (shape.sees or shape.requirements.undecided or held)


def place_alike(state: State, pods: Sequence[Pod], budget: Budget) -> list[Placement]:
    """Decide waiting pods of one shape and priority, in this order. Changes nothing.

    The answer has a placement for each of the first ones that find room; the others have to be
    asked for alone, which says why.
    """
    first = pods[0]
    group = Group(_key(first))
    group.spec = GroupSpec(group.key, floor=1, gang=False)
    group.pending = {first.shape: {pod.info.uid: pod for pod in pods}}
    group.available = group.pending_total = len(pods)
    group.quorate = True
    placement = place(state, group, budget)
    if not isinstance(placement, Placement):
        return []
    return [
        Placement(_key(pod), (pod,), (row,), 1, placement.steps if pod is first else 0)
        for pod, row in zip(placement.pods, placement.rows, strict=True)
    ]


def _key(pod: Pod) -> GroupKey:
    return (SINGLE_POD, pod.info.namespace, pod.info.name)
