"""NodeName: a pod that names a node may run only on that node."""

from __future__ import annotations

from typing import Final

from scheduler.core.nodes.node_table import Bools, NodeTable
from scheduler.core.values.model import Requirements

REASON: Final = "node(s) didn't match the requested node name"


def admits(requirements: Requirements, nodes: NodeTable) -> Bools | None:
    """Per node (N,) whether it is the node that the pod names; None if the pod names none."""
    return nodes.named((requirements.node_name,)) if requirements.node_name else None
