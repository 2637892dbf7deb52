"""NodePorts: a pod's host ports must not conflict with those of the pods on the node.

The node table counts the ports in use (`exclusive_uses`), together with disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.core.framework.events import USE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.shapes import Shape

REASON: Final = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(Plugin):
    """Reasons for shapes with host ports."""

    name = "NodePorts"
    events = USE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def insufficient(self, shape: Shape, capacity: Ints) -> Iterator[tuple[str, Bools]]:
        ports = shape.requirements.ports
        if ports:
            # A second pod of the shape would use the same ports, hence the nodes with room as well.
            yield REASON, self._nodes.using(ports, shape.load.stage) | (capacity > 0)
