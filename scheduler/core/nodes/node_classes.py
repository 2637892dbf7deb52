"""Classes of equal nodes: plugins check taints once per class, not once per node."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.values.model import NodeInfo, Taint


@dataclass(frozen=True, slots=True)
class NodeClass:
    """The common properties of the nodes of a class."""

    taints: tuple[Taint, ...]
    unschedulable: bool
    declared_features: tuple[str, ...] = ()


class NodeClasses:
    """Interned node classes. Indices into `all` are valid as long as `epoch` does not change."""

    def __init__(self) -> None:
        self.all: list[NodeClass] = []
        self.epoch = 0
        self._index: dict[NodeClass, int] = {}

    def forget(self) -> None:
        """Drop all classes, because most no longer have a node. Starts a new epoch."""
        self.all = []
        self._index = {}
        self.epoch += 1

    def of(self, node: NodeInfo) -> int:
        """Return the index of the node's class, which is created if it is new."""
        own = NodeClass(node.taints, node.unschedulable, node.declared_features)
        index = self._index.get(own)
        if index is None:
            index = self._index[own] = len(self.all)
            self.all.append(own)
        return index
