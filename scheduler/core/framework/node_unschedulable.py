"""NodeUnschedulable: cordoned nodes accept only pods that tolerate the unschedulable taint."""

from __future__ import annotations

from typing import Final

from scheduler.core.framework.taint_toleration import tolerates
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.values.model import Requirements, Taint

REASON: Final = "node(s) were unschedulable"

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def admits(requirements: Requirements, node: NodeClass) -> bool:
    """Whether the pod may run on nodes of this class, cordoned or not."""
    return not node.unschedulable or tolerates(requirements.tolerations, _CORDON)
