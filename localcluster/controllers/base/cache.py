"""A copy of one kind, kept current by its watch and by the controllers' own writes.

Controllers read their own writes: the result of a write enters the cache at once. So a controller
never acts on a state older than its own last write.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator

import structlog

from localcluster.controllers.base.api_protocol import WatchType
from localcluster.controllers.base.objects import Key, Obj, key_of, uid_of

log = structlog.get_logger(__name__)

Handler = Callable[[Obj | None, Obj | None], None]  # old, new; None if absent
Indexer = Callable[[Obj], Iterable[Hashable]]


class Cache:
    """Objects of one kind by key and by any number of indexes."""

    def __init__(self) -> None:
        self._objects: dict[Key, Obj] = {}
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {}
        self._handlers: list[Handler] = []
        # UIDs removed by our own deletes, for which older watch events may still arrive.
        self._gone: set[str] = set()

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Index all objects by the values that `indexer` returns for each."""
        if name in self._indexers:
            return
        self._indexers[name] = indexer
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            for value in indexer(obj):
                self._indexes[name].setdefault(value, {})[key] = None

    def subscribe(self, handler: Handler) -> None:
        """Call `handler(old, new)` on every change from now on."""
        self._handlers.append(handler)

    def get(self, key: Key) -> Obj | None:
        """Return the object of that key, or None."""
        return self._objects.get(key)

    def values(self) -> Iterator[Obj]:
        """Return all objects."""
        return iter(list(self._objects.values()))

    def by_index(self, name: str, value: Hashable) -> list[Obj]:
        """Return the objects with that value in the index, in order of arrival."""
        return [self._objects[key] for key in self._indexes[name].get(value, ())]

    def observe(self, change: WatchType, obj: Obj) -> None:
        """Apply a watch event, or the result of a write as MODIFIED."""
        if change == "DELETED":
            if uid_of(obj) in self._gone:
                self._gone.discard(uid_of(obj))
            else:
                self._remove(obj)
            return
        present = self._objects.get(key_of(obj))
        if uid_of(obj) in self._gone or (present and _version(present) >= _version(obj)):
            return
        self._store(present, obj)

    def forget(self, obj: Obj) -> None:
        """Remove an object that our own delete removed permanently."""
        present = self._objects.get(key_of(obj))
        if present is not None and uid_of(present) == uid_of(obj):
            self._gone.add(uid_of(obj))
            self._remove(obj)

    def replace(self, objects: Iterable[Obj]) -> None:
        """Replace the content with a list: remove objects that are not in it."""
        fresh = {key_of(obj): obj for obj in objects}
        self._gone.clear()
        for key, present in list(self._objects.items()):
            if key not in fresh or uid_of(fresh[key]) != uid_of(present):
                self._remove(present)
        for obj in fresh.values():
            self.observe("MODIFIED", obj)

    def _store(self, old: Obj | None, new: Obj) -> None:
        self._objects[key_of(new)] = new
        self._reindex(key_of(new), old, new)
        self._notify(old, new)

    def _remove(self, obj: Obj) -> None:
        key = key_of(obj)
        present = self._objects.get(key)
        if present is None or uid_of(present) != uid_of(obj):
            return
        del self._objects[key]
        self._reindex(key, present, None)
        self._notify(present, None)

    def _reindex(self, key: Key, old: Obj | None, new: Obj | None) -> None:
        for name, indexer in self._indexers.items():
            before = set(indexer(old)) if old is not None else set()
            after = set(indexer(new)) if new is not None else set()
            for value in before - after:
                filed = self._indexes[name][value]
                del filed[key]
                if not filed:
                    del self._indexes[name][value]
            for value in after - before:
                self._indexes[name].setdefault(value, {})[key] = None

    def _notify(self, old: Obj | None, new: Obj | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:
                # Clients may write objects that no controller expects; a handler's error must not
                # end the watch.
                changed = key_of(new or old or {})
                log.exception("a controller could not take in a change", object=changed)


def _version(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])
