"""The annotation `conversion-data`, which contains fields that a version lacks.

It is JSON: the name of the version that has the fields, and the fields of that version. An
annotation that cannot be read, or whose values the fields cannot have, counts as absent. Anyone may
write annotations, and none may bring an object into storage that its schema forbids.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from api.constants import ANNOTATION_CONVERSION_DATA, VERSION
from api.reading import annotations_of, mapping, text

Json = dict[str, Any]

# The key of the annotation that the object had itself.
_BEFORE: Final = "annotation"

# All annotations of an object together may have 256 KiB, and a large tree needs more than that.
_PLAIN_LENGTH: Final = 32 * 1024
"""Bytes of the annotation that are stored as they are. Longer text is compressed."""

_PACKED: Final = "zlib:"
_UNPACKED_LENGTH: Final = 8 * 1024 * 1024
"""Bytes to which the annotation is expanded. A longer text is not restored."""

_MAX_INT32: Final = 2**31 - 1


def store(obj: Mapping[str, Any], hidden: Mapping[str, Any], *, used: bool = False) -> Json:
    """Return an object of an older version with the hidden v1alpha3 fields in its annotation.

    `hidden` has the fields of `spec` and `status`. An annotation that the object had in v1alpha3 is
    stored, too, unless the conversion `used` it and can write it again.
    """
    fields = {place: part for place, part in hidden.items() if part}
    if (before := text_of(obj)) and not used:
        fields[_BEFORE] = before
    return attach(obj, pack(VERSION, fields))


def restore(
    obj: Mapping[str, Any], models: Mapping[str, type[BaseModel]]
) -> tuple[Json, Mapping[str, Json]]:
    """Return an object as it was before `store`, and the fields that its annotation had.

    `models` has the models of `spec` and `status`. Fields that a model cannot have are omitted.
    """
    carried = unpack(text_of(obj), VERSION)
    before = carried.get(_BEFORE)
    fields = {place: _typed(carried.get(place), model) for place, model in models.items()}
    return attach(obj, before if isinstance(before, str) else ""), fields


def text_of(obj: Mapping[str, Any]) -> str:
    """Return the annotation as it is written, empty if it is absent."""
    return text(annotations_of(obj).get(ANNOTATION_CONVERSION_DATA))


def pack(version: str, fields: Mapping[str, Any]) -> str:
    """Return the annotation's text, empty without fields. Equal fields give equal texts."""
    if not fields:
        return ""
    # Sorted keys: another text for equal fields would look like a change of the object.
    written = json.dumps(
        {version: fields}, ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
    if len(written.encode()) <= _PLAIN_LENGTH:
        return written
    return _PACKED + base64.b64encode(zlib.compress(written.encode(), 9)).decode()


def unpack(written: str, version: str) -> Json:
    """Return the fields stored for `version`; empty if there are none that can be read."""
    if not written:
        return {}
    try:
        if written.startswith(_PACKED):
            written = _inflated(written.removeprefix(_PACKED))
        found = json.loads(written, parse_int=_int32, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}
    return dict(mapping(mapping(found).get(version)))


def attach(obj: Mapping[str, Any], written: str) -> Json:
    """Return the object with that text as its annotation; without the annotation if it is empty."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(obj)
    annotations = {
        key: value
        for key, value in mapping(metadata.get("annotations")).items()
        if key != ANNOTATION_CONVERSION_DATA
    }
    if written:
        annotations[ANNOTATION_CONVERSION_DATA] = written
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**obj, "metadata": kept | ({"annotations": annotations} if annotations else {})}


def _typed(fields: Any, model: type[BaseModel]) -> Json:
    """Return the fields if `model` can have them, else none."""
    try:
        model.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError:
        return {}
    return {key: value for key, value in fields.items() if key in model.model_fields}


def _inflated(packed: str) -> str:
    """Return the unpacked text. Raises ValueError for other text, or if the result is too long."""
    stream = zlib.decompressobj()
    try:
        # Bounded: a small text can expand to gigabytes.
        plain = stream.decompress(base64.b64decode(packed, validate=True), _UNPACKED_LENGTH)
    except (binascii.Error, zlib.error) as error:
        raise ValueError("not packed by Muster") from error
    if not stream.eof:
        raise ValueError("too long")
    return plain.decode()


def _int32(digits: str) -> int:
    """Return a number of at most 32 bits, as all fields of Muster's have. Raises ValueError."""
    # Check the length first, as `int` takes quadratic time.
    if len(digits) > 11 or abs(int(digits)) > _MAX_INT32:
        raise ValueError(f"{digits[:20]} has more than 32 bits")
    return int(digits)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
