"""Time as a port: all code that waits or stamps takes a `Clock`, so that tests own the time."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, Protocol

_TOLERANCE: Final = 1.5
"""Seconds by which the server's clock may seem to jump."""


_SUSPENDED_TOO: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock id that includes suspension: a lease ends while its holder's machine is suspended."""


class Clock(Protocol):
    """The interface to time, which the rest of the program uses."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, not comparable with `now`; they never go back."""

    def now(self) -> datetime:
        """Return the time of day in UTC, for stamps only. It may jump; measure with `since`."""

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields."""


class SystemClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        # Each event of a pod asks some thirty times: this costs no call of a Python function.
        self.monotonic: Callable[[], float] = partial(time.clock_gettime, _SUSPENDED_TOO)
        """Return seconds of the monotonic clock, including those in which it was suspended."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class ServerClock:
    """The time of day of the API server, as its responses report it; else of the machine.

    The clocks of two machines may be minutes apart. A stamp of the server, a deletionTimestamp for
    instance, is compared with this. It is right within two seconds of the last response.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self.monotonic = local.monotonic
        self._date = ""
        self._ahead: float | None = None

    def heard(self, date: str | None) -> None:
        """Use the header Date of a response that has just come; ignore one that is invalid."""
        if not date or date == self._date:
            return
        self._date = date
        seconds = seconds_of(date)
        if seconds is None:
            return
        ahead = seconds - self._local.monotonic()
        # Dates have whole seconds and responses take time: small differences are ignored.
        if self._ahead is None or abs(ahead - self._ahead) > _TOLERANCE:
            self._ahead = ahead

    def now(self) -> datetime:
        if self._ahead is None:
            return self._local.now()
        return datetime.fromtimestamp(self._ahead + self._local.monotonic(), UTC)

    async def sleep(self, seconds: float) -> None:
        await self._local.sleep(seconds)


def since(clock: Clock, stamp: float | None) -> float:
    """Return the monotonic time of a stamp in seconds since 1970; now for None and for the future.

    To measure a time from a stamp, ask once, and then measure by the monotonic clock: the time of
    day may jump, and the clocks of those that stamp differ.
    """
    age = 0.0 if stamp is None else clock.now().timestamp() - stamp
    return clock.monotonic() - max(0.0, age)


def seconds_of(date: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date, if it is one."""
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if not 1970 <= moment.year < 9000:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def rfc3339(moment: datetime) -> str:
    """Return a `metav1.Time`: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """Return a `metav1.MicroTime`: UTC, six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(written: str) -> datetime | None:
    """Return an RFC 3339 time with its zone, in UTC, if it is one."""
    try:
        found = datetime.fromisoformat(written)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
