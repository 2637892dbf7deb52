"""Durations in annotations, such as `min-run-time`, `preemption-delay` and `start-timeout`."""

import re
from typing import Any, Final

_DURATION: Final = re.compile(r"([0-9]{1,6})(s|m|h)")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}

TEXT: Final = (
    'must be a duration: an integer of at most 6 digits and a unit, s, m or h, such as "90s"'
)

POSITIVE_TEXT: Final = (
    "must be a duration above zero: an integer of at most 6 digits and a unit, s, m or h, such as "
    '"10m"'
)


def seconds(written: Any) -> float | None:
    """Return the annotation's value in seconds; None if it is no duration."""
    match = _DURATION.fullmatch(written) if isinstance(written, str) else None
    return float(match[1]) * _UNITS[match[2]] if match else None


def positive_seconds(written: Any) -> float | None:
    """Return the annotation's value in seconds; None if it is no duration, or zero."""
    return seconds(written) or None
