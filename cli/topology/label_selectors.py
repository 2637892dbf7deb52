"""Label selectors (metav1.LabelSelector) as raw JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.reading import listing, mapping, mappings, text


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return True if the selector matches the labels; an empty one matches any."""
    wanted = mapping(selector.get("matchLabels"))
    expressions = mappings(selector, "matchExpressions")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(one, labels) for one in expressions
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    value, values = labels.get(text(expression.get("key"))), listing(expression.get("values"))
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
