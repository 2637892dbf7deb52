"""Simulated nodes and pods by plain API calls, which KWOK and localcluster's nodes follow."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually

FINISH_ANNOTATION = "muster.dev/finish"


async def add(
    rest: Rest,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    wait: bool = True,
) -> None:
    """Create a node; `capacity` defaults to cpu 8, memory 32Gi and 110 pods.

    Raises TimeoutError unless it is Ready, without the not-ready taint, within 90 s.
    """
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110", **(capacity or {})}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"capacity": resources, "allocatable": resources},
    }
    (await rest.post("/api/v1/nodes", node)).ok()
    if wait:
        await eventually(lambda: _usable(rest, name), f"node {name} to be Ready", 90)


async def remove(rest: Rest, name: str) -> None:
    (await rest.delete(f"/api/v1/nodes/{name}")).ok()


async def finish_pods(rest: Rest, namespace: str, selector: str, phase: str) -> int:
    """End the running pods that match the label selector, in `phase`; return their number."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = (await rest.get(path, params={"labelSelector": selector})).ok()["items"]
    names = [pod["metadata"]["name"] for pod in pods if _is_running(pod)]
    patch = {"metadata": {"annotations": {FINISH_ANNOTATION: phase}}}
    for answer in await asyncio.gather(*(rest.patch(f"{path}/{name}", patch) for name in names)):
        answer.ok()
    return len(names)


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


async def _usable(rest: Rest, name: str) -> bool:
    node = (await rest.get(f"/api/v1/nodes/{name}")).ok()
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or []}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
