"""How many nodes take no more pods of a shape, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from scheduler.core.node_table import PODS, Bools, NodeTable
from scheduler.core.plugins import node_affinity as filters
from scheduler.core.plugins import node_ports as ports
from scheduler.core.shapes import Shape


def reasons(nodes: NodeTable, shape: Shape) -> tuple[tuple[str, int], ...]:
    """Nodes per reason why they take no more pods of the shape, most nodes first.

    Of a node with room for some, what stops it from taking one beyond those counts.
    """
    found: Counter[str] = Counter()
    codes = shape.codes(nodes)
    for code, count in enumerate(np.bincount(codes, minlength=len(shape.reasons))):
        if count and shape.reasons[code] not in ("", "no node"):
            found[shape.reasons[code]] += int(count)
    permitted = shape.permitted(nodes)
    open_to = np.ones(nodes.size, np.bool_)
    if shape.filter_match_ids:
        open_to = shape.social(nodes) == 0
    full = shape.room(nodes, nodes.free) <= 0
    for reason, mask in _lacking(nodes, shape):
        found[reason] += int((mask & permitted & (open_to | full)).sum())
    if shape.filter_match_ids:
        for code, count in enumerate(np.bincount(shape.social(nodes)[permitted])):
            found[shape.reasons[code]] += int(count) if code else 0
    found = +found
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _lacking(nodes: NodeTable, shape: Shape) -> Iterator[tuple[str, Bools]]:
    """Per reason the nodes (N,) that have no room for one pod more than they could take."""
    size = nodes.size
    beyond = shape.room(nodes, nodes.free) + 1
    names = list(nodes.resources)
    taken = np.zeros(size, np.bool_)
    for resource, amount in shape.demands:
        short = nodes.free[resource, :size] < amount * beyond
        name = names[resource]
        if ports.is_port(name):
            taken |= short  # of several ports a node counts once
        else:
            yield filters.TOO_MANY_PODS if name == PODS else f"Insufficient {name}", short
    yield ports.REASON, taken
