"""The decision loop: runs cycles while a root is ready, then waits until something changes."""

from __future__ import annotations

import asyncio
from typing import Final

from kube.clock import Clock
from scheduler.activity import Activity
from scheduler.cycle import Cycle
from scheduler.metrics import ROUNDS
from scheduler.queue import Queue
from scheduler.waiting import wait_until

_SLICE: Final = 0.002
"""Seconds of deciding after which other tasks may run: Bindings and watches."""

_PAUSE: Final = 0.002
"""Seconds between two rounds: a watch delivers many events at once."""


class Loop:
    """Runs cycles. `changed` is set by whoever changes the state, as often as they like."""

    def __init__(
        self,
        cycle: Cycle,
        queue: Queue,
        clock: Clock,
        *,
        activity: Activity,
        changed: asyncio.Event,
    ) -> None:
        self._cycle = cycle
        self._queue = queue
        self._clock = clock
        self._activity = activity
        self._changed = changed
        self._ended = asyncio.Event()

    async def round(self) -> None:
        """Wait until all that is ready now has been decided; `run` must be running."""
        ended = self._ended
        self._changed.set()
        await ended.wait()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            self._changed.clear()
            await self.drain()
            ROUNDS.inc()
            self._ended.set()
            self._ended = asyncio.Event()
            await self._clock.sleep(_PAUSE)
            await self._sleep()

    async def drain(self) -> None:
        """Decide all that is ready; other tasks run in between."""
        self._cycle.refresh()
        until = self._clock.monotonic() + _SLICE
        while self._queue:
            self._cycle.step()
            if self._clock.monotonic() >= until:
                self._activity.deciding = len(self._queue) > 0
                await asyncio.sleep(0)
                until = self._clock.monotonic() + _SLICE
            # What arrived meanwhile, and what the decisions changed.
            self._cycle.refresh()
        self._activity.deciding = False

    async def _sleep(self) -> None:
        """Wait for a change, or until a refused root is due."""
        due = self._queue.next_time()
        if due is None:
            await self._changed.wait()
        else:
            await wait_until(self._changed, due, self._clock)
