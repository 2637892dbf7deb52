"""Nodes and pods of the kit."""

from conformance.adapters.base import class_name
from conformance.values.history import GANG_LABEL, RACK_LABEL, Json
from conformance.values.scenario import Nodes

RUN_LABEL = "gang-conformance/run"
"""Label of a scenario's nodes, which its pods select; the value is its namespace."""

_FAKE = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}


def node(name: str, run: str, nodes: Nodes) -> Json:
    """Return a node as KWOK's documentation creates it: its taint keeps other pods away."""
    capacity = {"cpu": str(nodes.cpu), "memory": "256Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "type": "kwok", RUN_LABEL: run}
    if nodes.rack:
        labels[RACK_LABEL] = nodes.rack
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [_FAKE]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def pod(name: str, run: str, group: str, scheduler: str, priority: int) -> Json:
    """Return a pod of one CPU for the nodes of this run."""
    requests = {"requests": {"cpu": "1"}}
    spec: Json = {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "nodeSelector": {RUN_LABEL: run},
        "tolerations": [_FAKE],
        "containers": [{"name": "main", "image": "registry.k8s.io/pause", "resources": requests}],
    }
    if priority:
        spec["priorityClassName"] = class_name(priority)
    metadata = {"name": name, "labels": {GANG_LABEL: group}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def priority_class(value: int) -> Json:
    """Return the PriorityClass of a value."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": class_name(value)},
        "value": value,
    }
