"""How much of what clients send is held at a time: who waits, who is turned away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from webhooks.intake import (
    CONVERSION_ROOM,
    REVIEW_ROOM,
    SMALL_BODY,
    SMALL_ROOM,
    BusyError,
    Intake,
    Room,
)
from webhooks.routes import BODY_LIMIT, CONVERSION_LIMIT


async def test_who_came_first_is_served_first() -> None:
    room, order = Room(10, wait_seconds=60), []
    freed = asyncio.Event()

    async def one(name: str, size: int) -> None:
        async with held(room, size):
            order.append(name)
            await freed.wait()

    async with asyncio.TaskGroup() as group:
        for name, size in (("half", 5), ("large", 8), ("small", 1)):
            group.create_task(one(name, size))
            await asyncio.sleep(0)
        assert order == ["half"], "the small one does not pass the large one"
        freed.set()

    assert order == ["half", "large", "small"]
    assert room.held == 0


async def test_one_that_gives_up_lets_the_next_one_in() -> None:
    room = Room(10, wait_seconds=60)
    async with held(room, 5):
        first, second = (asyncio.create_task(_take(room, size)) for size in (8, 2))
        await asyncio.sleep(0)
        first.cancel()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first

    assert room.held == 0


async def test_who_finds_no_room_is_turned_away_and_so_is_who_finds_a_long_queue() -> None:
    room = Room(10, waiting=1, wait_seconds=0.01)
    async with held(room, 10):
        waiting = asyncio.create_task(_take(room, 1))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="10 of 10 bytes"):
            await _take(room, 1)
        with pytest.raises(BusyError):
            await waiting

    await _take(room, 10)
    assert room.held == 0


async def test_large_bodies_leave_room_for_small_ones() -> None:
    intake = Intake()

    for conversion in (True, False):
        room = intake.room(SMALL_BODY + 1, conversion=conversion)
        async with held(room, room.total):
            await _take(intake.room(SMALL_BODY, conversion=conversion), SMALL_BODY)


def test_what_may_be_sent_has_room_and_all_room_is_a_fraction_of_the_memory() -> None:
    assert BODY_LIMIT <= REVIEW_ROOM
    assert CONVERSION_LIMIT <= CONVERSION_ROOM
    assert SMALL_ROOM + REVIEW_ROOM + CONVERSION_ROOM <= 512 * 2**20 / 10


@asynccontextmanager
async def held(room: Room, size: int) -> AsyncIterator[None]:
    taken = await room.take(size)
    try:
        yield
    finally:
        room.give(taken)


async def _take(room: Room, size: int) -> None:
    async with held(room, size):
        pass
