"""What can go wrong with a selector."""

from __future__ import annotations


class SelectorError(Exception):
    """A selector cannot be compiled, or fails on a device; the text is for users."""


class EvaluationError(Exception):
    """One operation fails. `&&` and `||` pass over it where the other side decides."""


class CostExceededError(Exception):
    """The evaluation costs more than is allowed. Nothing passes over it."""


class PostponedError(Exception):
    """What selectors may cost in this decision is used up; what was judged stays known."""


NO_OVERLOAD = "no such overload"


def no_overload(function: str = "") -> EvaluationError:
    """The operation is not defined for values of these types."""
    return EvaluationError(f"{NO_OVERLOAD}: {function}" if function else NO_OVERLOAD)
