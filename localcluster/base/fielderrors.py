"""Field errors, with the messages and reasons of the API server."""

import json
from collections.abc import Sequence
from typing import Any, Final

from localcluster.base.errors import Cause


class Omitted:
    """Sentinel for a value that the message omits."""


OMITTED: Final = Omitted()


def go_number(value: float) -> str:
    """Format a number as Go's %v does: integral floats below 1e21 without a fraction."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def render(value: object) -> str:
    """Format an invalid value for a message: strings quoted, objects and lists as JSON."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return go_number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _with_value(kind: str, value: object, detail: str) -> str:
    head = kind if isinstance(value, Omitted) else f"{kind}: {render(value)}"
    return f"{head}: {detail}" if detail else head


def _with_detail(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def required(path: str, detail: str = "") -> Cause:
    """Return the error for a required field that is missing."""
    return Cause(path, "FieldValueRequired", _with_detail("Required value", detail))


def invalid(path: str, value: object, detail: str) -> Cause:
    """Return the error for a value that has the right type but is invalid."""
    return Cause(path, "FieldValueInvalid", _with_value("Invalid value", value, detail))


def type_invalid(path: str, value: object, detail: str) -> Cause:
    """Return the error for a value of the wrong JSON type."""
    return Cause(path, "FieldValueTypeInvalid", _with_value("Invalid value", value, detail))


def forbidden(path: str, detail: str) -> Cause:
    """Return the error for a field that may not be set here."""
    return Cause(path, "FieldValueForbidden", _with_detail("Forbidden", detail))


def duplicate(path: str, value: object) -> Cause:
    """Return the error for a value that occurs twice where it must be unique."""
    return Cause(path, "FieldValueDuplicate", _with_value("Duplicate value", value, ""))


def not_supported(path: str, value: object, supported: Sequence[Any]) -> Cause:
    """Return the error for a value that is not in the enumeration."""
    names = ", ".join(json.dumps(v if isinstance(v, str) else render(v)) for v in supported)
    detail = f"supported values: {names}" if supported else ""
    return Cause(path, "FieldValueNotSupported", _with_value("Unsupported value", value, detail))


def not_found(path: str, value: object, detail: str) -> Cause:
    """Return the error for a reference to something that does not exist."""
    return Cause(path, "FieldValueNotFound", _with_value("Not found", value, detail))


def too_long(path: str, most: int) -> Cause:
    """Return the error for a string longer than `most` characters."""
    unit = "byte" if most == 1 else "bytes"
    return Cause(path, "FieldValueTooLong", f"Too long: may not be more than {most} {unit}")


def too_many(path: str, actual: int, most: int) -> Cause:
    """Return the error for a list or map with more than `most` entries."""
    unit = "item" if most == 1 else "items"
    return Cause(path, "FieldValueTooMany", f"Too many: {actual}: must have at most {most} {unit}")
