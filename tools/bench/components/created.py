"""Shared parts of measurements of many created objects: a cluster, capacity, and counters."""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter as Counts
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from e2e.harness.clusters.local import Local
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import ALL, Muster
from e2e.harness.objects import NODE_LABEL
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.resources import NAMESPACES, PODS, Resource
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector

# Concurrent creations.
AT_ONCE = 32
_NODE_PODS = 100
_ACCOUNT = "system:serviceaccount:muster-system:muster-controller"


class Result(Protocol):
    """The result of a measurement, whose text is its report."""

    @property
    def kept(self) -> bool:
        """True if every target was reached."""


class Counter:
    """A counter of one kind's objects, with the time of the last creation."""

    def __init__(self, client: Client, resource: Resource, namespace: str) -> None:
        self.cache: Cache[RawObject] = Cache()
        self.last = 0.0
        self._count = sys.maxsize
        self._reached = asyncio.Event()
        self.cache.subscribe(self._on_change)
        self._reflector = Reflector(
            client, resource, self.cache, decode=decode_raw, namespace=namespace
        )

    async def run(self) -> None:
        await self._reflector.run()

    async def reach(self, count: int) -> float:
        """Return when their number reached `count`."""
        self._count = count
        self._on_change(None, None)
        await self._reached.wait()
        return self.last

    def _on_change(self, old: RawObject | None, new: RawObject | None) -> None:
        if old is None and new is not None:
            self.last = time.perf_counter()
        if len(self.cache) >= self._count:
            self._reached.set()


async def make_room(client: Client, cluster: Cluster, namespace: str, pods: int) -> None:
    """Create a namespace, and nodes with capacity for so many of its pods."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await client.create(NAMESPACES, body)
    for number in range(-(-pods // _NODE_PODS)):
        capacity = {"cpu": str(_NODE_PODS), "pods": str(_NODE_PODS)}
        await cluster.add_node(f"n{number}", labels={NODE_LABEL: namespace}, capacity=capacity)


async def settled(client: Client, pods: int, namespace: str) -> None:
    """Wait for the bindings, at most a minute, and for the controllers' writes about them."""
    for _ in range(12):
        await asyncio.sleep(5)  # rarely: each pass lists all pods, next to what is measured
        found = (await client.list(PODS, namespace))["items"]
        if sum(bool(pod["spec"].get("nodeName")) for pod in found) >= pods:
            break
    await asyncio.sleep(5)  # no event shows that the last write has happened


def writes_in(namespace: str, audit: Path) -> Mapping[str, int]:
    """Return the writes of the controller's account in a namespace, by verb and resource."""
    found: Counts[str] = Counts()
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef", {})
        if (
            event["stage"] == "ResponseComplete"
            and event["user"]["username"] == _ACCOUNT
            and event["verb"] in {"create", "update", "patch", "delete"}
            and target.get("namespace") == namespace
        ):
            found[f"{event['verb']} {target['resource']}"] += 1
    return found


def main(
    about: str | None, unit: str, measure: Callable[[Client, Cluster, int], Awaitable[Result]]
) -> int:
    """Run the command: `measure` so many of a unit on a new cluster; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--cluster", choices=("local", "real"), default="local")
    parser.add_argument(f"--{unit}", dest="count", type=int, default=100)
    parsed = parser.parse_args()
    made = Local() if parsed.cluster == "local" else ControlPlane(Options())
    measured = asyncio.run(_on(made, measure, parsed.count))
    print(measured)
    return 0 if measured.kept else 1


async def _on(
    cluster: Local | ControlPlane,
    measure: Callable[[Client, Cluster, int], Awaitable[Result]],
    count: int,
) -> Result:
    try:
        await cluster.start()
        muster = Muster(cluster.kubeconfig)
        try:
            await muster.install()
            await muster.start(*ALL)
            async with await Client.connect(cluster.kubeconfig) as client:
                return await measure(client, cluster, count)
        finally:
            muster.stop()
    finally:
        await cluster.stop()
