"""Backtracking over pods of different shapes on few nodes, within a number of steps.

If room is tight, greedy packing misses a few percent of the demands that fit. On few nodes this
search finds them. It is tried last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.core.framework import Framework
from scheduler.core.node_table import Ints
from scheduler.core.shapes import Shape

MOST_NODES: Final = 64
MOST_PODS: Final = 64

Free = tuple[int, ...]
Runs = list[tuple[Shape, Ints, Ints]]


def pack_exhaustively(
    framework: Framework, demand: Mapping[Shape, int], region: Ints | None, steps: int
) -> Runs | None:
    """(shape, rows, counts) for the whole demand; None if it does not fit or the steps ran out.

    A step places one pod on trial. Returns None at once for more than MOST_NODES usable nodes or
    MOST_PODS pods.
    """
    rows = usable(framework, demand, region)
    if rows is None or sum(demand.values()) > MOST_PODS:
        return None
    used = sorted({resource for shape in demand for resource, _ in shape.demands})
    free = [tuple(int(framework.nodes.free[r, row]) for r in used) for row in rows]
    search = _Search(framework, rows, used, dict(demand), steps)
    if not search.place(0, 0, free):
        return None
    return [
        (shape, rows[counts > 0], counts[counts > 0])
        for shape, counts in zip(search.shapes, search.chosen(), strict=True)
    ]


def usable(framework: Framework, shapes: Iterable[Shape], region: Ints | None) -> Ints | None:
    """Nodes of the region with room for one of the shapes; None if more than MOST_NODES."""
    rows = np.arange(framework.nodes.size) if region is None else region
    some = np.zeros(len(rows), np.bool_)
    for shape in shapes:
        some |= framework.slots_in(shape, rows) > 0
    found: Ints = rows[some]
    return found if len(found) <= MOST_NODES else None


@dataclass(slots=True)
class _Search:
    """A depth-first search over pods, largest shape first; pods of one shape take nodes in order.

    `open` marks nodes that every shape may use: of those with equal free resources, only one is
    tried per pod. `dead` holds the states that failed.
    """

    framework: Framework
    rows: Ints
    used: list[int]
    demand: dict[Shape, int]
    steps: int
    shapes: list[Shape] = field(init=False)
    pods: list[int] = field(init=False)
    wants: list[Free] = field(init=False)
    allowed: list[list[bool]] = field(init=False)
    open: list[bool] = field(init=False)
    path: list[int] = field(default_factory=list)
    dead: set[tuple[int, int, tuple[Free, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.shapes = sorted(self.demand, key=lambda s: (-self._size(s), s.index))
        self.pods = [i for i, s in enumerate(self.shapes) for _ in range(self.demand[s])]
        self.wants = []
        self.allowed = []
        for shape in self.shapes:
            amounts = dict(shape.demands)
            self.wants.append(tuple(amounts.get(resource, 0) for resource in self.used))
            self.allowed.append(self.framework.permitted(shape)[self.rows].tolist())
        self.open = [all(column) for column in zip(*self.allowed, strict=True)]

    def place(self, pod: int, start: int, free: list[Free]) -> bool:
        """Place this pod, on a node from `start` on, and all pods after it; whether that worked."""
        if pod == len(self.pods):
            return True
        state = (pod, start, tuple(free))
        if state in self.dead:
            return False
        shape = self.pods[pod]
        want = self.wants[shape]
        last = pod + 1 == len(self.pods) or self.pods[pod + 1] != shape
        tried: set[Free] = set()
        for node in range(start, len(free)):
            left = tuple(f - w for f, w in zip(free[node], want, strict=True))
            if not self.allowed[shape][node] or min(left) < 0:
                continue
            if self.open[node] and free[node] in tried:
                continue
            if self.steps <= 0:
                return False
            self.steps -= 1
            if self.open[node]:
                tried.add(free[node])
            self.path.append(node)
            before, free[node] = free[node], left
            if self.place(pod + 1, 0 if last else node, free):
                return True
            free[node] = before
            self.path.pop()
        self.dead.add(state)
        return False

    def chosen(self) -> list[Ints]:
        """Per shape how many pods each row takes, (len(rows),)."""
        counts = [np.zeros(len(self.rows), np.int64) for _ in self.shapes]
        for shape, node in zip(self.pods, self.path, strict=True):
            counts[shape][node] += 1
        return counts

    def _size(self, shape: Shape) -> float:
        """The largest share of the free amount of any resource that one pod takes."""
        totals = self.framework.nodes.free[:, self.rows].sum(axis=1)
        return max(amount / max(1, int(totals[resource])) for resource, amount in shape.demands)
