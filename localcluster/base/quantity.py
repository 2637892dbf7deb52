"""Parser and formatter of resource quantities, with the server's canonical form."""

import re
from decimal import Decimal
from functools import lru_cache

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+|Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|)\Z")
_BINARY = {
    suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_PATTERN = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
PROBLEM = f"quantities must match the regular expression {_PATTERN}"


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[Decimal, str]:
    found = _FORM.match(text)
    if not found:
        raise ValueError(PROBLEM)
    number, suffix = Decimal(found[1] + found[2]), found[3]
    if suffix in _BINARY:
        return number * _BINARY[suffix], "binary"
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix]), "decimal"
    try:
        return number.scaleb(int(suffix[1:])), "exponent"
    except ArithmeticError as error:  # beyond what any number can be
        raise ValueError(PROBLEM) from error


def parse(value: str | float) -> Decimal:
    """Return the number that a quantity represents. Raises ValueError."""
    return _split(str(value))[0]


@lru_cache(maxsize=4096)
def canonical(value: str | float) -> str:
    """Return the quantity in the server's canonical form: the largest suffix without a fraction.

    Raises ValueError.
    """
    number, form = _split(str(value))
    if form == "exponent":
        return str(value)
    if form == "binary" and number == number.to_integral_value() and abs(number) >= 1024:
        for suffix, factor in reversed(_BINARY.items()):
            if number % factor == 0:
                return f"{int(number) // factor}{suffix}"
        return str(int(number))
    for suffix, power in reversed(_DECIMAL.items()):
        scaled = number.scaleb(-power)
        if scaled == scaled.to_integral_value() and (number != 0 or not suffix):
            return f"{int(scaled)}{suffix}"
    return f"{int(number.scaleb(9)) + 1}n"
