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
from scheduler.core.state.starvation_gate import ClosedFor
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, plain_kind
from scheduler.core.values.search_budget import SearchBudget


def decide(state: State, root: Group | Pod, budget: SearchBudget) -> Placement | Refusal:
    """Place a root on its nominated nodes, or on any nodes if it does not fit there.

    Does not change the state.

    If the budget ended a search, the next call continues where that search ended.

    An incomplete group passes the closed gate, but gets only its minimums.
    """
    first = _must_wait_for(state, root)
    if first is not None and not (isinstance(root, Group) and root.incomplete):
        return _held_back(root, first)
    _read_domains(state, root, budget)
    # Extras would use the capacity that the starving root waits for.
    extras = first is None
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


def _read_domains(state: State, root: Group | Pod, budget: SearchBudget) -> None:
    """Read the domains of affinity and spread one by one: the first time of each takes long."""
    keys = {
        term.key
        for shape in _shapes(root)
        # Most pods have no such term, and a root may have many shapes.
        if shape.filter_match_ids
        for terms in (
            shape.requirements.spread,
            shape.requirements.required_affinity,
            shape.requirements.required_anti_affinity,
        )
        for term in terms
    }
    for key in sorted(keys):
        for _ in state.topologies.build(key):
            budget.pause()


def _held_back(root: Group | Pod, closed_for: ClosedFor) -> Refusal:
    """Return the refusal of a root that the closed starvation gate holds back."""
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


def _must_wait_for(state: State, root: Group | Pod) -> ClosedFor | None:
    """Return for which root the starvation gate is closed, if this root could use nodes of it.

    Roots of higher priority pass.
    """
    first = state.starvation.closed_for
    if first is None or root.key == first.root or root.priority > first.priority:
        return None
    return first if _share_nodes(state, first.root, _shapes(root)) else None


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
