"""CEL's durations and timestamps: read, calculated and written as by cel-go."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from scheduler.cel.errors import EvaluationError

SECOND: Final = 1_000_000_000
"""A second in nanoseconds."""

_LARGEST: Final = 2**63 - 1
_FIRST: Final = -62_135_596_800
"""0001-01-01T00:00:00Z in seconds since 1970."""
_LAST: Final = 253_402_300_799
"""9999-12-31T23:59:59Z in seconds since 1970."""

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
# Possessive: without a unit at the end, each digit would be tried once for each one before it.
_PART: Final = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?(ns|us|µs|μs|ms|s|m|h)")
_DIGITS: Final = 19
"""Digits of the largest int; more are an overflow, or beyond the precision of a fraction."""

# Go accepts an hour of one digit, a comma, and an offset of up to 24 hours and 60 minutes.
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_DAY: Final = 86_400
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After so many years, the Gregorian calendar repeats."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A number of nanoseconds of 64 bits, with a sign."""

    nanos: int

    def __post_init__(self) -> None:
        if not -_LARGEST - 1 <= self.nanos <= _LARGEST:
            raise EvaluationError("integer overflow")

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        """Return the seconds, with as many digits as their double has."""
        whole, rest = divmod(abs(self.nanos), SECOND)
        shortest = repr(float(whole) + rest / SECOND).removesuffix(".0")
        mantissa, _, exponent = shortest.partition("e-")
        # Python writes 1e-09 for a nanosecond.
        if exponent:
            shortest = f"0.{'0' * (int(exponent) - 1)}{mantissa.replace('.', '')}"
        return f"{'-' * (self.nanos < 0)}{shortest}s"

    def whole(self, unit: int) -> int:
        """Return the number of whole units of a double, as in Go: just below one it may round."""
        whole, rest = divmod(abs(self.nanos), unit)
        number = int(float(whole) + rest / unit)
        return -number if self.nanos < 0 else number

    @property
    def milliseconds(self) -> int:
        """The number of whole milliseconds, truncated towards zero."""
        number = abs(self.nanos) // 1_000_000
        return -number if self.nanos < 0 else number


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment in nanoseconds since 1970, and the offset in seconds with which it was written."""

    nanos: int
    offset: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not _FIRST <= self.nanos // SECOND <= _LAST:
            raise EvaluationError("timestamp overflow")

    def __bool__(self) -> bool:
        # Go's zero time is the first moment.
        return self.nanos != _FIRST * SECOND

    def __str__(self) -> str:
        """Return it in the format of RFC 3339, in its own offset, without zeros at the end."""
        here = self.at(self.offset)
        text = (
            f"{here.year:04}-{here.month:02}-{here.day:02}"
            f"T{here.hour:02}:{here.minute:02}:{here.second:02}"
        )
        if here.nanosecond:
            text += f".{here.nanosecond:09}".rstrip("0")
        if not self.offset:
            return f"{text}Z"
        hours, minutes = divmod(abs(self.offset) // 60, 60)
        return f"{text}{'-' if self.offset < 0 else '+'}{hours:02}:{minutes:02}"

    def at(self, offset: int) -> CivilTime:
        """Return the date and time where clocks differ from UTC by so many seconds."""
        seconds, nanosecond = divmod(self.nanos, SECOND)
        days, second = divmod(seconds - _FIRST + offset, _DAY)
        # The offset may lead to the year 0 or 10,000, which Python's dates do not have.
        cycles, day = divmod(days, _CYCLE_DAYS)
        found = date.fromordinal(day + 1)
        first = date(found.year, 1, 1)
        return CivilTime(
            found.year + cycles * _CYCLE_YEARS,
            found.month,
            found.day,
            found.toordinal() - first.toordinal(),
            found.isoweekday() % 7,
            second // 3600,
            second // 60 % 60,
            second % 60,
            nanosecond,
        )


@dataclass(frozen=True, slots=True)
class CivilTime:
    """A date and a time of day; `year_day` counts from 0, `weekday` from Sunday, which is 0."""

    year: int
    month: int
    day: int
    year_day: int
    weekday: int
    hour: int
    minute: int
    second: int
    nanosecond: int


def parse_duration(text: str) -> Duration:
    """Return the duration, as in `1h30m` or `-1.5s`. Raises EvaluationError."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            raise _unreadable("Duration")
        at = part.end()
        whole, unit = part[1].lstrip("0"), _UNITS[part[3]]
        if len(whole) > _DIGITS:
            raise _unreadable("Duration")
        total += int(whole or "0") * unit + _fraction(part[2] or "", unit)
        if total > _LARGEST + 1:
            raise _unreadable("Duration")
    total = -total if text[:1] == "-" else total
    if not rest or total > _LARGEST:
        raise _unreadable("Duration")
    return Duration(total)


