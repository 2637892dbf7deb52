"""How fast the objects of one namespace make the controllers write."""

import math

from kube.base.clock import Clock

_ALWAYS_REMEMBERED = 64
"""Namespaces whose allowance is remembered before those that are idle are forgotten."""


class NamespacePace:
    """So many writes of a namespace at once, then so many a second, whatever is done there."""

    def __init__(self, clock: Clock, burst: int, per_second: float) -> None:
        """Nothing was written yet."""
        self._clock = clock
        self._step = 1.0 / per_second
        self._ahead = burst * self._step
        self._busy_until: dict[str, float] = {}
        self._most = _ALWAYS_REMEMBERED

    def wait(self, namespace: str) -> float:
        """Seconds until something may be written there; 0 counts as one write."""
        now = self._clock.monotonic()
        if len(self._busy_until) > self._most:
            self._busy_until = {it: at for it, at in self._busy_until.items() if at > now}
            self._most = max(_ALWAYS_REMEMBERED, 2 * len(self._busy_until))
        until = max(now, self._busy_until.get(namespace, -math.inf))
        if until - now >= self._ahead:
            return until - now - self._ahead + self._step
        self._busy_until[namespace] = until + self._step
        return 0.0
