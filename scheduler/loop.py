"""The decision loop: cycles while there is something to decide, sleep until something changes."""

from __future__ import annotations

import asyncio
from typing import Final

from kube.clock import Clock
from scheduler.cycle import Cycle
from scheduler.metrics import ROUNDS
from scheduler.queue import Queue

_SLICE: Final = 0.002
"""Seconds of deciding before bindings and watches get their turn."""

_PAUSE: Final = 0.002
"""Seconds between two looks at what changed: a watch tells of many things in one moment."""


class Loop:
    """Runs cycles. `wake` may be called from any sink, as often as it likes.

    `deciding`: others have their turn in the middle of it, and more roots are ready.
    """

    def __init__(self, cycle: Cycle, queue: Queue, clock: Clock) -> None:
        self._cycle = cycle
        self._queue = queue
        self._clock = clock
        self._work = asyncio.Event()
        self._ended = asyncio.Event()
        self.deciding = False

    def wake(self) -> None:
        """Something changed."""
        self._work.set()

    async def round(self) -> None:
        """Until all that is ready by now has been decided; `run` must be running."""
        ended = self._ended
        self.wake()
        await ended.wait()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            self._work.clear()
            await self.drain()
            ROUNDS.inc()
            self._ended.set()
            self._ended = asyncio.Event()
            await self._clock.sleep(_PAUSE)
            await self._sleep()

    async def drain(self) -> None:
        """Decide all that is ready, letting others run in between."""
        self._cycle.refresh()
        until = self._clock.monotonic() + _SLICE
        while self._queue:
            self._cycle.step()
            if self._clock.monotonic() >= until:
                self.deciding = len(self._queue) > 0
                await asyncio.sleep(0)
                until = self._clock.monotonic() + _SLICE
            # What arrived meanwhile, and what the decisions themselves changed.
            self._cycle.refresh()
        self.deciding = False

    async def _sleep(self) -> None:
        """Until woken, or until something refused is due."""
        due = self._queue.next_time()
        if due is None:
            await self._work.wait()
            return
        wait = asyncio.ensure_future(self._work.wait())
        timer = asyncio.ensure_future(self._clock.sleep(due - self._clock.monotonic()))
        try:
            await asyncio.wait({wait, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
            timer.cancel()
