"""Objects in memory with the guarantees of etcd: one revision counter, history, snapshots.

All calls are synchronous and belong to one event loop. Values are immutable: callers must not
change an object that they put into the store or read from it. `Stored.copy` returns a copy that may
be changed.
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
    """The key exists already."""


class MissingError(Exception):
    """The key does not exist."""


class ChangedError(Exception):
    """The stored value is not the one that the writer read."""


class CompactedError(Exception):
    """The requested revision is no longer in the history; `oldest` is the first that is."""

    def __init__(self, oldest: int) -> None:
        """Record the oldest revision in the history."""
        super().__init__(f"compacted up to revision {oldest}")
        self.oldest = oldest


class Stored:
    """One version of one object: the value, its JSON bytes, and the revision that wrote it."""

    __slots__ = ("obj", "raw", "revision", "views")

    def __init__(self, obj: dict[str, Any], revision: int) -> None:
        """Set the resourceVersion of the object and encode it, kind and apiVersion first."""
        if revision:
            obj["metadata"]["resourceVersion"] = str(revision)
        if next(iter(obj)) != "kind" and "kind" in obj:
            obj = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **_metadata_first(obj)}
        self.obj = obj
        self.raw: bytes = _encode(obj)
        self.revision = revision
        self.views: dict[tuple[int, str], Stored] = {}  # the same object in other versions

    @property
    def key(self) -> Key:
        """Namespace ("" for cluster-scoped objects) and name."""
        meta = self.obj["metadata"]
        return meta.get("namespace", ""), meta["name"]

    def copy(self) -> dict[str, Any]:
        """Return a copy of the value that the caller may change."""
        copied: dict[str, Any] = _decode(self.raw)
        return copied


def _metadata_first(obj: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": obj["metadata"], **obj}


class Event:
    """A change: `value` is the state after it (the last state if DELETED), `old` the one before."""

    __slots__ = ("_line", "old", "type", "value")

    def __init__(self, kind: EventType, value: Stored, old: Stored | None = None) -> None:
        """Create an event."""
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
        """The line of a watch stream, encoded once for all watchers."""
        if self._line is None:
            self._line = watch_line(self.type, self.value.raw)
        return self._line


def watch_line(kind: EventType, raw: bytes) -> bytes:
    """Encode one line of a watch stream."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


Listener = Callable[[Event], None]


class Collection:
    """All objects of one kind, with their recent history."""

    def __init__(self, history: int, oldest: int = 0) -> None:
        """Keep the last `history` events; revisions before `oldest` are unknown."""
        self.objects: dict[Key, Stored] = {}
        self.keys: list[Key] = []
        self.events: deque[Event] = deque()
        self.oldest = oldest
        self.listeners: list[Listener] = []
        self._history = history

    def record(self, event: Event) -> None:
        """Add a change to the history and notify the listeners."""
        self.events.append(event)
        while len(self.events) > self._history:
            self.oldest = self.events.popleft().revision
        for listener in list(self.listeners):
            listener(event)

    def since(self, revision: int) -> Iterator[Event]:
        """Return the events after a revision, oldest first. Raises CompactedError."""
        if revision < self.oldest:
            raise CompactedError(self.oldest)
        newer: list[Event] = []
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            newer.append(event)
        return reversed(newer)

    def span(self, namespace: str) -> list[Key]:
        """Return the keys of one namespace ("" for all), in order."""
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
        """Return the collection of that name; its history begins at the first call."""
        found = self._collections.get(which)
        if found is None:
            oldest = self._revision if self._revision > 1 else 0
            found = self._collections[which] = Collection(self._history, oldest)
        return found

    def collections(self) -> list[CollectionId]:
        """Return the names of all collections in use."""
        return list(self._collections)

    def get(self, which: CollectionId, key: Key) -> Stored | None:
        """Return the current value, or None."""
        return self.collection(which).objects.get(key)

    def create(self, which: CollectionId, key: Key, obj: dict[str, Any]) -> Stored:
        """Add a new object. Raises ExistsError."""
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
        """Delete the value written at revision `expected` and return its last state.

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
        """Return all objects of the collection at a revision. Raises CompactedError."""
        collection = self.collection(which)
        state = dict(collection.objects)
        for event in reversed(list(collection.since(revision))):
            if event.old is None:
                state.pop(event.value.key, None)
            else:
                state[event.value.key] = event.old
        return state

    def restore(self, which: CollectionId, objects: list[dict[str, Any]]) -> None:
        """Add saved objects with their original revisions; the caller calls `resume` afterwards."""
        collection = self.collection(which)
        for obj in objects:
            stored = Stored(obj, int(obj["metadata"]["resourceVersion"]))
            collection.objects[stored.key] = stored
            insort(collection.keys, stored.key)
            self._record(which, collection, Event("ADDED", stored))

    def resume(self, revision: int) -> None:
        """Continue from a revision, without the history before it."""
        self._revision = max(self._revision, revision)
        self.expire()

    def subscribe(self, listener: Callable[[CollectionId, Event], None]) -> Callable[[], None]:
        """Call `listener` right after every change of any collection.

        Returns the unsubscribe function.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def expire(self) -> None:
        """Drop all history: watches from before this revision get 410."""
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
