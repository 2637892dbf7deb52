"""Requirements on label values, as in node selectors, label selectors and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.model import Expression


def matches(expressions: Iterable[Expression], labels: Mapping[str, str]) -> bool:
    """Whether the labels match all expressions; without expressions, any labels match."""
    return all(matches_value(e, labels.get(e.key)) for e in expressions)


def matches_value(expression: Expression, value: str | None) -> bool:
    """Whether a value matches the expression; None means that the label is missing."""
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
    try:
        difference = int(left) - int(right)
    except ValueError:
        return False
    return difference > 0 if operator == "Gt" else operator == "Lt" and difference < 0
