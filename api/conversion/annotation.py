"""The annotation `conversion-data`: it carries what a version cannot say.

It holds JSON: the name of the version that can say it, and the fields of that version. One that
cannot be read, or that holds values no such field can have, counts as absent: anyone may write
annotations, and none may bring an object into storage that its schema forbids.
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

_BEFORE: Final = "annotation"  # the place of the annotation that the object had itself

# All annotations of an object together may have 256 KiB; a large tree needs more than that.
_PLAIN_LENGTH: Final = 32 * 1024
"""Bytes of the annotation that are stored as they are. Longer text is compressed."""

_PACKED: Final = "zlib:"
_UNPACKED_LENGTH: Final = 8 * 1024 * 1024
"""Bytes to which the annotation is expanded. What does not fit is not restored."""

_MAX_INT32: Final = 2**31 - 1


def store(obj: Mapping[str, Any], hidden: Mapping[str, Any], *, used: bool = False) -> Json:
    """An object of an older version, with what it cannot say of v1alpha3 in its annotation.

    `hidden` has the fields by their place, `spec` and `status`. An annotation that the object had
    in v1alpha3 goes along, unless it was `used` in the conversion and can be made again.
    """
    fields = {place: part for place, part in hidden.items() if part}
    if (before := text_of(obj)) and not used:
        fields[_BEFORE] = before
    return attach(obj, pack(VERSION, fields))


def restore(
    obj: Mapping[str, Any], models: Mapping[str, type[BaseModel]]
) -> tuple[Json, Mapping[str, Json]]:
    """An object as it was before `store`, and the fields its annotation had, by their place.

    `models` has the model of each place; what it cannot hold is left out.
    """
    carried = unpack(text_of(obj), VERSION)
    before = carried.get(_BEFORE)
    fields = {place: _typed(carried.get(place), model) for place, model in models.items()}
    return attach(obj, before if isinstance(before, str) else ""), fields


def text_of(obj: Mapping[str, Any]) -> str:
    """The annotation as it is written, empty when absent."""
    return text(annotations_of(obj).get(ANNOTATION_CONVERSION_DATA))


def pack(version: str, fields: Mapping[str, Any]) -> str:
    """The annotation's text, empty when there is nothing to carry. Equal fields, equal text."""
    if not fields:
        return ""
    written = json.dumps(
        {version: fields}, ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
    if len(written.encode()) <= _PLAIN_LENGTH:
        return written
    return _PACKED + base64.b64encode(zlib.compress(written.encode(), 9)).decode()


def unpack(written: str, version: str) -> Json:
    """The fields carried for `version`; empty when there are none that can be read."""
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
    """The object with that text as its annotation; without the annotation if it is empty."""
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
    """Those fields again if `model` can hold them, else none."""
    try:
        model.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError:
        return {}
    return {key: value for key, value in fields.items() if key in model.model_fields}


def _inflated(packed: str) -> str:
    """Raises ValueError for what is no packed text, or is too long when unpacked."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(base64.b64decode(packed, validate=True), _UNPACKED_LENGTH)
    except (binascii.Error, zlib.error) as error:
        raise ValueError("not packed by Muster") from error
    if not stream.eof:
        raise ValueError("too long")
    return plain.decode()


def _int32(digits: str) -> int:
    """Every number of ours has 32 bits."""
    if len(digits) > 11 or abs(int(digits)) > _MAX_INT32:
        raise ValueError(f"{digits[:20]} has more than 32 bits")
    return int(digits)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
