"""Devices that each node sees, refreshed a few nodes at a time after slices or nodes changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.core.devices.contents import Seen
from scheduler.core.devices.layouts import DeviceView
from scheduler.core.devices.pools import gather
from scheduler.core.devices.slices import DeviceSlices, scopes
from scheduler.core.devices.sortings import Sortings
from scheduler.core.devices.viewers import ViewGroup, ViewGroups
from scheduler.core.nodes.node_table import Bools, NodeTable
from scheduler.core.values.devices import NodeScope, SliceInfo
from scheduler.core.values.model import NodeTerm

_LOOKED_AT: Final = 16
"""Rows that one step refreshes: about a millisecond, with eight devices each."""


class NodeDevices:
    """Groups of nodes that see the same devices; `seen` has the devices of each row, by content.

    `on_refresh` is called with the refreshed rows, and the views that they had or have.
    """

    def __init__(
        self,
        nodes: NodeTable,
        slices: DeviceSlices,
        sortings: Sortings,
        on_refresh: Callable[[list[int], Collection[DeviceView]], None],
    ) -> None:
        self.groups = ViewGroups()
        self.seen: dict[int, Seen] = {}
        self._nodes = nodes
        self._slices = slices
        self._sortings = sortings
        self._on_refresh = on_refresh
        self._stale: set[int] = set()
        self._version = 0
        self._common: dict[tuple[NodeScope, ...], ViewGroup | None] = {}

    @property
    def stale(self) -> bool:
        """True if some rows need a refresh."""
        return bool(self._stale)

    def mark_stale(self, rows: Iterable[int]) -> None:
        """Schedule a refresh of these rows."""
        self._stale.update(rows)
        self._version += 1

    def contents_changed(self) -> None:
        """Schedule a refresh of all rows, since the numbers of contents changed."""
        self._common.clear()
        self.mark_stale(self.groups.rows())

    def pool_changed(self, info: SliceInfo) -> set[int]:
        """Schedule a refresh of the rows that see the pool, or may see it now, and return them."""
        rows = self.groups.rows_seeing(info.pool_key)
        # Other slices of the pool as well: whether the pool is complete depends on all of them.
        for each in (info, *self._slices.of_pool(info.pool_key)):
            for scope in scopes(each):
                rows.update(self._in_scope(scope))
            if each.scope is None or not each.scope.name:
                # Nodes without slices of their own share groups by scope, so a slice for several
                # nodes may change any of them.
                self._common.clear()
        self.mark_stale(rows)
        return rows

    def refresh_stale(self) -> Iterator[None]:
        """Refresh stale rows, a few at a time."""
        while self._stale:
            yield from self._refresh_rows(sorted(self._stale))

    def _refresh_rows(self, left: list[int]) -> Iterator[None]:
        """Refresh these rows until something changes between two steps."""
        reach, version = self._reach(self._stale), self._version
        for first in range(0, len(left), _LOOKED_AT):
            if version != self._version:
                # `reach` may be outdated, and other rows stale: the caller begins again.
                return
            rows = left[first : first + _LOOKED_AT]
            self._refresh(rows, reach)
            self._stale.difference_update(rows)
            yield

    def _reach(self, rows: set[int]) -> dict[int, list[NodeScope]]:
        """Return the scopes of slices for several nodes that contain each of these rows."""
        reach: dict[int, list[NodeScope]] = {}
        # By scope, not by node: a node selector is evaluated once for all nodes.
        wide = dict.fromkeys(scope for each in self._slices.wide.values() for scope in scopes(each))
        for scope in wide:
            for row in rows.intersection(self._in_scope(scope)):
                reach.setdefault(row, []).append(scope)
        return reach

    def _in_scope(self, scope: NodeScope) -> Iterable[int]:
        """Return the rows of the nodes in a scope."""
        if scope.name:
            row = self._nodes.row_of.get(scope.name)
            return () if row is None else (row,)
        within = admitted(self._nodes, None if scope.everywhere else scope.terms or ())
        found: list[int] = np.flatnonzero(within).tolist()
        return found

    def _refresh(self, rows: list[int], reach: Mapping[int, list[NodeScope]]) -> None:
        # Old and new groups: claims on devices of either may get another place.
        moved = dict.fromkeys(map(self.groups.of, rows))
        for row in rows:
            group = self._group_of(row, tuple(reach.get(row, ())))
            self.groups.put(row, group)
            self.seen.pop(row, None)
            if group is not None:
                self.seen[row] = group.seen
                moved[group] = None
        self._on_refresh(rows, [group.view for group in moved if group is not None])

    def _group_of(self, row: int, reach: tuple[NodeScope, ...]) -> ViewGroup | None:
        """Return the group of a row in these scopes of slices for several nodes."""
        node = self._nodes.infos[row]
        if node is None:
            return None
        own = self._slices.of_node(node.name)
        # A node with slices of its own sees devices that no other node sees: a group for itself.
        if own:
            return self._new_group(own, reach)
        # Nodes without slices of their own in the same scopes see the same: one group for all.
        if reach not in self._common:
            self._common[reach] = self._new_group((), reach)
        return self._common[reach]

    def _new_group(
        self, own: Iterable[SliceInfo], reach: tuple[NodeScope, ...]
    ) -> ViewGroup | None:
        within = set(reach)
        wide = (it for it in self._slices.wide.values() if within and within & scopes(it))
        seen = {each.name: each for each in (*own, *wide) if each.devices}
        for key in {each.pool_key for each in seen.values()}:
            # Slices with only counters are for no node: they come with the pool's devices.
            seen.update((each.name, each) for each in self._slices.of_pool(key) if each.counters)
        if not seen:
            return None
        view = DeviceView.of(gather(seen.values(), self._slices.of_pool), within.__contains__)
        return ViewGroup(view, self._sortings.contents.seen(view))


def admitted(nodes: NodeTable, terms: tuple[NodeTerm, ...] | None) -> Bools:
    """Return the nodes (N,) that meet one of the terms, or all nodes if `terms` is None."""
    if terms is None:
        return np.ones(nodes.size, np.bool_)
    return nodes.meets_any(terms)
