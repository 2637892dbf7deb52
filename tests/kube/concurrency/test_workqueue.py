"""The work queue, in virtual time."""

import asyncio
import random
from operator import itemgetter

import pytest

from kube.base.errors import TooManyRequests
from kube.concurrency.workqueue import WorkQueue
from tests.support.clock import FakeClock, settle


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue("test", clock=clock, jitter=random.Random(1))


async def test_keys_come_in_order_and_each_waits_once(queue: WorkQueue[str]) -> None:
    for key in "abab":
        queue.add(key)

    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_a_worker_waits_for_the_next_key(queue: WorkQueue[str]) -> None:
    waiting = asyncio.ensure_future(queue.get())
    await settle()
    assert not waiting.done()

    queue.add("a")

    assert await waiting == "a"


async def test_every_waiting_worker_gets_a_key(queue: WorkQueue[str]) -> None:
    workers = [asyncio.ensure_future(queue.get()) for _ in range(2)]
    await settle()

    queue.add("a")
    queue.add("b")

    assert sorted(await asyncio.gather(*workers)) == ["a", "b"]


async def test_a_key_added_while_worked_on_comes_again_only_when_that_is_done(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    await queue.get()

    queue.add("a")
    queue.add("a")
    assert len(queue) == 0

    queue.done("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_delayed_key_comes_when_its_time_has_come(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add_after("a", 5)

    await clock.advance(4.9)
    assert len(queue) == 0
    await clock.advance(0.1)
    assert len(queue) == 1


async def test_of_several_delays_the_shortest_counts(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 9)

    await clock.advance(2)
    assert await queue.get() == "a"
    queue.done("a")

    await clock.advance(20)
    assert len(queue) == 0


async def test_no_delay_is_now(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 0)

    assert len(queue) == 1


async def test_failures_wait_longer_and_longer_until_forgotten(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    waits = []
    for _ in range(3):
        waits.append(queue.retry("a"))
        await clock.advance(30)
        queue.done(await queue.get())

    limits = [0.1, 0.2, 0.4]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(waits, limits, strict=True))
    queue.forget("a")
    assert queue.retry("a") <= 0.1
    queue.close()


async def test_a_closed_queue_has_no_timers(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 5)
    await clock.sleeping()

    queue.close()
    await clock.advance(10)

    assert len(queue) == 0


async def test_a_closed_queue_takes_nothing(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.close()

    queue.add("a")
    queue.add_after("b", 5)
    queue.retry("c")
    await clock.advance(60)

    assert len(queue) == 0
    assert not clock._pending()


async def test_a_retry_comes_no_sooner_than_the_server_asked_for(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    wait = queue.retry("a", TooManyRequests(429, "TooManyRequests", "", retry_after=7))
    await clock.advance(6.9)

    assert 7 <= wait <= 7 * 1.5
    assert len(queue) == 0
    queue.close()


async def test_a_namespace_with_slow_keys_leaves_workers_to_others(clock: FakeClock) -> None:
    queue: WorkQueue[tuple[str, int]] = WorkQueue(
        "test", workers=6, namespace=itemgetter(0), clock=clock
    )
    for number in range(100):
        queue.add(("slow", number))
    taken = [await queue.get() for _ in range(4)]
    waiting = asyncio.ensure_future(queue.get())
    await settle()
    assert not waiting.done()

    queue.add(("other", 0))
    assert await waiting == ("other", 0)

    queue.done(("other", 0))
    queue.done(taken[0])
    assert await queue.get() == ("slow", 4)
