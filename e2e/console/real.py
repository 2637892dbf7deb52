"""The console's own server with a scheduler, on the embedded cluster or any other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from console.serving.serving import Console, local
from console.state.state import Settings
from e2e.console.clusters import Contents
from e2e.console.page import PATIENCE
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.resources import CRDS, JOBS, NAMESPACES, NODES, PODS
from localcluster.base import resources
from localcluster.cluster import LocalCluster
from scheduler.app import Scheduler
from scheduler.support.config import Config, Status
from scheduler.support.kinds import GROUPS

CRD_FILES: Final = Path(__file__).resolve().parents[2] / "manifests" / "crd"
BLOCK: Final = "example.com/block"
RACK: Final = "example.com/rack"
GROUP: Final = GROUPS["PodGroup"]
_CONFIG: Final = Config(status=Status(delay_seconds=0.05, pods_seconds=0.2))
_ELECTION: Final = LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.5)


@dataclass
class Stage:
    """A cluster whose contents the test creates, and its console."""

    client: Client
    console: Console
    cluster: LocalCluster

    async def nodes(self, blocks: int, racks: int, nodes: int, cpu: str = "4") -> None:
        """Create nodes n-B-R-N."""
        for block in range(1, blocks + 1):
            for rack in range(1, racks + 1):
                for number in range(1, nodes + 1):
                    await self.node(
                        f"n-{block}-{rack}-{number}", f"b{block}", f"b{block}-r{rack}", cpu
                    )

    async def fill(self, contents: Contents) -> None:
        """Create nodes of 4 cores, with one pod on each that is in use.

        The server creates them without HTTP requests, as there are many.
        """
        create = self.cluster.api.create
        for block, racks in contents.blocks.items():
            for rack, names in racks.items():
                for name in names:
                    await create(resources.NODES, _node(name, block, rack))
                    if used := round(contents.full[name] * 8) * 500:
                        requests = {"requests": {"cpu": f"{used}m"}}
                        container = {"name": "c", "image": "none", "resources": requests}
                        pod = {
                            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                            "spec": {"nodeName": name, "containers": [container]},
                        }  # fmt: skip
                        await create(resources.PODS, pod, "default")

    async def node(self, name: str, block: str, rack: str, cpu: str = "4") -> None:
        await self.client.create(NODES, _node(name, block, rack, cpu))

    async def job_gang(self, name: str, size: int, key: str = RACK) -> None:
        """Create a suspended Job, and a group of its name with that many pods of one core."""
        job = {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"suspend": True, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}},
        }  # fmt: skip
        made = await self.client.create(JOBS, job, "default")
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True,
            "uid": made["metadata"]["uid"],
        }  # fmt: skip
        group: dict[str, Any] = {
            "apiVersion": GROUP.api_version, "kind": GROUP.kind,
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": size}},
                "schedulingConstraints": {"topology": [{"key": key}]},
            },
        }  # fmt: skip
        await self.client.create(GROUP, group, "default")
        for index in range(size):
            pod = {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{index}",
                    "labels": {"scheduling.muster.dev/pod-group": name},
                },
                "spec": {
                    "schedulerName": "muster-scheduler",
                    "containers": [{
                        "name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}
                    }],
                },
            }  # fmt: skip
            await self.client.create(PODS, pod, "default")


def _node(name: str, block: str, rack: str, cpu: str = "4") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {BLOCK: block, RACK: rack}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }  # fmt: skip


@asynccontextmanager
async def staged(settings: Settings | None = None) -> AsyncIterator[Stage]:
    """Start an embedded cluster with Muster's kinds, its scheduler, and the console.

    Without `settings` the console nests blocks and racks, and does not support what-if.
    """
    async with LocalCluster() as cluster, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(await Client.connect(cluster.kubeconfig))
            for _ in range(3)
        ]
        for path in sorted(CRD_FILES.glob("*.yaml")):
            await clients[0].create(CRDS, yaml.safe_load(path.read_text("utf-8")))
        await clients[0].create(NAMESPACES, {"metadata": {"name": "muster-system"}})
        await stack.enter_async_context(_scheduling(clients[1]))
        chosen = settings or Settings(topology_keys=(BLOCK, RACK))
        console = await stack.enter_async_context(local(clients[2], chosen))
        async with asyncio.timeout(PATIENCE / 1000):
            await console.cluster.wait()
        yield Stage(clients[0], console, cluster)


@asynccontextmanager
async def _scheduling(client: Client) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Scheduler(client, _CONFIG, _ELECTION).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task
