"""No namespace takes all permits, and none is lost, whatever is cancelled."""

import asyncio
import contextlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.concurrency.fair_queue import FairOrder, FairQueue, FairSemaphore


def taken(order: FairOrder[int]) -> list[tuple[str, int]]:
    found = []
    while (each := order.take()) is not None:
        found.append(each)
    return found


@pytest.mark.parametrize(("limit", "alone"), [(1, 1), (4, 3), (10, 7), (16, 11), (160, 107)])
def test_a_namespace_alone_gets_two_thirds(limit: int, alone: int) -> None:
    order: FairOrder[int] = FairOrder(limit)
    for number in range(2 * limit):
        order.put("a", number)

    assert taken(order) == [("a", number) for number in range(alone)]
    assert len(order) == 2 * limit - alone


def test_items_go_in_the_order_they_came_except_of_a_namespace_at_its_share() -> None:
    order: FairOrder[int] = FairOrder(10)
    for number, namespace in enumerate("aaaaaaaaaabc"):
        order.put(namespace, number)

    assert taken(order) == [*(("a", n) for n in range(7)), ("b", 10), ("c", 11)]
    order.done("a")
    assert taken(order) == []  # six of a are running, and two more may
    order.done("a")
    assert taken(order) == [("a", 7)]


def test_what_is_free_is_enough_for_a_namespace_that_comes_late() -> None:
    order: FairOrder[int] = FairOrder(160)
    for slow in range(4):
        for number in range(1000):
            order.put(f"slow{slow}", number)
        taken(order)

    order.put("late", 1)

    assert order.take() == ("late", 1)


@given(
    limit=st.integers(1, 12),
    steps=st.lists(st.one_of(st.sampled_from("abc"), st.integers(0, 20)), max_size=80),
)
def test_each_item_is_taken_once_in_order_and_never_more_than_the_limit(
    limit: int, steps: list[str | int]
) -> None:
    order: FairOrder[int] = FairOrder(limit)
    put: Counter[str] = Counter()
    under_way: list[str] = []
    got: dict[str, list[int]] = {name: [] for name in "abc"}

    def take() -> None:
        for name, item in taken(order):
            got[name].append(item)
            under_way.append(name)
            assert len(under_way) <= limit

    for step in steps:
        if isinstance(step, str):
            order.put(step, put[step])
            put[step] += 1
        elif under_way:
            order.done(under_way.pop(step % len(under_way)))
        take()
    while under_way:
        order.done(under_way.pop())
        take()

    assert {name: list(range(put[name])) for name in "abc"} == got
    assert len(order) == 0


async def test_workers_that_wait_get_what_is_put() -> None:
    queue: FairQueue[int] = FairQueue(2)
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    workers[0].cancel()
    for number in range(3):
        queue.put("a", number)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert [worker.result() for worker in workers[1:]] == [0, 1]
    queue.done("a")
    assert await queue.get() == 2


@given(
    permits=st.integers(1, 4),
    works=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), max_size=12),
    cancelled=st.sets(st.tuples(st.integers(0, 11), st.integers(0, 8)), max_size=6),
)
def test_no_more_than_the_permits_are_given_and_none_is_lost(
    permits: int, works: list[tuple[str, int]], cancelled: set[tuple[int, int]]
) -> None:
    asyncio.run(_crowd(permits, works, cancelled))


async def _crowd(
    permits: int, works: list[tuple[str, int]], cancelled: set[tuple[int, int]]
) -> None:
    semaphore, inside = FairSemaphore(permits), 0

    async def work(namespace: str, turns: int) -> None:
        nonlocal inside
        async with semaphore.acquired(namespace):
            inside += 1
            assert inside <= permits
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = [asyncio.ensure_future(work(*each)) for each in works]
    for turn in range(9):
        for index, task in enumerate(tasks):
            if (index, turn) in cancelled:
                task.cancel()
        await asyncio.sleep(0)
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    async with asyncio.timeout(5), contextlib.AsyncExitStack() as stack:
        # All permits can be acquired again, by as many namespaces.
        for number in range(permits):
            await stack.enter_async_context(semaphore.acquired(f"late{number}"))
