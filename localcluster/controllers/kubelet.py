"""The kubelet's writes to its pods and its node, as values.

Statuses match KWOK 0.8, which the end-to-end suite uses on a real API server.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from localcluster.base.clock import timestamp
from localcluster.controllers.base.objects import Obj, annotations_of, with_conditions
from localcluster.controllers.base.pod_requests import Amounts, amounts

FINISH_ANNOTATION = "muster.dev/finish"
Phase = Literal["Succeeded", "Failed"]
Readiness = Literal["True", "False", "Unknown"]

# (condition, status of a healthy node, reason, message)
_NODE_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_NODE_READY = {
    "True": ("KubeletReady", "kubelet is posting ready status"),
    "False": ("KubeletNotReady", "container runtime is down"),
    "Unknown": ("NodeStatusUnknown", "Kubelet stopped posting node status."),
}


def wanted_end(pod: Obj) -> Phase | None:
    """Return the phase in which the pod must terminate by its annotation, or None."""
    match annotations_of(pod).get(FINISH_ANNOTATION):
        case "Succeeded":
            return "Succeeded"
        case "Failed":
            return "Failed"
        case _:
            return None


def running(pod: Obj, node: Obj, address: str, now: datetime) -> Obj:
    """Return the status of a pod whose containers have all started."""
    stamp = timestamp(now)
    status = dict(pod.get("status") or {})
    conditions = [_pod_condition(kind, "True", stamp) for kind in _STARTED]
    conditions += [
        _pod_condition(gate["conditionType"], "True", stamp)
        for gate in pod["spec"].get("readinessGates") or []
    ]
    return {
        **status,
        "phase": "Running",
        "conditions": _in_order(with_conditions(status.get("conditions") or [], conditions)),
        **_host_addresses(node),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": stamp,
        **_container_statuses(pod, stamp, ended=None),
    }


def ended(pod: Obj, phase: Phase, now: datetime) -> Obj:
    """Return the status of a pod whose containers have terminated."""
    stamp = timestamp(now)
    status = dict(pod.get("status") or {})
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    conditions = [
        {**_pod_condition(kind, "False", stamp), "reason": reason}
        for kind in ("Ready", "ContainersReady")
    ]
    return {
        **status,
        "phase": phase,
        "conditions": with_conditions(status.get("conditions") or [], conditions),
        **_container_statuses(pod, stamp, ended=phase),
    }


def not_fitting(pod: Obj, name: str, requested: int, used: int, capacity: int) -> Obj:
    """Return the status of a pod that the kubelet rejects because the node is full."""
    message = (
        f"Node didn't have enough resource: {name}, "
        f"requested: {requested}, used: {used}, capacity: {capacity}"
    )
    status = pod.get("status") or {}
    refusal = f"Pod was rejected: {message}"
    return {**status, "phase": "Failed", "reason": f"OutOf{name}", "message": refusal}


def of_node(pod: Obj, requested: Amounts) -> Amounts:
    """Return the resources that the pod uses on its node.

    Extended resources that the devices of its claim provide are left out.
    """
    claim = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    by_devices = {each["resourceName"] for each in claim.get("requestMappings") or ()}
    return {name: amount for name, amount in requested.items() if name not in by_devices}


def first_shortage(
    requested: Amounts, used: Amounts, allocatable: Amounts
) -> tuple[str, int, int, int] | None:
    """Return the first insufficient resource with requested, used and capacity, or None."""
    for name, amount in requested.items():
        if amount and used.get(name, 0) + amount > allocatable.get(name, 0):
            return name, amount, used.get(name, 0), allocatable.get(name, 0)
    return None


def allocatable(node: Obj) -> Amounts:
    """Return the allocatable resources of a node."""
    return amounts((node.get("status") or {}).get("allocatable") or {})


def node_status(
    node: Obj, readiness: Readiness, capacity: Mapping[str, str], address: str, now: datetime
) -> Obj:
    """Return the status that the node's kubelet reports; values in the node are kept."""
    status, stamp = node.get("status") or {}, timestamp(now)
    name = node["metadata"]["name"]
    filled = status.get("capacity") or status.get("allocatable") or dict(capacity)
    return {
        **status,
        "capacity": filled,
        "allocatable": status.get("allocatable") or filled,
        "addresses": status.get("addresses")
        or [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": status.get("nodeInfo") or _node_info(),
        "conditions": with_conditions(
            status.get("conditions") or [], _node_conditions(readiness, stamp)
        ),
    }


def _node_conditions(readiness: Readiness, stamp: str) -> list[Obj]:
    pressures = [
        _node_condition(kind, "False", reason, message, stamp)
        for kind, reason, message in _NODE_PRESSURES
    ]
    if readiness == "Unknown":
        reason, message = _NODE_READY["Unknown"]
        kinds = [*(kind for kind, _, _ in _NODE_PRESSURES), "Ready"]
        return [_node_condition(kind, "Unknown", reason, message, stamp) for kind in kinds]
    return [*pressures, _node_condition("Ready", readiness, *_NODE_READY[readiness], stamp)]


def _node_condition(kind: str, status: str, reason: str, message: str, stamp: str) -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }


def _node_info() -> Obj:
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": "",
        "osImage": "simulated",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }


_STARTED = ("Initialized", "Ready", "ContainersReady")


def _in_order(conditions: list[Obj]) -> list[Obj]:
    """Return the conditions with PodScheduled, which the binding wrote, after the kubelet's."""
    return sorted(conditions, key=lambda one: one["type"] == "PodScheduled")


def _pod_condition(kind: str, status: str, stamp: str) -> Obj:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": stamp}


def _host_addresses(node: Obj) -> Obj:
    addresses = [
        one["address"]
        for one in (node.get("status") or {}).get("addresses") or []
        if one["type"] == "InternalIP"
    ]
    if not addresses:
        return {}
    return {"hostIP": addresses[0], "hostIPs": [{"ip": one} for one in addresses]}


def _container_statuses(pod: Obj, stamp: str, ended: Phase | None) -> Obj:
    old = pod.get("status") or {}
    statuses: Obj = {
        "containerStatuses": [
            _container_status(one, stamp, ended, _started_at(old, one["name"]))
            for one in pod["spec"].get("containers") or []
        ]
    }
    initial = pod["spec"].get("initContainers") or []
    if initial:
        statuses["initContainerStatuses"] = [
            _container_status(
                one,
                stamp,
                ended if one.get("restartPolicy") == "Always" else "Succeeded",
                _started_at(old, one["name"]),
            )
            for one in initial
        ]
    return statuses


def _started_at(status: Obj, name: str) -> str | None:
    known = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    for one in known:
        if one["name"] == name:
            started: str | None = ((one.get("state") or {}).get("running") or {}).get("startedAt")
            return started
    return None


def _container_status(container: Obj, stamp: str, ended: Phase | None, started: str | None) -> Obj:
    status: Obj = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "lastState": {},
        "ready": ended is None,
        "restartCount": 0,
    }
    if ended is None:
        return {**status, "state": {"running": {"startedAt": stamp}}}
    state = {
        "exitCode": 0 if ended == "Succeeded" else 1,
        "reason": "Completed" if ended == "Succeeded" else "Error",
        "startedAt": started or stamp,
        "finishedAt": stamp,
    }
    return {**status, "started": False, "state": {"terminated": state}}
