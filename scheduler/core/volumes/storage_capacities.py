"""The largest volume that a driver can provision for each node, by its CSIStorageCapacities."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.values.model import CapacityKey, StorageCapacityInfo

NOTHING = -1
"""The largest volume on nodes for which no driver has published a capacity."""


@dataclass(slots=True)
class _ClassCapacities:
    """The capacities of one storage class; `largest` (N,) is valid for one state of the nodes."""

    all: dict[CapacityKey, StorageCapacityInfo] = field(default_factory=dict)
    largest: Ints | None = None
    generation: int = -1


class StorageCapacities:
    """All CSIStorageCapacities, `known` by namespace and name."""

    def __init__(self, nodes: NodeTable) -> None:
        self.known: dict[CapacityKey, StorageCapacityInfo] = {}
        self._nodes = nodes
        self._classes: defaultdict[str, _ClassCapacities] = defaultdict(_ClassCapacities)

    def set(self, info: StorageCapacityInfo) -> None:
        """Add or update a capacity."""
        self.remove(info.key)
        self.known[info.key] = info
        same = self._classes[info.storage_class]
        same.all[info.key], same.largest = info, None
        self._nodes.touch()

    def remove(self, key: CapacityKey) -> None:
        """Remove a capacity, if it is known."""
        info = self.known.pop(key, None)
        if info is None:
            return
        same = self._classes[info.storage_class]
        del same.all[key]
        same.largest = None
        if not same.all:
            del self._classes[info.storage_class]
        self._nodes.touch()

    def largest(self, storage_class: str) -> Ints:
        """Return the size in bytes of the largest volume on each node (N,), or NOTHING."""
        if storage_class not in self._classes:
            return np.full(self._nodes.size, NOTHING, np.int64)
        same, generation = self._classes[storage_class], self._nodes.generation
        if same.largest is None or same.generation != generation:
            same.largest, same.generation = self._computed(same), generation
        return same.largest

    def _computed(self, same: _ClassCapacities) -> Ints:
        largest = np.full(self._nodes.size, NOTHING, np.int64)
        # A driver of local disks publishes one for each node, all by the same label. One pass over
        # the values serves them together.
        by_label: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for info in same.all.values():
            only = info.topology[0] if len(info.topology) == 1 else None
            if only is not None and only.operator == "In":
                best = by_label[only.key]
                for value in only.values:
                    best[value] = max(best.get(value, NOTHING), info.largest)
                continue
            able = np.ones(self._nodes.size, np.bool_)
            for expression in info.topology:
                able &= self._nodes.labels.meets(expression)
            largest[able] = np.maximum(largest[able], info.largest)
        for label, best in by_label.items():
            np.maximum(largest, self._nodes.labels.numbers(label, best, NOTHING), out=largest)
        return largest
