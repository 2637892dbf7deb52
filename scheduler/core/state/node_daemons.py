"""Pods that belong to their node: DaemonSet pods and mirror pods, which are never victims.

Evicting one frees nothing: its controller recreates it on the same node at once. A pod's own claim
is not trusted. Its DaemonSet must exist. A mirror pod must name its node's UID, which only
administrators and the node itself can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scheduler.core.groups.forest import Pod
from scheduler.core.nodes.node_table import NodeTable

DaemonSetKey = tuple[str, str]
"""(namespace, UID)"""


class NodeDaemons:
    """The DaemonSets that exist, and the running pods that name one, existing or not."""

    def __init__(self, nodes: NodeTable, stale: Callable[[Pod], None]) -> None:
        """Call `stale` for each pod whose DaemonSet was created or deleted."""
        self._nodes = nodes
        self._stale = stale
        self._daemon_sets: set[DaemonSetKey] = set()
        self._pods: dict[DaemonSetKey, dict[str, Pod]] = {}
        self._key_of: dict[str, DaemonSetKey] = {}

    def __iter__(self) -> Iterator[DaemonSetKey]:
        return iter(sorted(self._daemon_sets))

    def set(self, key: DaemonSetKey) -> None:
        """Record that the DaemonSet exists."""
        if key not in self._daemon_sets:
            self._daemon_sets.add(key)
            self._changed(key)

    def unset(self, key: DaemonSetKey) -> None:
        """Record that the DaemonSet was deleted."""
        self._daemon_sets.discard(key)
        self._changed(key)

    def add(self, pod: Pod) -> bool:
        """Remember a running pod. Return True if it belongs to its node."""
        info = pod.info
        daemon_set, mirror_of = info.preemption.daemon_set, info.preemption.mirror_of
        if not daemon_set:
            # Anybody can write the mirror annotation; few can read the node's UID.
            return bool(mirror_of) and mirror_of == self._node_uid(pod.row)
        # Events may deliver a pod before its DaemonSet. Remember it until then.
        key = (info.namespace, daemon_set)
        self._pods.setdefault(key, {})[info.uid] = pod
        self._key_of[info.uid] = key
        return key in self._daemon_sets

    def remove(self, uid: str) -> None:
        """Forget a pod, if it is known."""
        key = self._key_of.pop(uid, None)
        if key is not None:
            pods = self._pods[key]
            del pods[uid]
            if not pods:
                del self._pods[key]

    def _changed(self, key: DaemonSetKey) -> None:
        for pod in self._pods.get(key, {}).values():
            self._stale(pod)

    def _node_uid(self, row: int) -> str:
        node = self._nodes.infos[row]
        return node.uid if node is not None else ""
