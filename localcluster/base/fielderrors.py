"""One fault of one field, in the words and reasons that the API server uses."""

import json
from collections.abc import Sequence
from typing import Any, Final

from localcluster.base.errors import Cause


class Omitted:
    """Stands for a value that a message leaves out."""


OMITTED: Final = Omitted()


def go_number(value: float) -> str:
    """Write a number as Go's %v does: integral floats without a fraction, 1e+21 and up with one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def render(value: object) -> str:
    """Write a bad value as a message shows it: strings quoted, objects and lists as JSON."""
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
    """The field must be given."""
    return Cause(path, "FieldValueRequired", _with_detail("Required value", detail))


def invalid(path: str, value: object, detail: str) -> Cause:
    """The value is of the right type, but wrong."""
    return Cause(path, "FieldValueInvalid", _with_value("Invalid value", value, detail))


def type_invalid(path: str, value: object, detail: str) -> Cause:
    """The value is of the wrong JSON type."""
    return Cause(path, "FieldValueTypeInvalid", _with_value("Invalid value", value, detail))


def forbidden(path: str, detail: str) -> Cause:
    """The field may not be set here."""
    return Cause(path, "FieldValueForbidden", _with_detail("Forbidden", detail))


def duplicate(path: str, value: object) -> Cause:
    """The value occurs twice where it must be unique."""
    return Cause(path, "FieldValueDuplicate", _with_value("Duplicate value", value, ""))


def not_supported(path: str, value: object, supported: Sequence[Any]) -> Cause:
    """The value is none of an enumeration."""
    names = ", ".join(json.dumps(v if isinstance(v, str) else render(v)) for v in supported)
    detail = f"supported values: {names}" if supported else ""
    return Cause(path, "FieldValueNotSupported", _with_value("Unsupported value", value, detail))


def not_found(path: str, value: object, detail: str) -> Cause:
    """The value names something that is not there."""
    return Cause(path, "FieldValueNotFound", _with_value("Not found", value, detail))


def too_long(path: str, most: int) -> Cause:
    """The string is longer than `most` characters."""
    unit = "byte" if most == 1 else "bytes"
    return Cause(path, "FieldValueTooLong", f"Too long: may not be more than {most} {unit}")


def too_many(path: str, actual: int, most: int) -> Cause:
    """The list or map holds more than `most` entries."""
    unit = "item" if most == 1 else "items"
    return Cause(path, "FieldValueTooMany", f"Too many: {actual}: must have at most {most} {unit}")
