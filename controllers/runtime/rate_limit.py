"""A rate limit of the writes that one namespace causes."""

import math

from kube.base.clock import Clock

_ALWAYS_REMEMBERED = 64
"""Namespaces that are remembered before idle ones are forgotten."""


class NamespacePace:
    """A token bucket for each namespace: a burst of writes, then so many a second."""

    def __init__(self, clock: Clock, burst: int, per_second: float) -> None:
        self._clock = clock
        self._step = 1.0 / per_second
        self._ahead = burst * self._step
        self._busy_until: dict[str, float] = {}
        self._most = _ALWAYS_REMEMBERED

    def wait(self, namespace: str) -> float:
        """Return the seconds until the next write in the namespace; 0 counts as one write."""
        now = self._clock.monotonic()
        # Idle namespaces are dropped when their number has doubled, which costs O(1) a call on
        # average.
        if len(self._busy_until) > self._most:
            self._busy_until = {it: at for it, at in self._busy_until.items() if at > now}
            self._most = max(_ALWAYS_REMEMBERED, 2 * len(self._busy_until))
        until = max(now, self._busy_until.get(namespace, -math.inf))
        if until - now >= self._ahead:
            return until - now - self._ahead + self._step
        self._busy_until[namespace] = until + self._step
        return 0.0
