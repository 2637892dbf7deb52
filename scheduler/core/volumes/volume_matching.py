"""VolumeBinding's index of existing volumes that an unbound claim can get.

The rules are those of kube-scheduler's FindMatchingVolume: a claim gets the volume whose claimRef
names it and no other, else the smallest free volume that fits. Volumes are indexed by storage
class, and by node if only one node can use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.nodes.label_expressions import matches
from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.values.model import ClaimInfo, ClaimKey, Expression, VolumeInfo

_NEEDS_KEPT = 64
"""Limit of ClaimNeeds per storage class for which counts are cached."""


@dataclass(frozen=True, slots=True)
class ClaimNeeds:
    """Requirements of a claim for its volume; claims with equal needs share one cached count."""

    size: int
    access: tuple[str, ...]
    mode: str
    attributes: str
    selector: tuple[Expression, ...] | None

    @classmethod
    def of(cls, claim: ClaimInfo) -> ClaimNeeds:
        return cls(claim.size, claim.access, claim.mode, claim.attributes, claim.selector)

    def admits(self, volume: VolumeInfo) -> bool:
        """Return True if the volume fits, on nodes that can use it."""
        chosen = self.selector is None or matches(self.selector, volume.labels)
        return chosen and self.fits(volume) and set(self.access) <= set(volume.access)

    def fits(self, volume: VolumeInfo) -> bool:
        """Return True if size, mode and attributes fit: a claimRef to the claim needs no more."""
        same = (self.mode, self.attributes) == (volume.mode, volume.attributes)
        return same and volume.size >= self.size


@dataclass(slots=True)
class _ClassVolumes:
    """Free volumes of one storage class, valid for one generation of the node table.

    `by_node` has the names of volumes that only one node can use, by its row; `wide` has all
    others. `free` has the number of fitting volumes for each needs and node (N,).
    """

    volumes: dict[str, VolumeInfo] = field(default_factory=dict)
    by_node: dict[int, set[str]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    free: dict[ClaimNeeds, Ints] = field(default_factory=dict)

    def put(self, volume: VolumeInfo, rows: Ints, sign: int = 1) -> None:
        """Add a volume that these nodes can use; `sign` -1 removes it."""
        # The cached counts follow each change: counting all volumes again would cost too much.
        for needs, free in self.free.items():
            if needs.admits(volume):
                free[rows] += sign
        there = self.by_node.setdefault(int(rows[0]), set()) if len(rows) == 1 else self.wide
        if sign > 0:
            self.volumes[volume.name] = volume
            there.add(volume.name)
        else:
            del self.volumes[volume.name]
            there.discard(volume.name)


class VolumeIndex:
    """Index of all volumes, `known` by name. Volumes bound or assumed for a claim are not free."""

    def __init__(self, nodes: NodeTable, reach: Callable[[VolumeInfo], Ints]) -> None:
        """Create an empty index; `reach` returns the ascending rows of a volume's nodes."""
        self.known: dict[str, VolumeInfo] = {}
        self._nodes = nodes
        self._reach = reach
        # A count, because a volume may be assumed for a claim and bound to it at the same time.
        self._taken: Counter[str] = Counter()
        self._meant: dict[ClaimKey, set[str]] = {}
        self._open: dict[str, dict[str, VolumeInfo]] = {}
        self._by_class: dict[str, _ClassVolumes] = {}
        self._rows: dict[str, Ints] = {}
        self._generation = -1

    def set(self, volume: VolumeInfo) -> None:
        """Add or update a volume."""
        self.remove(volume.name)
        self.known[volume.name] = volume
        if volume.claim is not None:
            self._meant.setdefault(volume.claim, set()).add(volume.name)
        self._offer(volume)

    def remove(self, name: str) -> None:
        """Remove a volume, if it is known."""
        volume = self.known.pop(name, None)
        if volume is None:
            return
        self._withdraw(volume)
        self._rows.pop(name, None)
        if volume.claim is not None:
            meant = self._meant[volume.claim]
            meant.discard(name)
            if not meant:
                del self._meant[volume.claim]

    def take(self, name: str) -> None:
        """Count one more claim that is bound to the volume or assumes it; it may be unknown yet."""
        self._taken[name] += 1
        if name in self.known:
            self._withdraw(self.known[name])

    def give(self, name: str) -> None:
        """Count one claim fewer that is bound to the volume or assumes it."""
        self._taken[name] -= 1
        if not self._taken[name]:
            del self._taken[name]
            if name in self.known:
                self._offer(self.known[name])

    def rows(self, name: str) -> Ints:
        """Return the ascending rows of the nodes that can use the volume; none if it is unknown."""
        self._drop_stale()
        rows = self._rows.get(name)
        if rows is None:
            volume = self.known.get(name)
            rows = np.zeros(0, np.int64) if volume is None else self._reach(volume)
            self._rows[name] = rows
        return rows

    def meant_for(self, claim: ClaimInfo) -> str:
        """Return the first fitting volume by name whose claimRef names the claim, or ""."""
        needs = ClaimNeeds.of(claim)
        for name in sorted(self._meant.get(claim.key, ())):
            volume = self.known[name]
            # An administrator's claimRef has no UID: it is for any claim of the name.
            same = volume.claim_uid in ("", claim.uid) and not volume.terminating
            if same and volume.storage_class == claim.storage_class and needs.fits(volume):
                return name
        return ""

    def free(self, claim: ClaimInfo) -> Ints:
        """Return, in a shared array, how many free volumes on each node (N,) fit the claim."""
        same_class, needs = self._of_class(claim.storage_class), ClaimNeeds.of(claim)
        free = same_class.free.get(needs)
        if free is None:
            free = np.zeros(self._nodes.size, np.int64)
            for name, volume in same_class.volumes.items():
                if needs.admits(volume):
                    free[self.rows(name)] += 1
            # Sizes of claims differ at will, so the counts would otherwise grow without limit.
            if len(same_class.free) >= _NEEDS_KEPT:
                same_class.free.clear()
            same_class.free[needs] = free
        return free

    def best(self, claim: ClaimInfo, row: int, without: Collection[str] = ()) -> str:
        """Return the smallest free volume for the claim on the node, ties by name, or ""."""
        same_class, needs = self._of_class(claim.storage_class), ClaimNeeds.of(claim)
        # Local volumes are found by node; only the others need a check of their rows.
        wide = (name for name in same_class.wide if row in self.rows(name))
        found = (
            (same_class.volumes[name].size, name)
            for name in (*same_class.by_node.get(row, ()), *wide)
            if name not in without and needs.admits(same_class.volumes[name])
        )
        return min(found, default=(0, ""))[1]

    def _offer(self, volume: VolumeInfo) -> None:
        usable = volume.available and volume.claim is None and not volume.terminating
        if not usable or self._taken[volume.name]:
            return
        self._drop_stale()
        self._open.setdefault(volume.storage_class, {})[volume.name] = volume
        same_class = self._by_class.get(volume.storage_class)
        if same_class is not None:
            same_class.put(volume, self.rows(volume.name))

    def _withdraw(self, volume: VolumeInfo) -> None:
        # First, because the cached rows may be those of an older generation of the nodes.
        self._drop_stale()
        same = self._open.get(volume.storage_class, {})
        if same.pop(volume.name, None) is None:
            return
        if not same:
            del self._open[volume.storage_class]
        same_class = self._by_class.get(volume.storage_class)
        if same_class is not None:
            same_class.put(volume, self.rows(volume.name), -1)

    def _of_class(self, storage_class: str) -> _ClassVolumes:
        self._drop_stale()
        same_class = self._by_class.get(storage_class)
        if same_class is None:
            # On first use: rows are computed again only for classes that pending claims name.
            same_class = self._by_class[storage_class] = _ClassVolumes()
            for volume in self._open.get(storage_class, {}).values():
                same_class.put(volume, self.rows(volume.name))
        return same_class

    def _drop_stale(self) -> None:
        """Drop what is cached about nodes if the node table has a new generation."""
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._by_class.clear()
            self._rows.clear()
