"""The search for the slices of groups: minimums need a number of slices, extras are slices, too."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Protocol

from scheduler.core.groups.forest import Group
from scheduler.core.groups.slices import Slice
from scheduler.core.nodes.node_table import Region
from scheduler.core.search.attempt import Attempt, Demand
from scheduler.core.search.needs import least
from scheduler.core.search.slices import SlicedGroups
from scheduler.core.search.topology_placement import CandidatePlacement, TopologyPlacements
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State


class GroupSearch(Protocol):
    """The search that places a slice as a group of its own, and slices as children."""

    attempt: Attempt

    def minimums(self, group: Group, region: Region | None) -> Shortage | None: ...

    def children(self, group: Group, region: Region | None) -> Shortage | None: ...

    def in_candidates(
        self,
        group: Group,
        region: Region | None,
        demand: Demand,
        work: Callable[[Group, Region | None], Shortage | None],
    ) -> Shortage | None: ...


class SliceSearch:
    """The part of a search that places slices; `tree` places what is not equal, one by one."""

    def __init__(
        self,
        tree: GroupSearch,
        state: State,
        placements: TopologyPlacements,
        chosen: MutableMapping[Group, CandidatePlacement],
    ) -> None:
        """Share `chosen` with the tree, which undoes it."""
        self._tree = tree
        self._attempt = tree.attempt
        self._chosen = chosen
        self._groups = SlicedGroups(state, tree.attempt, placements)
        self._failed: dict[Group, tuple[Region | None, set[int]]] = {}

    def minimums(self, leaf: Group, region: Region | None) -> Shortage | None:
        """Place as many slices as the minimum of the group lacks, all or none."""
        needed = self._groups.needed(leaf)
        if needed <= 0:
            # No slice is needed, but extras need the group's domain.
            return self._tree.in_candidates(leaf, region, {}, lambda *_: None)
        short = self._groups.too_few(leaf, needed)
        if short is not None:
            return short
        return self._tree.in_candidates(leaf, region, least(leaf), self._place)

    def by_arithmetic(self, leaf: Group) -> bool:
        """Return True if arithmetic alone decides whether the slices fit."""
        shape = self._groups.equal_shape(leaf)
        # Nodes may share devices, which are counted for each of them.
        return shape is not None and not shape.needs_devices

    def as_composite(self, leaf: Group) -> Group:
        """Return the group as the parent of its slices, with the number that it needs."""
        return self._groups.of(leaf).as_composite(self._groups.needed(leaf))

    def remaining_demand(self, leaf: Group) -> Demand:
        """Return the pods of the slices that may start and have no nodes yet, by shape."""
        return self._groups.remaining_demand(leaf)

    def extras(self, leaf: Group, region: Region | None, most: int) -> int:
        """Place slices with about `most` pods, as far as they fit. Return the number of pods."""
        before, attempt = self._attempt.total, self._attempt
        left = self._groups.left(leaf)
        slices = max(1, most // left[0].size) if left else 0
        shape = self._groups.equal_shape(leaf)
        placed = None
        if left and shape is not None:
            placed = self._groups.place_equal(leaf, left, shape, region, slices)
        if left and placed is None and self._groups.too_many_apart(leaf) is None:
            self._one_by_one(leaf, left, region, slices)
        return attempt.total - before

    def _one_by_one(self, leaf: Group, left: list[Slice], region: Region | None, most: int) -> None:
        sliced, placed = self._groups.of(leaf), 0
        before, failed = self._failed.get(leaf, (region, set()))
        if before is not region:
            failed = set()
        self._failed[leaf] = (region, failed)
        self._chosen[sliced.mirror] = self._chosen[leaf]
        for part in left:
            # Capacity only shrinks here: what failed once in the region is not tried again.
            if placed == most or (self._attempt.total and self._attempt.exhausted):
                break
            if part.number in failed:
                continue
            if self._tree.minimums(sliced.view(part), region) is None:
                placed += 1
            else:
                failed.add(part.number)

    def extras_shortage(self, leaf: Group) -> Shortage:
        """Return why none of the slices that wait fits."""
        inner = self._chosen.get(leaf)
        above = inner and replace(inner, rows=inner.last)
        rows = None if inner is None else inner.last
        return self._groups.shortage(leaf, self._groups.left(leaf), rows, above, minimum=False)

    def _place(self, leaf: Group, region: Region | None) -> Shortage | None:
        """Place the slices that the minimum lacks in the region; None if they fit."""
        needed, sliced = self._groups.needed(leaf), self._groups.of(leaf)
        shape, above = self._groups.equal_shape(leaf), self._chosen.get(leaf)
        if shape is not None:
            parts = sliced.completable
            placed = self._groups.place_equal(leaf, parts, shape, region, needed)
            if placed is not None and len(placed) < needed:
                done = {part.number for part in placed}
                rest = [part for part in parts if part.number not in done]
                return self._groups.shortage(leaf, rest, region, above)
            if placed is not None:
                return None
        short = self._groups.too_many_apart(leaf)
        if short is not None:
            return short
        parent = sliced.as_composite(needed)
        self._chosen[parent] = self._chosen[leaf]
        short = self._tree.children(parent, region)
        # The pods next to which a slice failed are of its own group.
        if short is not None and short.siblings == (leaf.key,):
            return replace(short, own=short.beside, beside=0, siblings=())
        return short
