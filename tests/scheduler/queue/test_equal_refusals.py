"""Thousands of unschedulable roots: few decisions, none forgotten, and new roots do not wait."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.decide import decide
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.cycle import cycle as cycle_module
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.parts import CycleParts
from scheduler.queue.equal_refusals import SharedRefusal
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder
from tests.support.clock import FakeClock
from tests.support.steps import ended


class Run:
    """Queue and cycle over a small cluster; placed pods run at once."""

    def __init__(self) -> None:
        self.builder = StateBuilder()
        self.state = self.builder.state
        self.clock = FakeClock()
        self.queue = Queue(self.state)
        self.told: dict[GroupKey, Blocker] = {}
        self.placed_roots: list[GroupKey] = []
        self.decided: list[GroupKey] = []
        self.cycle = Cycle(self.state, self.queue, CycleParts(self, self), clock=self.clock)

    def submit(self, placement: Placement) -> None:
        self.placed_roots.append(placement.root)

    def touched(self, keys: Iterable[GroupKey]) -> None:
        pass

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        self.told[key] = blocker

    def on_root_placed(self, key: GroupKey) -> None:
        self.told.pop(key, None)

    def refresh(self) -> None:
        """Apply all changes to the queue at once."""
        for _ in self.cycle.refresh():
            pass

    def settle(self, most: int = 100_000) -> int:
        """Decide until nothing is ready; return the number of steps."""
        self.refresh()
        steps = 0
        while self.queue and steps < most:
            ended(self.cycle.step())
            self.refresh()
            steps += 1
        return steps

    def pass_time(self, seconds: float) -> None:
        self.clock.jump(seconds)

    def singles(self, count: int, cpu: int = 1, **facts: object) -> list[GroupKey]:
        pods = [self.builder.pod(cpu=cpu, **facts) for _ in range(count)]  # type: ignore[arg-type]
        return [(SINGLE_POD, pod.namespace, pod.name) for pod in pods]


@pytest.fixture(autouse=True)
def searches(monkeypatch: pytest.MonkeyPatch) -> list[GroupKey]:
    """The roots for which places were searched one by one."""
    found: list[GroupKey] = []

    def counted(state: State, root: Group | Pod, budget: SearchBudget) -> Placement | Refusal:
        found.append(root.key)
        return decide(state, root, budget)

    monkeypatch.setattr(cycle_module, "decide", counted)
    return found


def test_equal_roots_that_do_not_fit_are_refused_in_one_go(searches: list[GroupKey]) -> None:
    run = Run()
    run.builder.nodes(1, cpu=2)
    keys = run.singles(500, cpu=3)
    gangs = [run.builder.gang(f"g{number}", 2) for number in range(300)]
    for key in gangs:
        run.builder.pods(key[2], 2, cpu=2)
    run.settle()

    assert len(searches) == 2
    assert run.told.keys() == {*keys, *gangs}
    assert {run.told[key].at for key in gangs} == set(gangs)
    assert {blocker.kind for blocker in run.told.values()} == {"capacity"}


def test_one_freed_place_costs_two_decisions_and_goes_to_the_oldest(
    searches: list[GroupKey],
) -> None:
    run = Run()
    run.builder.nodes(1, cpu=2)
    runs = run.builder.pod(node="n0", cpu=1)
    run.builder.pod(node="n0", cpu=1)
    keys = run.singles(1_000)
    run.settle()
    searches.clear()
    run.state.remove_pod(runs.uid)
    run.settle()

    assert run.placed_roots == [keys[0]]
    assert len(searches) <= 4


@pytest.mark.parametrize("room", [1, 3, 17, 96, 250])
def test_all_that_fit_on_a_new_node_are_placed(room: int, searches: list[GroupKey]) -> None:
    run = Run()
    run.builder.nodes(1, cpu=1)
    run.builder.pod(node="n0")
    keys = run.singles(200)
    run.settle()
    searches.clear()
    run.builder.node("new", cpu=room, pods=500)
    run.settle()

    assert run.placed_roots == keys[:room]
    assert len(searches) <= 10


def test_an_equal_root_goes_on_where_the_woken_one_vanishes() -> None:
    run = Run()
    run.builder.nodes(1, cpu=1)
    runs = run.builder.pod(node="n0")
    keys = run.singles(5)
    run.settle()
    run.state.remove_pod(runs.uid)
    run.refresh()
    run.state.remove_pod(f"uid-{keys[0][2]}")
    run.settle()

    assert run.placed_roots == [keys[1]]


@pytest.mark.parametrize("way", ["blocked", "gated"])
def test_an_equal_root_goes_on_where_the_woken_one_may_not_be_decided(way: str) -> None:
    run = Run()
    run.builder.nodes(1, cpu=1)
    runs = run.builder.pod(node="n0")
    keys = run.singles(5)
    run.settle()
    run.state.remove_pod(runs.uid)
    run.refresh()
    if way == "blocked":
        run.queue.block(keys[0])
    else:
        run.builder.pod(name=keys[0][2], gated=True)
    run.settle()

    assert run.placed_roots == [keys[1]]


def test_a_root_made_ready_during_its_refusal_is_not_left_to_its_equals() -> None:
    """The loop may yield during a decision before its result is shared."""
    run = Run()
    run.builder.nodes(1, cpu=1)
    runs = run.builder.pod(node="n0")
    others = run.singles(2, cpu=2)
    run.settle()
    [key] = run.singles(1)
    run.refresh()
    entity = run.queue.entity(key)
    assert run.queue.pop() == key
    assert entity is not None
    refusal = decide(run.state, entity, SearchBudget())
    assert isinstance(refusal, Refusal)
    kind = run.queue.equal_kind(entity)
    run.queue.refuse(key, refusal, 0.0)
    run.queue.review(key)
    run.queue.share(key, kind, SharedRefusal(refusal, explain(run.state, refusal)), known=False)
    run.state.remove_pod(runs.uid)
    run.settle()

    assert run.placed_roots == [key]
    assert run.queue.sizes()["unschedulable"] == len(others)


def test_a_refusal_does_not_speak_for_another_priority_shape_or_size(
    searches: list[GroupKey],
) -> None:
    run = Run()
    run.builder.nodes(1, cpu=1)
    run.builder.pod(node="n0")
    run.singles(2)
    run.singles(2, priority=5)
    run.singles(2, cpu=2)
    for size in (2, 3):
        key = run.builder.gang(f"g{size}", size)
        run.builder.pods(key[2], size)
    run.settle()

    assert len(searches) == 5


def test_the_numbers_are_current_after_a_minute(searches: list[GroupKey]) -> None:
    run = Run()
    run.builder.nodes(2, cpu=1)
    gangs = [run.builder.gang(f"g{number:03}", 4) for number in range(100)]
    for key in gangs:
        run.builder.pods(key[2], 4)
    run.settle()
    before = {blocker.free for blocker in run.told.values()}
    run.builder.pod(node="n0")
    run.settle()
    searches.clear()
    run.pass_time(61)
    run.settle()

    assert (before, {run.told[key].free for key in gangs}) == ({2}, {1})
    assert len(searches) == 1


def test_deciding_everything_anew_seeks_the_answer_anew(searches: list[GroupKey]) -> None:
    run = Run()
    run.builder.nodes(1, cpu=1)
    run.singles(50, cpu=2)
    run.settle()
    searches.clear()
    run.state.reconsider_all()
    run.settle()

    assert len(searches) == 1


def test_a_new_root_does_not_wait_behind_hundreds_of_repeated_decisions(
    searches: list[GroupKey],
) -> None:
    run = Run()
    run.builder.node("n0", cpu=4, pods=10)
    runs = run.builder.pod(node="n0", cpu=3)
    for number in range(400):
        # All different, none of them exact: each has to be decided when there is capacity.
        parent = run.builder.composite(f"c{number:04}", 1)
        run.builder.gang(f"g{number:04}", 1, parent=parent[2])
        run.builder.pod(f"g{number:04}", cpu=5 + number)
        run.builder.pod(f"g{number:04}", cpu=2, gated=True)
    run.settle()
    run.state.reconsider_all()
    run.refresh()
    searches.clear()
    late = run.builder.pod(cpu=1)
    run.refresh()
    steps = 0
    while (SINGLE_POD, "ns", late.name) not in run.placed_roots:
        ended(run.cycle.step())
        run.refresh()
        steps += 1

    assert steps <= 20
    run.state.remove_pod(runs.uid)
    assert run.settle() > 0


def test_a_new_root_of_lower_priority_waits_for_those_of_a_higher_one() -> None:
    run = Run()
    run.builder.nodes(1, cpu=1)
    run.builder.pod(node="n0")
    for number in range(40):
        run.singles(1, cpu=2 + number, priority=5)
    run.settle()
    run.state.reconsider_all()
    run.refresh()
    low = run.singles(1, priority=1)[0]
    run.refresh()
    order = []
    while True:
        key = run.queue.pop()
        if key is None:
            break
        entity = run.queue.entity(key)
        assert entity is not None
        outcome = decide(run.state, entity, SearchBudget())
        assert isinstance(outcome, Refusal)
        run.queue.refuse(key, outcome, 0)
        order.append(key)

    assert order[-1] == low
    assert len(order) == 41


def test_roots_woken_for_room_that_is_gone_are_not_decided(searches: list[GroupKey]) -> None:
    run = Run()
    run.builder.node("n0", cpu=400, pods=1_000)
    runs = run.builder.pod(node="n0", cpu=400)
    for number in range(300):
        run.singles(1, cpu=101 + number % 100, priority=number)
    run.settle()
    searches.clear()
    run.state.remove_pod(runs.uid)
    run.settle()

    assert len(run.placed_roots) == 2
    assert len(searches) <= 10


def test_room_is_looked_for_a_few_shapes_at_a_time() -> None:
    run = Run()
    run.builder.nodes(1, cpu=2_000)
    runs = run.builder.pod(node="n0", cpu=2_000)
    keys = [run.singles(1, cpu=1 + number)[0] for number in range(400)]
    run.settle()
    run.state.remove_pod(runs.uid)
    run.refresh()
    at_once = len(run.queue)
    run.settle()

    assert 0 < at_once <= 256
    assert keys[0] in run.placed_roots


@given(st.integers(0, 2**32), st.integers(10, 60))
def test_nobody_is_left_behind_who_would_fit(seed: int, steps: int) -> None:
    chance, run = random.Random(seed), Run()
    run.builder.nodes(2, cpu=2)
    counts: Counter[str] = Counter()
    for _ in range(steps):
        act = chance.choice(["single", "single", "gang", "end", "end", "node", "gone", "time"])
        pods = sorted(run.state.pods)
        if act == "single":
            run.singles(
                chance.randint(1, 4), chance.choice((1, 1, 2)), priority=chance.choice((0, 1))
            )
        elif act == "gang":
            counts["gang"] += 1
            name, size = f"g{counts['gang']}", chance.choice((2, 3))
            run.builder.gang(name, size)
            run.builder.pods(name, size, chance.choice((1, 2)))
        elif act in ("end", "gone") and pods:
            run.state.remove_pod(chance.choice(pods))
        elif act == "node":
            run.builder.node(f"n{chance.randrange(4)}", cpu=chance.randint(1, 4))
        elif act == "time":
            run.pass_time(chance.choice((1, 6, 61)))
        if chance.random() < 0.7:
            run.settle(chance.choice((1, 2, 100)))
    run.settle()

    waiting = [*run.state.singles, *run.state.forest.groups]
    for key in waiting:
        entity = run.queue.entity(key)
        if entity is not None:
            outcome = decide(run.state, entity, SearchBudget())
            assert isinstance(outcome, Refusal), key
    assert {key for key in run.told if run.queue.entity(key)} == {
        key for key in waiting if run.queue.entity(key)
    }
