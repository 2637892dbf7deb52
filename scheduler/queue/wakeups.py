"""Wake-ups: which refused roots gain where nodes have new capacity, for a few shapes at a time.

Most waiting roots cannot use what others release: a resource is insufficient there, their volumes
are in use elsewhere, or the capacity is nominated for others. The checks that cover all shapes at
once come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.nodes.node_table import Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.queue.equal_refusals import EqualKind, EqualRefusals
from scheduler.queue.unschedulable import RefusedRoot, RefusedRoots
from scheduler.support.device_budget import POSTPONED

_SHAPES: Final = 8
"""Shapes that one call of `gaining_roots` checks."""


class Gain(NamedTuple):
    """A refused root for which there is new capacity, and enough of it in the complete cluster.

    `first_of` is the kind of which it is the first, if it waits for all its equals.
    """

    key: GroupKey
    refused: RefusedRoot
    first_of: EqualKind | None


@dataclass(slots=True)
class _Scan:
    """Shapes whose capacity on the rows is still to be checked."""

    shapes: list[Shape]
    rows: list[int]


class CapacityWakeups:
    """Rows of nodes with new capacity, and changed match counts, that are still to be checked."""

    def __init__(
        self,
        state: State,
        refused: RefusedRoots,
        equal: EqualRefusals,
        little_work: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Check for `refused` and `equal`; `little_work` bounds the work on devices within it."""
        self._state = state
        self._refused = refused
        self._equal = equal
        self._little_work = little_work
        self._rows: set[int] = set()
        self._match_ids: set[int] = set()
        self._scans: list[_Scan] = []

    def __bool__(self) -> bool:
        """Return whether `gaining_roots` has anything to check."""
        return bool(self._rows or self._match_ids or self._scans)

    def add(self, rows: Iterable[int], match_ids: Iterable[int]) -> None:
        """Add rows with new capacity; readers of these match counts may fit on any row."""
        self._rows.update(rows)
        self._match_ids.update(match_ids)

    def gaining_roots(self) -> list[Gain]:
        """Return the roots that gain, for some of the shapes each time."""
        # Without refused roots nothing can gain: the rows are not kept for later ones.
        if not self._refused.roots:
            self._rows.clear()
            self._match_ids.clear()
            self._scans.clear()
        elif not self._scans:
            self._begin_scans()
        if not self._scans:
            return []
        scan = self._scans[-1]
        shapes, scan.shapes = scan.shapes[-_SHAPES:], scan.shapes[:-_SHAPES]
        if not scan.shapes:
            self._scans.pop()
        # Shapes with which no root waits may have been freed.
        waiting = [s for s in shapes if self._refused.waiting(s) or self._equal.firsts(s)]
        return self._gains(waiting, scan.rows) if waiting else []

    def enough(self, refused: RefusedRoot) -> bool:
        """Return whether its one shape has enough capacity, or finding that out would take long."""
        return refused.shape is None or self._in_all(refused.shape) >= refused.needed

    def _in_all(self, shape: Shape) -> float:
        """Return for how many pods of the shape all nodes have capacity; infinite if unknown."""
        try:
            with self._little_work():
                return int(self._state.framework.slots(shape).sum())
        except POSTPONED:
            # Postponed: the decision itself finds out, with an allowance of its own.
            return math.inf

    def _begin_scans(self) -> None:
        """Begin scans of all shapes for the rows with new capacity, and of some for all rows."""
        # Regions have their rows in ascending order.
        rows, self._rows = sorted(self._rows), set()
        match_ids, self._match_ids = self._match_ids, set()
        shapes = dict.fromkeys([*self._refused.shapes, *self._equal.shapes()])
        self._scan(shapes, rows)
        # Affinity and spread read counts of other nodes: these shapes may fit anywhere now.
        if match_ids:
            readers = [s for s in shapes if not match_ids.isdisjoint(s.filter_match_ids)]
            self._scan(readers, sorted(self._state.nodes.row_of.values()))

    def _scan(self, shapes: Collection[Shape], rows: list[int]) -> None:
        region = self._known(rows)
        found = self._shapes_that_may_fit(shapes, region) if shapes and len(region) else []
        if found:
            self._scans.append(_Scan(found, rows))

    def _known(self, rows: Iterable[int]) -> Ints:
        size = self._state.nodes.size
        return np.array([row for row in rows if row < size], np.int64)

    def _shapes_that_may_fit(self, shapes: Iterable[Shape], region: Ints) -> list[Shape]:
        """Return the shapes that may fit there, by checks of all shapes at once.

        Most lack a resource, and are not checked one by one. Nor are those that lack one next to
        nominated places, which their roots may not use.
        """
        framework, nominations = self._state.framework, self._state.nominations
        open_to = framework.may_fit(shapes, region)
        nominated = nominations.on(region.tolist()) if open_to else {}
        if not nominated:
            return open_to
        with nominations.taken(region.tolist()):
            free_to = set(framework.may_fit(open_to, region))
        # A root may always use the places that are nominated for itself.
        free_to |= self._refused.shapes_of(nominated)
        lowest = _lowest(nominated)
        if not self._refused.any_above(lowest):
            return [s for s in open_to if s in free_to]
        return [s for s in open_to if s in free_to or self._outranks(s, lowest)]

    def _outranks(self, shape: Shape, lowest: int) -> bool:
        """Return whether a root that waits with the shape has a higher priority."""
        waiting = self._refused.waiting(shape)
        return any(self._refused.roots[key].priority > lowest for key in waiting) or any(
            kind.signature.priority > lowest for _, kind in self._equal.firsts(shape)
        )

    def _gains(self, shapes: list[Shape], rows: list[int]) -> list[Gain]:
        """Return the roots for which one of the rows has capacity for one of the shapes."""
        nominations, region = self._state.nominations, self._known(rows)
        open_to = [s for s in shapes if self._may_fit(s, region)]
        nominated = nominations.on(region.tolist()) if open_to else {}
        free_to = set(open_to)
        if nominated and open_to:
            with nominations.taken(region.tolist()):
                # With all nominated places taken: what fits now needs none of them.
                free_to = {s for s in open_to if self._may_fit(s, region)}
        gaining: dict[GroupKey, EqualKind | None] = {}
        lowest = _lowest(nominated)
        for shape in open_to:
            if shape in free_to:
                gaining |= dict.fromkeys(self._refused.waiting(shape) - gaining.keys())
            else:
                alone = self._gaining_alone(shape, nominated, lowest)
                gaining |= dict.fromkeys(alone - gaining.keys())
            gaining |= self._gaining_equals(shape, lowest, free=shape in free_to)
        return self._with_total_capacity(gaining)

    def _with_total_capacity(self, gaining: Mapping[GroupKey, EqualKind | None]) -> list[Gain]:
        """Return those of the roots for which all nodes together have enough capacity."""
        # Once for each shape: thousands of gangs may wait with the same one.
        rooms: dict[Shape | None, float] = {None: math.inf}
        found = []
        for key in sorted(gaining):
            refused = self._refused.roots[key]
            if refused.shape is not None and refused.shape not in rooms:
                rooms[refused.shape] = self._in_all(refused.shape)
            if rooms[refused.shape] >= refused.needed:
                found.append(Gain(key, refused, gaining[key]))
        return found

    def _may_fit(self, shape: Shape, region: Ints) -> bool:
        """Return whether a row has capacity; assume so where finding devices takes long."""
        try:
            with self._little_work():
                return bool(self._state.framework.optimistic_slots(shape, region).any())
        except POSTPONED:
            return True

    def _gaining_equals(
        self, shape: Shape, lowest: int, *, free: bool
    ) -> dict[GroupKey, EqualKind]:
        """Return the first root of each kind that gains, also from lower nominations."""
        return {
            key: kind
            for key, kind in self._equal.firsts(shape)
            if free or kind.signature.priority > lowest
        }

    def _gaining_alone(
        self, shape: Shape, nominated: Mapping[GroupKey, Nomination], lowest: int
    ) -> set[GroupKey]:
        """Return roots that may use nominated capacity: by priority, or because it is theirs."""
        keys = self._refused.waiting(shape)
        higher = {key for key in keys if self._refused.roots[key].priority > lowest}
        return higher | {key for key in keys & nominated.keys() if self._enough_free(key)}

    def _enough_free(self, key: GroupKey) -> bool:
        """Return whether enough of its nominated places are free by now."""
        if key not in self._state.nominations:
            return True  # its nomination ended meanwhile
        nominations, refused = self._state.nominations, self._refused.roots[key]
        try:
            with self._little_work():
                if refused.shape is None:  # a tree, or unequal pods: it needs all of them
                    free, total = nominations.free_of_all(key)
                    return free >= (total if refused.minimum else 1)
                return nominations.free(key, refused.shape) >= refused.needed
        except POSTPONED:
            return True


def _lowest(nominated: Mapping[GroupKey, Nomination]) -> int:
    """Return the lowest priority of these nominations; 0 without any."""
    return min((nomination.priority for nomination in nominated.values()), default=0)
