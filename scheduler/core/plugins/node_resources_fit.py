"""NodeResourcesFit: how many pods fit by their requests, and the utilisation of nodes.

How many pods of a shape fit is one division per resource, over all nodes at once. The profiles
pack and spread correspond to the scoring strategies MostAllocated and LeastAllocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.core.model import Requirements
from scheduler.core.node_table import PODS, Bools, Ints, NodeTable
from scheduler.core.plugins import node_ports
from scheduler.core.shapes import Shape

TOO_MANY_PODS: Final = "Too many pods"
INSUFFICIENT: Final = "Insufficient "
"""Followed by the resource's name."""

_SCALE: Final = 1000
"""Utilisation is in thousandths, so that scores stay integers."""


def sizes(wants: Requirements, nodes: NodeTable) -> tuple[tuple[int, int], ...]:
    """What such a pod requests, as (resource, amount): one of the node's pods among it."""
    amounts = ((PODS, 1), *wants.requests)
    return tuple((nodes.resource(name), amount) for name, amount in amounts if amount > 0)


def scored(sizes: tuple[tuple[int, int], ...], nodes: NodeTable) -> tuple[tuple[int, int], ...]:
    """Those of the sizes by which full nodes differ from empty ones.

    The pod count is among them only where nothing else is requested.
    """
    pods = nodes.resources[PODS]
    return tuple(size for size in sizes if size[0] != pods) or sizes


def room(shape: Shape, free: Ints, rows: Ints | slice, permitted: Bools) -> Ints:
    """How many pods of the shape fit by resources on each of n rows, (n,).

    `free` is (R, capacity). The room is 0 on rows that `permitted` (n,) excludes.
    """
    counts: Ints | None = None
    for resource, amount in shape.demands:
        fits = free[resource][rows] // amount
        counts = fits if counts is None else np.minimum(counts, fits, out=counts)
    if counts is None:
        raise AssertionError("a pod requests at least itself")
    counts[(counts < 0) | ~permitted] = 0
    return counts


def usage_at(shape: Shape, nodes: NodeTable, rows: Ints) -> tuple[Ints, Ints]:
    """Mean utilisation of scored resources and what a pod adds, in thousandths, (len(rows),)."""
    used = np.zeros(len(rows), np.int64)
    step = np.zeros(len(rows), np.int64)
    for resource, amount in shape.scored_resources:
        # A node without the resource has no room for such a pod, so its value here is never used.
        whole = np.maximum(nodes.allocatable[resource][rows], 1)
        used += (whole - nodes.free[resource][rows]) * _SCALE // whole
        step += amount * _SCALE // whole
    return used // len(shape.scored_resources), np.maximum(step // len(shape.scored_resources), 1)


def lacking(shape: Shape, nodes: NodeTable, room: Ints) -> Iterator[tuple[str, Bools]]:
    """Yield each reason with the nodes (N,) on which it rules out one pod more than `room` (N,)."""
    beyond = room + 1
    names = list(nodes.resources)
    ports_taken = np.zeros(nodes.size, np.bool_)
    for resource, amount in shape.demands:
        short = nodes.free[resource, : nodes.size] < amount * beyond
        name = names[resource]
        if node_ports.is_port(name):
            ports_taken |= short  # a node that lacks several ports counts once
        else:
            yield TOO_MANY_PODS if name == PODS else f"{INSUFFICIENT}{name}", short
    yield node_ports.REASON, ports_taken
