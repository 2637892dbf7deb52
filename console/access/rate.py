"""Rate limit of a session: far above what the page needs, since all share one event loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from console.base.protocols import RefusedError

PER_SECOND: Final = 40.0
"""Requests of one session in a second, after `AT_ONCE`. More get status 429."""

AT_ONCE: Final = 160.0
"""Requests that one session may send in a burst."""

_SESSIONS: Final = 4096
"""Sessions whose rate is remembered. With more, all rates start again."""


@dataclass(slots=True)
class Bucket:
    """A token bucket: `most` at once, and then `per_second`. It was filled last `at` this time."""

    most: float
    per_second: float
    at: float
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        """Start full."""
        self.tokens = self.most

    def fill(self, now: float) -> bool:
        """Add the tokens since the last time; return true if one is left."""
        passed, self.at = max(0.0, now - self.at), now
        self.tokens = min(self.most, self.tokens + passed * self.per_second)
        return self.tokens >= 1


class Rates:
    """A token bucket for each session, or each user."""

    def __init__(self, at_once: float = AT_ONCE, per_second: float = PER_SECOND) -> None:
        """Take the limits of each, in `count`s."""
        self._at_once = at_once
        self._per_second = per_second
        self._buckets: dict[str, Bucket] = {}

    def count(self, session: str, now: float, cost: float = 1) -> None:
        """Count a request at this monotonic time. Raises RefusedError beyond the limit.

        A request of a higher `cost` is accepted as one of cost 1 is, and delays those after it.
        """
        bucket = self._buckets.get(session)
        if bucket is None:
            if len(self._buckets) >= _SESSIONS:
                self._buckets.clear()  # most have ended long ago
            bucket = self._buckets[session] = Bucket(self._at_once, self._per_second, now)
        if not bucket.fill(now):
            raise RefusedError(429, "Too many requests: try again in a moment.")
        bucket.tokens -= cost
