"""What a list and a watch mean, without I/O: bytes in, changes out.

Two rules. Everything that decides whether to list again or to go on watching lives here. Nothing
here knows a socket, a clock or a log, so every odd sequence can be tested as plain calls.

A round is `begin_list`, `feed_page` for each page, `end_list`, then `feed` for each watch line
until the stream ends (watch again from `version`) or history is lost (`version` is None: list).
A list that follows another yields deletions for what has vanished in between, and for names that
now belong to another object.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kube.errors import ProtocolError, from_status
from kube.meta import HasMeta, Key, decode_partial

T = TypeVar("T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """The object exists, in this form."""

    obj: T


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object is gone."""

    key: Key


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The object exists, but not in a form we understand; what was known of it stays."""

    key: Key
    error: str


Change = Upserted[T] | Deleted | Undecodable


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_line = msgspec.json.Decoder(_Line)
_page = msgspec.json.Decoder(_Page)


class WatchState(Generic[T]):
    """Follows one resource through lists and watches.

    `version` is where to watch on from, None when only a list can help. Only keys and UIDs are
    kept here, never objects.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        """`decode` gets the bytes of one object and raises msgspec.DecodeError for bad ones."""
        self.version: str | None = None
        self._decode = decode
        self._known: dict[Key, str] = {}
        self._listed: dict[Key, str] = {}

    def begin_list(self) -> None:
        """Start a list; a half-read one is forgotten."""
        self.version = None
        self._listed = {}

    def feed_page(self, body: bytes) -> tuple[list[Change[T]], str]:
        """One page: its changes, and the token of the next page or "". Raises ProtocolError."""
        try:
            page = _page.decode(body)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"list page: {error}") from error
        changes: list[Change[T]] = []
        for item in page.items or ():
            changes += self._upsert(item, self._listed)
        self.version = page.metadata.resource_version if not page.metadata.continue_ else None
        return changes, page.metadata.continue_

    def end_list(self) -> list[Change[T]]:
        """After the last page: the deletions that nobody told us of."""
        gone = [Deleted(key) for key in self._known if key not in self._listed]
        self._known, self._listed = self._listed, {}
        return list(gone)

    def feed(self, line: bytes) -> list[Change[T]]:
        """One watch line. Raises ProtocolError, or the ApiError of an ERROR event.

        After either the stream is of no more use, and the next thing is a list.
        """
        try:
            event = _line.decode(line)
        except msgspec.DecodeError as error:
            self.forget()
            raise ProtocolError(f"watch line: {error}") from error
        match event.type:
            case "ADDED" | "MODIFIED":
                return self._upsert(event.object, self._known)
            case "DELETED":
                return list(self._delete(event.object))
            case "BOOKMARK":
                self.version = _identify(event.object)[2]
                return []
            case "ERROR":
                self.forget()
                raise from_status(bytes(event.object), method="WATCH")
            case other:
                self.forget()
                raise ProtocolError(f"watch line of unknown type {other!r}")

    def forget(self) -> None:
        """The history is lost: list again."""
        self.version = None

    def _upsert(self, raw: msgspec.Raw, into: dict[Key, str]) -> list[Change[T]]:
        try:
            obj = self._decode(raw)
        except msgspec.DecodeError as error:
            key, uid, version = _identify(raw)
            self._note(key, uid, version, into)
            return [Undecodable(key, str(error))]
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        replaced = self._known.get(key, meta.uid) != meta.uid
        self._note(key, meta.uid, meta.resource_version, into)
        if replaced:
            return [Deleted(key), Upserted(obj)]
        return [Upserted(obj)]

    def _note(self, key: Key, uid: str, version: str, into: dict[Key, str]) -> None:
        into[key] = uid
        if into is self._known:
            self.version = version

    def _delete(self, raw: msgspec.Raw) -> Iterator[Change[T]]:
        key, uid, self.version = _identify(raw)
        # The end of a namesake that we have already seen replaced is no news.
        if self._known.get(key) == uid:
            del self._known[key]
            yield Deleted(key)


def _identify(raw: msgspec.Raw) -> tuple[Key, str, str]:
    try:
        meta = decode_partial(raw).metadata
    except msgspec.DecodeError as error:
        raise ProtocolError(f"object without metadata: {error}") from error
    return (meta.namespace, meta.name), meta.uid, meta.resource_version
