"""The trees of groups of a snapshot, decided by the solver: a snapshot has no statuses."""

from __future__ import annotations

from api import features
from cli.trees.tree import SCHEDULED, STARTING, WAITING, Branch, branch_of
from scheduler.core.decide import decide
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.groups.forest import Group
from scheduler.core.search.place import Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.status.conditions import GroupView, group_views, waiting_for


def branches(state: State, budget: SearchBudget) -> tuple[Branch, ...]:
    """Return every root with the groups below it, ordered by namespace, then name."""
    roots = [group for group in state.forest.groups.values() if group.parent is None]
    roots.sort(key=lambda group: (group.key[1], group.key[2], group.key[0]))
    return tuple(_root(state, root, budget) for root in roots)


def _root(state: State, root: Group, budget: SearchBudget) -> Branch:
    said = {
        view.group.key: _state_and_reason(view)
        for view in group_views(state, root, _blocker(state, root, budget))
    }
    return _branch(root, said)


def _state_and_reason(view: GroupView) -> tuple[str, str]:
    """Return state and reason of a group. A group that was scheduled once may wait again."""
    group = view.group
    # The snapshot of a running scheduler has pods that it binds. Held places are assumed, too.
    if view.blocker is None and not group.bound and group.assumed_total > group.expected_held:
        return STARTING, ""
    if not view.scheduled:
        return view.reason or WAITING, view.message
    if group.bound or view.blocker is None:
        return SCHEDULED, ""
    return WAITING, view.blocker.summary


def _blocker(state: State, root: Group, budget: SearchBudget) -> Blocker | None:
    # A snapshot does not record the feature gates.
    held = waiting_for(state, root, features.USUAL)
    if held is not None or not root.pending_total:
        return held
    outcome = decide(state, root, budget)
    return explain(state, outcome) if isinstance(outcome, Refusal) else None


def _branch(group: Group, said: dict[GroupKey, tuple[str, str]]) -> Branch:
    children = tuple(_branch(child, said) for child in group.children_in_order())
    nodes = [pod.node for pod in group.members.values() if not pod.info.expected]
    state, reason = said.get(group.key, (WAITING, ""))
    minimum = group.minimum if group.spec is None or group.spec.gang else None
    held = 0 if group.composite else group.expected_held
    return branch_of(group.key, state, reason, minimum, children, nodes=nodes, held=held)
