"""The nodes as a table of allocatable and free resources, in place of kube-scheduler's NodeInfo.

The arrays are int64 and resource-major, (R, N), so that counting how many pods fit is one pass over
contiguous memory per resource. A node's index along N is called its row. Tentative changes happen
inside `trial()` and are recorded. Undoing them is exact, because integers do not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, NewType

import numpy as np
import numpy.typing as npt

from scheduler.core.nodes.exclusive_uses import ExclusiveUse, ExclusiveUses
from scheduler.core.nodes.match_counts import MatchCounts
from scheduler.core.nodes.node_classes import NodeClass, NodeClasses
from scheduler.core.nodes.node_images import NodeImages
from scheduler.core.nodes.node_labels import NodeLabels
from scheduler.core.nodes.resource_table import Request, ResourceTable
from scheduler.core.nodes.stage_capacity import StageCapacity
from scheduler.core.values.model import Expression, NodeInfo, NodeTerm, Stage

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Region = NewType("Region", npt.NDArray[np.int64])
"""Rows of nodes in ascending order, each once: `np.searchsorted` may rely on it."""

_NO_NODE: Final = -1
_NONE: Final = (0, 0)
_CLASSES: Final = 64
"""Node classes above twice the number of nodes. With more, all classes are rebuilt."""


class Trial:
    """An open trial; its changes are undone when it ends, unless `keep()` was called."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        self.kept = True


class Load(NamedTuple):
    """The load of one pod on its node; `match_ids` are the match counts that count such pods.

    Pods with a `stage` share resources, ports and disks with those of the other stages of their
    tree. `assumed` are the cpu and memory that LeastAllocated adds to the requests.
    """

    request: Request
    match_ids: tuple[int, ...] = ()
    uses: tuple[ExclusiveUse, ...] = ()
    stage: Stage | None = None
    assumed: tuple[int, int] = (0, 0)


_Taken = tuple[Ints, Ints, Load]


