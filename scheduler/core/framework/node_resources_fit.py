"""NodeResourcesFit: the number of pods that fit by their requests, and the utilisation of nodes.

One division for each resource computes how many pods of a shape fit on all nodes. The profiles
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
"""Prefix of the reason; the resource's name follows, for example "Insufficient cpu"."""

_MOST_MISSING: Final = 10
"""Resources without an offer that are reasons. A pod may request hundreds; the message has them."""

_SCALE: Final = 1000
"""Scale of the utilisation: thousandths, so that scores are integers."""


class NodeResourcesFit(Plugin):
    """Count of the pods that fit by requests; those of a stage use capacity of other stages."""

    name = "NodeResourcesFit"
    events = USE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def capacity(
        self,
        shape: Shape,
        rows: Ints | slice,
        permitted: Bools,
        capacity: Ints | None,
        *,
        empty: bool,
    ) -> Ints:
        nodes = self._nodes
        if empty:
            return capacity_of(shape, nodes.resources.allocatable, rows, permitted)
        counts = capacity_of(shape, nodes.resources.free, rows, permitted)
        if shape.requirements.stage is not None:
            self._share(shape, shape.requirements.stage, rows, permitted, counts)
        return counts

    def _share(
        self, shape: Shape, stage: Stage, rows: Ints | slice, permitted: Bools, capacity: Ints
    ) -> None:
        """Set `capacity`, (len(rows),), on rows where other stages of the tree have capacity."""
        if shape.request.missing:
            return
        nodes = self._nodes
        every = np.arange(nodes.size)[rows] if isinstance(rows, slice) else rows
        for at in np.flatnonzero(np.isin(every, nodes.stages.rows(stage.tree))).tolist():
            # Rows that filters exclude keep 0.
            if permitted[at]:
                capacity[at] = max(0, nodes.stages.slots(int(every[at]), shape.request, stage))

    def may_fit(self, shapes: Sequence[Shape], rows: Ints) -> list[Shape]:
        """Return the shapes for which the rows (n,) have enough of each resource.

        Different rows may have enough of different resources. Shapes with a stage always remain:
        they may use capacity of other stages, which free resources do not show.
        """
        may = dict.fromkeys(may_fit(shapes, self._nodes.resources.free, rows))
        may |= dict.fromkeys(shape for shape in shapes if shape.requirements.stage is not None)
        return list(may)

    def insufficient(self, shape: Shape, capacity: Ints) -> Iterator[tuple[str, Bools]]:
        nodes = self._nodes
        # A resource that no node offers has no row in the table, so it is reported apart.
        for name in shape.request.missing[:_MOST_MISSING]:
            yield f"{INSUFFICIENT}{name}", np.ones(nodes.size, np.bool_)
        beyond = capacity + 1
        names = nodes.resources.names
        for resource, amount in shape.request.demands:
            short = nodes.resources.free[resource, : nodes.size] < amount * beyond
            name = names[resource]
            yield TOO_MANY_PODS if name == PODS else f"{INSUFFICIENT}{name}", short


def capacity_of(shape: Shape, free: Ints, rows: Ints | slice, permitted: Bools) -> Ints:
    """Return the number of the shape's pods that fit by resources on each of n rows, (n,).

    `free` is (R, capacity). The result is 0 on rows that `permitted` (n,) excludes.
    """
    if shape.request.missing:
        return np.zeros(len(permitted), np.int64)
    counts: Ints | None = None
    for resource, amount in shape.request.demands:
        fits = free[resource][rows] // amount
        counts = fits if counts is None else np.minimum(counts, fits, out=counts)
    if counts is None:
        raise AssertionError("a pod requests at least itself")
    # Free resources are negative where pods have grown, or other schedulers placed too many.
    counts[(counts < 0) | ~permitted] = 0
    return counts


def may_fit(shapes: Iterable[Shape], free: Ints, rows: Ints) -> list[Shape]:
    """Return the shapes for which the rows (n,) have enough of each resource.

    Different rows may have enough of different resources. `free` is (R, capacity).
    """
    if not len(rows):
        return []
    # One pass over the arrays for all shapes, and one check of each request: thousands of pending
    # shapes may differ only in their volumes.
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
    """Return the mean use of scored resources and what a pod adds, (len(rows),), in thousandths."""
    used = np.zeros(len(rows), np.int64)
    step = np.zeros(len(rows), np.int64)
    scored = shape.request.scored
    for resource, amount in scored:
        # A node without the resource, or with more in use than it offers, does not fit such a pod.
        # So its value here is never used.
        whole = np.maximum(nodes.resources.allocatable[resource][rows], 1)
        used += np.minimum(whole - nodes.resources.free[resource][rows], whole) * _SCALE // whole
        # A larger request fits no node, and its product would overflow.
        step += min(amount, LARGEST) * _SCALE // whole
    return used // len(scored), np.maximum(step // len(scored), 1)


def used_with(shape: Shape, nodes: NodeTable, row: int, pods: int) -> int:
    """Return the utilisation of one row with `pods` more pods, as `usage_at` computes it."""
    used, scored = 0, shape.request.scored
    for resource, amount in scored:
        whole = max(1, int(nodes.resources.allocatable[resource, row]))
        taken = whole - int(nodes.resources.free[resource, row]) + amount * pods
        used += min(taken, whole) * _SCALE // whole
    return used // len(scored)
