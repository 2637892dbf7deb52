"""The embedded cluster, in a separate process."""

import signal
import sys
import tempfile
from pathlib import Path

from e2e.harness.clusters.nodes import SimulatedNodes
from e2e.harness.controlplane.process import Process
from e2e.harness.support import ports
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import answers


class Local(SimulatedNodes):
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

    async def leave_namespace(self, name: str) -> None:
        async with self.client() as rest:
            await rest.delete(f"/api/v1/namespaces/{name}")

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
