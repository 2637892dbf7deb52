"""The embedded cluster, in a separate process."""

import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.harness.clusters import nodes
from e2e.harness.controlplane.process import Process
from e2e.harness.support import ports
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import answers


class Local:
    """`python -m localcluster` on a free port; `options` are additional arguments."""

    def __init__(self, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="muster-localcluster-")
        folder = Path(self._folder.name)
        self._kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log"
        (self._port,) = ports.free(1)
        command = [sys.executable, "-m", "localcluster"]
        arguments = [f"--kubeconfig={self._kubeconfig}", f"--port={self._port}"]
        arguments.append(f"--audit-log={self.audit_log}")
        self.process = Process(
            "localcluster", [*command, *arguments, *options], logs=folder / "logs"
        )

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def client(self) -> Rest:
        return Rest.open(self._kubeconfig)

    async def start(self) -> None:
        self.process.start()
        await self.process.ready(self._serves, timeout=180)

    async def _serves(self) -> bool:
        if not self._kubeconfig.is_file():
            return False
        return await answers(self.client())

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
            await nodes.add(rest, name, labels=labels, capacity=capacity, taints=taints, wait=wait)

    async def remove_node(self, name: str) -> None:
        async with self.client() as rest:
            await nodes.remove(rest, name)

    async def leave_namespace(self, name: str) -> None:
        async with self.client() as rest:
            await rest.delete(f"/api/v1/namespaces/{name}")

    async def finish_pods(self, namespace: str, selector: str, phase: str = "Succeeded") -> int:
        async with self.client() as rest:
            return await nodes.finish_pods(rest, namespace, selector, phase)

    async def stop_apiserver(self) -> None:
        # Its data is in memory: a signal pauses it, so that the data is not lost.
        self.process.send(signal.SIGSTOP)

    async def start_apiserver(self) -> None:
        self.process.send(signal.SIGCONT)

    async def kinds_installed(self) -> None:
        """Do nothing: its garbage collector knows new kinds at once."""

    async def stop(self) -> None:
        self.process.kill()
        self._folder.cleanup()
