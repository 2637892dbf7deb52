"""The nodes as a table of allocatable and free resources, in place of kube-scheduler's NodeInfo.

The arrays are int64 and resource-major, (R, N), so that counting how many pods fit is one pass over
contiguous memory per resource. A node's index along N is called its row. Tentative changes are made
inside `trial()` and recorded; undoing them is exact, because integers do not round.
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
"""The number of pods is a resource like any other: every pod requests one."""

_NO_NODE: Final = -1
_CLASSES: Final = 64
"""All node classes are rebuilt when there are more than this plus twice the number of nodes."""


class Trial:
    """An open trial; its changes are undone when it ends, unless `keep()` was called."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        self.kept = True


class NodeTable:
    """All nodes. A `row` is a node's index along N; rows of removed nodes are reused.

    `generation` changes with the set of nodes, their labels and classes; `version` with any change.
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
        """Number of rows in use or vacant (N); arrays may be longer and are valid up to here."""
        return len(self.infos)

    @property
    def vacant(self) -> tuple[int, ...]:
        """Rows without a node, in the order in which their nodes were removed."""
        return tuple(self._vacant)

    def resource(self, name: str) -> int:
        """The resource's index (along R). A new name is added; no node has any of it.

        Host ports are the exception: every node has all of them.
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
        """The node's name. Raises LookupError for a vacant row."""
        node = self.infos[row]
        if node is None:
            raise LookupError(row)
        return node.name

    def set_node(self, node: NodeInfo) -> int:
        """Add or update a node and return its row. What its pods use stays taken."""
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
            # Domains are built from any label, not only from the watched ones.
            self.generation += 1
        return row

    def remove_node(self, name: str) -> int | None:
        """Remove a node and all that was taken from it. Returns its old row; None if unknown."""
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
        """From now on, put nodes with different values of the label `key` in different classes."""
        if self.classes.watch(key):
            self._classify_all()

    def take(
        self, rows: Ints, counts: Ints, request: Ints, match_ids: tuple[int, ...] = ()
    ) -> None:
        """Put `counts[i]` pods that request `request` (R,) on node `rows[i]`.

        Rows must be distinct; a negative count takes pods off. A shorter `request` is zero for the
        remaining resources. `match_ids` are the match counts that count such pods.
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
        """Like take, for one node. Raises RuntimeError inside a trial: it cannot be undone."""
        if self._trials:
            raise RuntimeError("take_one cannot be undone: use take inside a trial")
        self._changed(row)
        self.free[: len(request), row] -= request * count
        for match_id in match_ids:
            self.match_counts.add_one(match_id, row, count)

    def undo_by(self, step: Callable[[], None]) -> None:
        """Let rollback of the open trial call `step` to undo what followed from the last take."""
        if self._trials:
            self._undo_log.append(step)

    def touch(self) -> None:
        """Start a new version, also when something outside the table changed that answers use."""
        # Never reuse a number: after a trial restores its version, those used inside stay invalid.
        self._stamp += 1
        self.version = self._stamp

    @property
    def stamp(self) -> int:
        """The number of the last change, to pass to `changed_since` later."""
        return self._stamp

    def changed_since(self, stamp: int) -> Ints:
        """Rows that changed after `stamp`, in order; changes that were undone are included."""
        return np.flatnonzero(self._changed_at[: self.size] > stamp)

    def mark(self) -> int:
        """A point to which `rollback` can return, inside a trial."""
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
        """Undo all changes made inside when it ends, unless they are kept. Trials may be nested."""
        mark, version, trial = self.mark(), self.version, Trial()
        self._trials += 1
        try:
            yield trial
        finally:
            if not trial.kept:
                self.rollback(mark)
                # The amounts are the old ones again, and so are the answers cached by version.
                self.version = version
            self._trials -= 1
            if not self._trials:
                self._undo_log.clear()

    def by_class(self, test: Callable[[NodeClass], bool]) -> Bools:
        """Per node (N,) the result of `test`, which runs once per class; False for vacant rows."""
        answers = np.array([*map(test, self.classes.all), False], np.bool_)
        chosen: Bools = answers[self.node_class[: self.size]]
        return chosen

    def named(self, names: Iterable[str]) -> Bools:
        """Per node (N,) whether its name is one of `names`."""
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
