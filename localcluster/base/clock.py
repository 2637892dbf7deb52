"""The clock as an interface, so that tests of the embedded cluster can set the time."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the server and its controllers use it."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a monotonic clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep that many seconds of this clock."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds on a monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep that many seconds."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """Format a moment as metav1.Time: RFC 3339 in UTC with whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Parse a metav1.Time or MicroTime. Raises ValueError."""
    return datetime.fromisoformat(text)
