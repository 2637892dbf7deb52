"""Objects in memory with the guarantees of etcd: one revision counter, history, snapshots.

All calls are synchronous and belong to one event loop. Values are immutable: nobody may change an
object that was put in or got out; `Stored.copy` gives one that may be changed.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
Key = tuple[str, str]
CollectionId = tuple[str, str]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ExistsError(Exception):
    """The key is taken."""


class MissingError(Exception):
    """There is no such key."""


class ChangedError(Exception):
    """The value is not the one that the writer had seen."""


class CompactedError(Exception):
    """The revision asked for has left the history; `oldest` is the first one still there."""

    def __init__(self, oldest: int) -> None:
        """Remember the oldest revision that can be asked for."""
        super().__init__(f"compacted up to revision {oldest}")
        self.oldest = oldest


class Stored:
    """One version of one object: the value, its JSON bytes, and the revision that wrote it."""

    __slots__ = ("obj", "raw", "revision", "views")

    def __init__(self, obj: dict[str, Any], revision: int) -> None:
        """Stamp the revision into the object and encode it, kind and version in front."""
        if revision:
            obj["metadata"]["resourceVersion"] = str(revision)
        if next(iter(obj)) != "kind" and "kind" in obj:
            obj = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **_metadata_first(obj)}
        self.obj = obj
        self.raw: bytes = _encode(obj)
        self.revision = revision
        self.views: dict[tuple[int, str], Stored] = {}  # the same in other versions

    @property
    def key(self) -> Key:
        """Namespace ("" for cluster-wide objects) and name."""
        meta = self.obj["metadata"]
        return meta.get("namespace", ""), meta["name"]

    def copy(self) -> dict[str, Any]:
        """A value of one's own, free to be changed."""
        copied: dict[str, Any] = _decode(self.raw)
        return copied


