"""The decoding of JSON from an API server: with null fields, and up to 10,000 levels deep.

Only hostile objects are that deep, ten times what Python accepts by default. The deep part is never
in a field that is read (`managedFields` accepts anything). It must be skipped without failing the
list that it is part of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_DEEP: Final = 25_000
"""Levels of recursion. Each level of JSON takes one or two, and about 100 bytes of stack each."""


def decode_deep(decode: Callable[[bytes], T], data: bytes) -> T:
    """Return the result of `decode`. Raise what it raises; RecursionError beyond any measure."""
    try:
        return decode(data)
    except RecursionError:
        with _deeper():
            return decode(data)


@contextmanager
def _deeper() -> Iterator[None]:
    usual = sys.getrecursionlimit()
    # For this document alone: elsewhere a deep recursion is a bug that has to end.
    sys.setrecursionlimit(max(usual, _DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


class Decoder(Generic[T]):
    """A decoder of JSON into `form`; a null field counts as absent, as it does in Go.

    Go writes slices, maps and pointers that are nil as null, as kubelets do with the `drivers` of a
    CSINode. Only JSON that msgspec rejects is read a second time. Raises msgspec.DecodeError.
    """

    __slots__ = ("_decode", "form")

    def __init__(self, form: type[T], *, strict: bool = True) -> None:
        """Decode into `form`; unless `strict`, convert text to numbers and booleans."""
        self.form = form
        self._decode = msgspec.json.Decoder(form, strict=strict).decode

    def __call__(self, data: bytes | msgspec.Raw) -> T:
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            without = _without_nulls(data, inspect.type_info(self.form))
            if without is data:
                raise
        except UnicodeDecodeError as error:
            # API servers send UTF-8. Other clients of the webhook may send any bytes.
            raise msgspec.DecodeError(str(error)) from error
        # Outside of the handler: a reader can use this error, but not the one above.
        return self._decode(without)


_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_mapping(data: bytes) -> dict[str, Any]:
    """Decode a JSON object; return an empty one for any other data."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError):
        return {}


def _without_nulls(data: bytes | msgspec.Raw, form: inspect.Type) -> bytes | msgspec.Raw:
    """Return the JSON without the null fields of its structs. Raw parts stay as they are."""
    if _NULL not in bytes(data):
        return data
    try:
        match form:
            case inspect.StructType():
                return _cleaned(data, {it.encode_name: it.type for it in form.fields})
            case inspect.DictType():
                parts = {key: _part(it, form.value_type) for key, it in _fields(data).items()}
                return msgspec.json.encode(parts)
            case inspect.ListType() | inspect.VarTupleType():
                return msgspec.json.encode([_part(it, form.item_type) for it in _items(data)])
            case inspect.UnionType():
                with_parts = (it for it in form.types if isinstance(it, _WITH_PARTS))
                return _without_nulls(data, next(with_parts, form.types[0]))
    except msgspec.ValidationError:
        pass  # Of another type: that error is for the caller.
    return data


def _cleaned(data: bytes | msgspec.Raw, types: Mapping[str, inspect.Type]) -> bytes:
    found = {} if _is_null(data) else without_nulls(_fields(data))
    return msgspec.json.encode({key: _part(it, types.get(key, _ANY)) for key, it in found.items()})


def _part(data: msgspec.Raw, form: inspect.Type) -> msgspec.Raw:
    without = _without_nulls(data, form)
    return data if without is data else msgspec.Raw(without)


def without_nulls(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Return the fields that have a value."""
    return {key: value for key, value in fields.items() if not _is_null(value)}


def _is_null(data: bytes | msgspec.Raw) -> bool:
    return bytes(data) == _NULL


_NULL: Final = b"null"
_ANY: Final = inspect.AnyType()
_WITH_PARTS: Final = (
    inspect.StructType,
    inspect.DictType,
    inspect.ListType,
    inspect.VarTupleType,
)
