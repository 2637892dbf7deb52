"""The decision loop: runs cycles while a root is ready, then waits for a change."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Final

from structlog.contextvars import bound_contextvars

from kube.base.clock import Clock
from kube.concurrency.event_wait import wait_until
from kube.concurrency.freeze import Freeze
from kube.concurrency.pace import Pace
from scheduler.core.values.model import GroupKey
from scheduler.cycle.cycle import Cycle
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.activity import Activity
from scheduler.support.metrics import ROUNDS

_SLICE: Final = 0.002
"""Seconds of decisions after which other tasks may run: Bindings and watches."""

_PAUSE: Final = 0.002
"""Seconds between two rounds: a watch delivers many events at once."""


class Loop:
    """A task that runs cycles; each has a number, which is on all log lines that it writes.

    `changed` is set by everyone who changes the state, as often as they like.
    """

    def __init__(
        self,
        cycle: Cycle,
        queue: Queue,
        clock: Clock,
        *,
        activity: Activity,
        changed: asyncio.Event,
        freeze: Freeze | None = None,
    ) -> None:
        """Run `cycle`; `freeze` protects the state while a decision gives way in the middle."""
        self._cycle = cycle
        self._queue = queue
        self._clock = clock
        self._activity = activity
        self._changed = changed
        self._freeze = freeze or Freeze()
        self._ended = asyncio.Event()
        self._number = 0
        self._deciding = Pace("decide", clock, slice_seconds=_SLICE)
        self._refreshing = Pace("refresh", clock, slice_seconds=_SLICE)

    async def round(self) -> None:
        """Wait until all that is ready now has been decided, or `end_round` is called."""
        ended = self._ended
        self._changed.set()
        await ended.wait()

    def end_round(self) -> None:
        """Release the callers that wait for the end of a round."""
        self._ended.set()
        # A new event: callers that come now wait for the end of the next round.
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            # Before the round, not after it: a change during the round must start another one.
            self._changed.clear()
            await self.drain()
            ROUNDS.inc()
            self.end_round()
            await self._clock.sleep(_PAUSE)
            await self._freeze.over()
            await self._sleep()

    async def drain(self) -> None:
        """Decide all that is ready; other tasks run in between."""
        await self._freeze.over()
        await self._refresh()
        self._deciding.begin()
        while self._queue:
            key = await self._decide()
            if self._deciding.over(key or ()):
                # A Reservation waits a moment to be shared by roots that are about to be decided.
                self._activity.deciding = len(self._queue) > 0
                await self._give_way(self._deciding)
            # Events that arrived meanwhile, and effects of the decisions.
            await self._refresh()
            self._deciding.begin()
        self._activity.deciding = False

    async def _decide(self) -> GroupKey | None:
        """Decide one root. Other tasks may run in the middle, but the state stays as it is."""
        self._number += 1
        steps = self._cycle.step()
        # Closed in the middle, the cycle undoes what it has assumed so far (`Outcomes.bind`).
        with self._freeze, closing(steps), bound_contextvars(cycle=self._number):
            while True:
                try:
                    key = next(steps)
                except StopIteration as end:
                    decided: GroupKey | None = end.value
                    return decided
                self._activity.deciding = True
                if self._deciding.over(key):
                    await self._deciding.give_way()

    async def _give_way(self, pace: Pace) -> None:
        await pace.give_way()
        if self._freeze.is_active:  # another task reads the state in steps
            await self._freeze.over()
            # The time of the other task does not count as this one's.
            pace.begin()

    async def _refresh(self) -> None:
        self._refreshing.begin()
        for _ in self._cycle.refresh():
            if self._refreshing.over(()):
                await self._give_way(self._refreshing)

    async def _sleep(self) -> None:
        """Wait for a change, or until a refused root or the end of a limit is due."""
        due = self._cycle.next_time()
        if due is None:
            await self._changed.wait()
        else:
            await wait_until(self._changed, due, self._clock)
