"""The meaning of lists and watches, without I/O: bytes in, changes out.

Two rules. Everything that decides whether to list again or to go on watching lives here. Nothing
here knows a socket, a clock or a log, so every odd sequence can be tested as plain calls.

A round is `begin_list`, `feed_page` for each page, `end_list`, then `feed` for each watch line
until the stream ends (watch again from `version`) or history is lost (`version` is None: list). A
list that follows another yields deletions for objects that vanished in between, and for names that
now belong to another object. Objects of a list that broke off count as known, too.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kube.base.errors import ProtocolError, from_status
from kube.client.decoding import Decoder, decode_deep
from kube.client.meta import HasMeta, Identity, Key, Meta

T = TypeVar("T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object exists, in this form; `raw` is its JSON."""

    obj: T
    raw: bytes


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone."""

    key: Key


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object exists, but cannot be decoded; what was known of it stays."""

    key: Key
    uid: str
    raw: bytes
    error: Exception


Change = Upserted[T] | Deleted | Undecodable


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] = []


class _Identified(msgspec.Struct):
    metadata: Identity


_line = Decoder(_Line)
_page = Decoder(_Page)
_identified = Decoder(_Identified)


class WatchState(Generic[T]):
    """The state of one resource through lists and watches.

    `version` is where the next watch starts, None when only a list can help. Only keys and UIDs are
    kept here, never objects. All changes of a call are to be consumed before the next call.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        """Decode each object by `decode`; an error makes that object Undecodable."""
        self.version: str | None = None
        self._decode = decode
        self._known: dict[Key, str] = {}
        self._listed: set[Key] = set()
        self._list_version = ""

    @property
    def size(self) -> int:
        """Number of objects that are known."""
        return len(self._known)

    def begin_list(self) -> None:
        """Start a list; after a list that broke off, existing objects stay known."""
        self.version = None
        self._listed = set()

    def feed_page(self, body: bytes) -> tuple[Iterator[Change[T]], str]:
        """Return the changes of one page, and the next page's token or "". Raises ProtocolError.

        Each object is decoded when its change is consumed, which raises ProtocolError as well.
        """
        try:
            page = decode_deep(_page, body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolError(f"list page: {error}") from error
        self._list_version = page.metadata.resource_version
        return self._list(page.items), page.metadata.continue_

    def end_list(self) -> Iterator[Change[T]]:
        """Yield the deletions that no event reported, after the last page. Then `version` is known.

        A deletion is recorded when it is consumed: if the rest is not, the next list has it.
        """
        for key in [key for key in self._known if key not in self._listed]:
            del self._known[key]
            yield Deleted(key)
        self._listed = set()
        self.version = self._list_version

    def feed(self, line: bytes) -> list[Change[T]]:
        """Return the changes of one line. Raises ProtocolError, or ApiError for an ERROR event.

        After either the stream is of no more use, and a list must follow.
        """
        try:
            event = decode_deep(_line, line)
        except (msgspec.DecodeError, RecursionError) as error:
            self.forget()
            raise ProtocolError(f"watch line: {error}") from error
        match event.type:
            case "ADDED" | "MODIFIED":
                changes, _, self.version = self._upsert(event.object)
                return changes
            case "DELETED":
                return list(self._delete(event.object))
            case "BOOKMARK":
                self.version = _identify(event.object).resource_version
                return []
            case "ERROR":
                self.forget()
                raise from_status(bytes(event.object), method="WATCH")
            case other:
                self.forget()
                raise ProtocolError(f"watch line of unknown type {other!r}")

    def forget(self) -> None:
        """Forget the version, as the history is lost: list again."""
        self.version = None

    def _list(self, items: Iterable[msgspec.Raw]) -> Iterator[Change[T]]:
        for item in items:
            changes, key, _ = self._upsert(item)
            self._listed.add(key)
            yield from changes

    def _upsert(self, raw: msgspec.Raw) -> tuple[list[Change[T]], Key, str]:
        """Return the changes, and the object's key and version."""
        change: Change[T]
        meta: Meta
        try:
            obj = decode_deep(self._decode, raw)
        except Exception as error:  # noqa: BLE001 - no object may end what follows all of them
            meta = _identify(raw)
            change = Undecodable((meta.namespace, meta.name), meta.uid, raw, error)
        else:
            meta = obj.metadata
            change = Upserted(obj, raw)
        key = (meta.namespace, meta.name)
        # Deleted and created again unseen: the end of the former object has to be reported, too.
        replaced = self._known.get(key, meta.uid) != meta.uid
        self._known[key] = meta.uid
        return [Deleted(key), change] if replaced else [change], key, meta.resource_version

    def _delete(self, raw: msgspec.Raw) -> Iterator[Change[T]]:
        meta = _identify(raw)
        self.version = meta.resource_version
        key = (meta.namespace, meta.name)
        # The end of another object of the name, whose replacement is known, is no news.
        if self._known.get(key) == meta.uid:
            del self._known[key]
            yield Deleted(key)


def version_of_list(body: bytes) -> str:
    """Return the version of a list. Raises ProtocolError."""
    try:
        return decode_deep(_page, body).metadata.resource_version
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"list page: {error}") from error


def is_at(version: str | None, wanted: str) -> bool:
    """Return whether that version is the wanted one or later; False if that cannot be known.

    Versions that are decimal numbers may be compared as such: Kubernetes documents this from 1.35
    on, and the API server has always created them so. Others may only be compared for equality.
    """
    if version is None:
        return False
    if version == wanted:
        return True
    return _is_number(version) and _is_number(wanted) and int(version) >= int(wanted)


def is_beyond(version: str | None, current: str) -> bool:
    """Return whether that version is later than the server's current one; False if not known.

    Only older data, restored from a snapshot, explain that.
    """
    return version not in (None, current) and is_at(version, current)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal() and len(version) <= 39


def _identify(raw: msgspec.Raw) -> Identity:
    """Return only what every object has, so that no odd timestamp or label makes it nameless."""
    try:
        return decode_deep(_identified, raw).metadata
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"object without metadata: {error}") from error
