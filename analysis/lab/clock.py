"""Virtual time: only the simulation advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day at second 0 of a trace."""


class VirtualClock:
    """A clock that the simulation sets. No task can wait on it."""

    def __init__(self) -> None:
        """Start at second 0."""
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Return the seconds since the trace began."""
        return self.seconds

    def now(self) -> datetime:
        """Return the simulation's time of day."""
        return START + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        """Raise RuntimeError: time passes from event to event."""
        raise RuntimeError(f"cannot wait {seconds} s in virtual time")
