"""NodeResourcesBalancedAllocation, and the LeastAllocated score of NodeResourcesFit.

kube-scheduler scores nodes by both if it is not configured otherwise, and Muster does so for pods
without a group. Both read cpu and memory only.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.nodes.node_table import Bools, Floats, Ints, NodeTable
from scheduler.core.pods.shapes import Shape

POINTS: Final = 1024
"""Value of one of kube-scheduler's points in `allocation_at`."""

_SCORED: Final = ("cpu", "memory")


def allocation_at(shape: Shape, nodes: NodeTable, rows: Ints, pods: Ints | int = 0) -> Ints:
    """Return the points of both plugins on each row with a pod of the shape, times POINTS.

    Less than one point is added for free cpu and memory, so that of nodes with equal points the
    emptiest has the most. `pods` of the shape are there already, beyond those that `nodes` counts.
    It is a number, or an array that the rows (n,) are broadcast with, as is the result.
    """
    indices = nodes.resources.indices
    offered = [(at, indices[name]) for at, name in enumerate(_SCORED) if name in indices]
    requested = dict(shape.request.demands)
    least = np.zeros(np.broadcast_shapes(np.shape(rows), np.shape(pods)), np.int64)
    some, spare, before, after = least, least * 0.0, list[Floats](), list[Floats]()
    for at, index in offered:
        whole = nodes.allocatable[index][rows]
        pod, extra = requested.get(index, 0), shape.requirements.assumed[at]
        divisor = np.maximum(whole, 1)  # a node without the resource has nothing free of it
        used = whole - nodes.free[index][rows] + pod * pods
        free = np.maximum(whole - used - pod - nodes.assumed[at][rows] - extra * (pods + 1), 0)
        least = least + free * 100 // divisor
        spare = spare + free / divisor
        some = some + (whole > 0)
        before.append(np.minimum(used / divisor, 1.0))
        after.append(np.minimum((used + pod) / divisor, 1.0))
    divisor = np.maximum(some, 1)
    points = least // divisor
    # As upstream, a pod that requests neither does not change the balance.
    if any(requested.get(index) for _, index in offered):
        both = some > 1
        points = points + 50 + (50 + _balance(after, both) - _balance(before, both)) // 2
    found: Ints = points * POINTS + (spare / divisor * (POINTS - 1)).astype(np.int64)
    return found


def _balance(shares: list[Floats], both: Bools) -> Ints:
    """Return 100 for nodes that use equal shares of both resources, and less for others."""
    # As upstream, the standard deviation of two values; one alone does not deviate.
    deviation = np.abs(shares[0] - shares[-1]) / 2
    balance: Ints = np.where(both, (1 - deviation) * 100, 100).astype(np.int64)
    return balance
