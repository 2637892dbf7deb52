"""Uniqueness in lists that are declared sets or maps (x-kubernetes-list-type)."""

from __future__ import annotations

import json
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import duplicate, invalid
from localcluster.schemas.schema import Schema


def check_lists(value: Any, schema: Schema | None, path: str = "") -> list[Cause]:
    """Return an error for the first duplicate of every value or key that must be unique."""
    if schema is None or not schema.any_list:
        return []
    causes: list[Cause] = []
    if isinstance(value, dict):
        for key, entry in value.items():
            causes += check_lists(entry, schema.child(key), _below(path, key, schema))
    elif isinstance(value, list):
        if schema.list_type == "set":
            causes += [duplicate(f"{path}[{at}]", value[at]) for at in _repeated(value)]
        elif schema.list_type == "map":
            causes += _check_keys(value, schema, path)
        for index, item in enumerate(value):
            causes += check_lists(item, schema.items, f"{path}[{index}]")
    return causes


def _below(path: str, key: str, schema: Schema) -> str:
    if key not in schema.properties:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _repeated(values: list[Any]) -> list[int]:
    """Return the indexes at which a value occurs for the second time."""
    counts: dict[str, int] = {}
    found = []
    for index, value in enumerate(values):
        text = json.dumps(value, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            found.append(index)
    return found


def _check_keys(items: list[Any], schema: Schema, path: str) -> list[Cause]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            detail = "must be an object for an array of list-type map"
            return [invalid(f"{path}[{index}]", item, detail)]
    keys = [{name: item[name] for name in schema.list_map_keys if name in item} if item else {}
            for item in items]  # fmt: skip
    return [duplicate(f"{path}[{at}]", keys[at]) for at in _repeated(keys)]
