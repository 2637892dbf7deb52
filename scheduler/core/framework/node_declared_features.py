"""NodeDeclaredFeatures: a node must declare the kubelet features that a pod needs.

kube-scheduler has the filter on by default since Kubernetes 1.36 (KEP-5328).
"""

from __future__ import annotations

from typing import Final

from scheduler.core.framework.events import NODE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.shapes import Codes, Shape

REASON: Final = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(Plugin):
    """Filter by the features that nodes declare, while `enabled`."""

    name = "NodeDeclaredFeatures"
    events = NODE_EVENTS

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.enabled = True

    def filter_nodes(self, shape: Shape, codes: Codes) -> None:
        """See Plugin."""
        wanted = set(shape.requirements.declared_features)
        if not wanted or not self.enabled:
            return

        def lacks(node: NodeClass) -> bool:
            return not wanted.issubset(node.declared_features)

        shape.rule_out(codes, self._nodes.by_class(lacks), REASON)
