"""Waiters are served by priority; no permit is lost, whichever is cancelled."""

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from scheduler.support.priority_semaphore import PrioritySemaphore, SharedSemaphore
from tests.support.clock import settle


async def test_the_lowest_priority_number_goes_first_and_of_equals_the_first() -> None:
    semaphore, order = PrioritySemaphore(1), []

    async def work(name: str, priority: int) -> None:
        async with semaphore.acquired(priority):
            order.append(name)
            await asyncio.sleep(0)

    priorities = [("held", 9), ("late", 5), ("a", 1), ("b", 1), ("urgent", 0)]
    await asyncio.gather(*(work(*each) for each in priorities))

    assert order == ["held", "urgent", "a", "b", "late"]


@given(
    permits=st.integers(1, 3),
    works=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12),
    cancelled=st.sets(st.tuples(st.integers(0, 11), st.integers(0, 8)), max_size=6),
)
def test_no_more_than_the_permits_are_given_and_none_is_lost(
    permits: int, works: list[tuple[int, int]], cancelled: set[tuple[int, int]]
) -> None:
    asyncio.run(_crowd(permits, works, cancelled))


async def _crowd(
    permits: int, works: list[tuple[int, int]], cancelled: set[tuple[int, int]]
) -> None:
    semaphore, inside = PrioritySemaphore(permits), 0

    async def work(priority: int, steps: int) -> None:
        nonlocal inside
        async with semaphore.acquired(priority):
            inside += 1
            assert inside <= permits
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = [asyncio.ensure_future(work(*each)) for each in works]
    for step in range(9):
        for number, when in cancelled:
            if when == step and number < len(tasks):
                tasks[number].cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(permits):
                await stack.enter_async_context(semaphore.acquired(0))


async def test_one_key_leaves_permits_to_others() -> None:
    semaphore, holding = SharedSemaphore(4, share=2), list[str]()
    done = asyncio.Event()

    async def work(key: str) -> None:
        async with semaphore.acquired(key, 0):
            holding.append(key)
            await done.wait()

    tasks = [asyncio.ensure_future(work(key)) for key in "aaaaaaab"]
    await settle()
    before = list(holding)
    done.set()
    await asyncio.gather(*tasks)

    assert before == ["a", "a", "b"]
    assert len(holding) == len(tasks)
    assert len(semaphore) == 0, "keys without users are forgotten"


async def test_a_cancelled_waiter_of_a_key_leaves_nothing_behind() -> None:
    semaphore = SharedSemaphore(1, share=1)

    async def work() -> None:
        async with semaphore.acquired("a", 0):
            await asyncio.sleep(0)

    async with semaphore.acquired("a", 0):
        waits = asyncio.ensure_future(work())
        await settle()
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
    await work()

    assert len(semaphore) == 0
