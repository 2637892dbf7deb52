"""An exhaustive search for the minimums of a small tree, pod by pod.

It runs last. The other searches place children one after another, and one child may take the
devices, the volume or the domain that another one depends on. This search is complete: if it ends
within its budget, the minimums do not fit. The next attempt continues where the budget ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Final

import numpy as np

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.attempt import Attempt, needs_other_pods
from scheduler.core.search.exhaustive_packing import MOST_NODES
from scheduler.core.search.topology_placement import CandidatePlacement, TopologyPlacements

Cursor = tuple[int, ...]
"""The choice at each level of the walk."""

_LEAST: Final = 16
"""Steps that are done whatever the time, so that a walk eventually completes."""

_ONE: Final = np.ones(1, np.int64)


class ExhaustiveSearch:
    """One walk over all ways. A step places one pod on trial."""

    def __init__(
        self,
        attempt: Attempt,
        placements: TopologyPlacements,
        chosen: MutableMapping[Group, CandidatePlacement],
        most: int,
        as_composite: Callable[[Group], Group],
    ) -> None:
        """End the walk after `most` steps, or with the time. `Search` keeps `chosen`, too.

        `as_composite` returns a group with slices as the parent of these.
        """
        self._attempt = attempt
        self._placements = placements
        self._chosen = chosen
        self._most = most
        self._as_composite = as_composite
        self.steps = 0
        self._resume: Cursor = ()
        self._path: list[int] = []
        self.cursor: Cursor | None = None
        """Position where the budget ended the walk; None if it did not."""
        self.complete: bool | None = None
        """True if all ways were tried; None for too many nodes."""

    def place(self, root: Group, region: Region | None, cursor: Cursor = ()) -> bool:
        """Place the minimums of the root. Return True if that worked.

        `cursor` is the position where an earlier walk ended, which had the same state.
        """
        self._resume = cursor
        rows = self._usable(root, region)
        if rows is None:
            return False
        # Closing the generators runs nothing after their `yield`: the first way's pods stay placed.
        found = any(True for _ in self._ways(root, rows))
        self.complete = self.cursor is None
        return found

    def _usable(self, root: Group, region: Region | None) -> Region | None:
        """Return the nodes that fit some of the pods; None for too many."""
        attempt, some = self._attempt, np.zeros(1, np.bool_)
        for shape in {shape for leaf in root.leaves() for shape in leaf.pending}:
            if attempt.expired():
                return None
            some = some | (attempt.framework.optimistic_slots(shape, region) > 0)
        rows = np.flatnonzero(some) if region is None else region[some]
        return Region(rows) if len(rows) <= MOST_NODES else None

    def _numbers(self, count: int) -> Iterator[int]:
        """Yield the choices of one level, as long as the budget lasts."""
        level = len(self._path)
        first = self._resume[level] if level < len(self._resume) else 0
        for number in range(first, count):
            # The old path ends here: below, the walk starts at the first choice again.
            if number > first:
                self._resume = ()
            self._path.append(number)
            # Not on the way back to the old position: otherwise a budget smaller than that path
            # would never get beyond it.
            if self.cursor is None and not self._repeats and self._is_over():
                self.cursor = (*self._path,)
            if self.cursor is None:
                self._attempt.budget.pause()
                yield number
            self._path.pop()
            if self.cursor is not None:
                return

    @property
    def _repeats(self) -> bool:
        """True if this choice leads to the position where the earlier walk ended."""
        return len(self._path) < len(self._resume)

    def _is_over(self) -> bool:
        late = self.steps >= _LEAST and self._attempt.budget.expired()
        return late or self.steps >= self._most

    def _ways(self, group: Group, region: Region) -> Iterator[None]:
        """Yield once for each way to place the minimums of the subtree."""
        candidates = self._candidates(group, region)
        for number in self._numbers(len(candidates)):
            inner = self._chosen[group] = candidates[number]
            rows = region if inner.rows is None else inner.rows
            if group.standing:
                yield
            elif group.slicing is not None:
                parent = self._as_composite(group)
                self._chosen[parent] = inner
                parts = parent.children_in_order()
                yield from self._children(parts, parent.minimum or 0, rows)
                self._chosen.pop(parent, None)
            elif group.composite:
                children = [it for it in group.children_in_order() if it.quorate]
                waiting = [it for it in children if not it.standing]
                # The peers that a child needs may be in the other children.
                waiting.sort(key=needs_other_pods)
                needed = (group.minimum or 0) - group.standing_children
                yield from self._children(waiting, needed, rows)
            else:
                shapes = sorted(group.pending, key=lambda it: (it.needs_other_pods, it.index))
                need = (group.minimum or 0) - group.running
                yield from self._pods(group, shapes, need, rows, 0)
            self._chosen.pop(group, None)

    def _candidates(self, group: Group, region: Region) -> list[CandidatePlacement]:
        above = self._chosen.get(group.parent) if group.parent is not None else None
        # A preference must not cause a refusal, so only the whole region has to be tried.
        if group.topology is not None and group.topology.preferred:
            return [self._placements.region_candidate(group, region, above)]
        found = self._placements.candidates(group, region, above, {})
        return list(found) if isinstance(found, Iterator) else []

    def _children(self, children: list[Group], needed: int, region: Region) -> Iterator[None]:
        """Place `needed` of the children, with the first of them and without it."""
        if needed <= 0:
            yield
            return
        for number in self._numbers(1 + len(children) - needed):
            for _ in self._ways(children[number], region):
                yield from self._children(children[number + 1 :], needed - 1, region)

    def _pods(
        self, group: Group, shapes: list[Shape], need: int, region: Region, first: int
    ) -> Iterator[None]:
        """Place `need` pods of these shapes, those of the first shape from the row `first` on.

        Pods of a shape are equal, so the rows ascend where their order does not matter.
        """
        if need <= 0:
            yield
            return
        waiting = self._attempt.remaining_demand(group)
        if sum(waiting.get(it, 0) for it in shapes) < need:
            return
        shape, attempt = shapes[0], self._attempt
        rows = region[attempt.framework.slots_in(shape, region) > 0]
        # Ascending rows skip permutations of equal pods, of which there are exponentially many.
        if not attempt.framework.in_waves(shape):
            rows = rows[rows >= first]
        if not waiting.get(shape):
            rows = rows[:0]
        # The last choice leaves the remaining pods to the other shapes.
        for number in self._numbers(len(rows) + 1):
            if number == len(rows):
                yield from self._pods(group, shapes[1:], need, region, 0)
                continue
            # Repeated choices were counted by the walk that made them first.
            self.steps += not self._repeats
            mark, row = attempt.savepoint(), rows[number : number + 1]
            if attempt.take(group, shape, row, _ONE):
                yield from self._pods(group, shapes, need - 1, region, int(row[0]))
            attempt.undo(mark)
