"""The decision about one root. The cycle, explain, simulate and replay all call `decide`.

`decide` asks the starvation gate first. Then it places the root or returns why the root does not
fit.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.needs import shapes_of
from scheduler.core.search.place import Placement, Refusal, place
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, plain_kind
from scheduler.core.values.search_budget import SearchBudget


def decide(state: State, root: Group | Pod, budget: SearchBudget) -> Placement | Refusal:
    """Place a root on its nominated nodes, or on any nodes if it does not fit there.

    Does not change the state.

    If the budget ended a search, the next call continues where that search ended.

    An incomplete group passes the closed gate, but gets only its minimums.
    """
    refusal = held_back(state, root)
    if refusal is not None:
        return refusal
    # Extras would use the capacity that the starving root waits for.
    extras = not must_wait(state, root)
    # Like kube-scheduler, try the nominated nodes first: victims were evicted there for this root.
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
        # A search that ended within its budget leaves nothing to continue.
        state.searches.keep(root.key, memory)
    return decision


def held_back(state: State, root: Group | Pod) -> Refusal | None:
    """Return the refusal if the starvation gate holds the root back; None if the root passes.

    Roots of higher priority pass. So do incomplete groups, and roots whose pods cannot use any node
    that the starving root can use.
    """
    closed_for = state.starvation.closed_for
    incomplete = isinstance(root, Group) and root.incomplete
    if closed_for is None or incomplete or not must_wait(state, root):
        return None
    kind, namespace, name = closed_for.root
    # The message must not reveal names from another tenant's namespace.
    first = (
        f'{plain_kind(kind)} "{namespace}/{name}"'
        if namespace == root.key[1]
        else f"a {plain_kind(kind)} of another namespace"
    )
    message = (
        f"Waiting for {first} of priority {closed_for.priority}, which did not fit while"
        f" {closed_for.passed} others were scheduled and is scheduled first. Wait for it, or use a"
        " higher priority."
    )
    shortage = Shortage("priority", root.key, message, resolvable=False)
    return Refusal(root.key, shortage, _shapes(root))


def must_wait(state: State, root: Group | Pod) -> bool:
    """True if the gate is closed for another root that could use nodes of this one.

    The other root has the same or a higher priority.
    """
    closed_for = state.starvation.closed_for
    if closed_for is None or root.key == closed_for.root or root.priority > closed_for.priority:
        return False
    return _share_nodes(state, closed_for.root, _shapes(root))


def fits_empty_cluster(state: State, root: Group | Pod, budget: SearchBudget) -> bool:
    """True if the root's minimums fit once all pods of the same or a lower priority are gone.

    Nominations do not count either. Pods of DaemonSets and mirror pods stay, because their
    controllers recreate them at once. Does not change the state.
    """
    members = root.leaves() if isinstance(root, Group) else ()
    # The root's own pods keep their nodes: they count for its minimum.
    own = {uid for leaf in members for uid in leaf.members}
    with state.nodes.trial():
        state.units.release(state.units.up_to(root.priority, own))
        # Claims of deleted pods would otherwise keep their devices.
        state.units.release_returning()
        alone = place(state, root, budget, extras=False, nominations=False)
        return isinstance(alone, Placement)


def _share_nodes(state: State, starving: GroupKey, shapes: frozenset[Shape]) -> bool:
    """True if the node filters admit these shapes and those of the starving root on one node."""
    waiting: Group | Pod | None = state.singles.get(starving) or state.forest.groups.get(starving)
    usable = np.zeros(state.nodes.size, np.bool_)
    for shape in _shapes(waiting) if waiting is not None else ():
        usable |= state.framework.permitted(shape)
    return any(bool((usable & state.framework.permitted(shape)).any()) for shape in shapes)


def _shapes(root: Group | Pod) -> frozenset[Shape]:
    return shapes_of(root) if isinstance(root, Group) else frozenset((root.shape,))
