"""Which refused roots gain where nodes have new room, for a few shapes at a time.

Most of what waits cannot use what others leave: it lacks a resource there, its volumes are in use
elsewhere, or the room is nominated for others. What is told at once for all shapes is told first.
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
from scheduler.queue.equal_refusals import EqualKind, EqualRoots
from scheduler.queue.unschedulable import RefusedRoot, RefusedRoots
from scheduler.support.device_budget import POSTPONED

_SHAPES: Final = 8
"""Shapes for which one `look` looks for room."""


class Gain(NamedTuple):
    """A refused root for which there is new room, and enough with all other room.

    `first_of` is the kind of which it is the first, if it waits for all its equals.
    """

    key: GroupKey
    refused: RefusedRoot
    first_of: EqualKind | None


@dataclass(slots=True)
class _Scan:
    """Shapes for which room is still to be looked for on the rows."""

    shapes: list[Shape]
    rows: list[int]


class NewRoom:
    """Rows of nodes with new room, and match counts that changed, which are to be looked at."""

    def __init__(
        self,
        state: State,
        refused: RefusedRoots,
        equal: EqualRoots,
        little_work: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`little_work` bounds the work on devices within it."""
        self._state = state
        self._refused = refused
        self._equal = equal
        self._little_work = little_work
        self._rows: set[int] = set()
        self._match_ids: set[int] = set()
        self._scans: list[_Scan] = []

    def __bool__(self) -> bool:
        """Whether `look` has anything to look at."""
        return bool(self._rows or self._match_ids or self._scans)

    def add(self, rows: Iterable[int], match_ids: Iterable[int]) -> None:
        """These rows have new room; who reads one of these match counts may fit on any row."""
        self._rows.update(rows)
        self._match_ids.update(match_ids)

    def look(self) -> list[Gain]:
        """The roots that gain, for some of the shapes each time."""
        if not self._refused:
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
        # Shapes that nobody waits with any more may be gone altogether.
        waiting = [s for s in shapes if self._refused.waiting(s) or self._equal.firsts(s)]
        return self._gains(waiting, scan.rows) if waiting else []

    def enough(self, refused: RefusedRoot) -> bool:
        """Whether there is room for as many pods of its one shape as it needs.

        Also where that is not known, or finding devices takes long.
        """
        return refused.shape is None or self._in_all(refused.shape) >= refused.needed

    def _in_all(self, shape: Shape) -> float:
        """For how many pods of the shape all nodes have room; infinite if finding that is long."""
        try:
            with self._little_work():
                return int(self._state.framework.slots(shape).sum())
        except POSTPONED:
            return math.inf

    def _begin_scans(self) -> None:
        """Of all shapes for the rows with new room, and of some for all rows."""
        rows, self._rows = sorted(self._rows), set()
        match_ids, self._match_ids = self._match_ids, set()
        shapes = dict.fromkeys([*self._refused.shapes, *self._equal.shapes()])
        self._scan(shapes, rows)
        if match_ids:
            readers = [s for s in shapes if not match_ids.isdisjoint(s.filter_match_ids)]
            self._scan(readers, sorted(self._state.nodes.row_of.values()))

    def _scan(self, shapes: Collection[Shape], rows: list[int]) -> None:
        region = self._known(rows)
        found = self._worth_a_look(shapes, region) if shapes and len(region) else []
        if found:
            self._scans.append(_Scan(found, rows))

    def _known(self, rows: Iterable[int]) -> Ints:
        size = self._state.nodes.size
        return np.array([row for row in rows if row < size], np.int64)

    def _worth_a_look(self, shapes: Iterable[Shape], region: Ints) -> list[Shape]:
        """The shapes that may fit there. Most lack a resource: these are not looked at one by one.

        Nor are those that lack one beside nominated places, which their roots may not use.
        """
        framework, nominations = self._state.framework, self._state.nominations
        open_to = framework.may_fit(shapes, region)
        nominated = nominations.on(region.tolist()) if open_to else {}
        if not nominated:
            return open_to
        with nominations.taken(region.tolist()):
            free_to = set(framework.may_fit(open_to, region))
        free_to |= self._refused.shapes_of(nominated)
        lowest = _lowest(nominated)
        if not self._refused.any_above(lowest):
            return [s for s in open_to if s in free_to]
        return [s for s in open_to if s in free_to or self._outranks(s, lowest)]

    def _outranks(self, shape: Shape, lowest: int) -> bool:
        """Whether a root that waits with the shape is of a higher priority."""
        waiting = self._refused.waiting(shape)
        return any(self._refused[key].priority > lowest for key in waiting) or any(
            kind.signature.priority > lowest for _, kind in self._equal.firsts(shape)
        )

    def _gains(self, shapes: list[Shape], rows: list[int]) -> list[Gain]:
        """Those with room for one of the shapes on one of the rows."""
        nominations, region = self._state.nominations, self._known(rows)
        open_to = [s for s in shapes if self._may_fit(s, region)]
        nominated = nominations.on(region.tolist()) if open_to else {}
        free_to = set(open_to)
        if nominated and open_to:
            with nominations.taken(region.tolist()):
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
        return self._with_room_in_all(gaining)

    def _with_room_in_all(self, gaining: Mapping[GroupKey, EqualKind | None]) -> list[Gain]:
        """For which of them there is enough room, all nodes together."""
        rooms: dict[Shape | None, float] = {None: math.inf}
        found = []
        for key in sorted(gaining):
            refused = self._refused[key]
            if refused.shape is not None and refused.shape not in rooms:
                rooms[refused.shape] = self._in_all(refused.shape)
            if rooms[refused.shape] >= refused.needed:
                found.append(Gain(key, refused, gaining[key]))
        return found

    def _may_fit(self, shape: Shape, region: Ints) -> bool:
        """Whether a row has room; it may have where finding devices takes long."""
        try:
            with self._little_work():
                return bool(self._state.framework.optimistic_slots(shape, region).any())
        except POSTPONED:
            return True

    def _gaining_equals(
        self, shape: Shape, lowest: int, *, free: bool
    ) -> dict[GroupKey, EqualKind]:
        """The first of each kind that gains where there is room, or only room nominated lower."""
        return {
            key: kind
            for key, kind in self._equal.firsts(shape)
            if free or kind.signature.priority > lowest
        }

    def _gaining_alone(
        self, shape: Shape, nominated: Mapping[GroupKey, Nomination], lowest: int
    ) -> set[GroupKey]:
        """Roots that gain where all room is nominated: of higher priority, or nominated there."""
        keys = self._refused.waiting(shape)
        higher = {key for key in keys if self._refused[key].priority > lowest}
        return higher | {key for key in keys & nominated.keys() if self._enough_free(key)}

    def _enough_free(self, key: GroupKey) -> bool:
        """Whether enough of its nominated places are free by now."""
        if key not in self._state.nominations:
            return True  # its nomination ended meanwhile
        nominations, refused = self._state.nominations, self._refused[key]
        try:
            with self._little_work():
                if refused.shape is None:  # a tree, or unequal pods: it needs all of them
                    free, total = nominations.free_of_all(key)
                    return free >= (total if refused.minimum else 1)
                return nominations.free(key, refused.shape) >= refused.needed
        except POSTPONED:
            return True


def _lowest(nominated: Mapping[GroupKey, Nomination]) -> int:
    """The lowest priority of these nominations; 0 without any."""
    return min((nomination.priority for nomination in nominated.values()), default=0)
