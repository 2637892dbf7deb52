"""Who may pass the closed door, and who may close it."""

from __future__ import annotations

import numpy as np

from scheduler.core.forest import Group, Pod
from scheduler.core.model import SINGLE_POD, GroupKey
from scheduler.core.place import Placement, Refusal, place
from scheduler.core.search.search_budget import SearchBudget
from scheduler.core.search.tree import shapes_of
from scheduler.core.shapes import Shape
from scheduler.core.shortage import Shortage
from scheduler.core.state import State


def stopped(state: State, root: Group | Pod) -> Refusal | None:
    """Why the root has to wait at the door; None if it may pass.

    A higher priority passes, what makes a half-running group whole, and what goes to nodes that
    the starving root cannot use.
    """
    if not behind(state, root) or (isinstance(root, Group) and root.incomplete):
        return None
    closed = state.starvation.closed
    if closed is None or not _meet(state, closed.root, _shapes(root)):
        return None
    kind, namespace, name = closed.root
    message = (
        f'waits behind {kind} "{namespace}/{name}" of priority {closed.priority}, which was refused'
        f" while {closed.passed} others were placed: it goes first; wait for it, or ask for a"
        " higher priority"
    )
    shortage = Shortage("priority", root.key, message, resolvable=False)
    return Refusal(root.key, shortage, _shapes(root))


def behind(state: State, root: Group | Pod) -> bool:
    """Whether the door is closed for a root that this one must not overtake."""
    closed = state.starvation.closed
    if closed is None:
        return False
    return root.key != closed.root and root.priority <= closed.priority


def possible(state: State, root: Group | Pod, budget: SearchBudget) -> bool:
    """Whether the root would fit if nothing else ran anywhere. Changes nothing."""
    members = root.leaves() if isinstance(root, Group) else ()
    own = {uid for leaf in members for uid in leaf.members}
    with state.nodes.trial():
        state.units.release(state.units.slots_besides(own))
        return isinstance(place(state, root, budget, extras=False), Placement)


def _meet(state: State, closed: GroupKey, shapes: frozenset[Shape]) -> bool:
    """Whether pods of these shapes may be on nodes that the starving root can use."""
    waiting: Group | Pod | None = (
        state.singles.get(closed) if closed[0] == SINGLE_POD else state.forest.groups.get(closed)
    )
    usable = np.zeros(state.nodes.size, np.bool_)
    for shape in _shapes(waiting) if waiting is not None else ():
        usable |= state.framework.permitted(shape)
    return any(bool((usable & state.framework.permitted(shape)).any()) for shape in shapes)


def _shapes(root: Group | Pod) -> frozenset[Shape]:
    return shapes_of(root) if isinstance(root, Group) else frozenset((root.shape,))
