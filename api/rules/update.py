"""Mutable fields after creation: minCount, minGroupCount, expectedPods, and a late template.

The late template is KEP-5832's. expectedPods follow an owner that is scaled.
"""

from collections.abc import Mapping
from typing import Any, Final

from api import inherit
from api.causes import Cause
from api.rules import table

_MUTABLE: Final = frozenset({"minCount", "minGroupCount"})
_MUTABLE_FIELDS: Final = frozenset({"expectedPods"})


def check_update(
    old: Mapping[str, Any], new: Mapping[str, Any], template: Mapping[str, Any] | None
) -> list[Cause]:
    """Return a cause for every immutable field that differs between two specs.

    Setting a field later and unsetting it are changes. `template` is the live template that a
    PodGroup names and may take its values from; None if there is none.
    """
    filled = inherit.filled_fields(old, new, template)
    return [
        table.IMMUTABLE.at(f"spec.{key}", new.get(key))
        for key in sorted(old.keys() | new.keys())
        if key not in filled | _MUTABLE_FIELDS and _frozen(old.get(key)) != _frozen(new.get(key))
    ]


def _frozen(value: Any) -> Any:
    """Return the immutable part of a value; null counts as absent."""
    if isinstance(value, Mapping):
        return {
            key: _frozen_gang(item) if key == "gang" else _frozen(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_frozen(item) for item in value]
    return value


def _frozen_gang(gang: Any) -> Any:
    if not isinstance(gang, Mapping):
        return gang
    return {key: value for key, value in gang.items() if key not in _MUTABLE}
