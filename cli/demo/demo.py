"""`muster demo`: the embedded cluster with Muster, the examples placed, the outcome checked.

`STEPS` below is the complete demo. Each step changes the cluster, then waits until the cluster is
as expected. An expectation that is not met in time ends the demo with exit code 1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from api.constants import CONDITION_POD_GROUP_SCHEDULED
from api.reading import is_true
from cli.config.config import File
from cli.demo.open_page import open_page
from cli.demo.view import DemoView, open_view
from cli.servers.child_processes import (
    ChildProcesses,
    LaunchError,
    file_exists,
    free_port,
    responds,
)
from cli.servers.console_service import settings_of
from cli.trees.listing import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS, list_objects
from cli.trees.tree import Objects
from console.serving.serving import local
from kube.base.packaged import packaged
from kube.client.client import Client
from kube.client.resources import CRDS, JOBS, JOBSETS, NAMESPACES, NODES, PODS, Resource

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, MANIFESTS = packaged("cli", "examples"), packaged("cli", "manifests/crd")
FOLDER = Path(".cache/demo")
RACK = "topology.example/rack"
NAMESPACE = "default"
TIMEOUT_SECONDS = 180.0
"""Seconds that a process may take to start, and an expectation to hold.

On an idle machine each takes about one second, so the limit only ends a demo that makes no
progress: a busy machine is slow and nothing more.
"""


class ExpectationError(Exception):
    """The cluster was not as expected in time."""


@dataclass(slots=True)
class DemoCluster:
    """The running cluster: a client for it, the view that shows it, and the console's address."""

    client: Client
    view: DemoView
    console: str = ""

    async def apply(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Create one object."""
        await self.client.create(resource, obj, NAMESPACE if resource.namespaced else None)

    async def until(self, expectation: str, holds: Callable[[Objects], bool]) -> Objects:
        """Poll until `holds`, then print the expectation. Raises ExpectationError."""
        loop = asyncio.get_running_loop()
        end = loop.time() + TIMEOUT_SECONDS
        while True:
            objects = await list_objects(self.client)
            self.view.show(objects)
            if holds(objects):
                self.view.print_line(f"  ok: {expectation}")
                return objects
            if loop.time() > end:
                raise ExpectationError(expectation)
            await asyncio.sleep(0.1)


async def two_gangs(cluster: DemoCluster) -> None:
    """Create a gang of 16 where 15 pods fit, and one that could never fit."""
    for number, rack in enumerate(["rack-a", "rack-a", "rack-b"], start=1):
        await cluster.apply(NODES, node(f"node-{number}", rack))
    await cluster.apply(JOBSETS, example("jobset-gang.yaml"))
    await cluster.apply(JOBSETS, example("jobset-too-big.yaml"))
    await cluster.until(
        "training waits for capacity for one more pod, and none of its 16 pods is bound",
        lambda seen: (
            has_blocker(seen, "pg-training", needed=16, free=15) and bound(seen, "training") == 0
        ),
    )


async def one_more_node(cluster: DemoCluster) -> None:
    """Add a node, with which the complete gang starts at once."""
    await cluster.apply(NODES, node("node-4", "rack-b"))
    await cluster.until(
        "all 16 pods of training run",
        lambda seen: len(running(seen, "training")) == 16 and scheduled(seen, "pg-training"),
    )


async def impossible_gang(cluster: DemoCluster) -> None:
    """Check that the gang that never fits waits, uses no capacity and reports why."""
    await cluster.until(
        "too-big waits without bound pods, and reports that it does not fit on empty nodes",
        lambda seen: (
            has_blocker(seen, "pg-too-big", needed=64, impossible=True)
            and bound(seen, "too-big") == 0
        ),
    )


async def one_rack(cluster: DemoCluster) -> None:
    """Create a gang that must be in one rack, while the free slots are in several."""
    await cluster.apply(JOBSETS, example("jobset-one-rack.yaml"))
    await cluster.until(
        "one-rack waits, and its status names the rack with the most capacity",
        lambda seen: has_blocker(seen, "pg-one-rack", needed=8) and bound(seen, "one-rack") == 0,
    )
    await cluster.client.delete(JOBSETS, "training", NAMESPACE)
    await cluster.until(
        "with training deleted, all 8 pods of one-rack run in one rack, and too-big still waits",
        lambda seen: (
            len(running(seen, "one-rack")) == 8
            and len(racks(seen, "one-rack")) == 1
            and scheduled(seen, "pg-one-rack")
            and bound(seen, "too-big") == 0
        ),
    )


async def delete_all(cluster: DemoCluster) -> None:
    """Delete the JobSets and check that no object is left."""
    for name in ("one-rack", "too-big"):
        await cluster.client.delete(JOBSETS, name, NAMESPACE)
    kinds = (JOBSETS, JOBS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)

    def empty(seen: Objects) -> bool:
        return not any((seen.jobsets, seen.jobs, seen.composites, seen.pod_groups, seen.pods))

    await cluster.until("no JobSet, Job, group or pod is left", empty)
    left = [kind.plural for kind in kinds if (await cluster.client.list(kind, NAMESPACE))["items"]]
    if left:
        raise ExpectationError(f"nothing is left behind, but there are {', '.join(left)}")


Step = Callable[[DemoCluster], Awaitable[None]]
STEPS: tuple[tuple[str, Step], ...] = (
    ("Three nodes with capacity for 15 pods. Two JobSets: a gang of 16, and one of 64.", two_gangs),
    ("A fourth node joins.", one_more_node),
    ("And the gang of 64?", impossible_gang),
    ("A gang of 8 that must be in one rack. Then training is deleted.", one_rack),
    ("All JobSets are deleted.", delete_all),
)


def node(name: str, rack: str) -> dict[str, Any]:
    """Return a node with capacity for 5 pods of the examples."""
    room = {"cpu": "5", "memory": "32Gi", "pods": "32"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {RACK: rack, "kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room},
    }


def example(name: str) -> dict[str, Any]:
    """Return the manifest of that name in `examples/`."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text("utf-8"))
    return manifest


def has_blocker(seen: Objects, group: str, **wanted: Any) -> bool:
    """Return true if the group waits for capacity, with all of `wanted` in its blocker.

    The blocker must have a summary, too.
    """
    for item in seen.pod_groups:
        if item["metadata"]["name"] == group:
            found = item.get("status", {}).get("blocker") or {}
            wanted = {"kind": "capacity", **wanted}
            return bool(found.get("summary")) and all(found.get(k) == v for k, v in wanted.items())
    return False


def scheduled(seen: Objects, group: str) -> bool:
    """Return true if the condition of the group reports that it was scheduled."""
    named = (item for item in seen.pod_groups if item["metadata"]["name"] == group)
    return any(is_true(item, CONDITION_POD_GROUP_SCHEDULED) for item in named)


def _pods(seen: Objects, jobset: str) -> list[Any]:
    label = "jobset.sigs.k8s.io/jobset-name"
    return [p for p in seen.pods if p["metadata"].get("labels", {}).get(label) == jobset]


def bound(seen: Objects, jobset: str) -> int:
    """Return the number of pods of the JobSet that have a node."""
    return sum(bool(pod["spec"].get("nodeName")) for pod in _pods(seen, jobset))


def running(seen: Objects, jobset: str) -> list[Any]:
    """Return the JobSet's pods that run."""
    return [pod for pod in _pods(seen, jobset) if pod.get("status", {}).get("phase") == "Running"]


def racks(seen: Objects, jobset: str) -> set[str]:
    """Return the racks in which the JobSet's pods are."""
    rack_of = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in seen.nodes}
    return {
        rack_of[p["spec"]["nodeName"]] for p in _pods(seen, jobset) if p["spec"].get("nodeName")
    }


