"""CEL's functions of durations and timestamps, in UTC unless a time zone is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.cel.errors import no_overload
from scheduler.cel.evaluation import EvaluationFrame, Function, Functions
from scheduler.cel.operators import tenths
from scheduler.cel.times import (
    SECOND,
    CivilTime,
    Duration,
    Timestamp,
    offset_of,
    parse_duration,
    parse_timestamp,
)
from scheduler.cel.values import Value, type_name


def _duration(frame: EvaluationFrame, value: Value) -> Value:
    if isinstance(value, str):
        # For each character, not for ten: each two of them may be a part to add.
        frame.charge(max(1, len(value)))
        return parse_duration(value)
    frame.charge(1)
    if isinstance(value, Duration):
        return value
    raise no_overload(f"duration({type_name(value)})")


def _timestamp(frame: EvaluationFrame, value: Value) -> Value:
    if isinstance(value, str):
        frame.charge(max(1, tenths(len(value))))
        return parse_timestamp(value)
    frame.charge(1)
    # Not isinstance: a bool and a uint are ints in Python.
    if type(value) is int:
        return Timestamp(value * SECOND)
    if isinstance(value, Timestamp):
        return value
    raise no_overload(f"timestamp({type_name(value)})")


def _part(
    name: str,
    read: Callable[[CivilTime], int],
    measure: Callable[[Duration], int] | None = None,
) -> Function:
    """Return the function that reads a part of a timestamp, or measures a duration."""

    def evaluate(frame: EvaluationFrame, value: Value, *zones: Value) -> Value:
        frame.charge(1)
        if isinstance(value, Duration) and measure is not None and not zones:
            return measure(value)
        if not isinstance(value, Timestamp) or not all(isinstance(each, str) for each in zones):
            raise no_overload(f"{name}({type_name(value)})")
        return read(value.at(offset_of(zones[0], value) if zones else 0))

    return evaluate


FUNCTIONS: Final[Functions] = {
    ("duration", False): (1, 1, _duration),
    ("timestamp", False): (1, 1, _timestamp),
    **{
        (name, True): (1, 2, _part(name, *how))
        for name, *how in (
            ("getFullYear", lambda it: it.year),
            ("getMonth", lambda it: it.month - 1),
            ("getDayOfYear", lambda it: it.year_day),
            ("getDayOfMonth", lambda it: it.day - 1),
            ("getDate", lambda it: it.day),
            ("getDayOfWeek", lambda it: it.weekday),
            ("getHours", lambda it: it.hour, lambda it: it.whole(3600 * SECOND)),
            ("getMinutes", lambda it: it.minute, lambda it: it.whole(60 * SECOND)),
            ("getSeconds", lambda it: it.second, lambda it: it.whole(SECOND)),
            (
                "getMilliseconds",
                lambda it: it.nanosecond // 1_000_000,
                lambda it: it.milliseconds,
            ),
        )
    },
}
