"""NodeUnschedulable: cordoned nodes accept only pods that tolerate the unschedulable taint."""

from __future__ import annotations

from typing import Final

from scheduler.core.framework.events import NODE_EVENTS
from scheduler.core.framework.plugin import Plugin
from scheduler.core.framework.taint_toleration import tolerates
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.values.model import Requirements, Taint

REASON: Final = "node(s) were unschedulable"

# kube-scheduler accepts cordoned nodes for pods that tolerate this taint, as DaemonSets' pods do.
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeUnschedulable(Plugin):
    """Filter by node class."""

    name = "NodeUnschedulable"
    events = NODE_EVENTS

    def filter_class(self, wants: Requirements, node: NodeClass) -> str:
        admitted = not node.unschedulable or tolerates(wants.tolerations, _CORDON)
        return "" if admitted else REASON
