"""Turns: who is blocked, and how long somebody waits whose binding failed."""

from __future__ import annotations

from scheduler.core.values import GroupKey
from scheduler.queue import Queue
from tests.scheduler.world import World


def gang() -> tuple[Queue, GroupKey]:
    world = World()
    key = world.gang("g", 1)
    world.pod("g")
    return Queue(world.state), key


def test_each_failure_doubles_the_wait_up_to_ten_seconds() -> None:
    queue, key = gang()
    waits = []
    for _ in range(6):
        queue.fail(key, 100.0)
        waits.append((queue.next_time() or 0) - 100)

    assert waits == [1, 2, 4, 8, 10, 10]


def test_after_a_success_the_next_failure_is_a_first_one() -> None:
    queue, key = gang()
    for _ in range(4):
        queue.fail(key, 100.0)
    queue.succeed(key)
    assert queue.failures(key) == 0
    queue.fail(key, 100.0)

    assert queue.next_time() == 101.0


def test_what_is_blocked_has_no_turn_until_it_is_let_go() -> None:
    queue, key = gang()
    queue.block(key)
    queue.review(key)
    before = queue.pop()
    queue.unblock(key)

    assert (before, queue.pop()) == (None, key)
