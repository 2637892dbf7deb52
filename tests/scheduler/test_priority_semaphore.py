"""Who waits is served by rank; a place is never lost, whoever is cancelled when."""

from __future__ import annotations

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from scheduler.priority_semaphore import PrioritySemaphore


async def test_the_lowest_rank_goes_first_and_of_equals_the_first() -> None:
    turns, order = PrioritySemaphore(1), []

    async def work(name: str, rank: int) -> None:
        async with turns.turn(rank):
            order.append(name)
            await asyncio.sleep(0)

    ranks = [("held", 9), ("late", 5), ("a", 1), ("b", 1), ("urgent", 0)]
    await asyncio.gather(*(work(*each) for each in ranks))

    assert order == ["held", "urgent", "a", "b", "late"]


@given(
    places=st.integers(1, 3),
    works=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12),
    cancelled=st.sets(st.tuples(st.integers(0, 11), st.integers(0, 8)), max_size=6),
)
def test_no_more_than_the_places_and_none_is_lost(
    places: int, works: list[tuple[int, int]], cancelled: set[tuple[int, int]]
) -> None:
    asyncio.run(_crowd(places, works, cancelled))


async def _crowd(
    places: int, works: list[tuple[int, int]], cancelled: set[tuple[int, int]]
) -> None:
    turns, inside = PrioritySemaphore(places), 0

    async def work(rank: int, steps: int) -> None:
        nonlocal inside
        async with turns.turn(rank):
            inside += 1
            assert inside <= places
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
            for _ in range(places):
                await stack.enter_async_context(turns.turn(0))
