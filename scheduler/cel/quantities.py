"""Quantities in CEL: exact, in nano-units, with the corner cases of Kubernetes' own type."""

from __future__ import annotations

import functools
import re
from typing import Final

from scheduler.cel.errors import EvaluationError

NANO: Final = 10**9
"""Nano-units in one unit. A quantity has no finer ones."""

_SYNTAX: Final = re.compile(
    r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST: Final = 1024
"""Characters of a quantity. A longer text is none."""

_EXPONENT: Final = 1100
"""Largest exponent; larger ones are cut off. No quantity that an API server stores comes near."""

_LARGEST: Final = 2**63 - 1
_DIGITS: Final = 18
"""Number of digits that Kubernetes reads as an int64. With more, a number is an `inf.Dec`."""


@functools.total_ordering
class Quantity:
    """An amount in nano-units. `integer` is the result of asInteger(), None if that fails."""

    __slots__ = ("integer", "nano")

    def __init__(self, nano: int, integer: int | None) -> None:
        self.nano = nano
        self.integer = integer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def plus(self, other: Quantity, sign: int = 1) -> Quantity:
        """Return the sum, or the difference if `sign` is -1."""
        # Kubernetes adds int64 values if both are; after an overflow asInteger() fails for good.
        integer = None
        if self.integer is not None and other.integer is not None:
            integer = self.integer + sign * other.integer
            if not -_LARGEST - 1 <= integer <= _LARGEST:
                integer = None
        return Quantity(self.nano + sign * other.nano, integer)


def from_nano(nano: int) -> Quantity:
    """Return a capacity as an API server stores it: in its shortest form."""
    # In its canonical form, a full number of units has no fraction or smaller suffix.
    whole, rest = divmod(nano, NANO)
    return Quantity(nano, whole if not rest and abs(whole) < 10**_DIGITS else None)


@functools.lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Quantity:
    """Parse a text and round it away from zero to nano-units. Raises EvaluationError if invalid."""
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[2] or match[4]):
        raise EvaluationError(f"not a quantity: {text[:64]!r}")
    sign, whole, _, fraction, suffix, exponent = match.groups()
    whole, fraction = whole.lstrip("0"), fraction or ""
    digits = int(whole + fraction or "0")
    power = _power(suffix, exponent)
    shift = _BINARY.get(suffix or "", 0)
    nano = _scaled(digits << shift, power + 9 - len(fraction))
    if shift:
        # Kubernetes caps amounts with a binary suffix at the largest int64, and no others.
        nano = min(nano, _LARGEST * NANO)
    if not _is_short(whole, fraction, power, shift):
        integer = None
    else:
        integer = _scaled(digits << shift, power)
        integer = integer if integer <= _LARGEST else None
    if sign == "-":
        return Quantity(-nano, None if integer is None else -integer)
    return Quantity(nano, integer)


def _power(suffix: str | None, exponent: str | None) -> int:
    if exponent is not None:
        # First the slice: int() of 1,000 digits would be slow, and a number of that size slower.
        return max(-_EXPONENT, min(_EXPONENT, int(exponent[:8])))
    return _DECIMAL.get(suffix or "", 0)


def _scaled(digits: int, power: int) -> int:
    # The sign is applied later, so rounding up is rounding away from zero.
    scaled: int = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    return scaled


def _is_short(whole: str, fraction: str, power: int, shift: int) -> bool:
    """True if Kubernetes keeps it as an int64 with a scale that is not negative."""
    if fraction:
        return not shift and power >= len(fraction) and len(whole + fraction) <= _DIGITS
    if shift:
        return len(whole) + int(shift * 3 / 10) + 1 <= 15
    return power >= 0 and len(whole) <= _DIGITS
