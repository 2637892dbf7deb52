"""The pods on each node: the resources they use, and the events when they arrive or leave."""

from __future__ import annotations

from scheduler.core.framework.events import Event
from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Pod
from scheduler.core.pods.pod_selectors import PodSelectors
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.volumes.volume_table import VolumeTable


class NodePods:
    """The pods that are bound to a node or assumed there, by name of the node, known or not.

    `changes` records each pod that arrives or leaves as an event.
    """

    def __init__(
        self,
        framework: Framework,
        selectors: PodSelectors,
        volumes: VolumeTable,
        changes: StateChanges,
    ) -> None:
        self._framework = framework
        self._nodes = framework.nodes
        self._selectors = selectors
        self._volumes = volumes
        self._changes = changes
        self._pods: dict[str, dict[str, Pod]] = {}

    def __len__(self) -> int:
        """Return the number of nodes that have pods."""
        return len(self._pods)

    def on(self, node: str) -> list[Pod]:
        """Return the pods on this node."""
        return list(self._pods.get(node, {}).values())

    def put(self, pod: Pod, node: str, row: int) -> None:
        """Record that the pod is on the node of this row, -1 if unknown.

        Does not `take` the pod's resources there.
        """
        pod.node, pod.row = node, row
        self._pods.setdefault(node, {})[pod.info.uid] = pod

    def occupy(self, pod: Pod, node: str) -> None:
        """Record that the pod is on this node, and take its resources there."""
        row = self._nodes.row_of.get(node, -1)
        # The pod may be delivered before its node; `State.set_node` takes its resources later.
        self.put(pod, node, row)
        if row >= 0:
            self.take(pod.shape, row)

    def vacate(self, pod: Pod) -> None:
        """Remove the pod from its node, if it is on one."""
        if not pod.node:
            return
        self._remove(pod.node, pod.info.uid)
        pod.node = ""
        if pod.row >= 0:
            self.take(pod.shape, pod.row, -1)
            self._changes.note(self._framework.reach[Event.POD_DELETE], rows=(pod.row,))
            pod.row = -1

    def take(self, shape: Shape, row: int, count: int = 1) -> None:
        """Take the resources of `count` pods of the shape on this row; free them if negative."""
        # Every refused root is reconsidered already, so details of this event change nothing.
        if not self._changes.anywhere:
            self._note_events(shape, row, leaves=count < 0)
        self._framework.account(shape, row, count)

    def recount(self, gone: Pod) -> set[int]:
        """Recount the nodes that had the pod, without it. Return the rows of these nodes."""
        uid = gone.info.uid
        # The change broke off, so `pod.node` may be wrong. Search all nodes.
        names = {name for name, pods in self._pods.items() if uid in pods}
        rows = {self._nodes.row_of[name] for name in names if name in self._nodes.row_of}
        if gone.row >= 0:
            rows.add(gone.row)
        for name in names:
            self._remove(name, uid)
        for row in rows:
            shapes = (pod.shape for pod in self.on(self._nodes.name_of(row)))
            self._nodes.recount(row, (shape.load for shape in shapes))
        # `recount` bypasses the plugins; drop the volumes that were assumed for this pod alone.
        self._framework.plugins.volume_binding.account(gone.shape, gone.row, more=False)
        return rows

    def _remove(self, node: str, uid: str) -> None:
        pods = self._pods[node]
        del pods[uid]
        if not pods:
            del self._pods[node]

    def _note_events(self, shape: Shape, row: int, *, leaves: bool) -> None:
        """Record that a pod of the shape arrives on the row, or leaves it.

        A pod that only changes its shape frees no capacity. `vacate` records the row of a pod that
        leaves.
        """
        changes, reach, volumes = self._changes, self._framework.reach, self._volumes
        # Another pod's claim may get the volume, on whatever node that volume reaches.
        if leaves and any(key in volumes.assumed for key in shape.requirements.claims):
            changes.note(reach[Event.VOLUME_RELEASE])
            if changes.anywhere:
                return
        peers, claims = [], []
        for match_id in shape.matches.counted:
            use = self._selectors.use_of(match_id)
            if use is None:
                peers.append(match_id)
            # The next pod may use the ReadWriteOncePod claim now.
            elif leaves and volumes.for_one_pod(use):
                claims.append(match_id)
        if not leaves:
            changes.note(reach[Event.POD_ADD], (row,), peers)
            return
        changes.note(reach[Event.POD_DELETE], (), peers)
        if claims:
            changes.note(reach[Event.CLAIM_RELEASE], (row,), claims)