async def run(*, keep: bool) -> int:
    """Run all steps; return the exit code. With `keep` the cluster stays up until Ctrl-C.

    SIGTERM ends it as Ctrl-C does, with CancelledError after the children have ended.
    """
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        # A cancellation leaves the contexts below, which end the children.
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with open_view(RACK) as view:
        try:
            async with _started(view) as cluster:
                for title, step in STEPS:
                    view.print_line(title)
                    await step(cluster)
                view.print_line("All expectations were met.")
                if keep:
                    await cluster.apply(JOBSETS, example("jobset-one-rack.yaml"))
                    await cluster.apply(JOBSETS, example("jobset-too-big.yaml"))
                    view.print_line(
                        "The cluster keeps running with two JobSets. Press Ctrl-C to stop it."
                    )
                    await asyncio.to_thread(open_page, cluster.console)
                    await _watch(cluster)
        except ExpectationError as error:
            view.print_line(f"FAILED: expected that {error} (logs: {FOLDER / 'logs'})")
            return 1
        except LaunchError as error:
            view.print_line(f"FAILED: {error}")
            return 1
    return 0


async def _watch(cluster: DemoCluster) -> None:
    while True:
        cluster.view.show(await list_objects(cluster.client))
        await asyncio.sleep(0.5)


@asynccontextmanager
async def _started(view: DemoView) -> AsyncIterator[DemoCluster]:
    kubeconfig = FOLDER / "kubeconfig"
    view.print_line(
        "Starting an embedded cluster, and Muster's webhook, controller and scheduler on it."
    )
    async with AsyncExitStack() as stack:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        children = await stack.enter_async_context(ChildProcesses(FOLDER / "logs", environment))
        await _start(children, kubeconfig)
        client = await stack.enter_async_context(await Client.connect(kubeconfig))
        console = await stack.enter_async_context(local(client, settings_of(File(), (RACK,))))
        view.print_line(f"console: {console.url}")
        view.print_line(f"kubectl: kubectl --kubeconfig {kubeconfig} get jobsets,mpg,pods")
        yield DemoCluster(client, view, console.url)


