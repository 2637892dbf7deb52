"""The starvation gate, and how long each root has waited. Off by default.

A root starves if it is refused for lack of capacity repeatedly while others of the same or a lower
priority are placed, because smaller roots take free capacity at once. The gate can be closed for
the starving root. Until it is placed, those others get no node that it could use. kube-scheduler
has no counterpart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler.core.values.model import GroupKey


@dataclass(frozen=True, slots=True)
class StarvationLimits:
    """A root starves after `seconds` in which `passed` others of no higher priority were placed.

    The gate stays closed for at most `closed_seconds`; then the root's wait starts again at zero.
    """

    seconds: float
    passed: int
    closed_seconds: float


@dataclass(frozen=True, slots=True)
class ClosedFor:
    """The root that the gate is closed for; `passed` others were placed while it waited."""

    root: GroupKey
    priority: int
    passed: int


@dataclass(frozen=True, slots=True)
class _Wait:
    since: float
    passed: int


class StarvationGate:
    """The one gate of the cluster, closed for one root at a time. Callers pass the time."""

    def __init__(self) -> None:
        self.closed_for: ClosedFor | None = None
        self._until = 0.0
        self._waits: dict[GroupKey, _Wait] = {}
        self._placed: Counter[int] = Counter()
        self._held_back: set[GroupKey] = set()

    def on_root_placed(self, root: GroupKey, priority: int) -> None:
        """Record that the root was placed: its wait ends, and it has passed the roots that wait."""
        self._placed[priority] += 1
        self.forget(root)

    def forget(self, root: GroupKey) -> None:
        """Forget the root's wait."""
        self._waits.pop(root, None)

    def refused(self, root: GroupKey, priority: int, now: float) -> None:
        """Record that the root was refused for lack of capacity; the first time starts its wait."""
        # Store the count at the start: later refusals must not restart the wait.
        self._waits.setdefault(root, _Wait(now, self._count_placed(priority)))

    def starves(self, root: GroupKey, priority: int, now: float, limits: StarvationLimits) -> bool:
        """True if the root has waited long enough while enough others were placed."""
        wait = self._waits.get(root)
        if wait is None or now - wait.since < limits.seconds:
            return False
        return self._count_placed(priority) - wait.passed >= limits.passed

    def close(self, root: GroupKey, priority: int, now: float, limits: StarvationLimits) -> None:
        """Close the gate: from now on others wait for this root."""
        wait = self._waits.get(root, _Wait(now, self._count_placed(priority)))
        self.closed_for = ClosedFor(root, priority, self._count_placed(priority) - wait.passed)
        # A root that never fits must not block the cluster for good.
        self._until = now + limits.closed_seconds

    def overdue(self, now: float) -> bool:
        """True if the gate has been closed for its maximum time."""
        return self.closed_for is not None and now >= self._until

    def hold_back(self, root: GroupKey) -> None:
        """Record that the root was refused because the gate is closed."""
        self._held_back.add(root)

    def open(self) -> set[GroupKey]:
        """Open the gate. Return the roots that were held back."""
        # Its wait starts again, so the gate does not close for it again at once.
        if self.closed_for is not None:
            self.forget(self.closed_for.root)
        self.closed_for = None
        held_back, self._held_back = self._held_back, set()
        return held_back

    def reset(self) -> None:
        """Open the gate and forget all waits and placements."""
        self.open()
        self._waits.clear()
        self._placed.clear()

    def _count_placed(self, priority: int) -> int:
        """Return the number of roots of this or a lower priority placed so far."""
        return sum(count for placed, count in self._placed.items() if placed <= priority)
