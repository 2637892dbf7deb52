"""Defaulting: set missing fields to their defaults, and drop nulls of non-nullable fields."""

from __future__ import annotations

import copy
from typing import Any

from localcluster.schemas.schema import UNSET, Schema


def default(value: Any, schema: Schema | None) -> None:
    """Drop nulls without a default, then set defaults in place."""
    _drop_nulls(value, schema)
    if schema is not None and schema.any_default:
        _fill(value, schema)


def _is_bare_null(value: Any, schema: Schema | None) -> bool:
    return value is None and schema is not None and not schema.nullable


def _drop_nulls(value: Any, schema: Schema | None) -> None:
    if schema is None:
        return
    if isinstance(value, dict):
        for key in list(value):
            below = schema.child(key)
            if below is None:
                continue
            if _is_bare_null(value[key], below) and below.default is UNSET:
                del value[key]
            else:
                _drop_nulls(value[key], below)
    elif isinstance(value, list):
        for item in value:
            _drop_nulls(item, schema.items)


def _filled(value: Any, schema: Schema | None) -> Any:
    if schema is not None and schema.default is not UNSET and _is_bare_null(value, schema):
        return copy.deepcopy(schema.default)
    return value


def _fill(value: Any, schema: Schema) -> None:
    if isinstance(value, dict):
        for key, below in schema.properties.items():
            if below.default is not UNSET and (
                key not in value or _is_bare_null(value[key], below)
            ):
                value[key] = copy.deepcopy(below.default)
        for key in value:
            nested = schema.child(key)
            if nested is not None and nested.any_default:
                value[key] = _filled(value[key], nested)
                _fill(value[key], nested)
    elif isinstance(value, list) and schema.items is not None and schema.items.any_default:
        for index, item in enumerate(value):
            value[index] = _filled(item, schema.items)
            _fill(value[index], schema.items)
