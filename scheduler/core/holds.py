"""Places kept free for roots whose victims are on their way out.

A root of lower or equal priority does not see them; one of higher priority may take them, and then
they are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from scheduler.core.columns import Columns, Ints
from scheduler.core.shapes import Shape
from scheduler.core.values import GroupKey


@dataclass(frozen=True, slots=True)
class Hold:
    """`places`: how many pods of a shape will come to which nodes, by name."""

    root: GroupKey
    priority: int
    places: tuple[tuple[Shape, tuple[tuple[str, int], ...]], ...]


class Holds:
    """All holds, by root."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._holds: dict[GroupKey, Hold] = {}

    def __contains__(self, root: GroupKey) -> bool:
        return root in self._holds

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds.values())

    def set(self, hold: Hold) -> None:
        """Keep the places from now on; an earlier hold of the root ends."""
        self._holds[hold.root] = hold

    def drop(self, root: GroupKey) -> Hold | None:
        """The root needs its places no more, or lost them; None if it held none."""
        return self._holds.pop(root, None)

    def clear(self) -> None:
        """Nobody holds anything."""
        self._holds.clear()

    def rows(self, root: GroupKey) -> Ints | None:
        """The held nodes; None without a hold, or where one of the nodes is gone."""
        hold = self._holds.get(root)
        if hold is None:
            return None
        names = {name for _, places in hold.places for name, _ in places}
        row_of = self._columns.row_of
        if not names <= row_of.keys():
            return None
        return np.array(sorted(row_of[name] for name in names), np.int64)

    @contextmanager
    def respected(self, root: GroupKey, priority: int) -> Iterator[None]:
        """Inside, what this root may not take is taken; all of it is undone on leaving."""
        others = [h for h in self if h.root != root and h.priority >= priority]
        if not others:
            yield
            return
        with self._columns.trial():
            for hold in others:
                self._occupy(hold)
            yield

    def _occupy(self, hold: Hold) -> None:
        for shape, places in hold.places:
            there = [(self._columns.row_of[n], c) for n, c in places if n in self._columns.row_of]
            if there:
                rows, counts = np.array(there, np.int64).T
                self._columns.take(rows, counts, shape.request, shape.marks.counted)