class NodeTable:
    """All nodes. A `row` is a node's index along N; rows of removed nodes are reused.

    `size` is the number of rows in use or vacant (N); arrays may be longer and are valid up to
    there. `generation` changes with the set of nodes, their labels and classes; `version` with any
    change. `stamp` is the number of the last change, to pass to `changed_since` later. `assumed`
    (2, N) are the cpu (milli) and memory (bytes) of containers that request none, which only the
    score LeastAllocated counts.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.size = 0
        self.resources = ResourceTable(capacity)
        self.assumed: Ints = np.zeros((2, capacity), np.int64)
        self.node_class: npt.NDArray[np.int32] = np.full(capacity, _NO_NODE, np.int32)
        self.infos: list[NodeInfo | None] = []
        self.row_of: dict[str, int] = {}
        self.classes = NodeClasses()
        self.labels = NodeLabels(self.infos, capacity)
        self.match_counts = MatchCounts()
        self.images = NodeImages()
        self.exclusive_uses = ExclusiveUses()
        self.stages = StageCapacity(self.resources)
        self.generation = 0
        self.version = 0
        self.stamp = 0
        self._changed_at: Ints = np.zeros(capacity, np.int64)
        self._grown_at: Ints = np.zeros(capacity, np.int64)
        self._vacant: list[int] = []
        self._undo_log: list[_Taken | Callable[[], None]] = []
        self._trials = 0

    @property
    def allocatable(self) -> Ints:
        """Amounts of each resource that each node offers, (R, N)."""
        return self.resources.allocatable

    @property
    def free(self) -> Ints:
        """Amounts that pods leave free, (R, N); negative if they use more than the node offers."""
        return self.resources.free

    @property
    def vacant(self) -> tuple[int, ...]:
        """Rows without a node, in the order in which their nodes were removed."""
        return tuple(self._vacant)

    def name_of(self, row: int) -> str:
        """Return the node's name. Raises LookupError for a vacant row."""
        node = self.infos[row]
        if node is None:
            raise LookupError(row)
        return node.name

    def set_node(self, node: NodeInfo) -> int:
        """Add or update a node and return its row. The resources that its pods use stay taken."""
        row = self.row_of.get(node.name)
        if row is None:
            row = self._claim(node.name)
        old = self.infos[row]
        self.infos[row] = node
        self.labels.set_node(row, {} if old is None else old.labels, node.labels)
        self.resources.set_node(row, {} if old is None else old.allocatable, node.allocatable)
        self._classify(row)
        # Any update may let more pods fit: a taint or a cordon may be removed.
        self._grown(row)
        # Classes without nodes would pile up, because taints come and go.
        if len(self.classes.all) > _CLASSES + 2 * len(self.row_of):
            self.classes.forget()
            self._classify_all()
        self._changed(row)
        # Node filters are cached by generation. They read labels and classes, not free resources.
        if old is None or old.labels != node.labels:
            self.generation += 1
        return row

    def filters_changed(self) -> None:
        """Drop what was cached of node filters: their rules changed, not the nodes."""
        self.generation += 1
        self.touch()

    def remove_node(self, name: str) -> int | None:
        """Remove a node and all that was taken from it. Return its old row; None if unknown."""
        row = self.row_of.pop(name, None)
        if row is None:
            return None
        old, self.infos[row] = self.infos[row], None
        self.labels.set_node(row, {} if old is None else old.labels, {})
        self.resources.remove_node(row, {} if old is None else old.allocatable)
        # Nothing may be left for the next node that gets this row.
        self.match_counts.clear(row)
        self.exclusive_uses.clear(row)
        self.stages.clear(row)
        self.images.clear(row)
        self.assumed[:, row] = 0
        self.node_class[row] = _NO_NODE
        self._vacant.append(row)
        self.generation += 1
        self._changed(row)
        return row

    def take(self, rows: Ints, counts: Ints, load: Load) -> None:
        """Put `counts[i]` pods on node `rows[i]`; rows must be distinct, a negative count frees."""
        self._take(rows, counts, load)
        if self._trials:
            self._undo_log.append((rows, counts, load))

    def take_one(self, row: int, load: Load, count: int = 1) -> None:
        """Take resources like `take`, for one node. Raises RuntimeError inside a trial."""
        if self._trials:
            raise RuntimeError("take_one cannot be undone: use take inside a trial")
        self._changed(row)
        if count < 0:
            self._grown(row)
        if load.stage is None:
            self.resources.take_one(row, count, load.request)
        else:
            self.stages.take(row, count, load.request, load.stage)
        for match_id in load.match_ids:
            self.match_counts.add_one(match_id, row, count, load.stage)
        if load.uses:
            self.exclusive_uses.add(load.uses, row, count, load.stage)
        if load.assumed != _NONE:
            self.assumed[:, row] += np.multiply(load.assumed, count)

    def count(self, found: Sequence[tuple[int, int, int]]) -> None:
        """Count pods by (match id, row, number), in a trial that took something on these rows."""
        add_one = self.match_counts.add_one
        for match_id, row, number in found:
            add_one(match_id, row, number)
        # `count` does not go through `take`, so rollback would not know about it.
        self.undo_by(lambda: self._count_back(found))

    def _count_back(self, found: Sequence[tuple[int, int, int]]) -> None:
        for match_id, row, number in found:
            self.match_counts.add_one(match_id, row, -number)

    def recount(self, row: int, pods: Iterable[Load]) -> None:
        """Free the node, then take the loads of its pods."""
        self.resources.release_all(row)
        self.assumed[:, row] = 0
        self.stages.clear(row)
        self.match_counts.clear(row)
        self.exclusive_uses.clear(row)
        for load in pods:
            self.take_one(row, load)
        self._grown(row)

    def undo_by(self, step: Callable[[], None]) -> None:
        """Let rollback of the open trial call `step` to undo what followed from the last take."""
        if self._trials:
            self._undo_log.append(step)

    def touch(self) -> None:
        """Start a new version, also for a change outside of the table that cached results use."""
        # Never reuse a number: after a trial restores its version, those used inside stay invalid.
        self.stamp += 1
        self.version = self.stamp

    def touch_rows(self, rows: Ints) -> None:
        """Start a new version where cached results of some rows change only."""
        self._changed(rows)

    def changed_since(self, stamp: int) -> Ints:
        """Return rows that changed after `stamp`, in order, including changes that were undone."""
        return np.flatnonzero(self._changed_at[: self.size] > stamp)

    def grown_since(self, stamp: int, rows: Ints | None) -> bool:
        """Return True if pods left one of the rows after `stamp`, or its node changed, for good."""
        grown = self._grown_at[: self.size] if rows is None else self._grown_at[rows]
        return int(grown.max(initial=0)) > stamp

    def savepoint(self) -> int:
        """Return a point to which `rollback` can return, inside a trial."""
        return len(self._undo_log)

    def rollback(self, mark: int) -> None:
        """Undo what was taken since `mark`."""
        while len(self._undo_log) > mark:
            entry = self._undo_log.pop()
            if callable(entry):
                entry()
                continue
            rows, counts, load = entry
            self._take(rows, -counts, load)
        self.touch()

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Undo all changes inside when it ends, unless they are kept. Trials may be nested."""
        mark, version, trial = self.savepoint(), self.version, Trial()
        self._trials += 1
        try:
            yield trial
        finally:
            if not trial.kept:
                self.rollback(mark)
                # All amounts are as before: what was cached by the old version is valid again.
                self.version = version
            self._trials -= 1
            # Only the outermost trial drops the log: an outer one may undo the inner changes.
            if not self._trials:
                self._undo_log.clear()

    def by_class(self, test: Callable[[NodeClass], bool]) -> Bools:
        """Return the result of `test` per node (N,), run once per class. False for vacant rows."""
        # The extra element is for vacant rows, whose class is -1.
        answers = np.array([*map(test, self.classes.all), False], np.bool_)
        chosen: Bools = answers[self.node_class[: self.size]]
        return chosen

    def meets_any(self, terms: Iterable[NodeTerm]) -> Bools:
        """Return per node (N,) whether it meets one of the terms."""
        some = np.zeros(self.size, np.bool_)
        for term in terms:
            some |= self.meets(term)
        return some

    def meets(self, term: NodeTerm) -> Bools:
        """Return per node (N,) whether it meets the term. No node meets an empty term."""
        met = np.full(self.size, bool(term.expressions or term.fields))
        for expression in term.expressions:
            met &= self.labels.meets(expression)
        for field in term.fields:
            met &= self._field_matches(field)
        return met

    def _field_matches(self, field: Expression) -> Bools:
        if field.key != "metadata.name" or field.operator not in ("In", "NotIn"):
            return np.zeros(self.size, np.bool_)  # as upstream: any other field matches no node
        named = self.named(field.values)
        return named if field.operator == "In" else ~named

    def named(self, names: Iterable[str]) -> Bools:
        """Return per node (N,) whether its name is one of `names`."""
        mask = np.zeros(self.size, np.bool_)
        # Volumes and selectors may name nodes that do not exist.
        mask[[self.row_of[name] for name in names if name in self.row_of]] = True
        return mask

    def using(self, uses: Iterable[ExclusiveUse], stage: Stage | None = None) -> Bools:
        """Return per node (N,) whether a pod there excludes one with these uses."""
        mask = np.zeros(self.size, np.bool_)
        mask[list(self.exclusive_uses.conflicts(uses, stage))] = True
        return mask

    def overcommitted(self, rows: Ints, resources: Sequence[int]) -> Bools:
        """Return per row whether pods use more resources than there are, or exclude each other."""
        free = self.free[list(resources)][:, rows]
        crowded: Bools = np.any(free < 0, axis=0) | self.exclusive_uses.clash(rows)
        return crowded

    def _take(self, rows: Ints, counts: Ints, load: Load) -> None:
        self._changed(rows)
        if load.stage is None:
            self.resources.take(rows, counts, load.request)
        else:
            # One by one: what a stage takes depends on the other stages on the same node.
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.stages.take(row, count, load.request, load.stage)
        if load.match_ids:
            self.match_counts.add(load.match_ids, rows, counts, load.stage)
        if load.uses:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.exclusive_uses.add(load.uses, row, count, load.stage)
        if load.assumed != _NONE:
            self.assumed[:, rows] += np.multiply.outer(load.assumed, counts)

    def _changed(self, rows: int | Ints) -> None:
        self.touch()
        self._changed_at[rows] = self.stamp

    def _grown(self, row: int) -> None:
        self._changed(row)
        # Trials do not restore these stamps, so only changes for good may set them.
        self._grown_at[row] = self.stamp

    def _claim(self, name: str) -> int:
        if self._vacant:
            row = self._vacant.pop()
        else:
            row = self.size
            self.infos.append(None)
            self.size += 1
            if row == len(self.node_class):
                self._grow()
        self.row_of[name] = row
        return row

    def _grow(self) -> None:
        extra = len(self.node_class)
        self.resources.grow()
        self.labels.grow()
        self.assumed = np.pad(self.assumed, ((0, 0), (0, extra)))
        self._changed_at = np.pad(self._changed_at, (0, extra))
        self._grown_at = np.pad(self._grown_at, (0, extra))
        self.node_class = np.pad(self.node_class, (0, extra), constant_values=_NO_NODE)

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
