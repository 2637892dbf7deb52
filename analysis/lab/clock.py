"""Virtual time: it stands still until the simulation sets it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day at second 0 of a trace."""


class VirtualClock:
    """A clock that the simulation sets; nobody can wait on it."""

    def __init__(self) -> None:
        """At second 0."""
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Seconds since the trace began."""
        return self.seconds

    def now(self) -> datetime:
        """The time of day of the simulation."""
        return START + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        """Raises RuntimeError: time passes from event to event."""
        raise RuntimeError(f"nothing waits {seconds} s in virtual time")
