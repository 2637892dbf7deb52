"""Virtual time with a wall clock that the test sets."""

from datetime import UTC, datetime, timedelta

from tests.support.clock import FakeClock

REAL_NOW = datetime.now(UTC)
"""The real time: TLS checks certificates by it, so virtual time must end near it."""


class DatedClock(FakeClock):
    """A clock that advances only on request; `now` starts at `begin` (UTC)."""

    def __init__(self, begin: datetime = REAL_NOW) -> None:
        super().__init__()
        self._epoch = begin - timedelta(seconds=self._monotonic)
