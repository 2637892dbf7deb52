"""Keys that changed since the last call."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

_MOST: Final = 1 << 14
"""Limit of recorded keys; beyond it, everything counts as changed."""

_T = TypeVar("_T", bound=Hashable)


class ChangedKeys(Generic[_T]):
    """Bounded set of changed keys."""

    def __init__(self) -> None:
        self._changed: set[_T] | None = set()

    def add(self, one: _T) -> None:
        if self._changed is not None:
            self._changed.add(one)
            self._bound()

    def update(self, several: Iterable[_T]) -> None:
        if self._changed is not None:
            self._changed.update(several)
            self._bound()

    def add_all(self) -> None:
        self._changed = None

    def take(self) -> set[_T] | None:
        """Return the keys that changed since the last call, or None if any key may have changed."""
        changed, self._changed = self._changed, set()
        return changed

    def _bound(self) -> None:
        # If no reader ever takes the keys, the set must not grow with each pod.
        if self._changed is not None and len(self._changed) > _MOST:
            self.add_all()
