"""Builders of Kubernetes objects: defaults are valid, a method sets one fact.

`build` returns a plain dict that shares nothing with the builder.
"""

import copy
from typing import Any, Self

SCHEDULER = "muster-scheduler"
GPU = "nvidia.com/gpu"


class PodBuilder:
    """A pod of the Muster scheduler with one container."""

    def __init__(self, name: str, namespace: str) -> None:
        self._pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "schedulerName": SCHEDULER,
                "containers": [{"name": "main", "image": "none"}],
            },
        }

    def cpu(self, quantity: str) -> Self:
        return self.requests("cpu", quantity)

    def memory(self, quantity: str) -> Self:
        return self.requests("memory", quantity)

    def gpu(self, count: int) -> Self:
        return self.requests(GPU, str(count))

    def requests(self, resource: str, quantity: str) -> Self:
        container = self._pod["spec"]["containers"][0]
        resources = container.setdefault("resources", {"requests": {}})
        resources["requests"][resource] = quantity
        if "/" in resource:  # extended resources need a limit of the same size
            resources.setdefault("limits", {})[resource] = quantity
        return self

    def label(self, key: str, value: str) -> Self:
        self._pod["metadata"].setdefault("labels", {})[key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        self._pod["metadata"].setdefault("annotations", {})[key] = value
        return self

    def in_group(self, group: str) -> Self:
        return self.label("scheduling.muster.dev/pod-group", group)

    def managed(self, group: str) -> Self:
        """Set the annotation and label of a pod template whose group Muster names."""
        return self.in_group(group).annotation("scheduling.muster.dev/managed-group", group)

    def scheduler(self, name: str) -> Self:
        self._pod["spec"]["schedulerName"] = name
        return self

    def priority(self, value: int) -> Self:
        self._pod["spec"]["priority"] = value
        return self

    def priority_class(self, name: str) -> Self:
        self._pod["spec"]["priorityClassName"] = name
        return self

    def node_selector(self, key: str, value: str) -> Self:
        self._pod["spec"].setdefault("nodeSelector", {})[key] = value
        return self

    def affinity(self, affinity: dict[str, Any]) -> Self:
        self._pod["spec"]["affinity"] = affinity
        return self

    def tolerates(self, key: str, value: str = "", effect: str = "") -> Self:
        toleration = {"key": key, "operator": "Equal" if value else "Exists"}
        if value:
            toleration["value"] = value
        if effect:
            toleration["effect"] = effect
        self._pod["spec"].setdefault("tolerations", []).append(toleration)
        return self

    def gated(self, name: str = "example.com/wait") -> Self:
        self._pod["spec"].setdefault("schedulingGates", []).append({"name": name})
        return self

    def bound_to(self, node: str) -> Self:
        self._pod["spec"]["nodeName"] = node
        return self

    def phase(self, phase: str) -> Self:
        self._pod.setdefault("status", {})["phase"] = phase
        return self

    def owned_by(self, kind: str, name: str, uid: str, api_version: str = "batch/v1") -> Self:
        self._pod["metadata"].setdefault("ownerReferences", []).append(
            {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
        )
        return self

    def stored(self, uid: str, version: str, created: str = "2026-01-01T00:00:00Z") -> Self:
        """Set the fields that an API server adds."""
        self._pod["metadata"] |= {
            "uid": uid,
            "resourceVersion": version,
            "creationTimestamp": created,
        }
        return self

    def terminating(self, since: str = "2026-01-01T00:00:00Z") -> Self:
        self._pod["metadata"]["deletionTimestamp"] = since
        return self

    def build(self) -> dict[str, Any]:
        return copy.deepcopy(self._pod)


class NodeBuilder:
    """A ready node with 8 CPUs, 32 GiB and 110 pods."""

    def __init__(self, name: str) -> None:
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        self._node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {
                "capacity": dict(room),
                "allocatable": dict(room),
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }

    def cpu(self, quantity: str) -> Self:
        return self.room("cpu", quantity)

    def memory(self, quantity: str) -> Self:
        return self.room("memory", quantity)

    def pods(self, count: int) -> Self:
        return self.room("pods", str(count))

    def gpu(self, count: int) -> Self:
        return self.room(GPU, str(count))

    def room(self, resource: str, quantity: str) -> Self:
        self._node["status"]["capacity"][resource] = quantity
        self._node["status"]["allocatable"][resource] = quantity
        return self

    def label(self, key: str, value: str) -> Self:
        self._node["metadata"]["labels"][key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        self._node["metadata"].setdefault("annotations", {})[key] = value
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        taint = {"key": key, "effect": effect}
        if value:
            taint["value"] = value
        self._node["spec"].setdefault("taints", []).append(taint)
        return self

    def unschedulable(self) -> Self:
        self._node["spec"]["unschedulable"] = True
        return self

    def stored(self, uid: str, version: str, created: str = "2026-01-01T00:00:00Z") -> Self:
        """Set the fields that an API server adds."""
        self._node["metadata"] |= {
            "uid": uid,
            "resourceVersion": version,
            "creationTimestamp": created,
        }
        return self

    def build(self) -> dict[str, Any]:
        return copy.deepcopy(self._node)


def make_pod(name: str = "pod", namespace: str = "default") -> PodBuilder:
    """Return a new pod builder."""
    return PodBuilder(name, namespace)


def make_node(name: str = "node") -> NodeBuilder:
    """Return a new node builder."""
    return NodeBuilder(name)
