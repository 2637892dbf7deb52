"""Backtracking over pods of different shapes on few nodes, within a number of steps.

If capacity is tight, greedy packing misses a few percent of the demands that fit. On few nodes this
search finds them. It runs last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.exclusive_uses import overlap
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.search_memory import PackingMemory
from scheduler.core.values.model import Stage
from scheduler.core.values.search_budget import never

MOST_NODES: Final = 64
"""Nodes that fit a pod. With more, the exhaustive searches do not run."""

MOST_PODS: Final = 64
"""Pods to place. With more, the exhaustive searches do not run."""

_MOST_USES: Final = 256
"""Host ports and disks of all shapes. With more, comparing each pair of shapes takes too long."""

_COMPARED: Final = 8
"""Shapes whose remaining pods the search compares with what is free: of many the smallest."""

Free = tuple[int, ...]
_Column = tuple[int, Stage | None]
"""A resource, and the stage whose pods use it; None for pods that run next to all stages."""

Runs = list[tuple[Shape, Ints, Ints]]


def pack_exhaustively(
    framework: Framework,
    demand: Mapping[Shape, int],
    region: Region | None,
    steps: int,
    expired: Callable[[], bool] = never,
    *,
    memory: PackingMemory | None = None,
) -> Runs | None:
    """Return (shape, rows, counts) for the demand; None if it does not fit or the steps ran out.

    A step places one pod on trial. The steps also end once `expired` returns True. With the same
    `memory`, another call continues there. Returns None at once for more than MOST_NODES usable
    nodes, MOST_PODS pods or very many host ports and disks.
    """
    rows = usable(framework, demand, region, expired)
    uses = sum(len(shape.uses) for shape in demand)
    if rows is None or sum(demand.values()) > MOST_PODS or uses > _MOST_USES:
        return None
    used = _columns(demand)
    if used is None:
        return None
    # Each conflict is one more column of which a node has MOST_PODS parts.
    apart = (MOST_PODS,) * len(_kept_apart(demand))
    nodes = framework.nodes

    def left(row: int) -> Iterator[int]:
        for resource, stage in used:
            yield int(nodes.free[resource, row]) + nodes.stages.spare(row, stage, resource)

    free = [(*left(row), *apart) for row in rows.tolist()]
    memory = PackingMemory() if memory is None else memory
    search = _PackingSearch(framework, rows, used, dict(demand), steps, expired, memory)
    if not search.place(0, 0, free):
        if search.steps <= 0:
            memory.end_early()
        return None
    return [
        (shape, rows[counts > 0], counts[counts > 0])
        for shape, counts in zip(search.shapes, search.chosen(), strict=True)
    ]


def usable(
    framework: Framework,
    shapes: Iterable[Shape],
    region: Region | None,
    expired: Callable[[], bool] = never,
) -> Ints | None:
    """Return the nodes that fit one of the shapes; None if more than MOST_NODES, or `expired`."""
    rows = np.arange(framework.nodes.size) if region is None else region
    some = np.zeros(len(rows), np.bool_)
    for shape in shapes:
        if expired():
            return None
        some |= framework.slots_in(shape, rows) > 0
    found: Ints = rows[some]
    return found if len(found) <= MOST_NODES else None


def _columns(demand: Iterable[Shape]) -> list[_Column] | None:
    """Return the columns that the search counts on each node: resources, once more for each stage.

    Pods that run next to all stages are in each column, so that no stage exceeds the node together
    with them. Returns None where pods of two stages exist, because these do not share capacity.
    """
    resources = sorted({resource for shape in demand for resource, _ in shape.request.demands})
    stages = {shape.requirements.stage for shape in demand} - {None}
    existing = [stage for stage in stages if stage is not None and stage.exists]
    if len(existing) > 1:
        return None
    # If a pod of a stage exists, its column is the one of existing pods, which have less to spare.
    named = {stage.number: stage for stage in stages if stage is not None and not stage.exists}
    named |= {stage.number: stage for stage in existing}
    ordered = (None, *(named[number] for number in sorted(named)))
    return [(resource, stage) for stage in ordered for resource in resources]


def _in_column(shape: Shape, stage: Stage | None) -> bool:
    own = shape.requirements.stage
    return own is None or (stage is not None and own.number == stage.number)


def _kept_apart(shapes: Iterable[Shape]) -> list[dict[Shape, int]]:
    """Return, for each conflict, how many of MOST_PODS parts a pod of each shape takes.

    Shapes conflict on a node, or pods of one shape do. A pod of an exclusive shape takes all parts.
    Pods that only read a disk take one each.
    """
    using = [shape for shape in shapes if shape.uses]
    parts = {shape: MOST_PODS if shape.exclusive else 1 for shape in using}
    pairs = [
        {one: parts[one], other: parts[other]}
        for one, other in combinations(using, 2)
        if overlap(one.uses, other.uses) and not _in_turn(one, other)
    ]
    return [*({shape: MOST_PODS} for shape in using if shape.exclusive), *pairs]


def _in_turn(one: Shape, other: Shape) -> bool:
    """Return True if pods of the two are never on a node at the same time."""
    return one.load.stage is not None and one.load.stage.apart(other.load.stage)


@dataclass(slots=True)
class _PackingSearch:
    """A depth-first search over pods, largest shape first; pods of one shape take nodes in order.

    `open` marks nodes that every shape may use: of those with equal free resources and devices,
    only one is tried per pod. `memory` has the states that failed, also in earlier searches, under
    keys that begin with `problem`. `layouts` and `states` are the devices of each node and those in
    use; equal numbers mean equal devices.
    """

    framework: Framework
    rows: Ints
    used: list[_Column]
    demand: dict[Shape, int]
    steps: int
    expired: Callable[[], bool]
    memory: PackingMemory
    problem: int = field(init=False)
    shapes: list[Shape] = field(init=False)
    pods: list[int] = field(init=False)
    wants: list[Free] = field(init=False)
    allowed: list[list[bool]] = field(init=False)
    open: list[bool] = field(init=False)
    layouts: list[int] = field(init=False)
    states: list[int] = field(init=False)
    path: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Largest first fails early: small pods fill the gaps that large ones leave.
        self.shapes = sorted(self.demand, key=lambda s: (-self._size(s), s.index))
        self.pods = [i for i, s in enumerate(self.shapes) for _ in range(self.demand[s])]
        self.wants = []
        self.allowed = []
        apart = _kept_apart(self.demand)
        for shape in self.shapes:
            amounts = dict(shape.request.demands)
            wants = (
                amounts.get(resource, 0) if _in_column(shape, stage) else 0
                for resource, stage in self.used
            )
            self.wants.append((*wants, *(parts.get(shape, 0) for parts in apart)))
            self.allowed.append((self.framework.slots_in(shape, self.rows) > 0).tolist())
        devices = self.framework.plugins.dynamic_resources
        self.layouts = devices.layouts(self.shapes, self.rows)
        self.states = devices.states(self.shapes, self.rows)
        # Equal requests may need other devices, and the index of a resource is used again.
        asked = tuple((shape.index, self.demand[shape]) for shape in self.shapes)
        requested = tuple(self.wants)
        allowed = tuple(map(tuple, self.allowed))
        self.problem = hash((asked, requested, self.rows.tobytes(), allowed, tuple(self.layouts)))
        self.open = [all(column) for column in zip(*self.allowed, strict=True)]

    def place(self, pod: int, start: int, free: list[Free]) -> bool:
        """Place this pod, on a node from `start` on, and all pods after it. True if that worked."""
        if pod == len(self.pods):
            return True
        state = hash((self.problem, pod, start, tuple(free), tuple(self.states)))
        if state in self.memory.failed or not self._leaves_enough(pod, free):
            return False
        shape = self.pods[pod]
        want = self.wants[shape]
        # Equal pods take nodes in ascending order; the next shape starts at the first node again.
        last = pod + 1 == len(self.pods) or self.pods[pod + 1] != shape
        tried: set[tuple[Free, int, int]] = set()
        for node in range(start, len(free)):
            left = tuple(f - w for f, w in zip(free[node], want, strict=True))
            if not self.allowed[shape][node] or min(left) < 0:
                continue
            equal = (free[node], self.layouts[node], self.states[node])
            # A node closed to some shapes is not interchangeable, however equal its resources.
            if self.open[node] and equal in tried:
                continue
            if self.steps <= 0 or self.expired():
                # Steps stay at 0, so that all callers stop as well.
                self.steps = 0
                return False
            self.steps -= 1
            if self.open[node]:
                tried.add(equal)
            if self._with_pod(pod, node, 0 if last else node, free, left):
                return True
        # Without steps left, some of these nodes may not have been tried to the end.
        if self.steps > 0:
            self.memory.failed.add(state)
        return False

    def _leaves_enough(self, pod: int, free: list[Free]) -> bool:
        """Return False if the pods from this one on cannot all fit, by what is easy to compute.

        Runs before the first pod of each shape. The pods of each shape must fit even alone, and all
        of them together in the nodes that still take one.
        """
        first, last = self.pods[pod], len(self.shapes)
        if pod and self.pods[pod - 1] == first:
            return True
        # Of many shapes the smallest: larger pods were placed while there was more.
        rest = [first, *range(max(first + 1, last - _COMPARED), last)]
        if not all(self._fit_alone(shape, free) for shape in rest):
            return False
        if len(rest) < last - first:
            return True
        needed = [0] * len(free[0])
        for shape in rest:
            number = self.demand[self.shapes[shape]]
            needed = [n + number * w for n, w in zip(needed, self.wants[shape], strict=True)]
        for amounts in free:
            if any(all(map(int.__ge__, amounts, self.wants[shape])) for shape in rest):
                needed = [n - a for n, a in zip(needed, amounts, strict=True)]
        return max(needed) <= 0

    def _fit_alone(self, shape: int, free: list[Free]) -> bool:
        want, left = self.wants[shape], self.demand[self.shapes[shape]]
        for node, amounts in enumerate(free):
            if self.allowed[shape][node]:
                left -= max(0, min(a // w for a, w in zip(amounts, want, strict=True) if w))
                if left <= 0:
                    return True
        return False

    def _with_pod(self, pod: int, node: int, start: int, free: list[Free], left: Free) -> bool:
        """Put this pod on the node, and place all pods after it; undone unless that worked."""
        before, used = free[node], self.states[node]
        shape = self.shapes[self.pods[pod]]
        after = self.framework.plugins.dynamic_resources.state_with(
            shape, int(self.rows[node]), used
        )
        if after is None:
            return False
        self.path.append(node)
        free[node], self.states[node] = left, after
        if self.place(pod + 1, start, free):
            return True
        free[node], self.states[node] = before, used
        self.path.pop()
        return False

    def chosen(self) -> list[Ints]:
        """Return per shape how many pods each row takes, (len(rows),)."""
        counts = [np.zeros(len(self.rows), np.int64) for _ in self.shapes]
        for shape, node in zip(self.pods, self.path, strict=True):
            counts[shape][node] += 1
        return counts

    def _size(self, shape: Shape) -> float:
        """Return the largest share of the free amount of any resource that one pod takes."""
        totals = self.framework.nodes.free[:, self.rows].clip(0).sum(axis=1)
        return max(amount / max(1, int(totals[it])) for it, amount in shape.request.demands)
