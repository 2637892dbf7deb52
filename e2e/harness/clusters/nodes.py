"""Simulated nodes and pods by plain API calls, which KWOK and localcluster's nodes follow."""

import asyncio
from abc import ABC, abstractmethod
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


class SimulatedNodes(ABC):
    """A cluster whose nodes and pods are simulated."""

    @abstractmethod
    def client(self) -> Rest:
        """Return a raw HTTP client with the admin's credentials."""

    async def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        wait: bool = True,
    ) -> None:
        async with self.client() as rest:
            await add(rest, name, labels=labels, capacity=capacity, taints=taints, wait=wait)

    async def remove_node(self, name: str) -> None:
        async with self.client() as rest:
            await remove(rest, name)

    async def finish_pods(self, namespace: str, selector: str, phase: str = "Succeeded") -> int:
        """End the running pods that match the label selector, in `phase`; return their number."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        patch = {"metadata": {"annotations": {FINISH_ANNOTATION: phase}}}
        async with self.client() as rest:
            pods = (await rest.get(path, params={"labelSelector": selector})).ok()["items"]
            names = [pod["metadata"]["name"] for pod in pods if _is_running(pod)]
            patches = (rest.patch(f"{path}/{name}", patch) for name in names)
            for answer in await asyncio.gather(*patches):
                answer.ok()
        return len(names)


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


async def _usable(rest: Rest, name: str) -> bool:
    node = (await rest.get(f"/api/v1/nodes/{name}")).ok()
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or []}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
