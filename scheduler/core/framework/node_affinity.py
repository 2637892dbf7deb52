"""NodeAffinity: node selectors, and required and preferred node affinity.

Each expression is evaluated once for all nodes, on the codes of one label.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.framework.events import NODE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.shapes import Codes, Shape
from scheduler.core.values.model import Expression, Requirements

REASON: Final = "node(s) didn't match Pod's node affinity/selector"


class NodeAffinity(Plugin):
    """Filter and score by the labels and names of nodes."""

    name = "NodeAffinity"
    events = NODE_EVENTS
    weight = 2000

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def filter_nodes(self, shape: Shape, codes: Codes) -> None:
        admitted = admits(shape, self._nodes)
        if admitted is not None:
            shape.rule_out(codes, ~admitted, REASON)

    def score_nodes(self, shape: Shape) -> Ints | None:
        """Return for each node (N,) the sum of the weights of the preferred terms that it meets."""
        terms = shape.requirements.preferred_node_affinity
        if not terms:
            return None
        total = np.zeros(self._nodes.size, np.int64)
        for weight, term in terms:
            total += weight * self._nodes.meets(term)
        return total if total.any() else None


def admits(shape: Shape, nodes: NodeTable) -> Bools | None:
    """Return the nodes (N,) that meet selector and required affinity; None if it has neither."""
    wants = shape.requirements
    if not wants.selector and wants.affinity is None:
        return None
    cached, key = shape.cache.affinity, (nodes.generation, nodes.size)
    if cached.key != key:
        cached.key, cached.value = key, _admits(wants, nodes)
    return cached.value


def _admits(wants: Requirements, nodes: NodeTable) -> Bools:
    admitted = np.ones(nodes.size, np.bool_)
    for key, value in wants.selector:
        admitted &= nodes.labels.meets(Expression(key, "In", (value,)))
    # None means no constraint, while an empty affinity matches no node.
    if wants.affinity is not None:
        admitted &= nodes.meets_any(wants.affinity)
    return admitted
