"""Times at which pods under deletion should be gone, by the clock of this process.

The API server's stamps are times of day, which may jump and differ between API servers.
"""

from __future__ import annotations

from dataclasses import replace

from kube.base.clock import Clock
from scheduler.core.values.model import PodInfo


class Departures:
    """Converts deletionTimestamps to seconds of the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        """Start without pods. `clock` knows the time of day of the API server."""
        self._clock = clock
        self._stamps: dict[str, float] = {}

    def timed(self, info: PodInfo, before: PodInfo | None, grace: float | None) -> PodInfo:
        """Return the pod with `leaves_by` in seconds of the monotonic clock.

        `before` is the pod as it was returned the last time, `grace` its
        deletionGracePeriodSeconds.
        """
        if not info.terminating:
            self._stamps.pop(info.uid, None)
            return info
        stamp = info.preemption.leaves_by
        by = self._leaves_by(stamp, self._stamps.get(info.uid), before, grace)
        self._stamps[info.uid] = stamp
        return replace(info, preemption=replace(info.preemption, leaves_by=by))

    def forget(self, uid: str) -> None:
        """Forget a pod that is deleted."""
        self._stamps.pop(uid, None)

    def _leaves_by(
        self, stamp: float, known: float | None, before: PodInfo | None, grace: float | None
    ) -> float:
        """Return the time. Compare stamps with each other, and with the time of day only once."""
        now = self._clock.monotonic()
        if known is not None and before is not None:
            return before.preemption.leaves_by + stamp - known
        if before is not None and grace is not None:
            # The pod was known without a deletion, so its grace period has just begun.
            return now + grace
        # This process did not see the deletion begin. The clocks may differ, but the wait is never
        # longer than the grace period.
        left = stamp - self._clock.now().timestamp()
        return now + (left if grace is None else min(left, grace))
