"""Workloads on a live state that do not exist: it is the same afterwards, whatever happened."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from scheduler.core.decide import decide
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.hypothetical import (
    HypotheticalState,
    NeedsCopyError,
    hypothetical,
)
from scheduler.core.state.state import State
from scheduler.core.values.model import (
    Expression,
    GroupSpec,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Topology,
)
from tests.scheduler.fingerprint import fingerprint
from tests.scheduler.state_builder import StateBuilder, requests

APP = {"app": "a"}
OTHER = {"app": "other"}


def build() -> StateBuilder:
    """Return four nodes in two racks, a gang that runs, and one that waits."""
    builder = StateBuilder()
    builder.nodes(4, rack_of=2)
    builder.gang("low", 2, priority=0)
    builder.pod("low", 4, node="n0", labels=OTHER)
    builder.pod("low", 4, node="n1", labels=OTHER)
    builder.gang("waits", 9, rack=True)
    builder.pods("waits", 9)
    settle(builder.state)
    return builder


def settle(state: State) -> None:
    """Do what is due on the state anyway."""
    state.take_changes()
    for _ in state.catch_up():
        pass
    state.units.refresh()


def apart(labels: Mapping[str, str]) -> Requirements:
    """Return requirements of pods that share no rack with pods of these labels."""
    expressions = tuple(Expression(key, "In", (value,)) for key, value in labels.items())
    term = PodTerm(PodSelector(expressions, ("ns",)), "rack")
    return Requirements(requests(1), required_anti_affinity=(term,))


def add(
    state: State,
    name: str,
    count: int,
    *,
    cpu: int = 1,
    priority: int = 0,
    rack: bool = False,
    requirements: Requirements | None = None,
) -> GroupSpec:
    spec = GroupSpec(
        ("PodGroup", "ns", name), count, priority=priority,
        topology=Topology("rack") if rack else None,
    )  # fmt: skip
    state.set_group(spec)
    for number in range(count):
        info = PodInfo(
            uid=f"new-{name}-{number}", namespace="ns", name=f"{name}-{number}",
            requirements=requirements or Requirements(requests(cpu)), group=name,
            priority=priority, labels=APP, created="9999",
        )  # fmt: skip
        state.set_pod(info)
    return spec


def outcome(state: State, name: str) -> object:
    """Return where the scheduler puts the group, whom it evicts for it, or why it waits."""
    root = state.forest.groups["PodGroup", "ns", name]
    found = decide(state, root, SearchBudget())
    if isinstance(found, Placement):
        return [(pod.info.name, row) for pod, row in zip(found.pods, found.rows, strict=True)]
    plan = preempt(state, root, found, SearchBudget())
    if isinstance(plan, Plan):
        return {pod.info.name for pod in plan.pods}, plan.placement.rows
    return found.shortage.kind, found.shortage.needed, found.shortage.free


CASES: dict[str, Callable[[State], object]] = {
    "fits": lambda state: add(state, "new", 3),
    "fits in a rack": lambda state: add(state, "new", 8, rack=True),
    "too large": lambda state: add(state, "new", 99),
    "evicts": lambda state: add(state, "new", 12, priority=5),
    "apart from its own": lambda state: add(state, "new", 2, requirements=apart(APP)),
    "too many that are apart": lambda state: add(state, "new", 3, requirements=apart(APP)),
    "a resource that no node has": lambda state: add(
        state, "new", 1, requirements=Requirements(requests(1, unknown=1))
    ),
    "a selector of a label that no node has": lambda state: add(
        state, "new", 1, requirements=Requirements(requests(1), selector=(("none", "x"),))
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_decided_as_on_the_state_itself_which_stays_as_it_is(case: str) -> None:
    copy, live = build().state, build().state
    CASES[case](copy)
    for _ in copy.catch_up():
        pass
    before = fingerprint(live)

    with hypothetical(live) as state:
        CASES[case](state)
        state.complete()
        found = outcome(state, "new")

    assert found == outcome(copy, "new")
    assert fingerprint(live) == before
    assert outcome(live, "waits") == outcome(build().state, "waits")


class _StoppedError(BaseException):
    pass


@pytest.mark.parametrize("case", CASES)
def test_it_stays_as_it_is_wherever_the_work_is_stopped(case: str) -> None:
    live = build().state
    before = fingerprint(live)
    for stop in range(1, 40, 3):
        calls = iter(range(1, 1_000_000))

        def pause(calls: Iterator[int] = calls, stop: int = stop) -> None:
            if next(calls) == stop:
                raise _StoppedError

        try:
            with hypothetical(live, pause) as state:
                CASES[case](state)
                state.complete()
                root = state.forest.groups["PodGroup", "ns", "new"]
                budget = SearchBudget(pause=pause)
                found = decide(state, root, budget)
                if isinstance(found, Refusal):
                    preempt(state, root, found, budget)
        except _StoppedError:
            pass
        assert fingerprint(live) == before, f"stopped at pause {stop}"


def test_roots_that_are_decided_later_find_the_capacity_taken() -> None:
    live = build().state
    with hypothetical(live) as state:
        add(state, "first", 6)
        add(state, "second", 6)
        state.complete()
        placed = decide(state, state.forest.groups["PodGroup", "ns", "first"], SearchBudget())
        assert isinstance(placed, Placement)
        state.assume(placed.pods, placed.rows)
        refused = decide(state, state.forest.groups["PodGroup", "ns", "second"], SearchBudget())
        assert isinstance(refused, Refusal)
        assert refused.shortage.free == 2


def _pod(state: HypotheticalState, **fields: object) -> None:
    state.set_pod(PodInfo("new", "ns", "new", Requirements(requests(1)), **fields))  # type: ignore[arg-type]


def _joins(state: HypotheticalState) -> None:
    _pod(state, group="waits")


def _same_name(state: HypotheticalState) -> None:
    add(state, "low", 1)


def _child_of_a_live_tree(state: HypotheticalState) -> None:
    state.set_group(GroupSpec(("PodGroup", "ns", "child"), 1, parent="tree"))


def _selects_live_pods(state: HypotheticalState) -> None:
    add(state, "new", 1, requirements=apart(OTHER))


def _higher_priority_later(state: HypotheticalState) -> None:
    add(state, "first", 1)
    placed = decide(state, state.forest.groups["PodGroup", "ns", "first"], SearchBudget())
    assert isinstance(placed, Placement)
    state.assume(placed.pods, placed.rows)
    state.check_units(5)


COPIES: dict[str, Callable[[HypotheticalState], object]] = {
    "a pod with a node": lambda state: _pod(state, node="n0"),
    "a pod with a nomination": lambda state: _pod(state, nominated="n0", ours=False),
    "a pod that joins a group": _joins,
    "a group that exists": _same_name,
    "a child of a group that exists": _child_of_a_live_tree,
    "a term that selects pods that exist": _selects_live_pods,
    "a higher priority than what was placed before": _higher_priority_later,
    "an eviction that is carried out": lambda state: state.remove_pod("uid-p00001"),
    "a change of devices": lambda state: state.own_devices,
    "a change of volumes": lambda state: state.own_volumes,
}


@pytest.mark.parametrize("case", COPIES)
def test_what_would_change_the_live_state_needs_a_copy(case: str) -> None:
    builder = build()
    builder.composite("tree", 1)
    live = builder.state
    settle(live)
    before = fingerprint(live)

    def decide_on(live: State) -> None:
        with hypothetical(live) as state:
            COPIES[case](state)
            state.complete()

    with pytest.raises(NeedsCopyError):
        decide_on(live)

    assert fingerprint(live) == before
