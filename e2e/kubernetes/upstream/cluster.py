"""A cluster that Kubernetes' specs take for a real one, although KWOK simulates its nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from api.constants import SCHEDULER_NAME
from e2e.harness import policies
from e2e.harness.controlplane.commands import POD_MAKERS, QUOTA_AND_VOLUMES, Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import NAMESPACE
from e2e.harness.support.rest import JSON_PATCH, STRATEGIC_PATCH, Rest
from e2e.harness.support.waiting import eventually

NODES: Final = 3
"""One in each zone: specs about zones and about the second best node skip with fewer."""

_CAPACITY: Final = {"cpu": "16", "memory": "32Gi", "ephemeral-storage": "100Gi"}

_SYSTEM_PODS: Final = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
"""Specs wait until a pod of each of these names runs on each node."""

_COPY_SECONDS: Final = 0.2


def options() -> Options:
    """Return the options of the control plane, which serves native groups."""
    return Options(
        scheduler=True,
        jobset=False,
        privileged=True,
        node_grace_seconds=600,
        feature_gates={"GenericWorkload": True},
        runtime_config=("scheduling.k8s.io/v1beta1=true",),
        extra_controllers=(
            *POD_MAKERS,
            *QUOTA_AND_VOLUMES,
            "podgroup-protection-controller",
            "replicationcontroller-controller",
            "root-ca-certificate-publisher-controller",
            "serviceaccount-controller",
        ),
    )


async def add_nodes(plane: ControlPlane) -> None:
    """Add the nodes, and the pods that a distribution runs on each of them."""
    for number in range(NODES):
        name = f"node-{number}"
        labels = {"topology.kubernetes.io/zone": f"zone-{number}"}
        await plane.add_node(name, labels=labels, capacity=_CAPACITY)
        async with plane.client() as rest:
            await eventually(
                partial(_has_address, rest, name, f"192.168.0.{number + 1}"),
                f"{name} to be ready and to have its address",
                30,
            )
            for pod in _SYSTEM_PODS:
                await _add_system_pod(rest, f"{pod}-{name}", name)


async def _has_address(rest: Rest, name: str, address: str) -> bool:
    """Give the node its address once KWOK has initialized it, which overwrites addresses."""
    path = f"/api/v1/nodes/{name}"
    status = (await rest.get(path)).ok()["status"]
    ready = any(it["type"] == "Ready" for it in status.get("conditions", ()))
    if ready and any(it["address"] == address for it in status.get("addresses", ())):
        return True
    if ready:
        addresses = [{"type": "InternalIP", "address": address}]
        (await rest.patch(f"{path}/status", {"status": {"addresses": addresses}})).ok()
    return False


async def _add_system_pod(rest: Rest, name: str, node: str) -> None:
    path = "/api/v1/namespaces/kube-system/pods"
    spec = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "system"}],
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
    }
    (await rest.post(path, {"metadata": {"name": name}, "spec": spec})).ok()
    scheduled = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    # KWOK writes other conditions at the same time.
    (await rest.patch(f"{path}/{name}/status", {"status": scheduled}, STRATEGIC_PATCH)).ok()


@asynccontextmanager
async def allocatable_follows(plane: ControlPlane) -> AsyncIterator[None]:
    """Offer what specs write into a node's capacity, as a kubelet does."""
    copying = asyncio.create_task(_copy(plane))
    try:
        yield
    finally:
        copying.cancel()
        with suppress(asyncio.CancelledError):
            await copying


async def _copy(plane: ControlPlane) -> None:
    async with plane.client() as rest:
        while True:
            for node in (await rest.get("/api/v1/nodes")).ok()["items"]:
                status = node["status"]
                if status.get("allocatable") != status.get("capacity"):
                    await _offer(rest, node)
            await asyncio.sleep(_COPY_SECONDS)


async def _offer(rest: Rest, node: dict[str, Any]) -> None:
    path = f"/api/v1/nodes/{node['metadata']['name']}/status"
    capacity = node["status"]["capacity"]
    # A spec may write the capacity meanwhile: the next turn copies that.
    ops = [
        {"op": "test", "path": "/status/capacity", "value": capacity},
        {"op": "replace", "path": "/status/allocatable", "value": capacity},
    ]
    await rest.patch(path, ops, JSON_PATCH)


@asynccontextmanager
async def pods_of_muster(plane: ControlPlane) -> AsyncIterator[None]:
    """Let Muster schedule the pods of all namespaces but those of the system."""
    system = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", NAMESPACE],
    }
    async with (
        plane.client() as rest,
        policies.mutating(
            rest,
            "scheduled-by-muster",
            ("", "pods"),
            f"Object{{spec: Object.spec{{schedulerName: '{SCHEDULER_NAME}'}}}}",
            operations=["CREATE"],
            namespaceSelector={"matchExpressions": [system]},
        ),
    ):
        yield
