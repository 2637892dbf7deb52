"""Reads of raw JSON that may have any structure.

Mutating webhooks run before the API server has checked an object against its schema, so no type is
certain. Validating webhooks must report a wrong type, and not fail on it.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from api import causes
from api.causes import Cause

T = TypeVar("T")

_INT32: Final = range(-(2**31), 2**31)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one."""
    # Nearly all values are dicts or absent, and a check of an abstract class is ten times as slow.
    if value is None:
        return {}
    return value if isinstance(value, (dict, Mapping)) else {}


def listing(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: Any) -> int | None:
    """Return the value if it is a whole number (no JSON boolean), else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: Any, unset: int) -> int:
    """Return the value if it is a whole number, at least 0; `unset` if it is none."""
    found = integer(value)
    return unset if found is None else max(0, found)


def dig(value: Any, *keys: str) -> Any:
    """Return the value under nested keys, None if one is missing."""
    for key in keys:
        if value is None:
            return None
        value = mapping(value).get(key)
    return value


def annotations_of(obj: Any) -> Mapping[str, Any]:
    """Return `metadata.annotations` of an object or a template."""
    return mapping(dig(obj, "metadata", "annotations"))


def labels_of(obj: Any) -> Mapping[str, Any]:
    """Return `metadata.labels` of an object or a template."""
    return mapping(dig(obj, "metadata", "labels"))


def mappings(value: Any, *keys: str) -> list[Mapping[str, Any]]:
    """Return the list of objects under nested keys; other elements read as empty objects."""
    return [mapping(item) for item in listing(dig(value, *keys))]


def controller_of(obj: Any) -> Mapping[str, Any]:
    """Return the owner reference of the object's controller; empty if it has none."""
    references = mappings(obj, "metadata", "ownerReferences")
    return next((it for it in references if it.get("controller") is True), {})


def condition_of(obj: Any, *types: str) -> Mapping[str, Any]:
    """Return the first condition of one of these types; empty if there is none."""
    conditions = mappings(obj, "status", "conditions")
    return next((it for it in conditions if it.get("type") in types), {})


def is_true(obj: Any, *types: str) -> bool:
    """Return true if a condition of one of these types has the status True."""
    conditions = mappings(obj, "status", "conditions")
    return any(it.get("type") in types and it.get("status") == "True" for it in conditions)


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are strings."""
    return {key: value for key, value in values.items() if isinstance(value, str)}


class Reader:
    """A reader of fields for the rules that reports every value of a wrong type.

    An absent field, or one that is null, reads as empty without a fault. A rule checks whether it
    is required.
    """

    def __init__(self, report: list[Cause]) -> None:
        self.report = report

    def mapping(self, parent: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
        """Return an object field, empty if absent."""
        value = parent.get(key)
        if value is None or isinstance(value, (dict, Mapping)):
            return value or {}
        return self._wrong({}, path, value, "an object")

    def items(self, parent: Mapping[str, Any], key: str, path: str) -> list[Mapping[str, Any]]:
        """Return a list of objects, empty if absent; other elements read as empty objects."""
        value = parent.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            return self._wrong([], path, value, "a list")
        return [
            item
            if isinstance(item, (dict, Mapping))
            else self._wrong({}, f"{path}[{at}]", item, "an object")
            for at, item in enumerate(value)
        ]

    def text(self, parent: Mapping[str, Any], key: str, path: str) -> str:
        """Return a string field, empty if absent."""
        value = parent.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        return self._wrong("", path, value, "a string")

    def integer(self, parent: Mapping[str, Any], key: str, path: str) -> int | None:
        """Return an int32 field, None if absent."""
        value = parent.get(key)
        if value is None:
            return None
        number = integer(value)
        if number is None or number not in _INT32:
            return self._wrong(None, path, value, "a 32-bit integer")
        return number

    def _wrong(self, instead: T, path: str, value: Any, wanted: str) -> T:
        self.report.append(causes.type_invalid(path, value, wanted))
        return instead
