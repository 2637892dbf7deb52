"""Time as a port: everything that waits or stamps takes a `Clock`, so that tests own the time."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the rest of the program may know about time."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back, never to be compared with `now`."""
        ...

    def now(self) -> datetime:
        """The time of day in UTC, for stamps only."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def now(self) -> datetime:
        """The machine's time of day in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(max(0.0, seconds))


def rfc3339(moment: datetime) -> str:
    """`metav1.Time`: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """`metav1.MicroTime`: UTC, six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
