"""The candidate placements that earlier searches for a root have completed.

A search ends with its budget. Without this memory each search would try the same first candidate
placements again, and never reach the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import NodeTable, Region
from scheduler.core.state.shortage import Shortage
from scheduler.core.values.model import GroupKey

_MOST: Final = 1 << 19
"""Candidate placements of all roots, about 100 bytes each; the oldest root is dropped first."""


_MOST_PACKINGS: Final = 1 << 17
"""States of packings of one root. With more, what did not fit until then is refused."""

_FIRST_WAYS: Final = 16
"""Choices of children and pods that the first joint packing of a root tries."""


class PackingMemory:
    """The states of packings from which the remaining pods did not fit, as hashes of 64 bits.

    `ways` is how many choices of children and pods a joint packing tries. `cuts` counts packings of
    this search that ended before they had tried everything, and that another one would continue.
    """

    def __init__(self) -> None:
        self.failed: set[int] = set()
        self.ways = _FIRST_WAYS
        self.cuts = 0

    def end_early(self) -> None:
        """Count a packing that ran out of budget; without an effect once there is no more room."""
        self.cuts += len(self.failed) < _MOST_PACKINGS


class SearchMemory:
    """The candidate placements of one root that did not fit.

    If only the resources of nodes decide, one stays in memory until capacity grows on one of its
    nodes; otherwise until anything changes. Keys are hashes of 64 bits, which are assumed to be
    unique.
    """

    def __init__(self) -> None:
        self._failed: dict[int, int] = {}
        self._shortages: dict[GroupKey, Shortage] = {}
        self._valid_for: Hashable = None
        self._version: Hashable = None
        self.cursor: tuple[int, ...] = ()
        """Position at which the exhaustive search ended."""
        self.walked = 0
        """Steps of the exhaustive search."""
        self.packings = PackingMemory()

    @property
    def tried(self) -> int:
        """Number of candidate placements that did not fit, and of trials to place single pods."""
        return len(self._failed) + self.walked + len(self.packings.failed)

    def __len__(self) -> int:
        """Return the number of remembered entries."""
        # One entry for the cursor, so that a root without failures counts as well.
        return 1 + len(self._failed) + len(self.packings.failed)

    def begin(self, valid_for: Hashable, version: Hashable) -> None:
        """Begin a search; forget everything if `valid_for` is not what it was.

        The position of the exhaustive search is also forgotten if the `version` of the nodes
        differs.
        """
        # A position in the walk means nothing once any node differs; a failed candidate stays
        # failed until one of its own nodes gains capacity.
        if (self._version, self._valid_for) != (version, valid_for):
            self.cursor, self.walked, self._version = (), 0, version
        self.packings.cuts = 0
        if self._valid_for != valid_for:
            self._failed.clear()
            self._shortages.clear()
            self.packings = PackingMemory()
            self._valid_for = valid_for

    def shortage(
        self, group: GroupKey, candidate: int, region: Region | None, nodes: NodeTable
    ) -> Shortage | None:
        """Return a shortage of the group if the candidate did not fit; None if it is unknown."""
        stamp = self._failed.get(candidate)
        if stamp is None or nodes.grown_since(stamp, region):
            return None
        return self._shortages.get(group)

    def failed(self, group: GroupKey, candidate: int, shortage: Shortage, stamp: int) -> None:
        """Record that the candidate did not fit, on the nodes as they were at `stamp`."""
        self._failed[candidate] = stamp
        self._shortages.setdefault(group, shortage)


class SearchMemories:
    """The memories of all roots whose search ended before all was tried."""

    def __init__(self) -> None:
        self._by_root: OrderedDict[GroupKey, SearchMemory] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """Return the number of remembered candidate placements."""
        return self._size

    def take(self, root: GroupKey) -> SearchMemory:
        """Remove and return the memory of one root, for its next search."""
        memory = self._by_root.pop(root, None)
        if memory is None:
            return SearchMemory()
        self._size -= len(memory)
        return memory

    def keep(self, root: GroupKey, memory: SearchMemory) -> None:
        """Keep the memory of a root whose search ended before all was tried."""
        self._by_root[root] = memory
        self._size += len(memory)
        while self._size > _MOST:
            _, oldest = self._by_root.popitem(last=False)
            self._size -= len(oldest)


def asked_by(root: Group) -> Hashable:
    """Return what the root requests: equal values mean equal searches on equal nodes."""
    return tuple(
        (
            group.key,
            group.minimum,
            group.topology,
            group.slicing,
            group.running,
            # The shapes themselves: the index of one that is gone is used again.
            frozenset((shape, len(pods)) for shape, pods in group.pending.items()),
        )
        for group in root.walk()
    )
