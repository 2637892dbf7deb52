"""Simulated nodes and pods by plain API calls: what KWOK and localcluster's nodes listen to."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp

from e2e.support.rest import Rest

FINISH_ANNOTATION = "test.muster.dev/finish"


async def add(
    rest: Rest,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    wait: bool = True,
) -> None:
    """Creates a node; `capacity` is completed with cpu 8, memory 32Gi and 110 pods.

    Raises TimeoutError when it is not Ready, and free of the not-ready taint, within 30 s.
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
        await eventually(lambda: _usable(rest, name), f"node {name} to be Ready", 30)


async def remove(rest: Rest, name: str) -> None:
    (await rest.delete(f"/api/v1/nodes/{name}")).ok()


async def finish_pods(rest: Rest, namespace: str, selector: str, phase: str) -> int:
    """Ends the running pods that match the label selector, in `phase`; gives their number."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = (await rest.get(path, params={"labelSelector": selector})).ok()["items"]
    names = [pod["metadata"]["name"] for pod in pods if _is_running(pod)]
    patch = {"metadata": {"annotations": {FINISH_ANNOTATION: phase}}}
    for answer in await asyncio.gather(*(rest.patch(f"{path}/{name}", patch) for name in names)):
        answer.ok()
    return len(names)


async def answers(client: Rest) -> bool:
    """Whether the API server is ready; a server that cannot be reached is not."""
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with client as rest:
            ready = await rest.get("/readyz", timeout=5)
            default = await rest.get("/api/v1/namespaces/default", timeout=5)
            return ready.status == 200 and default.status == 200
    return False


async def eventually(probe: Callable[[], Awaitable[bool]], what: str, timeout: float = 15) -> None:
    """Polls until `probe` says True. Raises TimeoutError, which says what was waited for."""
    try:
        async with asyncio.timeout(timeout):
            while not await probe():  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise TimeoutError(f"waited {timeout:.0f} s for {what}") from error


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


async def _usable(rest: Rest, name: str) -> bool:
    node = (await rest.get(f"/api/v1/nodes/{name}")).ok()
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or []}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
