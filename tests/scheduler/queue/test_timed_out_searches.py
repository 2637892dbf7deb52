"""Roots whose search timed out are retried soon, and never at the expense of others."""

import pytest

import scheduler.cycle.cycle
from scheduler.core.decide import decide
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.values.model import GroupKey, Requirements
from scheduler.queue.scheduling_queue import Queue
from scheduler.queue.timed_out_searches import LongSearches
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import StateBuilder

LATE = SearchBudget(expired=lambda: True)


def tight(builder: StateBuilder, *names: str) -> list[GroupKey]:
    """Create gangs that fit only as 4 + 3 + 3 on each of two nodes, found by exact packing."""
    keys = []
    for name in names:
        keys.append(builder.gang(name, 6))
        for cpu in (4, 4, 3, 3, 3, 3):
            builder.pod(name, requirements=Requirements((("cpu", 1000 * cpu),)))
    return keys


def refused(builder: StateBuilder, queue: Queue, key: GroupKey) -> None:
    decision = builder.place(key[2], budget=LATE)
    assert isinstance(decision, Refusal)
    queue.refuse(key, decision, 0)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[GroupKey]:
    """The roots that were searched, in order."""
    found: list[GroupKey] = []

    def counted(state: State, root: Group | Pod, budget: SearchBudget) -> Placement | Refusal:
        found.append(root.key)
        return decide(state, root, budget)

    monkeypatch.setattr(scheduler.cycle.cycle, "decide", counted)
    return found


class Slow(Harness):
    """A scheduler whose search time ends at once, while it is `late`."""

    def __init__(self) -> None:
        self.late = True
        super().__init__()

    def budget(self) -> SearchBudget:
        return SearchBudget(expired=lambda: self.late, pause=self.stepwise.pause)


def test_a_refusal_says_whether_the_time_was_over() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=10)
    tight(builder, "g")
    late = builder.place("g", budget=LATE)

    assert isinstance(late, Refusal)
    assert late.timed_out
    assert isinstance(builder.place("g"), Placement)

    builder.gang("large", 3)
    builder.pods("large", 3, cpu=9)
    decision = builder.place("large")
    assert isinstance(decision, Refusal)
    assert not decision.timed_out


async def test_a_root_whose_search_ran_out_of_time_is_searched_again_soon(
    searches: list[GroupKey],
) -> None:
    harness = Slow()
    harness.builder.nodes(2, cpu=10)
    tight(harness.builder, "g")

    async with harness.leading():
        await harness.settle()
        assert (len(searches), harness.api.bound) == (1, {})
        harness.late = False
        await harness.settle(2)

    assert len(harness.api.bound) == 6


async def test_searches_that_never_end_become_rare(
    searches: list[GroupKey],
) -> None:
    harness = Slow()
    harness.builder.nodes(2, cpu=10)
    tight(harness.builder, "g")

    async with harness.leading():
        await harness.settle()
        for _ in range(50):
            await harness.clock.advance(1)
            await harness.settle()
        # After 1, 2, 4, 8, 16 and 32 seconds, which are 31 and 63 seconds in all.
        assert len(searches) == 1 + 5


async def test_however_many_there_are_they_are_searched_again_one_each_second(
    searches: list[GroupKey],
) -> None:
    harness = Slow()
    harness.builder.nodes(2, cpu=10)
    tight(harness.builder, *(f"g{number}" for number in range(20)))

    async with harness.leading():
        await harness.settle()
        before = len(searches)
        for _ in range(10):
            await harness.clock.advance(1)
            await harness.settle()
        assert before == 20
        assert before + 5 <= len(searches) <= before + 10


def test_while_another_root_is_ready_they_wait() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=10)
    (key,) = tight(builder, "g")
    queue = Queue(builder.state)
    queue.refresh(builder.state.take_changes(), 0)
    assert queue.pop() == key
    refused(builder, queue, key)
    other = builder.gang("other", 1)
    builder.pod("other")
    queue.refresh(builder.state.take_changes(), 5)

    assert queue.pop() == other
    assert queue.pop() is None
    queue.refresh(StateChanges(), 5)
    assert queue.pop() == key


def test_the_loop_is_woken_for_them() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=10)
    (key,) = tight(builder, "g")
    queue = Queue(builder.state)
    queue.refresh(builder.state.take_changes(), 0)
    queue.pop()
    refused(builder, queue, key)

    assert queue.next_time() == 1
    queue.refresh(StateChanges(), 1)
    assert queue.pop() == key


@pytest.mark.parametrize("ended", ["it is bound", "a search that was not cut short", "it is gone"])
def test_the_back_off_begins_anew(ended: str) -> None:
    searches, key = LongSearches(), ("PodGroup", "ns", "g")
    for _ in range(4):
        searches.ended(key, 0, timed_out=True)
    assert searches.next_time() == 8
    if ended == "a search that was not cut short":
        searches.ended(key, 0, timed_out=False)
    else:
        searches.forget(key)
    assert searches.next_time() is None

    searches.ended(key, 0, timed_out=True)
    assert searches.next_time() == 1


def test_the_wait_grows_to_a_minute_and_no_further() -> None:
    searches, key = LongSearches(), ("PodGroup", "ns", "g")
    waits = []
    for _ in range(9):
        searches.ended(key, 0, timed_out=True)
        waits.append(searches.next_time())

    assert waits == [1, 2, 4, 8, 16, 32, 64, 64, 64]


async def test_equal_roots_that_were_refused_without_a_search_are_not_searched_again(
    searches: list[GroupKey],
) -> None:
    harness = Slow()
    harness.builder.nodes(1, cpu=1)
    for number in range(10):
        harness.builder.gang(f"g{number}", 2)
        harness.builder.pods(f"g{number}", 2)

    async with harness.leading():
        await harness.settle()
        before = len(searches)
        await harness.clock.advance(1)
        await harness.settle()
        assert len(searches) == before + 1
