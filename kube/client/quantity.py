"""Kubernetes quantities as integers: exact, rounded up, and within an int64.

`1500m` of CPU is 1500 thousandths, `1Ki` of memory 1024 bytes. Results are stored in int64 columns,
so, as in Kubernetes, larger values are cut off at 2**63-1.
"""

import re
from functools import lru_cache

MAX_INT64 = 2**63 - 1

_SYNTAX = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_EXPONENT = 40
"""Exponents of a quantity beyond this count as this."""

_MAX_LENGTH = 256
"""Characters of a quantity. A longer one is invalid."""


class QuantityError(ValueError):
    """The text is not a quantity."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not a quantity: {text!r}")
        self.text = text


def parse_milli(quantity: str | int) -> int:
    """Return the quantity in thousandths (CPU), rounded away from zero. Raises QuantityError."""
    return _parse(str(quantity), 3)


def parse_value(quantity: str | int) -> int:
    """Return whole units (bytes, counts), rounded away from zero. Raises QuantityError."""
    return _parse(str(quantity), 0)


@lru_cache(maxsize=4096)
def _parse(text: str, scale: int) -> int:
    # An API server writes far fewer characters; Python refuses to read thousands of digits.
    match = _SYNTAX.fullmatch(text[:_MAX_LENGTH])
    if match is None or len(text) > _MAX_LENGTH:
        raise QuantityError(text)
    sign, number, suffix, exponent = match.groups()
    whole, _, fraction = number.partition(".")
    digits = int(whole + fraction or "0")
    power = scale - len(fraction) + _DECIMAL.get(suffix, 0)
    if exponent is not None:
        # Far beyond int64 either way; bounded so that a hostile exponent costs nothing.
        power += max(-_MAX_EXPONENT, min(_MAX_EXPONENT, int(exponent)))
    digits <<= _BINARY.get(suffix, 0)
    value: int = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    value = min(value, MAX_INT64)
    return -value if sign == "-" else value