def _metadata_first(obj: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": obj["metadata"], **obj}


class Event:
    """A change: `value` is the state after it (when DELETED the last one), `old` the one before."""

    __slots__ = ("_line", "old", "type", "value")

    def __init__(self, kind: EventType, value: Stored, old: Stored | None = None) -> None:
        """Take the parts."""
        self.type = kind
        self.value = value
        self.old = old
        self._line: bytes | None = None

    @property
    def revision(self) -> int:
        """The revision of the change."""
        return self.value.revision

    @property
    def line(self) -> bytes:
        """The line of a watch stream, made once for all watchers."""
        if self._line is None:
            self._line = watch_line(self.type, self.value.raw)
        return self._line


def watch_line(kind: EventType, raw: bytes) -> bytes:
    """One line of a watch stream."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


Listener = Callable[[Event], None]


class Collection:
    """All objects of one kind, with their recent history."""

    def __init__(self, history: int, oldest: int = 0) -> None:
        """Keep the last `history` events; nothing is known of revisions before `oldest`."""
        self.objects: dict[Key, Stored] = {}
        self.keys: list[Key] = []
        self.events: deque[Event] = deque()
        self.oldest = oldest
        self.listeners: list[Listener] = []
        self._history = history

    def record(self, event: Event) -> None:
        """Take a change into the history and tell the listeners."""
        self.events.append(event)
        while len(self.events) > self._history:
            self.oldest = self.events.popleft().revision
        for listener in list(self.listeners):
            listener(event)

    def since(self, revision: int) -> Iterator[Event]:
        """The events after a revision, oldest first. Raises CompactedError."""
        if revision < self.oldest:
            raise CompactedError(self.oldest)
        newer: list[Event] = []
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            newer.append(event)
        return reversed(newer)

    def span(self, namespace: str) -> list[Key]:
        """The keys of one namespace ("" for all), in order."""
        if not namespace:
            return self.keys
        low = bisect_left(self.keys, (namespace, ""))
        return self.keys[low : bisect_left(self.keys, (namespace + "\0", ""))]

    def forget(self, revision: int) -> None:
        """Drop the history up to a revision."""
        while self.events and self.events[0].revision <= revision:
            self.events.popleft()
        self.oldest = max(self.oldest, revision)


class Store:
    """Collections under one revision counter, which starts at 1 as etcd's does."""

    def __init__(self, *, history: int = 20_000) -> None:
        """Keep the last `history` events of each collection for watches and paged lists."""
        self._revision = 1
        self._history = history
        self._collections: dict[CollectionId, Collection] = {}
        self._listeners: list[Callable[[CollectionId, Event], None]] = []

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._revision

    def collection(self, which: CollectionId) -> Collection:
        """The collection of that name; its history begins when it is first asked for."""
        found = self._collections.get(which)
        if found is None:
            oldest = self._revision if self._revision > 1 else 0
            found = self._collections[which] = Collection(self._history, oldest)
        return found

    def collections(self) -> list[CollectionId]:
        """The names of all collections that were ever used."""
        return list(self._collections)

    def get(self, which: CollectionId, key: Key) -> Stored | None:
        """The present value, or None."""
        return self.collection(which).objects.get(key)

    def create(self, which: CollectionId, key: Key, obj: dict[str, Any]) -> Stored:
        """Put a new object in. Raises ExistsError."""
        collection = self.collection(which)
        if key in collection.objects:
            raise ExistsError(key)
        self._revision += 1
        stored = Stored(obj, self._revision)
        collection.objects[key] = stored
        insort(collection.keys, key)
        self._record(which, collection, Event("ADDED", stored))
        return stored

    def update(self, which: CollectionId, key: Key, obj: dict[str, Any], expected: int) -> Stored:
        """Replace the value that was written at revision `expected`.

        Raises MissingError, ChangedError.
        """
        collection = self.collection(which)
        old = self._expect(collection, key, expected)
        self._revision += 1
        stored = Stored(obj, self._revision)
        collection.objects[key] = stored
        self._record(which, collection, Event("MODIFIED", stored, old))
        return stored

    def delete(self, which: CollectionId, key: Key, expected: int) -> Stored:
        """Take out the value written at revision `expected`; returns its last state.

        Raises MissingError, ChangedError.
        """
        collection = self.collection(which)
        old = self._expect(collection, key, expected)
        self._revision += 1
        stored = Stored(old.copy(), self._revision)
        del collection.objects[key]
        del collection.keys[bisect_left(collection.keys, key)]
        self._record(which, collection, Event("DELETED", stored, old))
        return stored

    def snapshot(self, which: CollectionId, revision: int) -> dict[Key, Stored]:
        """The whole collection as it was at a revision. Raises CompactedError."""
        collection = self.collection(which)
        state = dict(collection.objects)
        for event in reversed(list(collection.since(revision))):
            if event.old is None:
                state.pop(event.value.key, None)
            else:
                state[event.value.key] = event.old
        return state

    def restore(self, which: CollectionId, objects: list[dict[str, Any]]) -> None:
        """Put objects in as they were, with the revisions that they have; `resume` comes after."""
        collection = self.collection(which)
        for obj in objects:
            stored = Stored(obj, int(obj["metadata"]["resourceVersion"]))
            collection.objects[stored.key] = stored
            insort(collection.keys, stored.key)
            self._record(which, collection, Event("ADDED", stored))

    def resume(self, revision: int) -> None:
        """Go on from a revision, without the history before it."""
        self._revision = max(self._revision, revision)
        self.expire()

    def subscribe(self, listener: Callable[[CollectionId, Event], None]) -> Callable[[], None]:
        """Call `listener` at once after every change of any collection; returns the way out."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def expire(self) -> None:
        """Forget all history: watches from before this revision get 410."""
        for collection in self._collections.values():
            collection.forget(self._revision)

    def _expect(self, collection: Collection, key: Key, expected: int) -> Stored:
        old = collection.objects.get(key)
        if old is None:
            raise MissingError(key)
        if old.revision != expected:
            raise ChangedError(key)
        return old

    def _record(self, which: CollectionId, collection: Collection, event: Event) -> None:
        collection.record(event)
        for listener in list(self._listeners):
            listener(which, event)