def _fraction(digits: str, unit: int) -> int:
    """Return this fraction of the unit: Go reads as many digits as fit, and truncates a double."""
    significant = digits.lstrip("0")
    zeros = len(digits) - len(significant)
    # With more zeros it is less than a nanosecond of the largest unit.
    if zeros > _DIGITS:
        return 0
    taken = significant[:_DIGITS]
    if len(taken) == _DIGITS and (int(taken[:-1]) > _LARGEST // 10 or int(taken) > _LARGEST + 1):
        taken = taken[:-1]
    return int(int(taken or "0") * (unit / 10.0 ** (zeros + len(taken))))


def parse_timestamp(text: str) -> Timestamp:
    """Return the timestamp of RFC 3339, as Go reads it. Raises EvaluationError."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise _unreadable("Timestamp")
    hour, minute, second = int(found[2]), int(found[3]), int(found[4])
    offset_hours, offset_minutes = int(found[7] or "0"), int(found[8] or "0")
    if hour > 23 or minute > 59 or second > 59 or offset_hours > 24 or offset_minutes > 60:
        raise _unreadable("Timestamp")
    offset = (offset_hours * 60 + offset_minutes) * 60 * (-1 if found[6] == "-" else 1)
    if found[1].startswith("0000"):
        raise EvaluationError("timestamp overflow")
    try:
        days = date.fromisoformat(found[1]).toordinal() - 1
    except ValueError:
        raise _unreadable("Timestamp") from None
    seconds = _FIRST + days * _DAY + hour * 3600 + minute * 60 + second - offset
    return Timestamp(seconds * SECOND + int((found[5] or "0")[:9].ljust(9, "0")), offset)


def offset_of(zone: str, moment: Timestamp) -> int:
    """Return the offset in seconds at this time, in a zone such as `Europe/Berlin` or `-07:30`.

    Raises EvaluationError.
    """
    hours, colon, minutes = zone.partition(":")
    if colon:
        east, more = _number(hours) * 60, _number(minutes)
        nanos = (east - more if zone.startswith("-") else east + more) * 60 * SECOND
        # Go's multiplication wraps around.
        wrapped = (nanos + _LARGEST + 1) % (1 << 64) - _LARGEST - 1
        return int(wrapped / SECOND)
    # A scheduler runs in UTC.
    if zone in ("", "UTC", "Local"):
        return 0
    if zone not in _zones():
        raise EvaluationError(f"unknown time zone {zone[:64]!r}")
    # Python has no local time before the year 1 and after 9999.
    seconds = min(max(moment.nanos // SECOND, _FIRST + 2 * _DAY), _LAST - 2 * _DAY)
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    offset = utc.astimezone(_zone(zone)).utcoffset() or timedelta()
    return round(offset.total_seconds())


# A selector may make up any number of names. Only those of this list are looked for in files.
@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())


@functools.cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


_NUMBER: Final = re.compile(r"([+-]?)0*+([0-9]{0,18})")


def _number(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None or not text[-1:].isdigit():
        raise EvaluationError("invalid syntax of a time zone")
    return int(f"{found[1]}{found[2] or 0}")


def _unreadable(wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to 'google.protobuf.{wanted}'")
