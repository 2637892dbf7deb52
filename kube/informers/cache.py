"""An indexed store of the objects of one resource, fed by a reflector."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kube.client.meta import HasMeta, Key

T = TypeVar("T", bound=HasMeta)

Listener = Callable[[T | None, T | None], None]
IndexValues = Callable[[T], Iterable[Hashable]]


@dataclass(slots=True)
class _Index(Generic[T]):
    values: IndexValues[T]
    buckets: dict[Hashable, dict[Key, T]] = field(default_factory=dict)

    def put(self, key: Key, obj: T, values: Iterable[Hashable]) -> None:
        for value in values:
            self.buckets.setdefault(value, {})[key] = obj

    def drop(self, key: Key, obj: T) -> None:
        for value in self.values(obj):
            bucket = self.buckets.get(value)
            if bucket is None:
                continue
            bucket.pop(key, None)
            if not bucket:
                del self.buckets[value]


class Cache(Generic[T]):
    """Objects by key and by index. A `Sink`; its objects are shared and must not be changed."""

    def __init__(self) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self.listeners: list[Listener[T]] = []
        """The listeners, called in this order after each change."""
        self._unannounced: set[Key] = set()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object, or None; a cluster-scoped one has the namespace ""."""
        return self._objects.get((namespace, name))

    def values(self) -> Iterator[T]:
        """Iterate over all objects; the cache must not change meanwhile."""
        return iter(self._objects.values())

    def add_index(self, name: str, values: IndexValues[T]) -> None:
        """Index all objects, including those already here, under each of `values(obj)`.

        The values must depend on the object alone.
        """
        index = _Index(values)
        for key, obj in self._objects.items():
            index.put(key, obj, values(obj))
        self._indexes[name] = index

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Return the objects indexed under `value`, oldest first. Raises KeyError: no index."""
        return list(self._indexes[name].buckets.get(value, {}).values())

    def each(self, name: str, value: Hashable) -> Iterator[T]:
        """Iterate over them without a copy; the cache must not change. Raises KeyError."""
        return iter(self._indexes[name].buckets.get(value, {}).values())

    def subscribe(self, listener: Listener[T]) -> None:
        """Call `listener(old, new)` after each change; None means absent."""
        self.listeners.append(listener)

    def upsert(self, obj: T) -> None:
        """Store the object; one that is here in the same version is no change.

        An object without index values (`values` raises) is not stored; the earlier object stays.
        """
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        old = self._objects.get(key)
        if old is not None and _same(old, obj) and key not in self._unannounced:
            return
        # All values before any change: an index that raises must leave the cache as it was.
        placed = [(index, tuple(index.values(obj))) for index in self._indexes.values()]
        self._objects[key] = obj
        for index, values in placed:
            if old is not None:
                index.drop(key, old)
            index.put(key, obj, values)
        self._notify(key, old, obj)

    def expect_again(self) -> None:
        """Take each object that comes again as a change: from now on it is decoded differently."""
        self._unannounced.update(self._objects)

    def delete(self, key: Key) -> None:
        """Remove the object, if it is here."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        for index in self._indexes.values():
            index.drop(key, old)
        self._notify(key, old, None)

    def _notify(self, key: Key, old: T | None, new: T | None) -> None:
        """Call all listeners even if one raises; raise the first error in the end."""
        self._unannounced.discard(key)
        problem: Exception | None = None
        for listener in self.listeners:
            try:
                listener(old, new)
            except Exception as error:  # noqa: BLE001 - raised below
                problem = problem or error
        if problem is not None:
            if new is not None:
                # The same version may come again by a list: then the listeners are called again.
                self._unannounced.add(key)
            raise problem


def _same(old: HasMeta, new: HasMeta) -> bool:
    return (old.metadata.uid, old.metadata.resource_version) == (
        new.metadata.uid,
        new.metadata.resource_version,
    )
