"""Node classes: the node filters run once per class of equal nodes, and not once per node.

Only labels that some shape asks for (watched labels) are compared. Otherwise the label
`kubernetes.io/hostname` alone would put every node in a class of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.model import NodeInfo, Taint


@dataclass(frozen=True, slots=True)
class NodeClass:
    """What the nodes of a class have in common: watched labels, taints, the unschedulable flag."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool


class NodeClasses:
    """Interned node classes. Indices into `all` are valid as long as `epoch` does not change."""

    def __init__(self) -> None:
        self.all: list[NodeClass] = []
        self.epoch = 0
        self._watched: set[str] = set()
        self._index: dict[tuple[object, ...], int] = {}

    def watch(self, key: str) -> bool:
        """Watch the label `key`. True if that is new; all nodes must then be classified again."""
        if key in self._watched:
            return False
        self._watched.add(key)
        return True

    def forget(self) -> None:
        """Drop all classes, because most have no node any more. Starts a new epoch."""
        self.all = []
        self._index = {}
        self.epoch += 1

    def of(self, node: NodeInfo) -> int:
        """The index of the node's class, which is created if it is new."""
        labels = {key: node.labels[key] for key in sorted(self._watched & node.labels.keys())}
        identity = (tuple(labels.items()), node.taints, node.unschedulable)
        index = self._index.get(identity)
        if index is None:
            index = self._index[identity] = len(self.all)
            self.all.append(NodeClass(labels, node.taints, node.unschedulable))
        return index
