"""The largest volume that a driver can provision for each node, by its CSIStorageCapacities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.nodes.node_labels import NodeLabels
from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.values.model import CapacityKey, Expression, StorageCapacityInfo

NOTHING = -1
"""The largest volume on nodes for which no driver has published a capacity."""


@dataclass(slots=True)
class _ClassCapacities:
    """The capacities of one storage class; `largest` (N,) is valid for one state of the nodes."""

    all: dict[CapacityKey, StorageCapacityInfo] = field(default_factory=dict)
    largest: Ints | None = None
    generation: int = -1


class _RowsByLabel:
    """The rows of nodes with certain labels, in time proportional to their number.

    A driver may publish a capacity for each node by two labels, its zone and its name.
    """

    def __init__(self, labels: NodeLabels, size: int) -> None:
        self._labels = labels
        self._size = size
        self._sorted: dict[str, tuple[Ints, Ints]] = {}

    def of(self, topology: Sequence[Expression]) -> Ints:
        """Return the rows of the nodes that meet all expressions."""
        usual = [each for each in topology if each.operator == "In"]
        # The label with most values first: it leaves the fewest nodes for the others.
        first = max(usual, key=self._values, default=None)
        rows = np.arange(self._size) if first is None else self._with(first)
        for each in topology:
            if each is not first:
                rows = rows[self._labels.meets(each, rows)]
        return rows

    def _values(self, expression: Expression) -> int:
        column = self._labels.column(expression.key)
        return 0 if column is None else len(column)

    def _with(self, expression: Expression) -> Ints:
        """Return the rows whose label has one of the values."""
        column = self._labels.column(expression.key)
        if column is None:
            return np.zeros(0, np.int64)
        if expression.key not in self._sorted:
            codes = column.codes[: self._size]
            order = np.argsort(codes, kind="stable")
            self._sorted[expression.key] = (order, codes[order])
        order, codes = self._sorted[expression.key]
        wanted = [code for value in expression.values if (code := column.code(value)) is not None]
        ends = np.searchsorted(codes, wanted, "right")
        starts = np.searchsorted(codes, wanted)
        parts = [order[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class StorageCapacities:
    """All CSIStorageCapacities, `known` by namespace and name."""

    def __init__(self, nodes: NodeTable) -> None:
        self.known: dict[CapacityKey, StorageCapacityInfo] = {}
        self._nodes = nodes
        self._classes: defaultdict[str, _ClassCapacities] = defaultdict(_ClassCapacities)

    def set(self, info: StorageCapacityInfo) -> None:
        """Add or update a capacity."""
        if self.known.get(info.key) == info:
            return
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
        labels, by_label = self._nodes.labels, defaultdict[str, dict[str, int]](dict)
        found = _RowsByLabel(labels, self._nodes.size)
        for info in same.all.values():
            only = info.topology[0] if len(info.topology) == 1 else None
            if only is not None and only.operator == "In":
                best = by_label[only.key]
                for value in only.values:
                    best[value] = max(best.get(value, NOTHING), info.largest)
                continue
            rows = found.of(info.topology)
            largest[rows] = np.maximum(largest[rows], info.largest)
        for label, best in by_label.items():
            np.maximum(largest, labels.numbers(label, best, NOTHING), out=largest)
        return largest
