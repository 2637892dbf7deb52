"""The door that a starving root may close, and who has waited how long at it. Off unless asked for.

A root that is refused for want of room again and again, while others of no higher priority are
placed, starves: each time they leave a little room there is somebody small enough to take it. It
may close the door, and then those get nothing that it could use until it has its turn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler.core.model import GroupKey


@dataclass(frozen=True, slots=True)
class StarvationLimits:
    """A root starves after so many seconds, and so many others of no higher priority placed.

    The door is closed for at most `closed_seconds`; then the root starves from the beginning.
    """

    seconds: float
    passed: int
    closed_seconds: float


@dataclass(frozen=True, slots=True)
class ClosedFor:
    """The door is closed for this root; `passed` others had gone before it by then."""

    root: GroupKey
    priority: int
    passed: int


@dataclass(frozen=True, slots=True)
class _Wait:
    since: float
    passed: int


class StarvationGate:
    """One door for the whole cluster: one root at a time goes first. Times are the caller's."""

    def __init__(self) -> None:
        self.closed: ClosedFor | None = None
        self._until = 0.0
        self._waits: dict[GroupKey, _Wait] = {}
        self._placed: Counter[int] = Counter()
        self._stopped: set[GroupKey] = set()

    def placed(self, root: GroupKey, priority: int) -> None:
        """The root has its turn: for all that wait it may be one that went before."""
        self._placed[priority] += 1
        self.forget(root)

    def forget(self, root: GroupKey) -> None:
        """It waits no more."""
        self._waits.pop(root, None)

    def refused(self, root: GroupKey, priority: int, now: float) -> None:
        """It does not fit now, for want of room."""
        self._waits.setdefault(root, _Wait(now, self._gone(priority)))

    def starves(
        self, root: GroupKey, priority: int, now: float, patience: StarvationLimits
    ) -> bool:
        """Whether it has been refused for long enough, and enough others have been placed."""
        wait = self._waits.get(root)
        if wait is None or now - wait.since < patience.seconds:
            return False
        return self._gone(priority) - wait.passed >= patience.passed

    def close(self, root: GroupKey, priority: int, now: float, patience: StarvationLimits) -> None:
        """From now on others wait for this root."""
        wait = self._waits.get(root, _Wait(now, self._gone(priority)))
        self.closed = ClosedFor(root, priority, self._gone(priority) - wait.passed)
        self._until = now + patience.closed_seconds

    def overdue(self, now: float) -> bool:
        """Whether it has been closed for too long."""
        return self.closed is not None and now >= self._until

    def stop(self, root: GroupKey) -> None:
        """The root was sent back at the door."""
        self._stopped.add(root)

    def open(self) -> set[GroupKey]:
        """Let all in again; those that were sent back meanwhile."""
        if self.closed is not None:
            self.forget(self.closed.root)
        self.closed = None
        stopped, self._stopped = self._stopped, set()
        return stopped

    def reset(self) -> None:
        """As if nobody had ever waited."""
        self.open()
        self._waits.clear()
        self._placed.clear()

    def _gone(self, priority: int) -> int:
        """How many of no higher priority were ever placed; there are few different priorities."""
        return sum(count for placed, count in self._placed.items() if placed <= priority)
