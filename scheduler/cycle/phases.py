"""The durations of a cycle's phases, under the names of kube-scheduler's extension points.

The decision core has no clock: a phase is what the cycle does between two of its steps.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Final, TypeVar

from prometheus_client import Histogram

from kube.base.clock import Clock
from scheduler.support.metrics import PHASE_SECONDS

Y = TypeVar("Y")
T = TypeVar("T")

QUEUE_SORT: Final = PHASE_SECONDS.labels("QueueSort")
PRE_FILTER: Final = PHASE_SECONDS.labels("PreFilter")
FILTER: Final = PHASE_SECONDS.labels("Filter")
POST_FILTER: Final = PHASE_SECONDS.labels("PostFilter")
RESERVE: Final = PHASE_SECONDS.labels("Reserve")


class Phases:
    """The phases of one cycle after the other, without the time of other tasks in between."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._begun = 0.0

    def of(self, cycle: Generator[Y, None, T]) -> Generator[Y, None, T]:
        """Run the steps of a cycle; its first phase begins."""
        self._begun = self._monotonic()
        with closing(cycle):
            while True:
                try:
                    key = next(cycle)
                except StopIteration as end:
                    result: T = end.value
                    return result
                # Other tasks run during the yield. Their time would be counted as scheduling.
                paused = self._monotonic()
                yield key
                self._begun += self._monotonic() - paused

    def end(self, phase: Histogram) -> None:
        """End a phase; the next one begins."""
        now = self._monotonic()
        phase.observe(now - self._begun)
        self._begun = now
