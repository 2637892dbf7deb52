"""The nodes as a table: what each has free, one row per resource, one column per node.

Arrays are int64 and resource-major, (R, N): how many pods fit is then one pass over contiguous
memory per resource. Tentative work happens inside `trial()`; every change is recorded and undone
exactly, because integers add and subtract without rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.match_counts import MatchCounts
from scheduler.core.model import NodeInfo
from scheduler.core.node_classes import NodeClass, NodeClasses
from scheduler.core.plugins import node_ports

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

PODS: Final = "pods"
"""The pod count is a resource like any other: a node has so many, each pod requests one."""

_NO_NODE: Final = -1
_CLASSES: Final = 64
"""So many node classes may be kept that no node has any more, and as many more as nodes are."""


class Trial:
    """A span of tentative changes; `keep()` makes them stay, otherwise leaving undoes them."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        self.kept = True


class NodeTable:
    """Node columns with a free list; `row` is a node's index along N.

    `generation` changes with the set of nodes or their classes, `version` with anything at all.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.resources: dict[str, int] = {}
        self.allocatable: Ints = np.zeros((0, capacity), np.int64)
        self.free: Ints = np.zeros((0, capacity), np.int64)
        self.node_class: npt.NDArray[np.int32] = np.full(capacity, _NO_NODE, np.int32)
        self.infos: list[NodeInfo | None] = []
        self.row_of: dict[str, int] = {}
        self.classes = NodeClasses()
        self.match_counts = MatchCounts()
        self.generation = 0
        self.version = 0
        self._stamp = 0
        self._changed_at: Ints = np.zeros(capacity, np.int64)
        self._vacant: list[int] = []
        self._undo_log: list[tuple[Ints, Ints, Ints, tuple[int, ...]] | Callable[[], None]] = []
        self._trials = 0
        self.resource(PODS)

    @property
    def size(self) -> int:
        """Number of columns in use or vacant; arrays are valid up to here."""
        return len(self.infos)

    @property
    def vacant(self) -> tuple[int, ...]:
        """Rows without a node, in the order in which they were vacated."""
        return tuple(self._vacant)

    def resource(self, name: str) -> int:
        """The resource's index; of a name nobody has met yet the nodes have none.

        Host ports are resources of which every node has its own.
        """
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            row = np.zeros((1, self.free.shape[1]), np.int64)
            row[0, list(self.row_of.values())] = node_ports.of_every_node(name)
            self.allocatable = np.vstack((self.allocatable, row))
            self.free = np.vstack((self.free, row))
        return index

    def name_of(self, row: int) -> str:
        """The node's name. Raises LookupError for a vacant column."""
        node = self.infos[row]
        if node is None:
            raise LookupError(row)
        return node.name

    def set_node(self, node: NodeInfo) -> int:
        """Add or update a node; what its pods use stays taken. Returns its row."""
        row = self.row_of.get(node.name)
        if row is None:
            row = self._claim(node.name)
        old = self.infos[row]
        self.infos[row] = node
        self._set_allocatable(row, node.allocatable)
        self._classify(row)
        if len(self.classes.all) > _CLASSES + 2 * len(self.row_of):
            self.classes.forget()
            self._classify_all()
        self._changed(row)
        if old is None or old.labels != node.labels:
            # Domains are read from labels, whether or not a shape looks at them.
            self.generation += 1
        return row

    def remove_node(self, name: str) -> int | None:
        """Forget a node and all that was taken from it. Returns the vacated row."""
        row = self.row_of.pop(name, None)
        if row is None:
            return None
        self.infos[row] = None
        self.allocatable[:, row] = 0
        self.free[:, row] = 0
        self.match_counts.clear(row)
        self.node_class[row] = _NO_NODE
        self._vacant.append(row)
        self.generation += 1
        self._changed(row)
        return row

    def watch_label(self, key: str) -> None:
        """Let `key` tell node classes apart from now on."""
        if self.classes.watch(key):
            self._classify_all()

    def take(
        self, rows: Ints, counts: Ints, request: Ints, match_ids: tuple[int, ...] = ()
    ) -> None:
        """Put `counts[i]` pods of `request` (R,) on node `rows[i]`; rows are distinct.

        `match_ids` are the match counts that count such pods.
        """
        self._changed(rows)
        self.free[: len(request), rows] -= request[:, None] * counts
        if match_ids:
            self.match_counts.add(match_ids, rows, counts)
        if self._trials:
            self._undo_log.append((rows, counts, request, match_ids))

    def take_one(
        self, row: int, request: Ints, count: int = 1, match_ids: tuple[int, ...] = ()
    ) -> None:
        """Like take, for one node; a negative count gives back."""
        if self._trials:
            raise RuntimeError("take_one cannot be undone: use take inside a trial")
        self._changed(row)
        self.free[: len(request), row] -= request * count
        for match_id in match_ids:
            self.match_counts.add_one(match_id, row, count)

    def undo_by(self, step: Callable[[], None]) -> None:
        """Have a rollback call the step: it undoes what followed from the last take."""
        if self._trials:
            self._undo_log.append(step)

    def touch(self) -> None:
        """Something outside the table changed that answers depend on."""
        # Never a number used before: a trial's versions are abandoned, not handed out again.
        self._stamp += 1
        self.version = self._stamp

    @property
    def stamp(self) -> int:
        """The number of the last change, for `changed_since`."""
        return self._stamp

    def changed_since(self, stamp: int) -> Ints:
        """Rows whose amounts changed after that, undone changes included; in order."""
        return np.flatnonzero(self._changed_at[: self.size] > stamp)

    def mark(self) -> int:
        """A point to roll back to inside a trial."""
        return len(self._undo_log)

    def rollback(self, mark: int) -> None:
        """Undo what was taken since `mark`."""
        while len(self._undo_log) > mark:
            entry = self._undo_log.pop()
            if callable(entry):
                entry()
                continue
            rows, counts, request, match_ids = entry
            self._changed(rows)
            self.free[: len(request), rows] += request[:, None] * counts
            if match_ids:
                self.match_counts.add(match_ids, rows, -counts)
        self.touch()

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Tentative changes, undone on leaving unless kept; trials may be nested."""
        mark, version, trial = self.mark(), self.version, Trial()
        self._trials += 1
        try:
            yield trial
        finally:
            if not trial.kept:
                self.rollback(mark)
                # The numbers are what they were, so answers cached by version hold again.
                self.version = version
            self._trials -= 1
            if not self._trials:
                self._undo_log.clear()

    def by_class(self, test: Callable[[NodeClass], bool]) -> Bools:
        """The test's answer for each node (N,), asked once for each class; False if vacant."""
        answers = np.array([*map(test, self.classes.all), False], np.bool_)
        chosen: Bools = answers[self.node_class[: self.size]]
        return chosen

    def named(self, names: Iterable[str]) -> Bools:
        """Per node (N,) whether it has one of the names."""
        mask = np.zeros(self.size, np.bool_)
        mask[[self.row_of[name] for name in names if name in self.row_of]] = True
        return mask

    def _changed(self, rows: int | Ints) -> None:
        self.touch()
        self._changed_at[rows] = self._stamp

    def _claim(self, name: str) -> int:
        if self._vacant:
            row = self._vacant.pop()
        else:
            row = len(self.infos)
            self.infos.append(None)
            if row == self.free.shape[1]:
                self._grow()
        self.row_of[name] = row
        return row

    def _grow(self) -> None:
        extra = self.free.shape[1]
        wide = ((0, 0), (0, extra))
        self.allocatable = np.pad(self.allocatable, wide)
        self.free = np.pad(self.free, wide)
        self._changed_at = np.pad(self._changed_at, (0, extra))
        self.node_class = np.pad(self.node_class, (0, extra), constant_values=_NO_NODE)

    def _set_allocatable(self, row: int, allocatable: Mapping[str, int]) -> None:
        for name in allocatable:
            self.resource(name)
        for name, index in self.resources.items():
            amount = allocatable.get(name, 0) or node_ports.of_every_node(name)
            self.free[index, row] += amount - self.allocatable[index, row]
            self.allocatable[index, row] = amount

    def _classify_all(self) -> None:
        self.generation += 1
        for row in self.row_of.values():
            self._classify(row)

    def _classify(self, row: int) -> None:
        node = self.infos[row]
        if node is None:
            raise LookupError(row)
        index = self.classes.of(node)
        if self.node_class[row] != index:
            self.node_class[row] = index
            self.generation += 1
