"""The work queue of the controllers."""

import asyncio
from itertools import pairwise

import pytest

from localcluster.base.errors import StatusError
from localcluster.controllers.base.workqueue import Loop, WorkQueue
from localcluster.testing.clock import FakeClock


async def test_a_key_waits_only_once() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    for key in ("a", "b", "a"):
        queue.add(key)

    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.done("a")
    queue.done("b")
    assert queue.idle


async def test_a_key_in_work_comes_again_only_when_given_back() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("b")

    assert await queue.get() == "b"
    queue.done(key)
    assert await queue.get() == "a"


async def test_the_earlier_of_two_delays_counts() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 5)

    await clock.advance(2)
    assert queue.idle
    await clock.advance(2)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(20)
    assert queue.idle


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(StatusError(409, "Conflict", "changed"), id="a conflict"),
        pytest.param(KeyError("spec"), id="an unexpected object"),
    ],
)
async def test_what_fails_is_tried_again_later_and_later(failure: Exception) -> None:
    clock = FakeClock()
    tries: list[float] = []

    async def reconcile(_: str) -> None:
        tries.append(clock.monotonic())
        if len(tries) < 4:
            raise failure

    loop = Loop("test", clock, reconcile)
    loop.queue.add("a")
    task = asyncio.create_task(loop.run())
    await clock.advance(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    gaps = [round(later - earlier, 3) for earlier, later in pairwise(tries)]
    assert gaps == [0.005, 0.01, 0.02]


async def test_a_success_ends_the_growing_of_delays() -> None:
    clock = FakeClock()
    outcomes = ["fails", "fails", "succeeds", "fails", "succeeds"]
    tries: list[float] = []

    async def reconcile(_: str) -> float | None:
        tries.append(clock.monotonic())
        if outcomes.pop(0) == "fails":
            raise StatusError(409, "Conflict", "changed")
        return 1.0 if outcomes else None

    loop = Loop("test", clock, reconcile)
    loop.queue.add("a")
    task = asyncio.create_task(loop.run())
    await clock.advance(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    gaps = [round(later - earlier, 3) for earlier, later in pairwise(tries)]
    assert gaps == [0.005, 0.01, 1.0, 0.005]


async def test_a_key_comes_again_when_it_was_asked_to() -> None:
    clock = FakeClock()
    times: list[float] = []

    async def reconcile(_: str) -> float | None:
        times.append(clock.monotonic())
        return 30.0 if len(times) == 1 else None

    loop = Loop("test", clock, reconcile)
    loop.queue.add("a")
    begun = clock.monotonic()
    task = asyncio.create_task(loop.run())
    await clock.advance(100)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert times == [begun, begun + 30.0]
