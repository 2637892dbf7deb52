"""NodeName: a pod that names its node goes there."""

from __future__ import annotations

from typing import Final

from scheduler.core.model import Requirements
from scheduler.core.node_table import Bools, NodeTable

REASON: Final = "node(s) didn't match the requested node name"


def admits(requirements: Requirements, nodes: NodeTable) -> Bools | None:
    """Per node (N,) whether it is the one that is named; None where none is."""
    return nodes.named((requirements.node_name,)) if requirements.node_name else None
