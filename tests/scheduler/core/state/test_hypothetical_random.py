"""A root of a random cluster with all features, taken out and added again as a hypothetical one."""

import sys
import time
from collections import Counter
from typing import Any

from scheduler.core.decide import decide
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.hypothetical import NeedsCopyError, hypothetical
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, GroupSpec, PodInfo
from tests.scheduler.crossings.build import Built
from tests.scheduler.crossings.draw import draw
from tests.scheduler.fingerprint import fingerprint
from tools.testing.effort import count

Root = tuple[list[GroupSpec], list[PodInfo]]


def settle(state: State) -> list[str]:
    """Return the fingerprint of the state after all that is due on it."""
    for _ in range(3):
        state.take_changes()
        for _ in state.catch_up():
            pass
    state.units.refresh()
    return fingerprint(state)


def root_of(state: State, key: GroupKey) -> Root:
    """Return the specs of the groups of a root, the topmost first, and its pods."""
    group = state.forest.groups.get(key)
    if group is None:
        return [], [state.singles[key].info]
    groups = list(group.walk())
    specs = [each.spec for each in groups if each.spec is not None]
    return specs, [pod.info for each in groups for pod in each.members.values()]


def taken_out(state: State, root: Root) -> None:
    specs, infos = root
    for info in infos:
        state.remove_pod(info.uid)
    for spec in reversed(specs):
        state.remove_group(spec.key)


def outcome(state: State, entity: Group | Pod) -> tuple[Any, ...]:
    """Return how many pods are placed; or the cost of the eviction; or that it waits."""
    budget = SearchBudget()
    found = decide(state, entity, budget)
    if isinstance(found, Placement):
        return "placed", Counter(pod.shape.requirements for pod in found.pods)
    plan = preempt(state, entity, found, budget, SearchEffort())
    if isinstance(plan, Plan):
        return "evicts", plan.cost, len(plan.placement.pods)
    assert isinstance(found, Refusal)
    # Of several shapes, the one that is named depends on the order in which they came.
    needed = found.shortage.needed if len(found.shapes) == 1 else 0
    return "waits", found.shortage.kind, found.shortage.at, needed


def compare(seed: str) -> str:
    """Compare the decisions of one cluster; return how it went, or why it was left out."""
    instance = draw(seed)
    complete, without = Built(instance), Built(instance)
    key = complete.next()
    if key is None:
        return "no root"
    state, live = complete.state, without.state
    root = root_of(state, key)
    if any(info.node for info in root[1]) or key in state.nominations:
        return "runs partly"
    taken_out(live, root)
    before = settle(live)
    try:
        with hypothetical(live) as trial:
            for spec in root[0]:
                trial.set_group(spec)
            for info in root[1]:
                trial.set_pod(info)
            trial.complete()
            entity = trial.singles.get(key) or trial.forest.groups[key]
            found = outcome(trial, entity)
    except NeedsCopyError as error:
        assert fingerprint(live) == before, seed
        return f"needs a copy: {error}"
    assert fingerprint(live) == before, seed
    known = state.singles.get(key) or state.forest.groups[key]
    assert found == outcome(state, known), seed
    return str(found[0])


def test_it_is_decided_as_if_it_existed_and_the_state_stays_as_it_is() -> None:
    seed = str(time.time_ns())
    sys.stdout.write(f"seed {seed}\n")
    found = Counter(compare(f"{seed}/{number}") for number in range(count(150, 5_000)))
    sys.stdout.write(f"{found}\n")
    assert found["placed"]
    assert found["waits"]
