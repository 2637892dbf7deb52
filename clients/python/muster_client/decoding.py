"""The decoding of responses, whatever the objects contain."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Final

from pydantic import ValidationError

from muster_client.base import ObjectMeta
from muster_client.groups import ResponseTooLargeError, T, UnreadableResponseError

MAX_BYTES: Final = 32 << 20
"""Bytes of a response or of a watch event. Of longer pages, the client requests smaller ones."""

_MAX_DEPTH: Final = 64
"""Levels of JSON that are read. Deeper parts, which no field has, become null."""

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)
_log = logging.getLogger("muster_client")


def decode(data: bytes) -> dict[str, Any]:
    """Decode a JSON object, however deep it is. Raises UnreadableResponseError."""
    try:
        found = json.loads(data)
    except RecursionError:
        # One object that is this deep must not hide the others of its page.
        found = json.loads(_shallow(data))
    except ValueError as error:
        raise UnreadableResponseError(f"the API server sent no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableResponseError(f"the API server sent a {type(found).__name__}")
    return found


def _shallow(data: bytes) -> bytes:
    """Return the JSON with null for each value below the last level that is read."""
    kept, depth, start = [], 0, 0
    for token in _TOKEN.finditer(data):
        if token[0] in b"[{":
            depth += 1
            if depth == _MAX_DEPTH + 1:
                kept.append(data[start : token.start()] + b"null")
        elif token[0] in b"]}":
            if depth == _MAX_DEPTH + 1:
                start = token.end()
            depth -= 1
    return b"".join([*kept, data[start:]])


def metadata_of(item: Any) -> ObjectMeta:
    """Return the metadata of an undecoded object. Raises UnreadableResponseError."""
    try:
        return ObjectMeta.model_validate(item["metadata"])
    except (ValidationError, TypeError, KeyError) as error:
        raise UnreadableResponseError("the API server sent an object without metadata") from error


def read(kind: type[T], item: Any) -> T | None:
    """Return an object; None, with a warning, if its fields have values of other types."""
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        meta, fault = metadata_of(item), error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        _log.warning(
            "skip %s %s/%s: %s: %s",
            *(kind.__name__, meta.namespace, meta.name, where, fault["msg"]),
        )
        return None


class Lines:
    """The lines of a stream of bytes."""

    def __init__(self) -> None:
        """Begin without a byte."""
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes. Raises ResponseTooLargeError."""
        complete, newline, rest = chunk.rpartition(b"\n")
        self._rest += complete if newline else rest
        if len(self._rest) > MAX_BYTES:
            raise ResponseTooLargeError(f"a watch event has more than {MAX_BYTES} bytes")
        if not newline:
            return []
        lines, self._rest = bytes(self._rest).split(b"\n"), bytearray(rest)
        return [line for line in lines if line.strip()]
