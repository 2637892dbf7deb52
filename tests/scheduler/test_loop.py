"""The decision loop lets other tasks run in between, and says whether it is deciding."""

from __future__ import annotations

import asyncio
from typing import cast

from scheduler.activity import Activity
from scheduler.cycle import Cycle
from scheduler.loop import Loop
from scheduler.queue import Queue
from tests.support.clock import FakeClock


class Decisions(list[int]):
    """A queue, and the cycle that takes from it six milliseconds at a time."""

    def __init__(self, clock: FakeClock, count: int) -> None:
        super().__init__(range(count))
        self.clock = clock

    def refresh(self) -> None:
        """Nothing changes."""

    def step(self) -> bool:
        self.clock.jump(0.006)
        self.pop()
        return True


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
