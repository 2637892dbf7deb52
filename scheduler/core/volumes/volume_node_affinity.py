"""Nodes that can use a volume, or get one from a storage class, by their labels.

Part of VolumeBinding: node affinity of volumes, and allowedTopologies.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.nodes.node_table import Bools, NodeTable
from scheduler.core.values.model import NodeTerm


def reached(terms: tuple[NodeTerm, ...] | None, nodes: NodeTable) -> Bools:
    """Return the nodes (N,) that meet at least one of the terms, or all nodes if `terms` is None.

    As upstream, matchFields are ignored: only labels of nodes count for volumes.
    """
    if terms is None:
        return np.ones(nodes.size, np.bool_)
    some = np.zeros(nodes.size, np.bool_)
    for term in terms:
        # An empty term matches no node, as in a node selector.
        met = np.full(nodes.size, bool(term.expressions or term.fields))
        for expression in term.expressions:
            met &= nodes.labels.meets(expression)
        some |= met
    return some
