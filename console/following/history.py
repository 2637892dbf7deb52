"""The last hours in steps, in memory of a fixed size. They are stored nowhere else."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from console.base import messages
from console.base.protocols import Viewer
from console.base.times import rfc3339
from console.following.following import Following

STEP: Final = 60.0
"""Seconds of one step."""

KEPT: Final = 1440
"""Steps that are kept: one day."""

MOST_DOMAINS: Final = 64
"""Outermost domains in the history: the largest."""

MOST_NAMESPACES: Final = 1000
"""Namespaces that are counted separately in one step. A viewer of all sees the totals of all
others, too."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """A number in total, and in each namespace where it is not 0."""

    total: int
    by_namespace: Mapping[str, int]

    @classmethod
    def of(cls, counted: Counter[str]) -> _Counts:
        return cls(counted.total(), dict(counted.most_common(MOST_NAMESPACES)))

    def seen_by(self, viewer: Viewer) -> int:
        """Return the number that the viewer may know."""
        if viewer.namespaces is None:
            return self.total
        return sum(self.by_namespace.get(each, 0) for each in viewer.namespaces)


@dataclass(frozen=True, slots=True)
class _Step:
    at: str
    waiting: _Counts
    arrivals: _Counts
    preemptions: _Counts
    utilisation: Mapping[str, float]


class RecentHistory:
    """The console's observations since it started, of one day at most."""

    def __init__(self, following: Following, now: Callable[[], float] = time.time) -> None:
        """Start without steps; `now` is in seconds since 1970."""
        self._following = following
        self._now = now
        self._steps: deque[_Step] = deque(maxlen=KEPT)
        self._ends: float | None = None

    def follow(self) -> None:
        """Complete the step if its time is over; call it several times in a step.

        Costs nothing until then, and O(nodes) in numpy once a step.
        """
        now = self._now()
        if self._ends is None:
            self._ends = now + STEP
            # The first read counted all existing roots as arrivals: these are dropped.
            self._following.take_counts()
        if now < self._ends:
            return
        # After a suspend there is one long step, not many empty ones.
        self._ends = now + STEP
        arrived, preempted = self._following.take_counts()
        self._steps.append(
            _Step(
                at=rfc3339(now),
                waiting=_Counts.of(self._following.queue.by_namespace),
                arrivals=_Counts.of(arrived),
                preemptions=_Counts.of(preempted),
                utilisation=self._following.map.utilisation(MOST_DOMAINS),
            )
        )

    def last_hours(self, hours: float, viewer: Viewer) -> messages.History:
        """Return the steps of the last hours, as far as the viewer may see them."""
        most = max(1, int(hours * 3600 / STEP))
        steps = list(self._steps)[-most:]
        domains = {name for step in steps for name in step.utilisation} if viewer.nodes else ()
        return messages.History(
            step=int(STEP),
            first=None if steps or self._ends is None else rfc3339(ceil(self._ends)),
            at=[step.at for step in steps],
            waiting=[step.waiting.seen_by(viewer) for step in steps],
            arrivals=[step.arrivals.seen_by(viewer) for step in steps],
            preemptions=[step.preemptions.seen_by(viewer) for step in steps],
            utilisation={
                name: [step.utilisation.get(name) for step in steps] for name in sorted(domains)
            },
        )

    def latest(self, viewer: Viewer) -> messages.HistoryStep | None:
        """Return the newest step; None before the first."""
        if not self._steps:
            return None
        step = self._steps[-1]
        return messages.HistoryStep(
            at=step.at,
            waiting=step.waiting.seen_by(viewer),
            arrivals=step.arrivals.seen_by(viewer),
            preemptions=step.preemptions.seen_by(viewer),
            utilisation=dict(step.utilisation) if viewer.nodes else {},
        )
