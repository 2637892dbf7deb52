"""`decide`: decides one root. The cycle, explain, simulate and replay all call it.

It first asks the starvation gate, then places the root or says why it cannot be placed.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement, Refusal, place
from scheduler.core.search.tree import shapes_of
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.core.values.search_budget import SearchBudget


def decide(state: State, root: Group | Pod, budget: SearchBudget) -> Placement | Refusal:
    """Place a root, on its nominated nodes if it fits there, else on any. Changes nothing.

    A search that the budget ended goes on where it ended at the next call.

    A root that passes the gate while it is closed for another gets only its minimums.
    """
    refusal = held_back(state, root)
    if refusal is not None:
        return refusal
    extras = not must_wait(state, root)
    rows = state.nominations.rows(root.key)
    if rows is not None:
        decision = place(state, root, budget, region=rows, extras=extras)
        if isinstance(decision, Placement):
            return decision
    if isinstance(root, Pod):
        return place(state, root, budget, extras=extras)
    memory = state.searches.take(root.key)
    decision = place(state, root, budget, extras=extras, memory=memory)
    if isinstance(decision, Refusal) and decision.timed_out:
        state.searches.keep(root.key, memory)
    return decision


def held_back(state: State, root: Group | Pod) -> Refusal | None:
    """Why the starvation gate holds the root back; None if it may pass.

    Roots of higher priority pass, and groups that are incomplete, and roots whose pods cannot use
    any node that the starving root can use.
    """
    if not must_wait(state, root) or (isinstance(root, Group) and root.incomplete):
        return None
    closed_for = state.starvation.closed_for
    if closed_for is None or not _share_nodes(state, closed_for.root, _shapes(root)):
        return None
    kind, namespace, name = closed_for.root
    # A tenant must not learn names of another namespace.
    first = (
        f'{kind} "{namespace}/{name}"'
        if namespace == root.key[1]
        else f"a {kind} of another namespace"
    )
    message = (
        f"Waiting for {first} of priority {closed_for.priority}, which did not fit while"
        f" {closed_for.passed} others were scheduled and is scheduled first. Wait for it, or use a"
        " higher priority."
    )
    shortage = Shortage("priority", root.key, message, resolvable=False)
    return Refusal(root.key, shortage, _shapes(root))


def must_wait(state: State, root: Group | Pod) -> bool:
    """Whether the gate is closed for another root, of the same or a higher priority."""
    closed_for = state.starvation.closed_for
    if closed_for is None:
        return False
    return root.key != closed_for.root and root.priority <= closed_for.priority


def fits_empty_cluster(state: State, root: Group | Pod, budget: SearchBudget) -> bool:
    """Whether the root's minimums would fit if no pod of no higher priority ran or was nominated.

    Pods of DaemonSets and mirror pods stay: they come back at once. Changes nothing.
    """
    members = root.leaves() if isinstance(root, Group) else ()
    own = {uid for leaf in members for uid in leaf.members}
    with state.nodes.trial():
        state.units.release(state.units.up_to(root.priority, own))
        state.units.release_returning()
        alone = place(state, root, budget, extras=False, nominations=False)
        return isinstance(alone, Placement)


def _share_nodes(state: State, starving: GroupKey, shapes: frozenset[Shape]) -> bool:
    """Whether the node filters admit these shapes and the starving root's on a common node."""
    waiting: Group | Pod | None = state.singles.get(starving) or state.forest.groups.get(starving)
    usable = np.zeros(state.nodes.size, np.bool_)
    for shape in _shapes(waiting) if waiting is not None else ():
        usable |= state.framework.permitted(shape)
    return any(bool((usable & state.framework.permitted(shape)).any()) for shape in shapes)


def _shapes(root: Group | Pod) -> frozenset[Shape]:
    return shapes_of(root) if isinstance(root, Group) else frozenset((root.shape,))
