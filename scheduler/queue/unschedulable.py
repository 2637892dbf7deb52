"""The roots that did not fit, by the shapes of their pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import GroupKey


@dataclass(frozen=True, slots=True)
class RefusedRoot:
    """A refused root: capacity for less than `needed` pods of `shape` cannot help it.

    `shape` is None if that is not known. Without `minimum` the root has its minimum, and extras
    wait. `decided` is when the numbers in its message were computed, and on which basis.
    """

    priority: int
    shapes: frozenset[Shape]
    shape: Shape | None
    needed: int
    retry_at: float
    minimum: bool = True
    decided: tuple[float, object] = (0.0, None)


class RefusedRoots:
    """`roots` that were refused, in the order of their `retry_at`: each waits equally long."""

    def __init__(self) -> None:
        self.roots: dict[GroupKey, RefusedRoot] = {}
        self._by_shape: dict[Shape, set[GroupKey]] = {}
        self._priorities: Counter[int] = Counter()

    @property
    def shapes(self) -> Iterable[Shape]:
        """The shapes for which roots are woken one by one."""
        return self._by_shape

    def any_above(self, priority: int) -> bool:
        """Return whether any root has a higher priority."""
        return any(each > priority for each in self._priorities)

    def add(self, key: GroupKey, refused: RefusedRoot) -> None:
        """Add a root, to be woken by capacity for any of its shapes."""
        # At the end, as its `retry_at` is the latest of all: `first_due` relies on it.
        self.discard(key)
        self.roots[key] = refused
        self._priorities[refused.priority] += 1
        for shape in refused.shapes:
            self._by_shape.setdefault(shape, set()).add(key)

    def discard(self, key: GroupKey) -> None:
        """Remove a root that is no longer refused."""
        self.leave_to_equals(key)
        refused = self.roots.pop(key, None)
        if refused is not None:
            self._priorities[refused.priority] -= 1
            if not self._priorities[refused.priority]:
                del self._priorities[refused.priority]

    def leave_to_equals(self, key: GroupKey) -> None:
        """Let the root be woken with its equals only."""
        refused = self.roots.get(key)
        for shape in refused.shapes if refused is not None else ():
            waiting = self._by_shape.get(shape, set())
            waiting.discard(key)
            if not waiting:
                self._by_shape.pop(shape, None)

    def waiting(self, shape: Shape) -> AbstractSet[GroupKey]:
        """Return the roots that are woken one by one by capacity for this shape."""
        return self._by_shape.get(shape, frozenset())

    def shapes_of(self, keys: Iterable[GroupKey]) -> set[Shape]:
        """Return the shapes of those of these roots that are refused."""
        refused = (self.roots[key] for key in keys if key in self.roots)
        return {shape for each in refused for shape in each.shapes}

    def first_due(self) -> tuple[GroupKey, float] | None:
        """Return the root that is due first, and when."""
        if not self.roots:
            return None
        # `add` keeps the roots in the order of `retry_at`.
        key, refused = next(iter(self.roots.items()))
        return (key, refused.retry_at)
