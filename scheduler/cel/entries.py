"""Lookup of entries in maps, lists and optional values."""

from __future__ import annotations

from typing import Final

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.values import (
    NONE,
    Domains,
    Maybe,
    UInt,
    Value,
    is_key,
    is_number,
    key_of,
    type_name,
)


def find(target: Value, key: Value) -> Maybe:
    """Return the entry of a map or list, or none if it is missing. Raises EvaluationError."""
    if isinstance(target, dict):
        # As in kube-scheduler: a bool or fraction finds no entry; other types but keys are errors.
        if isinstance(key, (bool, float)) and not is_key(key):
            return NONE
        key = key_of(key)
        if key in target:
            return Maybe(target[key])
        # A device may lack a domain that an expression names; only a missing id in it is an error.
        return Maybe({}) if isinstance(target, Domains) else NONE
    if isinstance(target, list):
        at = _position(key)
        return Maybe(target[at]) if 0 <= at < len(target) else NONE
    raise no_overload()


def _position(key: Value) -> int:
    if not is_number(key) or key != key // 1:
        raise no_overload()
    return int(key)


def get(target: Value, key: Value) -> Value:
    """Return the entry, as an optional value if the target is optional. Raises EvaluationError."""
    if isinstance(target, Maybe):
        return get_optional(target, key)
    found = find(target, key)
    if not found.present:
        what = "index out of bounds" if isinstance(target, list) else "no such key"
        raise EvaluationError(f"{what}: {key}")
    return found.value


_QUALIFIERS: Final = (str, bool, int, UInt, float)


def get_optional(target: Value, key: Value) -> Maybe:
    """Return the entry as an optional value, none if it is missing. Raises EvaluationError."""
    if isinstance(target, Maybe):
        if not target.present:
            return NONE
        target = target.value
    if type(key) not in _QUALIFIERS:
        raise EvaluationError(f"invalid qualifier type: {type_name(key)}")
    return find(target, key) if isinstance(target, (dict, list)) else NONE


def has(target: Value, name: str) -> bool:
    """Evaluate `has(target.name)`. Raises EvaluationError."""
    if isinstance(target, list):
        raise no_overload()
    return get_optional(target, name).present
