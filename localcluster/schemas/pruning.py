"""Pruning: unspecified fields are dropped, as the API server does not store them."""

from __future__ import annotations

from typing import Any

from localcluster.schemas.schema import Schema

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def prune(obj: dict[str, Any], schema: Schema) -> list[str]:
    """Drop unknown fields of a complete object in place; return their paths, sorted.

    The object's own `apiVersion`, `kind` and `metadata` are always kept.
    """
    unknown: list[str] = []
    _prune_map(obj, schema, "", unknown, embedded=True)
    return sorted(unknown)


def _prune(value: Any, schema: Schema | None, path: str, unknown: list[str]) -> None:
    if isinstance(value, dict):
        _prune_map(value, schema, path, unknown, embedded=schema is not None and schema.embedded)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if schema is not None and schema.preserve_unknown and schema.items is None:
                continue
            below = schema.items if schema is not None else None
            _prune(item, below, f"{path}[{index}]", unknown)


def _prune_map(
    obj: dict[str, Any], schema: Schema | None, path: str, unknown: list[str], *, embedded: bool
) -> None:
    for key in list(obj):
        if embedded and key in META_FIELDS:
            continue
        here = f"{path}.{key}" if path else key
        below = schema.child(key) if schema is not None else None
        if below is not None:
            _prune(obj[key], below, here, unknown)
        elif schema is not None and schema.preserve_unknown:
            continue
        elif schema is not None and schema.additional is True:
            _prune(obj[key], None, here, unknown)
        else:
            del obj[key]
            unknown.append(here)
