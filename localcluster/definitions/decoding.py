"""Decoding of objects with known types, as the server's typed decoder does it.

A value of the wrong JSON type fails the decoding of the object, with the decoder's message. Unknown
fields are dropped and reported; null counts as absent.
"""

import datetime as dt
import functools
from collections.abc import Callable, Mapping
from typing import Any

from localcluster.base import quantity
from localcluster.definitions.notation import Type

Read = Callable[[Any], "list[str] | None"]

_LAYOUT = "2006-01-02T15:04:05Z07:00"


class DecodingError(Exception):
    """The object cannot be decoded; the text is the decoder's message."""


class _MismatchError(Exception):
    """A value does not have its field's type.

    Callers prepend the path while the error propagates.
    """

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted
        self.struct = ""
        self.path: list[str] = []

    def words(self) -> str:
        """Return the decoder's message."""
        where = ".".join([self.struct, *reversed(self.path)])
        field = f"Go struct field {where} of type {self.wanted}"
        return f"json: cannot unmarshal {self.found} into {field}"


def _found(value: Any, *, exact: bool = False) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return f"number {value}" if exact else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _scalar(kind: type, wanted: str) -> Read:
    def read(value: Any) -> None:
        if type(value) is not kind:
            raise _MismatchError(_found(value), wanted)

    return read


def _integer(bits: int) -> Read:
    limit = 2 ** (bits - 1)

    def read(value: Any) -> None:
        if type(value) is not int or not -limit <= value < limit:
            raise _MismatchError(_found(value, exact=True), f"int{bits}")

    return read


def _number(value: Any) -> None:
    if type(value) not in {int, float}:
        raise _MismatchError(_found(value), "float64")


def _quantity(value: Any) -> None:
    is_number = type(value) in {int, float}
    if not is_number and not isinstance(value, str):
        raise DecodingError(quantity.PROBLEM)
    try:
        quantity.parse(value)
    except ValueError as error:
        raise DecodingError(str(error)) from error


def _int_or_string(value: Any) -> None:
    if type(value) not in {int, str}:
        raise _MismatchError(_found(value, exact=True), "int32")


def _time(value: Any) -> None:
    if not isinstance(value, str):
        raise _MismatchError(_found(value), "string")
    try:
        dt.datetime.fromisoformat(value)
    except ValueError as error:
        message = f'parsing time "{value}" as "{_LAYOUT}": cannot parse "{value}" as "2006"'
        raise DecodingError(message) from error


def _anything(_value: Any) -> None:
    """Accept any value: raw JSON is not inspected."""


_SCALARS: dict[str, Read] = {
    "string": _scalar(str, "string"),
    "bool": _scalar(bool, "bool"),
    "int32": _integer(32),
    "int64": _integer(64),
    "number": _number,
    "time": _time,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "any": _scalar(dict, "map[string]interface {}"),
    "json": _anything,
}
_GO_NAMES = {
    "number": "float64",
    "time": "v1.Time",
    "quantity": "resource.Quantity",
    "any": "map[string]interface {}",
    "intOrString": "intstr.IntOrString",
}


def _go_name(word: str) -> str:
    if word.startswith("["):
        return "[]" + _go_name(word[1:-1])
    if word.startswith("{"):
        return "map[string]" + _go_name(word[1:-1])
    return f"v1.{_shown(word)}" if word[0].isupper() else _GO_NAMES.get(word, word)


def _shown(name: str) -> str:
    """Return the type's own name, without the group suffix that makes it unique."""
    return name.partition("_")[0]


def _join(head: str, tail: str) -> str:
    return head + tail if tail.startswith("[") else f"{head}.{tail}"


class Decoder:
    """Decoder for one set of types."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        """Create a decoder; it builds readers on first use."""
        self._types = types
        self._objects: dict[str, Read] = {}

    def read(self, name: str, obj: dict[str, Any]) -> list[str]:
        """Drop unknown fields in place and return their paths, sorted. Raises DecodingError."""
        try:
            return sorted(self._object(name)(obj) or ())
        except _MismatchError as error:
            raise DecodingError(error.words()) from error

    def _reader(self, word: str) -> Read:
        if word.startswith("["):
            return _list(self._reader(word[1:-1]), _go_name(word))
        if word.startswith("{"):
            return _map(self._reader(word[1:-1]), _go_name(word))
        first, _, other = word.partition("|")
        if other:
            return _either(self._reader(first), self._reader(other))
        return _SCALARS.get(word) or self._object(word)

    def _object(self, name: str) -> Read:
        known = self._objects.get(name)
        if known is not None:
            return known
        fields: dict[str, Read] = {}
        reader = functools.partial(_read_object, name, fields)
        self._objects[name] = reader  # before the fields, because types may contain themselves
        for field in self._types[name].fields:
            fields[field.name] = self._reader(field.type)
        return reader


def _read_object(name: str, fields: Mapping[str, Read], value: Any) -> list[str] | None:
    if type(value) is not dict:
        raise _MismatchError(_found(value), f"v1.{_shown(name)}")
    extra: list[str] = []
    unknown: list[str] = []
    for key, entry in value.items():
        read = fields.get(key)
        if read is None:
            extra.append(key)
        elif entry is not None:
            try:
                below = read(entry)
            except _MismatchError as error:
                error.struct = error.struct or _shown(name)
                error.path.append(key)
                raise
            if below:
                unknown += [_join(key, one) for one in below]
    for key in extra:
        del value[key]
    return extra + unknown


def _list(read: Read, wanted: str) -> Read:
    def read_list(value: Any) -> list[str] | None:
        if type(value) is not list:
            raise _MismatchError(_found(value), wanted)
        unknown: list[str] = []
        for index, item in enumerate(value):
            below = read(item) if item is not None else None
            if below:
                unknown += [_join(f"[{index}]", one) for one in below]
        return unknown

    return read_list


def _map(read: Read, wanted: str) -> Read:
    def read_map(value: Any) -> list[str] | None:
        if type(value) is not dict:
            raise _MismatchError(_found(value), wanted)
        unknown: list[str] = []
        for key, entry in value.items():
            below = read(entry) if entry is not None else None
            if below:
                unknown += [_join(key, one) for one in below]
        return unknown

    return read_map


def _either(first: Read, other: Read) -> Read:
    def read(value: Any) -> list[str] | None:
        try:
            return other(value)
        except _MismatchError:
            return first(value)

    return read