async def _start(children: ChildProcesses, kubeconfig: Path) -> None:
    """Start the embedded cluster, create our CRDs, then start the three processes concurrently."""
    await children.start(
        "localcluster",
        ["-m", "localcluster", "--kubeconfig", str(kubeconfig), "--port", str(free_port())],
        check=file_exists(kubeconfig),
    )
    await children.ready("localcluster", TIMEOUT_SECONDS)
    async with await Client.connect(kubeconfig) as client:
        # Before the processes, which list these kinds as they start.
        await install_kinds(client)
        await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
    names = ("webhook", "controller", "scheduler")
    for name in names:
        health = f"127.0.0.1:{free_port()}"
        arguments = ["-m", "cli", name, "--kubeconfig", str(kubeconfig), "--health", health]
        if name == "webhook":
            arguments += ["--url", f"https://127.0.0.1:{free_port()}"]
        await children.start(name, arguments, check=responds(f"http://{health}/readyz"))
    await asyncio.gather(*(children.ready(name, TIMEOUT_SECONDS) for name in names))


async def install_kinds(client: Client) -> None:
    """Create our CRDs and wait until each is established."""
    crds = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(MANIFESTS.glob("*.yaml"))]
    for crd in crds:
        await client.create(CRDS, crd)
    for crd in crds:
        await _established(client, crd["metadata"]["name"])


async def _established(client: Client, name: str) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if is_true(await client.get(CRDS, name), "Established"):
                return
            await asyncio.sleep(0.05)


def main(*, keep: bool) -> int:
    """Run the demo on an event loop of its own."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # An old file would count as the sign that the new cluster is ready.
    (FOLDER / "kubeconfig").unlink(missing_ok=True)
    try:
        return asyncio.run(run(keep=keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stdout.write("\n")
        return 0
