"""Virtual time with a time of day of the test's choice."""

from datetime import UTC, datetime, timedelta

from tests.support.clock import FakeClock

REAL_NOW = datetime.now(UTC)
"""TLS checks certificates by the machine's clock, so virtual time must end about here."""


class DatedClock(FakeClock):
    """Stands still until it is advanced; `now` begins at `begin` (UTC)."""

    def __init__(self, begin: datetime = REAL_NOW) -> None:
        super().__init__()
        self._epoch = begin - timedelta(seconds=self._monotonic)
