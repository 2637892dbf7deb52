"""The recorder: it follows pods and nodes by watches, and keeps their history."""

import contextlib
import time
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Final

from msgspec import structs

from conformance.cluster import FAILURES, Cluster
from conformance.values.history import (
    Board,
    Event,
    Json,
    NodeSeen,
    PodGone,
    PodSeen,
    node_of,
    pod_of,
)

_PAUSE_SECONDS: Final = 0.5
"""Seconds between two attempts to list and watch."""


class Recorder:
    """History of one namespace, and of all pods on nodes with the label `selector`.

    `history` grows by the threads of the watches and by `add`; read it and `board` under `changed`.
    """

    def __init__(self, cluster: Cluster, namespace: str, selector: str) -> None:
        self.history: list[Event] = []
        self.board = Board()
        self.changed = Condition()
        self.moved_at = 0.0
        """When a placement changed last."""
        self._cluster = cluster
        self._namespace = namespace
        self._selector = selector
        self._began = time.monotonic()
        self._ended = False

    def start(self) -> None:
        follow = ((self._follow_nodes, "nodes"), (self._follow_pods, "pods"))
        for target, name in follow:
            Thread(target=self._repeat, args=(target,), name=f"watch {name}", daemon=True).start()

    def stop(self) -> None:
        """End each thread at its next event; the cleanup of the scenario causes one."""
        self._ended = True

    def now(self) -> float:
        return time.monotonic() - self._began

    def add(self, event: Event) -> None:
        """Append an event, unless it repeats what the board has."""
        with self.changed:
            match event:
                case PodSeen(at, pod):
                    before = self.board.pods.get(pod.uid)
                    if before == pod:
                        return
                    if before is None or before.placed != pod.placed:
                        self.moved_at = at
                case PodGone(at, uid):
                    if uid not in self.board.pods:
                        return
                    self.moved_at = at
                case NodeSeen(_, node):
                    if self.board.nodes.get(node.name) == node:
                        return
            self.board.apply(event)
            self.history.append(event)
            self.changed.notify_all()

    def events(self) -> Sequence[Event]:
        """Return a copy of the history."""
        with self.changed:
            return list(self.history)

    def _repeat(self, follow: Callable[[], None]) -> None:
        """List and watch until the end; an error or a closed watch begins again."""
        while not self._ended:
            with contextlib.suppress(*FAILURES):
                follow()
            time.sleep(_PAUSE_SECONDS)

    def _follow_nodes(self) -> None:
        found = self._cluster.get("/api/v1/nodes", labelSelector=self._selector)
        for raw in found["items"]:
            self._on_node(raw)
        version = found["metadata"]["resourceVersion"]
        for kind, raw in self._cluster.watch(
            "/api/v1/nodes", version, labelSelector=self._selector
        ):
            if self._ended or kind == "ERROR":
                return
            if kind != "DELETED":
                self._on_node(raw)

    def _follow_pods(self) -> None:
        found = self._cluster.get("/api/v1/pods")
        there = {raw["metadata"]["uid"] for raw in found["items"]}
        with self.changed:
            gone = set(self.board.pods) - there
        for uid in gone:
            self.add(PodGone(self.now(), uid))
        for raw in found["items"]:
            self._on_pod(raw)
        version = found["metadata"]["resourceVersion"]
        for kind, raw in self._cluster.watch("/api/v1/pods", version):
            if self._ended or kind == "ERROR":
                return
            if kind == "DELETED":
                self.add(PodGone(self.now(), raw["metadata"]["uid"]))
            else:
                self._on_pod(raw)

    def _on_node(self, raw: Json) -> None:
        self.add(NodeSeen(self.now(), node_of(raw)))

    def _on_pod(self, raw: Json) -> None:
        """Record a pod of the scenario, or one of others on its nodes."""
        ours = raw["metadata"]["namespace"] == self._namespace
        if ours or raw["spec"].get("nodeName") in self.board.nodes:
            pod = pod_of(raw)
            self.add(PodSeen(self.now(), pod if ours else structs.replace(pod, gang="")))
