"""The gate that a starving root may close, and how long each root has waited. Off by default.

A root that is refused for want of room again and again, while others of no higher priority are
placed, starves: each time they leave a little room there is somebody small enough to take it. It
may close the gate, and then those get nothing that it could use until it has its turn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler.core.model import GroupKey


@dataclass(frozen=True, slots=True)
class StarvationLimits:
    """A root starves after so many seconds, and so many others of no higher priority placed.

    The gate is closed for at most `closed_seconds`; then the count begins anew.
    """

    seconds: float
    passed: int
    closed_seconds: float


@dataclass(frozen=True, slots=True)
class ClosedFor:
    """The gate is closed for this root; `passed` others had gone before it by then."""

    root: GroupKey
    priority: int
    passed: int


@dataclass(frozen=True, slots=True)
class _Wait:
    since: float
    passed: int


class StarvationGate:
    """One gate for the whole cluster: one root at a time goes first. Times are the caller's."""

    def __init__(self) -> None:
        self.closed_for: ClosedFor | None = None
        self._until = 0.0
        self._waits: dict[GroupKey, _Wait] = {}
        self._placed: Counter[int] = Counter()
        self._held_back: set[GroupKey] = set()

    def placed(self, root: GroupKey, priority: int) -> None:
        """The root has its turn: for all that wait it may be one that went before."""
        self._placed[priority] += 1
        self.forget(root)

    def forget(self, root: GroupKey) -> None:
        """It waits no more."""
        self._waits.pop(root, None)

    def refused(self, root: GroupKey, priority: int, now: float) -> None:
        """It does not fit now, for want of room."""
        self._waits.setdefault(root, _Wait(now, self._count_placed(priority)))

    def starves(
        self, root: GroupKey, priority: int, now: float, patience: StarvationLimits
    ) -> bool:
        """Whether it has been refused for long enough, and enough others have been placed."""
        wait = self._waits.get(root)
        if wait is None or now - wait.since < patience.seconds:
            return False
        return self._count_placed(priority) - wait.passed >= patience.passed

    def close(self, root: GroupKey, priority: int, now: float, patience: StarvationLimits) -> None:
        """From now on others wait for this root."""
        wait = self._waits.get(root, _Wait(now, self._count_placed(priority)))
        self.closed_for = ClosedFor(root, priority, self._count_placed(priority) - wait.passed)
        self._until = now + patience.closed_seconds

    def overdue(self, now: float) -> bool:
        """Whether it has been closed for too long."""
        return self.closed_for is not None and now >= self._until

    def hold_back(self, root: GroupKey) -> None:
        """The root was refused because the gate is closed."""
        self._held_back.add(root)

    def open(self) -> set[GroupKey]:
        """Let all in again; those that were held back meanwhile."""
        if self.closed_for is not None:
            self.forget(self.closed_for.root)
        self.closed_for = None
        held_back, self._held_back = self._held_back, set()
        return held_back

    def reset(self) -> None:
        """As if nobody had ever waited."""
        self.open()
        self._waits.clear()
        self._placed.clear()

    def _count_placed(self, priority: int) -> int:
        """How many of no higher priority were ever placed; there are few different priorities."""
        return sum(count for placed, count in self._placed.items() if placed <= priority)
