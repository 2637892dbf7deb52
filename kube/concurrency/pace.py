"""Fair use of an event loop: long work runs in slices, and its longest stretch is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from kube.base.clock import Clock
from kube.base.metrics import LONGEST_STRETCH, STALL_SECONDS, STALLS

SLICE: Final = 0.005
"""Seconds of work after which other tasks may run."""

_LONG: Final = 0.05
"""Seconds after which a stretch delays others so much that the log names its cause."""

_QUIET: Final = 60.0
"""Seconds in which stretches that are no longer than the longest so far are not logged again."""

_log = structlog.get_logger()


class Pace:
    """One kind of work in stretches, between which other tasks of the loop run.

    `begin` the work, call `over` after each step, and `give_way` when that returns True.
    """

    def __init__(self, work: str, clock: Clock, *, slice_seconds: float = SLICE) -> None:
        """Label the metric with `work`; steps of over `slice_seconds` are stretches alone."""
        self._work = work
        self._clock = clock
        self._slice = slice_seconds
        self._longest = 0.0
        self._quiet_until = float("-inf")
        self._stalls, self._stall_seconds = STALLS.labels(work), STALL_SECONDS.labels(work)
        self._last = clock.monotonic()
        self._busy = 0.0
        self._slowest = 0.0
        self._object: Sequence[str] = ()

    def begin(self) -> None:
        """Start the clock of the first step, after a wait."""
        self._last = self._clock.monotonic()

    def over(self, name: Sequence[str]) -> bool:
        """End a step on the object of this name (its parts); return whether the slice is over."""
        now = self._clock.monotonic()
        spent, self._last = now - self._last, now
        self._busy += spent
        if spent >= self._slowest:
            self._slowest, self._object = spent, name
        if self._busy < self._slice:
            return False
        self._measure(now)
        return True

    async def give_way(self) -> None:
        """Let other tasks run, and begin the next slice."""
        await asyncio.sleep(0)
        self.begin()

    def _measure(self, now: float) -> None:
        """Measure the stretch that ends now, and log it if it was long."""
        busy, self._busy, self._slowest = self._busy, 0.0, 0.0
        longer = busy > self._longest
        if longer:
            self._longest = busy
            LONGEST_STRETCH.labels(self._work).set(busy)
        if busy <= _LONG:
            return
        self._stalls.inc()
        self._stall_seconds.inc(busy)
        if longer or now >= self._quiet_until:
            self._quiet_until = now + _QUIET
            _log.info(
                "task held the event loop too long",
                work=self._work,
                seconds=round(busy, 3),
                object="/".join(filter(None, self._object)),
            )
