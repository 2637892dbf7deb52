"""Node classes: nodes that no shape can tell apart share one, so filters run once per class.

Only labels that some shape asks for take part. Otherwise `kubernetes.io/hostname` alone would put
every node into a class of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.model import NodeInfo, Taint


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Watched labels, hard taints and the unschedulable flag, as equal nodes have them."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool


class NodeClasses:
    """Interned node classes; an index means the same class as long as the `epoch` lasts."""

    def __init__(self) -> None:
        self.all: list[NodeClass] = []
        self.epoch = 0
        self._watched: set[str] = set()
        self._index: dict[tuple[object, ...], int] = {}

    def watch(self, key: str) -> bool:
        """Let `key` tell classes apart; True if that is new, and nodes must be classified anew."""
        if key in self._watched:
            return False
        self._watched.add(key)
        return True

    def forget(self) -> None:
        """Begin anew, when most classes are of nodes that are gone: indices are given again."""
        self.all = []
        self._index = {}
        self.epoch += 1

    def of(self, node: NodeInfo) -> int:
        """The node's class index, made when the first such node is met."""
        labels = {key: node.labels[key] for key in sorted(self._watched & node.labels.keys())}
        identity = (tuple(labels.items()), node.taints, node.unschedulable)
        index = self._index.get(identity)
        if index is None:
            index = self._index[identity] = len(self.all)
            self.all.append(NodeClass(labels, node.taints, node.unschedulable))
        return index
