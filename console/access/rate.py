"""Rate limit of a session: far above what the page needs, since all share one event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.base.protocols import RefusedError

PER_SECOND: Final = 40.0
"""Requests of one session in a second, after `AT_ONCE`. More get status 429."""

AT_ONCE: Final = 160.0
"""Requests that one session may send in a burst."""

_SESSIONS: Final = 4096
"""Sessions whose rate is remembered. With more, all rates start again."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """A token bucket for each session."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def count(self, session: str, now: float) -> None:
        """Count a request at this monotonic time. Raises RefusedError beyond the limit."""
        bucket = self._buckets.get(session)
        if bucket is None:
            if len(self._buckets) >= _SESSIONS:
                self._buckets.clear()  # most have ended long ago
            bucket = self._buckets[session] = _Bucket(AT_ONCE, now)
        bucket.left = min(AT_ONCE, bucket.left + (now - bucket.at) * PER_SECOND)
        bucket.at = now
        if bucket.left < 1:
            raise RefusedError(429, "Too many requests: try again in a moment.")
        bucket.left -= 1
