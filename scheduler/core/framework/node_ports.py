"""NodePorts: a pod's host ports must not conflict with those of the pods on the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.shapes import Shape

REASON: Final = "node(s) didn't have free ports for the requested pod ports"


def lacking(shape: Shape, nodes: NodeTable, room: Ints) -> Iterator[tuple[str, Bools]]:
    """Yield the reason with the nodes (N,) on which it excludes one pod more than `room` (N,)."""
    ports = shape.requirements.ports
    if ports:
        yield REASON, nodes.using(ports, shape.load.stage) | (room > 0)
