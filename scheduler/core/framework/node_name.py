"""NodeName: a pod that names a node may run only on that node."""

from __future__ import annotations

from typing import Final

from scheduler.core.framework.events import NODE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.shapes import Codes, Shape

REASON: Final = "node(s) didn't match the requested node name"


class NodeName(Plugin):
    """Filter for shapes that name a node."""

    name = "NodeName"
    events = NODE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def filter_nodes(self, shape: Shape, codes: Codes) -> None:
        name = shape.requirements.node_name
        if name:
            shape.rule_out(codes, ~self._nodes.named((name,)), REASON)
