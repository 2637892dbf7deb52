"""What earlier searches for a root have tried to the end, so that the next one goes on from there.

A search ends with its budget. Without this each would try the same first candidate placements again
and never come to the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import NodeTable, Region
from scheduler.core.state.shortage import Shortage
from scheduler.core.values.model import GroupKey

_MOST: Final = 1 << 18
"""Candidate placements of all roots, about 100 bytes each; the oldest root gives way."""


class SearchMemory:
    """The candidate placements of one root that do not hold what is wanted.

    They do not until room grows on one of their nodes, if nothing but the nodes' resources decides;
    otherwise until anything changes. Keys are hashes: with 64 bits no two of them are ever equal.
    """

    def __init__(self) -> None:
        self._failed: dict[int, int] = {}
        self._shortages: dict[GroupKey, Shortage] = {}
        self._valid_for: Hashable = None
        self._version: Hashable = None
        self.cursor: tuple[int, ...] = ()
        """Where the walk over all ways ended."""
        self.walked = 0
        """The steps of that walk."""

    @property
    def tried(self) -> int:
        """How many candidate placements were tried to the end, and pods placed by the walk."""
        return len(self._failed) + self.walked

    def __len__(self) -> int:
        """How much is remembered."""
        return 1 + len(self._failed)

    def begin(self, valid_for: Hashable, version: Hashable) -> None:
        """Begin a search; forget everything if `valid_for` is not what it was.

        Of the walk over all ways if the `version` of the nodes is another, too.
        """
        if (self._version, self._valid_for) != (version, valid_for):
            self.cursor, self.walked, self._version = (), 0, version
        if self._valid_for != valid_for:
            self._failed.clear()
            self._shortages.clear()
            self._valid_for = valid_for

    def shortage(
        self, group: GroupKey, candidate: int, region: Region | None, nodes: NodeTable
    ) -> Shortage | None:
        """A shortage of the group if the candidate was tried to the end; None if it was not."""
        stamp = self._failed.get(candidate)
        if stamp is None or nodes.grown_since(stamp, region):
            return None
        return self._shortages.get(group)

    def failed(self, group: GroupKey, candidate: int, shortage: Shortage, stamp: int) -> None:
        """The candidate was tried to the end, on the nodes as they were at `stamp`."""
        self._failed[candidate] = stamp
        self._shortages.setdefault(group, shortage)


class SearchMemories:
    """Those of all roots of which a search ended before all was tried."""

    def __init__(self) -> None:
        self._by_root: OrderedDict[GroupKey, SearchMemory] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """How many candidate placements are remembered."""
        return self._size

    def take(self, root: GroupKey) -> SearchMemory:
        """What is remembered of one root, for its next search."""
        memory = self._by_root.pop(root, None)
        if memory is None:
            return SearchMemory()
        self._size -= len(memory)
        return memory

    def keep(self, root: GroupKey, memory: SearchMemory) -> None:
        """The search for the root ended before all was tried."""
        self._by_root[root] = memory
        self._size += len(memory)
        while self._size > _MOST:
            _, oldest = self._by_root.popitem(last=False)
            self._size -= len(oldest)


def asked_by(root: Group) -> Hashable:
    """What the root asks for: equal values, equal searches on equal nodes."""
    return tuple(
        (
            group.key,
            group.minimum,
            group.topology,
            group.running,
            tuple(sorted((shape.index, len(pods)) for shape, pods in group.pending.items())),
        )
        for group in root.walk()
    )
