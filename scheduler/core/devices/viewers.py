"""Which nodes see which devices. Nodes that see the same are one group.

Where pools are reachable from many nodes these have one view and one usage together, so what one
pod gets there is noted once, not once for each node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.devices.contents import Seen
from scheduler.core.devices.layouts import Usage, View
from scheduler.core.nodes.node_table import Ints
from scheduler.core.values.devices import PoolKey


@dataclass(slots=True, eq=False)
class ViewGroup:
    """The nodes of `rows`, what they see, and what of that is in use; None: not looked up yet."""

    view: View
    seen: Seen
    rows: set[int] = field(default_factory=set)
    usage: Usage | None = None
    _array: Ints | None = None

    def array(self) -> Ints:
        """The rows in order, (len(rows),). Not to be changed."""
        if self._array is None or len(self._array) != len(self.rows):
            self._array = np.array(sorted(self.rows), np.int64)
        return self._array

    def add(self, row: int) -> None:
        self.rows.add(row)
        self._array = None

    def discard(self, row: int) -> None:
        self.rows.discard(row)
        self._array = None


class ViewGroups:
    """The groups of all nodes that see devices."""

    def __init__(self) -> None:
        self._of: dict[int, ViewGroup] = {}
        self._seeing: dict[PoolKey, dict[ViewGroup, None]] = {}
        self._wide: dict[PoolKey, None] = {}

    def of(self, row: int) -> ViewGroup | None:
        """The group of a row; None if it sees no devices."""
        return self._of.get(row)

    def rows(self) -> Collection[int]:
        """All rows that see some."""
        return self._of.keys()

    def all(self) -> Iterator[ViewGroup]:
        return iter(dict.fromkeys(self._of.values()))

    def seeing(self, pool: PoolKey) -> Collection[ViewGroup]:
        """The groups that see the pool."""
        return self._seeing.get(pool, {}).keys()

    def rows_seeing(self, pool: PoolKey) -> set[int]:
        """The rows of all nodes that see the pool."""
        return set().union(*(group.rows for group in self.seeing(pool)))

    @property
    def wide_pools(self) -> Collection[PoolKey]:
        """The pools that several nodes see."""
        return self._wide.keys()

    def put(self, row: int, group: ViewGroup | None) -> None:
        """Let the row be of this group, and of no other."""
        before = self._of.pop(row, None)
        if before is not None:
            before.discard(row)
            self._count_again(before)
        if group is not None:
            if not group.rows:
                group.usage = None  # while nobody sees it, nobody brings it up to date
            group.add(row)
            self._of[row] = group
            self._count_again(group)

    def _count_again(self, group: ViewGroup) -> None:
        """The group has one row more or less. Of more than two rows, one more tells nothing new."""
        for pool in group.view.pools if len(group.rows) <= 2 else ():
            seeing = self._seeing.setdefault(pool.key, {})
            if group.rows:
                seeing[group] = None
            else:
                seeing.pop(group, None)
            if not seeing:
                del self._seeing[pool.key]
            self._wide.pop(pool.key, None)
            if len(seeing) > 1 or any(len(each.rows) > 1 for each in seeing):
                self._wide[pool.key] = None
