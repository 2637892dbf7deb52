"""Times and amounts in the formats that people use."""

from __future__ import annotations

import itertools
import math
import re
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhdw])")

LONGEST: Final = 100 * 366 * 86400.0
"""Seconds of the longest time that is accepted: a hundred years."""


def seconds_of(written: str | float) -> float:
    """Parse a number of seconds, or a duration such as "90s" or "1d12h". Raises ValueError."""
    text = str(written).strip()
    try:
        value = float(text)
    except ValueError:
        parts = list(_PART.finditer(text))
        if not parts or "".join(part[0] for part in parts) != text:
            raise ValueError(
                f'{text[:40]!r} is not a duration: use seconds, or a text such as "90s" or "1d12h"'
            ) from None
        value = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    if not (math.isfinite(value) and 0 <= value <= LONGEST):
        raise ValueError(f"{text[:40]!r} must be between 0 and 100 years")
    return value


def text_of_seconds(seconds: float) -> str:
    """Return a duration in its two largest units, as in "2h 5m"; "0s" for none."""
    left = round(seconds)
    if left < 1:
        return f"{seconds:.1f}s" if seconds >= 0.05 else "0s"
    units = [(unit, size) for unit, size in _UNITS.items() if unit != "w"]
    for (smaller, least), (unit, size) in reversed(list(itertools.pairwise(units))):
        if left >= size:
            rest = left % size // least
            return f"{left // size}{unit}" + (f" {rest}{smaller}" if rest else "")
    return f"{left}s"


def text_of_amount(resource: str, amount: int) -> str:
    """Return an amount in the decision core's units as a quantity of Kubernetes."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource == "memory" or resource.endswith("storage"):
        for suffix, shift in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{suffix}"
    return str(amount)
