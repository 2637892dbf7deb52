"""Requirements on label values, as in node selectors, label selectors and tolerations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.core.values.model import Expression

_INTEGER: Final = re.compile("[+-]?[0-9]+")
_MOST_DIGITS: Final = 64
"""Digits of an integer; labels are not longer, and leading zeros are allowed."""


def matches(expressions: Iterable[Expression], labels: Mapping[str, str]) -> bool:
    """Return True if the labels match all expressions; without expressions, any labels match."""
    return all(matches_value(e, labels.get(e.key)) for e in expressions)


def matches_value(expression: Expression, value: str | None) -> bool:
    """Return True if a value matches the expression; None means that the label is missing."""
    operator, wanted = expression.operator, expression.values
    if operator == "In":
        return value is not None and value in wanted
    if operator == "NotIn":
        return value is None or value not in wanted
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return value is not None and len(wanted) == 1 and compares(operator, value, wanted[0])


def compares(operator: str, left: str, right: str) -> bool:
    """Compare integers with Gt or Lt. As upstream, False if either value is not an integer."""
    one, other = integer(left), integer(right)
    if one is None or other is None:
        return False
    return one > other if operator == "Gt" else operator == "Lt" and one < other


def integer(text: str) -> int | None:
    """Return the text as an int64, as Go's ParseInt reads it; None if it is not one."""
    # The length first: Python takes quadratic time to read very long numbers.
    if len(text) > _MOST_DIGITS or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
