"""Errors of selectors."""

from __future__ import annotations


class SelectorError(Exception):
    """A selector that does not compile, or fails on a device. The text is for users."""


class CostlySelectorError(SelectorError):
    """A selector whose evaluation on one device costs more than Muster allows."""


class EvaluationError(Exception):
    """The failure of one operation. `&&` and `||` ignore it where the other side decides."""


class CostExceededError(Exception):
    """The evaluation costs more than is allowed. No operator ignores it."""


class CostExhaustedError(Exception):
    """The decision has used up its cost of selectors. Verdicts so far are kept."""


NO_OVERLOAD = "no such overload"


def no_overload(function: str = "") -> EvaluationError:
    """Return the error of an operation that is not defined for values of these types."""
    return EvaluationError(f"{NO_OVERLOAD}: {function}" if function else NO_OVERLOAD)
