"""kube-scheduler's default scores, pod by pod and node by node: slow, and without arrays.

Written after the formulas of kube-scheduler 1.37, plugin by plugin. Preferences of pods (node and
pod affinity, taints) are not in it: they have tests of their own.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.values.model import NodeInfo, PodInfo

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
MIB = 1 << 20


@dataclass
class Cluster:
    """All that the scores read: nodes, pods with a node, Services and images by node name."""

    nodes: Sequence[NodeInfo]
    running: list[PodInfo] = field(default_factory=list)
    services: Sequence[tuple[str, Mapping[str, str]]] = ()
    images: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def points(self, pod: PodInfo, feasible: Iterable[str]) -> dict[str, int]:
        """Return the points of each feasible node."""
        nodes = [node for node in self.nodes if node.name in set(feasible)]
        spread = self._spread(pod, nodes)
        return {
            node.name: self._least_allocated(pod, node)
            + self._balanced(pod, node)
            + self._image_locality(pod, node)
            + 2 * spread[node.name]
            for node in nodes
        }

    def _on(self, node: NodeInfo) -> list[PodInfo]:
        return [pod for pod in self.running if pod.node == node.name]

    def _least_allocated(self, pod: PodInfo, node: NodeInfo) -> int:
        scores = []
        for at, name in enumerate(("cpu", "memory")):
            whole = node.allocatable.get(name, 0)
            if not whole:
                continue
            used = sum(_request(each, name) + _assumed(each, at) for each in self._on(node))
            used += _request(pod, name) + _assumed(pod, at)
            scores.append(0 if used > whole else (whole - used) * 100 // whole)
        return sum(scores) // len(scores) if scores else 0

    def _balanced(self, pod: PodInfo, node: NodeInfo) -> int:
        if not (_request(pod, "cpu") or _request(pod, "memory")):
            return 0
        balance = []
        for pods in ([*self._on(node), pod], self._on(node)):
            shares = [
                min(1.0, sum(_request(each, name) for each in pods) / node.allocatable[name])
                for name in ("cpu", "memory")
                if node.allocatable.get(name, 0)
            ]
            deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
            balance.append(int((1 - deviation) * 100))
        return 50 + (50 + balance[0] - balance[1]) // 2

    def _image_locality(self, pod: PodInfo, node: NodeInfo) -> int:
        if not pod.images:
            return 0
        total = 0
        for name in pod.images:
            if name in self.images.get(node.name, {}):
                having = [each for each in self.nodes if name in self.images.get(each.name, {})]
                size = self.images[node.name][name]
                total += int(float(size) * (len(having) / len(self.nodes)))
        most = 1000 * MIB * len(pod.images)
        total = min(max(total, 23 * MIB), most)
        return 100 * (total - 23 * MIB) // (most - 23 * MIB)

    def _spread(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        wants = pod.requirements
        none = {node.name: 0 for node in nodes}
        if wants.spread or wants.preferred_spread:
            return none
        replicas = self._replicas(pod)
        if replicas is None:
            return none
        zones = {node.labels.get(ZONE, "") for node in nodes}
        by_host = math.log(len(nodes) + 2)
        by_zone = math.log(len(zones) + 2)
        selector = wants.selector
        in_zone = {
            zone: sum(
                each.node == node.name
                for node in self.nodes
                if node.labels.get(ZONE, "") == zone
                and all(node.labels.get(key) == value for key, value in selector)
                for each in replicas
            )
            for zone in zones
        }
        scores = {}
        for node in nodes:
            score = 0.0
            if HOST in node.labels:
                score += sum(each.node == node.name for each in replicas) * by_host + 2
            if ZONE in node.labels:
                score += in_zone[node.labels[ZONE]] * by_zone + 4
            scores[node.name] = int(score + 0.5)
        most, least = max(scores.values(), default=0), min(scores.values(), default=0)
        return {
            name: 100 * (most + least - score) // most if most else 100
            for name, score in scores.items()
        }

    def _replicas(self, pod: PodInfo) -> list[PodInfo] | None:
        """Return the running pods that the pod's controller has, or else those of its Services."""
        there = [each for each in self.running if not each.terminating]
        if pod.controller:
            return [each for each in there if each.controller == pod.controller]
        merged: dict[str, str] = {}
        for namespace, selector in self.services:
            if namespace == pod.namespace and selector and _selects(selector, pod):
                merged |= selector
        if not merged:
            return None
        return [
            each for each in there if each.namespace == pod.namespace and _selects(merged, each)
        ]


def _request(pod: PodInfo, name: str) -> int:
    return dict(pod.requirements.requests).get(name, 0)


def _assumed(pod: PodInfo, at: int) -> int:
    return pod.requirements.assumed[at]


def _selects(selector: Mapping[str, str], pod: PodInfo) -> bool:
    return all(pod.labels.get(key) == value for key, value in selector.items())
