"""CEL values, as far as devices and their selectors need them.

bool, int, str, bytes, float, list, dict and None are Python's. Keys of maps are numbers or texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.quantities import Quantity
from scheduler.cel.times import Duration, Timestamp
from scheduler.cel.versions import Version

LARGEST: Final = 2**63 - 1
"""The largest int."""

MOST: Final = 2**64 - 1
"""The largest uint."""

Value = Any
"""Any of the types in this module. Operations check the type themselves."""


# A type of its own: 1u == 1 is true in CEL, but 1u + 1 is an error.
class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


# Not filled in advance: an expression may name any domain.
class Domains(dict[str, Value]):
    """A map by domain. A missing domain reads as an empty map, but `in` does not find it."""

    __slots__ = ()


class Maybe:
    """An optional value."""

    __slots__ = ("_value", "present")

    def __init__(self, value: Value = None, *, present: bool = True) -> None:
        self.present = present
        self._value = value

    @property
    def value(self) -> Value:
        """The value. Raises EvaluationError if there is none."""
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self._value


NONE: Final = Maybe(present=False)


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value."""

    name: str


TYPES: Final[Mapping[str, Type]] = {
    name: Type(name)
    for name in (
        *("bool", "int", "uint", "double", "string", "bytes"),
        *("list", "map", "null_type", "type"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    )
}
"""The types that expressions can name."""

_NAMES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Domains: "map",
    type(None): "null_type",
    Type: "type",
    Maybe: "optional_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Quantity: "kubernetes.Quantity",
    Version: "kubernetes.Semver",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
}

_NUMBERS: Final = (int, UInt, float)
_ORDERED: Final = (str, bytes, bool, Duration, Timestamp)
_OPAQUE: Final = ("kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR")


def type_name(value: Value) -> str:
    """Return CEL's name of the value's type."""
    return _NAMES[type(value)]


def is_number(value: Value) -> bool:
    """True for an int, uint or double."""
    # Not isinstance: a bool is an int in Python, and no number in CEL.
    return type(value) in _NUMBERS


def size_of(value: Value) -> int:
    """Return the size by which operations charge: 1 for all but texts, bytes, lists and maps."""
    if isinstance(value, Maybe) and value.present:
        value = value.value
    return len(value) if isinstance(value, (str, bytes, list, dict)) else 1


def equal(one: Value, other: Value) -> bool:
    """Evaluate `one == other`. Raises EvaluationError where CEL defines no result."""
    if one is None or other is None:
        return one is None and other is None
    # CEL compares numbers by value across types: 1 == 1.0 == 1u.
    if is_number(one):
        return is_number(other) and bool(one == other)
    name = type_name(one)
    # Kubernetes' types do not compare with others; CEL's own types just differ.
    if name in _OPAQUE:
        if type_name(other) != name:
            raise no_overload()
        return bool(one == other)
    if name != type_name(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and not any(map(_differ, one, other))
    if isinstance(one, dict):
        return _equal_maps(one, other)
    if isinstance(one, Maybe):
        return one.present == other.present and (not one.present or equal(one.value, other.value))
    return bool(one == other)


def _equal_maps(one: dict[Any, Value], other: dict[Any, Value]) -> bool:
    return len(one) == len(other) and all(
        key in other and not _differ(value, other[key]) for key, value in one.items()
    )


def _differ(one: Value, other: Value) -> bool:
    """True if they certainly differ. In lists and maps, values without a result count as equal."""
    try:
        return not equal(one, other)
    except EvaluationError:
        return False


def same(one: Value, other: Value) -> bool:
    """True if they certainly are equal. A search ignores elements that do not compare."""
    try:
        return equal(one, other)
    except EvaluationError:
        return False


def order(one: Value, other: Value, operator: str = "") -> int | None:
    """Return -1, 0 or 1, or None for a NaN. Raises EvaluationError for values without order."""
    if is_number(one) and is_number(other):
        if math.isnan(one) or math.isnan(other):
            return None
    elif type(one) is not type(other) or not isinstance(one, _ORDERED):
        raise no_overload(operator)
    # Python orders texts by code point, which is the order of Go's UTF-8 bytes.
    return int(one > other) - int(one < other)


def is_key(value: Value) -> bool:
    """True if the value can be a key of a map."""
    return type(value) in (str, int, UInt) or (type(value) is float and value.is_integer())


def key_of(value: Value) -> Any:
    """Return the value as a key of a map. Raises EvaluationError if it cannot be one."""
    if not is_key(value):
        raise EvaluationError(f"unsupported key type: {type_name(value)}")
    return value
