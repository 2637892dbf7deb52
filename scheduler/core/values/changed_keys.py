"""What changed since somebody asked last."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

_MOST: Final = 1 << 14
"""Where more than this changed, everything counts as changed: nobody may ever ask."""

_T = TypeVar("_T", bound=Hashable)


class Changes(Generic[_T]):
    """A bounded set of what changed."""

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
        """What changed since the last call; None: anything may have."""
        changed, self._changed = self._changed, set()
        return changed

    def _bound(self) -> None:
        if self._changed is not None and len(self._changed) > _MOST:
            self.add_all()
