"""Packing of the minimums of a whole subtree together, over choices of children and pods.

It runs last, if siblings placed one after another take each other's capacity. The cheapest choices
are tried first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.nodes.resource_table import total
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.exhaustive_packing import MOST_PODS, pack_exhaustively, usable
from scheduler.core.state.search_memory import PackingMemory
from scheduler.core.values.search_budget import never

_MOST_WAYS: Final = 64
"""Ways that are kept per group, the cheapest ones, in the last of several searches."""

_PICKED: Final = 16
"""Ways to pick pods of a leaf that are compared, for each one that is kept."""

Part = tuple[Group, Shape, int]
Placed = tuple[Group, Shape, Ints, Ints]


@dataclass(frozen=True, slots=True)
class SubtreePlacement:
    """Pods that meet the minimums of a subtree; `load` sums up their shares of free resources."""

    load: float
    parts: tuple[Part, ...] = ()

    def __add__(self, other: SubtreePlacement) -> SubtreePlacement:
        return SubtreePlacement(self.load + other.load, self.parts + other.parts)


def pack_jointly(
    framework: Framework,
    group: Group,
    region: Region | None,
    steps: int,
    expired: Callable[[], bool] = never,
    *,
    memory: PackingMemory | None = None,
) -> list[Placed] | None:
    """Return slots for the minimums of the subtree; None if none were found, or before `expired`.

    Each way to meet the minimums gets `steps`. With the same `memory`, another call continues, in
    the end with more ways. Returns None at once for too many nodes or pods, as `pack_exhaustively`
    does.
    """
    memory = PackingMemory() if memory is None else memory
    shapes = [shape for leaf in group.leaves() for shape in leaf.pending]
    if group.pending_total > 4 * MOST_PODS or usable(framework, shapes, region, expired) is None:
        return None
    free = (
        framework.nodes.free[:, : framework.nodes.size]
        if region is None
        else framework.nodes.free[:, region]
    )
    # Python integers: the sum over all nodes may exceed an int64.
    totals = [total(amounts) for amounts in free.clip(0)]
    choice, cuts = _Choice(totals, expired, memory.ways), memory.cuts
    for way in choice.of(group):
        demand: Counter[Shape] = Counter()
        for _, shape, count in way.parts:
            demand[shape] += count
        if expired():
            memory.end_early()
            return None
        if _too_much(demand, totals):
            continue
        runs = pack_exhaustively(framework, demand, region, steps, expired, memory=memory)
        if runs is not None:
            return list(_shared(way, {shape: (rows, counts) for shape, rows, counts in runs}))
    # None of these ways works. There are more, and the next search tries them, too.
    complete = memory.cuts == cuts and not expired()
    if choice.truncated and complete and memory.ways < _MOST_WAYS:
        memory.ways *= 2
        memory.end_early()
    return None


def _too_much(demand: Mapping[Shape, int], totals: list[int]) -> bool:
    if any(shape.requirements.stage is not None for shape in demand):
        return False  # stages share capacity, so sums of requests are too high
    used: Counter[int] = Counter()
    for shape, count in demand.items():
        for resource, amount in shape.request.demands:
            used[resource] += amount * count
    return any(amount > totals[resource] for resource, amount in used.items())


class _Choice:
    """The ways to meet the minimums of a subtree, at most `limit` for each group: the cheapest.

    `truncated` is true if there are more, or if the time was over.
    """

    def __init__(self, totals: list[int], expired: Callable[[], bool], limit: int) -> None:
        self.truncated = False
        self._totals = totals
        self._expired = expired
        self._limit = limit

    def of(self, group: Group) -> list[SubtreePlacement]:
        """Return the ways for the group; none once the time is over."""
        if group.standing:
            return [SubtreePlacement(0.0)]
        if not group.composite:
            return self._cheapest(self._leaf(group))
        needed = max(0, (group.minimum or 0) - group.standing_children)
        # best[n]: ways to meet the minimums of n of the children seen so far.
        best: list[list[SubtreePlacement]] = [[SubtreePlacement(0.0)]] + [[] for _ in range(needed)]
        for child in group.children_in_order():
            if not child.quorate or child.standing:
                continue
            own = self.of(child)
            # Downwards, so that `best[chosen - 1]` does not contain this child yet.
            for chosen in range(needed, 0, -1):
                if self._expired():
                    self.truncated = True
                    return []
                more = (one + other for one, other in product(best[chosen - 1], own))
                best[chosen] = self._cheapest([*best[chosen], *more])
        return best[needed]

    def _leaf(self, group: Group) -> Iterator[SubtreePlacement]:
        """Return ways to pick as many waiting pods as the leaf's minimum lacks."""
        need = (group.minimum or 0) - group.running
        costs = {shape: _cost(shape, self._totals) for shape in group.pending}
        shapes = sorted(costs, key=lambda shape: (costs[shape], shape.index))
        left = [len(group.pending[shape]) for shape in shapes]
        # after[i]: how many pods the shapes after the i-th have.
        after = [sum(left[at + 1 :]) for at in range(len(left))]

        def pick(at: int, need: int) -> Iterator[SubtreePlacement]:
            if at == len(shapes):
                if need == 0:
                    yield SubtreePlacement(0.0)
                return
            # Never fewer than the rest can make up for. So each path leads to a way; otherwise the
            # walk would take time exponential in the number of shapes.
            for count in range(min(left[at], need), max(0, need - after[at]) - 1, -1):
                shape = shapes[at]
                part = ((group, shape, count),) if count else ()
                for rest in pick(at + 1, need - count):
                    yield SubtreePlacement(costs[shape] * count, part) + rest

        return islice(pick(0, need), _PICKED * self._limit)

    def _cheapest(
        self, ways: Iterator[SubtreePlacement] | list[SubtreePlacement]
    ) -> list[SubtreePlacement]:
        found = sorted(ways, key=lambda way: way.load)
        self.truncated = self.truncated or len(found) > self._limit
        return found[: self._limit]


def _cost(shape: Shape, totals: list[int]) -> float:
    return sum(amount / max(1, totals[resource]) for resource, amount in shape.request.demands)


def _shared(way: SubtreePlacement, places: Mapping[Shape, tuple[Ints, Ints]]) -> Iterator[Placed]:
    """Divide the slots of each shape among the parts of the way."""
    left = {shape: rows.repeat(counts) for shape, (rows, counts) in places.items()}
    for group, shape, count in way.parts:
        mine, left[shape] = left[shape][:count], left[shape][count:]
        rows, counts = np.unique(mine, return_counts=True)
        yield group, shape, rows, counts
