"""Validation of values against a schema, with the API server's paths, reasons and messages.

Unchanged parts of an updated object are not checked (ratcheting): an object stored before its
schema became stricter can still be changed elsewhere.
"""

from __future__ import annotations

import json
import math
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import (
    go_number,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from localcluster.schemas.patterns import string_format
from localcluster.schemas.schema import UNSET, Schema


def validate(value: Any, schema: Schema, path: str = "", old: Any = UNSET) -> list[Cause]:
    """Return every violation below `path`; `old` is the stored value, or UNSET on creation."""
    if old is not UNSET and same(old, value):
        return []
    causes = _check_type(value, schema, path)
    if value is None:
        return causes + _check_enum(value, schema, path)
    causes += _check_combinations(value, schema, path)
    if isinstance(value, str):
        causes += _check_string(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        causes += _check_number(value, schema, path)
    elif isinstance(value, list):
        causes += _check_list(value, schema, path, old)
    causes += _check_enum(value, schema, path)
    if isinstance(value, dict):
        causes += _check_map(value, schema, path, old)
    return causes


def same(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal; a bool never equals a number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def json_type(value: Any) -> str:
    """Return the JSON type of a value, as error messages name it."""
    if isinstance(value, float):
        return "number"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    return names.get(type(value), "null")


def _field(path: str) -> str:
    return path.removeprefix(".") or "<nil>"


def _check_type(value: Any, schema: Schema, path: str) -> list[Cause]:
    wanted = ("integer", "string") if schema.int_or_string else (schema.type,)
    if not wanted[0] or (value is None and schema.nullable):
        return []
    found = json_type(value)
    if found in wanted or _fits_number(value, found, wanted):
        return []
    detail = f'{path} in body must be of type {",".join(wanted)}: "{found}"'
    return [type_invalid(_field(path), found, detail)]


def _fits_number(value: Any, found: str, wanted: tuple[str, ...]) -> bool:
    if found == "integer":
        return "number" in wanted
    return found == "number" and "integer" in wanted and float(value).is_integer()


def _check_enum(value: Any, schema: Schema, path: str) -> list[Cause]:
    if schema.enum is None or any(same(value, one) for one in schema.enum):
        return []
    if value is None and schema.nullable:
        return []
    return [not_supported(_field(path), value, schema.enum)]


def _check_string(value: str, schema: Schema, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if schema.max_length is not None and len(value) > schema.max_length:
        causes.append(too_long(_field(path), schema.max_length))
    elif schema.min_length is not None and len(value) < schema.min_length:
        detail = f"{path} in body should be at least {schema.min_length} chars long"
        causes.append(invalid(_field(path), value, detail))
    elif schema.pattern is not None and not schema.pattern.found_in(value):
        detail = f"{path} in body should match '{schema.pattern.text}'"
        causes.append(invalid(_field(path), value, detail))
    check = string_format(schema.format) if schema.format else None
    if check is not None and not check(value):
        detail = f"{path} in body must be of type {schema.format}: {json.dumps(value)}"
        causes.append(type_invalid(_field(path), value, detail))
    return causes


def _check_number(value: float, schema: Schema, path: str) -> list[Cause]:
    causes = _check_integer(value, schema, path)

    def breach(words: str, bound: float) -> None:
        detail = f"{path} in body should be {words} {go_number(bound)}"
        causes.append(invalid(_field(path), value, detail))

    if schema.multiple_of is not None and not _is_multiple(value, schema.multiple_of):
        breach("a multiple of", schema.multiple_of)
    if schema.minimum is not None:
        if schema.exclusive_minimum and value <= schema.minimum:
            breach("greater than", schema.minimum)
        elif value < schema.minimum:
            breach("greater than or equal to", schema.minimum)
    if schema.maximum is not None:
        if schema.exclusive_maximum and value >= schema.maximum:
            breach("less than", schema.maximum)
        elif value > schema.maximum:
            breach("less than or equal to", schema.maximum)
    return causes


def _check_integer(value: float, schema: Schema, path: str) -> list[Cause]:
    """Check a number's range by its type and format; the error names no field."""
    if schema.type != "integer":
        return []
    bits = 31 if schema.format == "int32" else 63
    if float(value).is_integer() and -(2**bits) <= value < 2**bits:
        return []
    words = f"with format {schema.format}" if schema.format else "(default format)"
    detail = f"Checked value must be of type integer {words} in {path}"
    return [invalid("<nil>", "", detail)]


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and float(factor).is_integer():
        return value % int(factor) == 0
    quotient = value / factor if factor >= 1 else 1 / factor * value
    return math.isclose(quotient, round(quotient), rel_tol=1e-9, abs_tol=1e-9)


def _check_list(value: list[Any], schema: Schema, path: str, old: Any) -> list[Cause]:
    causes: list[Cause] = []
    if schema.items is not None:
        before = _correlate(schema, old)
        for index, item in enumerate(value):
            earlier = before.get(map_key(schema, item), UNSET)
            causes += validate(item, schema.items, f"{path}[{index}]", earlier)
    if schema.min_items is not None and len(value) < schema.min_items:
        detail = f"{path} in body should have at least {schema.min_items} items"
        causes.append(invalid(_field(path), len(value), detail))
    if schema.max_items is not None and len(value) > schema.max_items:
        causes.append(too_many(_field(path), len(value), schema.max_items))
    if schema.unique_items and any(
        same(one, other) for at, one in enumerate(value) for other in value[:at]
    ):
        detail = f"{path} in body shouldn't contain duplicates"
        causes.append(invalid(_field(path), "", detail))
    return causes


def map_key(schema: Schema, item: Any) -> str:
    """Return the key of a list-map item as text; "" for an item that has none."""
    if schema.list_type != "map" or not isinstance(item, dict):
        return ""
    return json.dumps([item.get(name) for name in schema.list_map_keys])


def _correlate(schema: Schema, old: Any) -> dict[str, Any]:
    if schema.list_type != "map" or not isinstance(old, list):
        return {}
    return {map_key(schema, item): item for item in old if isinstance(item, dict)}


def _check_map(value: dict[str, Any], schema: Schema, path: str, old: Any) -> list[Cause]:
    causes: list[Cause] = []
    if schema.min_properties is not None and len(value) < schema.min_properties:
        detail = f"{path} in body should have at least {schema.min_properties} properties"
        causes.append(invalid(_field(path), len(value), detail))
    if schema.max_properties is not None and len(value) > schema.max_properties:
        causes.append(too_many(_field(path), len(value), schema.max_properties))
    for key, entry in value.items():
        below = schema.child(key)
        if below is not None:
            earlier = old.get(key, UNSET) if isinstance(old, dict) else UNSET
            inside = key if not path and key in schema.properties else f"{path}.{key}"
            causes += validate(entry, below, inside, earlier)
    for key in schema.required:
        if key not in value:
            causes.append(required(_field(f"{path}.{key}")))
    return causes


def _check_combinations(value: Any, schema: Schema, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if schema.any_of:
        causes += _any_of(value, schema, path)
    if schema.one_of:
        causes += _one_of(value, schema, path)
    if schema.all_of:
        results = [validate(value, one, path) for one in schema.all_of]
        causes += [cause for result in results for cause in result]
        failed = sum(1 for result in results if result)
        if failed:
            none = ". None validated" if failed == len(results) else ""
            causes.append(_composite(f'"{path}" must validate all the schemas (allOf){none}'))
    if schema.negated is not None and not validate(value, schema.negated, path):
        causes.append(_composite(f'"{path}" must not validate the schema (not)'))
    return causes


def _any_of(value: Any, schema: Schema, path: str) -> list[Cause]:
    results = [validate(value, one, path) for one in schema.any_of]
    if not all(results):
        return []
    words = f'"{path}" must validate at least one schema (anyOf)'
    return [_composite(words), *results[0]]


def _one_of(value: Any, schema: Schema, path: str) -> list[Cause]:
    results = [validate(value, one, path) for one in schema.one_of]
    right = sum(1 for result in results if not result)
    if right == 1:
        return []
    found = f"Found {right} valid alternatives" if right else "Found none valid"
    words = f'"{path}" must validate one and only one schema (oneOf). {found}'
    return [_composite(words), *(results[0] if not right else [])]


def _composite(words: str) -> Cause:
    return invalid("<nil>", "", words)
