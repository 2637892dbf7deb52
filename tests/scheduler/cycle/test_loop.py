"""The decision loop yields to other tasks, and reports if it is deciding."""

import asyncio
from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import SupportsIndex, cast

from structlog.contextvars import get_contextvars

from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.loop import Loop
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.activity import Activity
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.harness import Harness
from tests.support.clock import FakeClock
from tests.support.steps import ended


class Decisions(list[int]):
    """A queue, and the cycle that takes from it for six milliseconds at a time."""

    def __init__(self, clock: FakeClock, count: int) -> None:
        super().__init__(range(count))
        self.clock = clock

    def refresh(self) -> Iterator[None]:
        """Report no changes."""
        return iter(())

    def step(self) -> Generator[tuple[str, ...], None, GroupKey | None]:
        self.clock.jump(0.006)
        self.pop()
        yield from ()
        return (SINGLE_POD, "ns", "p")


async def test_other_tasks_run_in_between_and_see_whether_more_is_being_decided() -> None:
    clock = FakeClock()
    work = Decisions(clock, 3)
    activity = Activity()
    loop = Loop(
        cast("Cycle", work),
        cast("Queue", work),
        clock,
        activity=activity,
        changed=asyncio.Event(),
    )
    seen: list[tuple[int, bool]] = []

    async def look_on() -> None:
        while work:
            await asyncio.sleep(0)
            seen.append((len(work), activity.deciding))

    looking = asyncio.ensure_future(look_on())
    await asyncio.sleep(0)
    await loop.drain()
    await looking

    assert seen == [(2, True), (1, True), (0, False)]
    assert not activity.deciding


async def test_a_cycle_has_a_number_on_its_lines_of_the_log() -> None:
    numbers: list[object] = []

    class Numbered(Decisions):
        def step(self) -> Generator[tuple[str, ...], None, GroupKey | None]:
            numbers.append(get_contextvars().get("cycle"))
            return super().step()

        def pop(self, _index: SupportsIndex = -1) -> int:
            numbers.append(get_contextvars().get("cycle"))
            return super().pop()

    clock = FakeClock()
    work = Numbered(clock, 2)
    changed = asyncio.Event()
    loop = Loop(
        cast("Cycle", work), cast("Queue", work), clock, activity=Activity(), changed=changed
    )
    await loop.drain()

    assert numbers == [None, 1, None, 2]
    assert get_contextvars() == {}


async def test_taking_in_changes_gives_way_too_and_comes_before_the_next_decision() -> None:
    clock = FakeClock()
    done: list[str] = []

    class Changes(Decisions):
        def refresh(self) -> Iterator[None]:
            for _ in range(10):
                clock.jump(0.001)
                done.append("change")
                yield

        def step(self) -> Generator[tuple[str, ...], None, GroupKey | None]:
            done.append("decide")
            return super().step()

    work = Changes(clock, 1)
    loop = Loop(
        cast("Cycle", work),
        cast("Queue", work),
        clock,
        activity=Activity(),
        changed=asyncio.Event(),
    )
    seen: list[int] = []

    async def look_on() -> None:
        while True:
            await asyncio.sleep(0)
            seen.append(len(done))

    looking = asyncio.ensure_future(look_on())
    await asyncio.sleep(0)
    await loop.drain()
    looking.cancel()

    assert done == ["change"] * 10 + ["decide"] + ["change"] * 10
    assert len(seen) >= 10
    assert max(after - before for before, after in pairwise(seen)) <= 3


def test_thousands_of_changes_are_taken_in_one_by_one() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    for index in range(100):
        # Each requests more than there is, and something else than all others.
        harness.builder.pod(cpu=5 + index)
    first = sum(1 for _ in harness.cycle.refresh())
    while ended(harness.cycle.step()):
        pass
    harness.builder.node("n2", cpu=200)  # enough for each of them
    shapes = sum(1 for _ in harness.cycle.refresh())
    harness.builder.state.reconsider_all()
    again = sum(1 for _ in harness.cycle.refresh())

    assert first >= 100
    assert shapes >= 100 / 8
    assert again >= 100


def test_a_decision_never_updates_the_table_of_units_in_one_go() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(100, cpu=1)
    harness.builder.runs(None, *(f"n{index}" for index in range(100)))

    steps = sum(1 for _ in harness.cycle.refresh())

    assert steps >= 100
    assert not harness.builder.state.units._dirty
