"""Waiting keys, with namespaces in turn: none waits behind the thousands of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from scheduler.core.values.model import GroupKey

V = TypeVar("V")

_LOOKS: Final = 1000
"""Keys of one namespace that `take` passes over before it leaves the rest for the next time."""


class FairKeys(Generic[V]):
    """A value for each key; within a namespace the oldest key is first. `size` is their number."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[GroupKey, V]] = {}
        self.size = 0

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._by_namespace.get(key[1], ())

    def count(self, namespace: str) -> int:
        """Return the number of keys of the namespace."""
        return len(self._by_namespace.get(namespace, ()))

    def get(self, key: GroupKey) -> V | None:
        """Return the value of the key; None if it has none."""
        return self._by_namespace.get(key[1], {}).get(key)

    def put(self, key: GroupKey, value: V) -> None:
        """Set the value; a key that is there already keeps its position."""
        keys = self._by_namespace.setdefault(key[1], {})
        self.size += key not in keys
        keys[key] = value

    def move_to_end(self, key: GroupKey) -> None:
        """Make the key, which is there, the youngest of its namespace, whose turn stays."""
        keys = self._by_namespace[key[1]]
        keys[key] = keys.pop(key)

    def discard(self, key: GroupKey) -> None:
        """Remove the key if it is there."""
        keys = self._by_namespace.get(key[1])
        if keys is None or key not in keys:
            return
        del keys[key]
        self.size -= 1
        if not keys:
            del self._by_namespace[key[1]]

    def turn(self) -> tuple[GroupKey, V] | None:
        """Return the oldest key of the next namespace, and its value. The key stays."""
        namespace = next(iter(self._by_namespace), None)
        if namespace is None:
            return None
        # Added again at the end: each other namespace comes before this one is next again.
        keys = self._by_namespace.pop(namespace)
        self._by_namespace[namespace] = keys
        return next(iter(keys.items()))

    def take(self, ready: Callable[[GroupKey, V], bool], most: int) -> list[GroupKey]:
        """Remove and return up to `most` keys that are ready, from namespaces in turn."""
        searches = {ns: _NamespaceKeys(keys, ready) for ns, keys in self._by_namespace.items()}
        found: list[GroupKey] = []
        while searches and len(found) < most:
            for namespace, search in list(searches.items()):
                key = next(search, None) if len(found) < most else None
                if key is not None:
                    found.append(key)
                    # At the end: the next call begins with another namespace.
                    self._by_namespace[namespace] = self._by_namespace.pop(namespace)
                elif len(found) < most:
                    del searches[namespace]
                    # Or the same keys would be passed over again, and those behind never found.
                    for passed in search.passed_over:
                        self.move_to_end(passed)
        for key in found:
            self.discard(key)
        return found


class _NamespaceKeys(Iterator[GroupKey], Generic[V]):
    """The ready keys of one namespace; `passed_over` has the others, if they are too many."""

    def __init__(self, keys: dict[GroupKey, V], ready: Callable[[GroupKey, V], bool]) -> None:
        self.passed_over: list[GroupKey] = []
        self._items = iter(keys.items())
        self._ready = ready

    def __next__(self) -> GroupKey:
        for key, value in self._items:
            if self._ready(key, value):
                return key
            self.passed_over.append(key)
            # A bound on the time, as a tenant may have any number of keys that are not ready.
            if len(self.passed_over) >= _LOOKS:
                raise StopIteration
        self.passed_over = []
        raise StopIteration
