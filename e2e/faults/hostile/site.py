"""A separate cluster with two replicas of Muster, each behind a port that can drop its traffic.

Killed processes are restarted as by a kubelet: `run` starts those that have ended.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from e2e.harness.clusters.local import Local
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import SCHEDULER, WEBHOOK, Muster
from e2e.harness.objects import NODE_LABEL, Json
from e2e.harness.support import forwarder
from e2e.harness.support.forwarder import Forwarder
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import healthy

ROOM = "chaos"
RACK = "test.muster.dev/rack"
CPU = 8
SCHEDULERS = ("scheduler-0", "scheduler-1")
CONTROLLERS = ("controller-0", "controller-1")
REPLICAS = (*SCHEDULERS, *CONTROLLERS, WEBHOOK)
PRIORITIES = {"some": 10, "more": 100, "most": 1000}
"""Values of the priority classes. JobSet writes them into labels, which cannot be negative."""

_UNREACHABLE = (aiohttp.ClientError, OSError)


class Site:
    """Muster's processes by name (`replicas`), the cluster's, and the nodes."""

    schedulers: Sequence[str] = SCHEDULERS
    controllers: Sequence[str] = CONTROLLERS
    replicas: Sequence[str] = REPLICAS

    def __init__(self, cluster: Local | ControlPlane, nodes: int) -> None:
        self.cluster = cluster
        self.muster = Muster(cluster.kubeconfig)
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []
        """Processes that ended without being killed."""
        self.held_down: set[str] = set()
        """Processes that a fault ended, and starts again itself."""
        self.names = [f"node-{number}" for number in range(nodes)]
        self._forwarders: dict[str, Forwarder] = {}
        self._restarts: dict[str, asyncio.Task[None]] = {}
        self._paused: set[str] = set()

    @property
    def servers(self) -> Sequence[str]:
        """The cluster's own processes that may be killed."""
        if isinstance(self.cluster, ControlPlane):
            return ("kube-apiserver", "etcd", "kube-controller-manager", "jobset")
        return ()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Site"]:
        """Run the complete site during the block."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.cluster.stop)
            await self.cluster.start()
            stack.callback(self.muster.stop)
            await self.muster.install()
            await self.cluster.kinds_installed()
            await self._start_muster(stack)
            async with Rest.open(self.cluster.kubeconfig) as rest:
                await self._create_classes(rest)
                await asyncio.gather(*(self.add_node(rest, name) for name in self.names))
            keeper = asyncio.ensure_future(self._keep())
            try:
                yield self
            finally:
                for task in (keeper, *self._restarts.values()):
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    async def _start_muster(self, stack: AsyncExitStack) -> None:
        """Start all replicas of the installed Muster; `stack` ends what they use."""
        target = forwarder.port_of(self.cluster.kubeconfig)
        for name in self.replicas:
            made = self._forwarders[name] = Forwarder(target)
            await made.start()
            stack.push_async_callback(made.stop)
            self._add(name, made)
        await self.muster.start(*self.replicas)

    def _add(self, name: str, made: Forwarder) -> None:
        process = name.partition("-")[0]
        access = self.muster.kubeconfig(process)
        if name == WEBHOOK:
            forwarder.redirect(access, access, made.port)
            return
        own = access.with_name(f"{name}.kubeconfig")
        forwarder.redirect(access, own, made.port)
        debug = ["--debug"] if process == SCHEDULER else []
        self.muster.add(name, process, own, arguments=debug)

    async def _create_classes(self, rest: Rest) -> None:
        for name, value in PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value}
            (await rest.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)).ok()

    # Faults.

    def kill(self, name: str, *, after: float = 0.0) -> None:
        """Send SIGKILL; the process restarts after `after` seconds."""
        if name in self.replicas:
            self.muster.kill(name)
        else:
            assert isinstance(self.cluster, ControlPlane)
            self.cluster.kill(name)
        self.kills[name] += 1
        self._paused.discard(name)
        self._come_back(name, after)

    def _come_back(self, name: str, after: float) -> None:
        if (before := self._restarts.pop(name, None)) is not None:
            before.cancel()
        self._restarts[name] = asyncio.ensure_future(self._start_later(name, after))

    async def _start_later(self, name: str, after: float) -> None:
        await asyncio.sleep(after)
        if name in self.replicas:
            self.muster.launch(name)
        else:
            assert isinstance(self.cluster, ControlPlane)
            self.cluster.processes[name].start()

    async def pause(self, name: str, seconds: float) -> None:
        """Send SIGSTOP, and later SIGCONT unless the process was killed meanwhile."""
        if name in self._paused or not self.muster.running(name):
            return
        pid = self.muster.pid(name)
        self.muster.send(name, signal.SIGSTOP)
        self._paused.add(name)
        await asyncio.sleep(seconds)
        if self.muster.running(name) and self.muster.pid(name) == pid:
            self.muster.send(name, signal.SIGCONT)
            self._paused.discard(name)

    async def outage(self, seconds: float) -> None:
        """Stop and restart the API server.

        The embedded one keeps its data in memory, so it is not killed.
        """
        await self.cluster.stop_apiserver()
        await asyncio.sleep(seconds)
        await self.cluster.start_apiserver()

    def cut(self, name: str) -> None:
        """Break all connections of a replica."""
        self._forwarders[name].reset()

    async def freeze(self, name: str, seconds: float) -> None:
        """Delay all traffic of a replica."""
        self._forwarders[name].freeze()
        await asyncio.sleep(seconds)
        self._forwarders[name].thaw()

    def _restarts_pending(self) -> set[str]:
        return {name for name, task in self._restarts.items() if not task.done()}

    async def _keep(self) -> None:
        """Restart processes that ended by themselves, and record them."""
        while True:
            await asyncio.sleep(0.5)
            for name in (*self.replicas, *self.servers):
                if name in self.held_down or self._alive(name):
                    continue
                if name not in self._restarts_pending():
                    if name in self.replicas:
                        self.ended.append(name)
                    self._come_back(name, 1.0)

    def _alive(self, name: str) -> bool:
        if name in self.replicas:
            return self.muster.running(name)
        assert isinstance(self.cluster, ControlPlane)
        return self.cluster.processes[name].running

    # What is asked of it.

    async def ready(self) -> list[str]:
        """Return the replicas that are not ready."""
        pages = {name: self.muster.page(name, "/readyz") for name in self.replicas}
        answers = await asyncio.gather(*(healthy(page) for page in pages.values()))
        return [name for name, good in zip(pages, answers, strict=True) if not good]

    async def decide(self) -> str | None:
        """Make the leader decide on all pending pods; return its name, None without a leader."""
        async with aiohttp.ClientSession(trust_env=False) as session:
            for name in self.schedulers:
                page = self.muster.page(name, "/debug/decide")
                timeout = aiohttp.ClientTimeout(total=10)
                with suppress(*_UNREACHABLE, TimeoutError):
                    async with session.post(page, timeout=timeout) as answer:
                        if answer.status == 200 and (await answer.json())["leads"]:
                            return name
        return None

    async def snapshot(self, name: str) -> bytes:
        """Return a scheduler's state, or the reason why it is missing."""
        try:
            async with (
                aiohttp.ClientSession(trust_env=False) as session,
                session.get(self.muster.page(name, "/debug/snapshot")) as answer,
            ):
                return await answer.read()
        except _UNREACHABLE as error:
            return repr(error).encode()

    # Nodes.

    async def add_node(self, rest: Rest, name: str) -> None:
        """Add a node to the rack of its number; there are three racks."""
        number = int(name.rpartition("-")[2])
        labels = {NODE_LABEL: ROOM, RACK: f"r{number % 3}", "kubernetes.io/hostname": name}
        size = {"cpu": str(CPU), "memory": "32Gi", "pods": "110"}
        node: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": size, "allocatable": size},
        }
        answer = await rest.post("/api/v1/nodes", node)
        assert answer.status in (201, 409), answer.text


def made(kind: str, nodes: int, folder: Path) -> Site:
    """Create a site on the `local` embedded cluster or on a `real` control plane."""
    cluster: Local | ControlPlane
    if kind == "local":
        cluster = Local()
    else:
        cluster = ControlPlane(Options(audit=False), logs=folder / "controlplane")
    return Site(cluster, nodes)
