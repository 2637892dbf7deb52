"""NodeResourcesFit: how many pods fit by their requests, and the utilisation of nodes.

How many pods of a shape fit is one division per resource, over all nodes at once. The profiles
pack and spread correspond to the scoring strategies MostAllocated and LeastAllocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from scheduler.core.framework.events import USE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.nodes.resource_table import LARGEST, PODS, Request
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import Stage

TOO_MANY_PODS: Final = "Too many pods"
INSUFFICIENT: Final = "Insufficient "
"""Followed by the resource's name."""

_SCALE: Final = 1000
"""Utilisation is in thousandths, so that scores stay integers."""


class NodeResourcesFit(Plugin):
    """Counts the pods that fit by requests; those of a stage use what other stages hold."""

    name = "NodeResourcesFit"
    events = USE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def room(
        self, shape: Shape, rows: Ints | slice, permitted: Bools, room: Ints | None, *, empty: bool
    ) -> Ints:
        """See Plugin."""
        nodes = self._nodes
        if empty:
            return room_of(shape, nodes.allocatable, rows, permitted)
        counts = room_of(shape, nodes.free, rows, permitted)
        if shape.requirements.stage is not None:
            self._share(shape, shape.requirements.stage, rows, permitted, counts)
        return counts

    def _share(
        self, shape: Shape, stage: Stage, rows: Ints | slice, permitted: Bools, room: Ints
    ) -> None:
        """Put the room into `room`, (len(rows),), where other stages of the tree hold some."""
        if shape.request.missing:
            return
        nodes = self._nodes
        every = np.arange(nodes.size)[rows] if isinstance(rows, slice) else rows
        for at in np.flatnonzero(np.isin(every, nodes.stages.rows(stage.tree))).tolist():
            if permitted[at]:
                room[at] = max(0, nodes.stages.slots(int(every[at]), shape.request, stage))

    def may_fit(self, shapes: Sequence[Shape], rows: Ints) -> list[Shape]:
        """Those for which the rows (n,) have enough of each resource, maybe not on the same row.

        And those of a stage, which may use what other stages hold.
        """
        may = dict.fromkeys(may_fit(shapes, self._nodes.free, rows))
        may |= dict.fromkeys(shape for shape in shapes if shape.requirements.stage is not None)
        return list(may)

    def lacking(self, shape: Shape, room: Ints) -> Iterator[tuple[str, Bools]]:
        """See Plugin."""
        nodes = self._nodes
        for name in shape.request.missing:
            yield f"{INSUFFICIENT}{name}", np.ones(nodes.size, np.bool_)
        beyond = room + 1
        names = nodes.resources.names
        for resource, amount in shape.demands:
            short = nodes.free[resource, : nodes.size] < amount * beyond
            name = names[resource]
            yield TOO_MANY_PODS if name == PODS else f"{INSUFFICIENT}{name}", short


def room_of(shape: Shape, free: Ints, rows: Ints | slice, permitted: Bools) -> Ints:
    """How many pods of the shape fit by resources on each of n rows, (n,).

    `free` is (R, capacity). The room is 0 on rows that `permitted` (n,) excludes.
    """
    if shape.request.missing:
        return np.zeros(len(permitted), np.int64)
    counts: Ints | None = None
    for resource, amount in shape.demands:
        fits = free[resource][rows] // amount
        counts = fits if counts is None else np.minimum(counts, fits, out=counts)
    if counts is None:
        raise AssertionError("a pod requests at least itself")
    counts[(counts < 0) | ~permitted] = 0
    return counts


def may_fit(shapes: Iterable[Shape], free: Ints, rows: Ints) -> list[Shape]:
    """Those for which the rows (n,) have enough of each resource, maybe not on the same row.

    One pass over the arrays for all shapes, and one look at each request, of which many shapes
    may have the same; `free` is (R, capacity).
    """
    if not len(rows):
        return []
    most = free[:, rows].max(axis=1).tolist()
    enough: dict[Request, bool] = {}
    found = []
    for shape in shapes:
        request = shape.request
        fits = enough.get(request)
        if fits is None:
            fits = not request.missing and all(most[r] >= amount for r, amount in request.demands)
            enough[request] = fits
        if fits:
            found.append(shape)
    return found


def usage_at(shape: Shape, nodes: NodeTable, rows: Ints) -> tuple[Ints, Ints]:
    """Mean utilisation of scored resources and what a pod adds, in thousandths, (len(rows),)."""
    used = np.zeros(len(rows), np.int64)
    step = np.zeros(len(rows), np.int64)
    scored = shape.request.scored
    for resource, amount in scored:
        # A node without the resource has no room for such a pod, so its value here is never used;
        # neither is that of a node on which more is used than it offers.
        whole = np.maximum(nodes.allocatable[resource][rows], 1)
        used += np.minimum(whole - nodes.free[resource][rows], whole) * _SCALE // whole
        step += min(amount, LARGEST) * _SCALE // whole
    return used // len(scored), np.maximum(step // len(scored), 1)


def used_with(shape: Shape, nodes: NodeTable, row: int, pods: int) -> int:
    """The utilisation of one row, as `usage_at` has it, with so many more pods of the shape."""
    used, scored = 0, shape.request.scored
    for resource, amount in scored:
        whole = max(1, int(nodes.allocatable[resource, row]))
        taken = whole - int(nodes.free[resource, row]) + amount * pods
        used += min(taken, whole) * _SCALE // whole
    return used // len(scored)
