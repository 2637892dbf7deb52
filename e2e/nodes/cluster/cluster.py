"""A cluster of real nodes on this machine. It leaves nothing behind when it ends."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.nodes.cluster import build, control_groups, network
from e2e.nodes.cluster.control_plane import ControlPlane
from e2e.nodes.cluster.node import Node
from e2e.nodes.cluster.places import RUN

CONTROL_PLANE = "control-plane"
_ROLE = "node-role.kubernetes.io/control-plane"


class RealNodes:
    """A control plane with a node of its own, which takes only pods of daemons, and workers.

    Use it as an async context manager, or call `start` and `stop`.
    """

    def __init__(self, workers: int = 2, folder: Path = RUN) -> None:
        names = [CONTROL_PLANE, *(f"worker-{number + 1}" for number in range(workers))]
        self._folder = folder
        self.nodes = {name: Node(name, number, folder) for number, name in enumerate(names)}
        self._control_plane: ControlPlane | None = None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        assert self._control_plane is not None
        return self._control_plane.kubeconfig

    @property
    def workers(self) -> list[str]:
        return [name for name in self.nodes if name != CONTROL_PLANE]

    def logs(self) -> list[Path]:
        """Return the logs of all processes."""
        folders = [self._folder / "servers" / "logs", *(it.logs for it in self.nodes.values())]
        return sorted(log for folder in folders for log in folder.glob("*.log"))

    def client(self) -> Rest:
        """Return a raw HTTP client with the administrator's credentials."""
        return Rest.open(self.kubeconfig)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything, and wait until all nodes are Ready. Raises BuildError, MissingError."""
        build.build()
        shutil.rmtree(self._folder, ignore_errors=True)
        # Of a run that was killed. Connections keep its namespaces, with the link, for a while.
        network.disconnect()
        control_groups.remove()
        first = self.nodes[CONTROL_PLANE]
        servers = self._folder / "servers"
        self._control_plane = ControlPlane(servers, first.addresses)
        proxy = self._control_plane.access("system:kube-proxy", "system:node-proxiers")
        policies = self._control_plane.access("kube-router", "system:masters")
        for node in self.nodes.values():
            kubelet = self._control_plane.access(f"system:node:{node.name}", "system:nodes")
            authority = self._control_plane.authority
            node.prepare(kubelet=kubelet, proxy=proxy, policies=policies, authority=authority)
        first.start(f"--register-with-taints={_ROLE}=:NoSchedule")
        network.connect_first(first.pid, first.addresses)
        self._route(first)
        await self._control_plane.start(f"/proc/{first.pid}/ns/net")
        for name in self.workers:
            self._start_worker(name)
        await asyncio.gather(*(self.ready(name) for name in self.nodes))

    async def stop(self) -> None:
        """End all processes. Data and logs are left until the next start."""
        for node in self.nodes.values():
            if node.name != CONTROL_PLANE:
                node.kill()
        if self._control_plane is not None:
            self._control_plane.stop()
        network.disconnect()
        self.nodes[CONTROL_PLANE].kill()
        control_groups.remove()

    def kill(self, name: str) -> None:
        """End a worker at once, with all its containers."""
        self.nodes[name].kill()

    def kill_containers(self, node: str, pod_uid: str) -> None:
        """Send SIGKILL to all processes of a pod; its kubelet starts its containers again."""
        for process in control_groups.processes(node, pod_uid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    @contextlib.contextmanager
    def without_kubelet(self, name: str) -> Iterator[None]:
        """Stop the kubelet of a node for the block, which must end before the node is lost.

        Afterwards it starts again, and lists all pods of its node at once.
        """
        self.nodes[name].signal("kubelet", signal.SIGSTOP)
        try:
            yield
        finally:
            self.nodes[name].signal("kubelet", signal.SIGKILL)

    def traces(self) -> list[str]:
        """Return what is left on this machine after `stop`: nothing, or it is a fault."""
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        left = [line for line in mounts if str(self._folder) in line]
        left += [str(group) for group in control_groups.existing()]
        return [*left, network.LINK] if network.is_connected() else left

    async def restart(self, name: str) -> None:
        """Start a worker again after `kill`, with its disk, and wait until it is Ready."""
        self._start_worker(name)
        await self.ready(name)

    async def ready(self, name: str, timeout: float = 180) -> None:
        """Wait until a node is Ready."""
        async with self.client() as rest:

            async def is_ready() -> bool:
                answer = await rest.get(f"/api/v1/nodes/{name}")
                if answer.status != 200:
                    return False  # its kubelet has not registered it
                conditions = answer.body["status"].get("conditions", [])
                return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)

            await eventually(is_ready, f"{name} to be Ready", timeout)

    def _start_worker(self, name: str) -> None:
        node = self.nodes[name]
        node.start()
        network.connect(node.pid, node.addresses, self.nodes[CONTROL_PLANE].pid)
        self._route(node)

    def _route(self, node: Node) -> None:
        others = [one.addresses for one in self.nodes.values() if one is not node]
        network.route(node.pid, node.addresses, others)
