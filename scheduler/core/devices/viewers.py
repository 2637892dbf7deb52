"""Groups of nodes that see the same devices.

If pools are reachable from many nodes, these have one view and one usage together. So the devices
that a pod gets there are recorded once, not once for each node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.devices.contents import Seen
from scheduler.core.devices.layouts import DeviceUsage, DeviceView
from scheduler.core.nodes.node_table import Ints
from scheduler.core.values.devices import PoolKey


@dataclass(slots=True, eq=False)
class ViewGroup:
    """Nodes of `rows`, the devices that they see, and their usage; None before its first use."""

    view: DeviceView
    seen: Seen
    rows: set[int] = field(default_factory=set)
    usage: DeviceUsage | None = None
    _array: Ints | None = None

    def array(self) -> Ints:
        """Return the rows in ascending order, (len(rows),). Callers must not change the array."""
        # Built on demand: groups of thousands of nodes change row by row.
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
    """Groups of all nodes that see devices."""

    def __init__(self) -> None:
        self._of: dict[int, ViewGroup] = {}
        self._seeing: dict[PoolKey, dict[ViewGroup, None]] = {}
        self._wide: dict[PoolKey, None] = {}

    def of(self, row: int) -> ViewGroup | None:
        """Return the group of a row, or None if its node sees no devices."""
        return self._of.get(row)

    def rows(self) -> Collection[int]:
        """Return the rows of all nodes that see devices."""
        return self._of.keys()

    def all(self) -> Iterator[ViewGroup]:
        return iter(dict.fromkeys(self._of.values()))

    def seeing(self, pool: PoolKey) -> Collection[ViewGroup]:
        """Return the groups that see the pool."""
        return self._seeing.get(pool, {}).keys()

    def rows_seeing(self, pool: PoolKey) -> set[int]:
        """Return the rows of all nodes that see the pool."""
        return set().union(*(group.rows for group in self.seeing(pool)))

    @property
    def wide_pools(self) -> Collection[PoolKey]:
        """Pools that several nodes see."""
        return self._wide.keys()

    def put(self, row: int, group: ViewGroup | None) -> None:
        """Move the row to this group, or to none."""
        before = self._of.pop(row, None)
        if before is not None:
            before.discard(row)
            self._recount(before)
        if group is not None:
            if not group.rows:
                group.usage = None  # not updated while no node sees it
            group.add(row)
            self._of[row] = group
            self._recount(group)

    def _recount(self, group: ViewGroup) -> None:
        """Update the indexes by pool after the group got or lost a row."""
        # The indexes only distinguish no, one and several rows, so large groups cost nothing here.
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
