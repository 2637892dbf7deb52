"""Muster itself, as users run it: one process each for webhook, controller and scheduler.

They are real processes with their own logs, so that a test can kill one at any moment. Each has
only the ServiceAccount and the permissions of manifests/base.
"""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.harness.controlplane.process import Process
from e2e.harness.support import accounts, definitions, manifests, ports
from e2e.harness.support import kubeconfig as kubeconfigs
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import healthy
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

WEBHOOK, CONTROLLER, SCHEDULER = "webhook", "controller", "scheduler"
ALL = (WEBHOOK, CONTROLLER, SCHEDULER)
NAMESPACE = "muster-system"

MUSTER = (sys.executable, "-m", "cli")
# Short leases: a killed leader is replaced within seconds.
_ELECTION = {"leaseSeconds": 3, "renewSeconds": 2, "retrySeconds": 0.5}
STATUS = {"delaySeconds": 0.1, "busySeconds": 0.5, "podsSeconds": 1}
CONFIG = {
    "namespace": NAMESPACE,
    "leaderElection": _ELECTION,
    "scheduler": {"status": STATUS, "preemption": {"mostMinRunSeconds": 3600}},
}


@dataclass(frozen=True, slots=True)
class _Process:
    process: Process
    address: str  # HOST:PORT of its health, metrics and debug pages


class Muster:
    """The three processes on one cluster. Logs are in `logs`, one file for each."""

    def __init__(
        self,
        kubeconfig: Path,
        *,
        logs: Path | None = None,
        config: Mapping[str, object] = CONFIG,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._temporary = Path(tempfile.mkdtemp(prefix="muster-e2e-"))
        self.logs = logs or self._temporary / "logs"
        self._config = dict(config)
        file = self._temporary / "muster.yaml"
        self.configure()
        webhook, *health = ports.free(1 + len(ALL))
        extra = {WEBHOOK: ["--url", f"https://127.0.0.1:{webhook}"], SCHEDULER: ["--debug"]}
        self._processes = {
            name: self._part(name, port, ["--config", str(file), *extra.get(name, [])])
            for name, port in zip(ALL, health, strict=True)
        }

    def configure(self, **fields: object) -> None:
        """Write the configuration file, with additional or changed fields.

        Processes read it when they start.
        """
        file = self._temporary / "muster.yaml"
        file.write_text(yaml.safe_dump(self._config | fields))

    async def install(self) -> None:
        """Apply manifests/base, as an administrator does, and create a token for each account."""
        objects = manifests.by_url(self.manifests())
        async with Rest.open(self._kubeconfig) as rest:
            await manifests.create(rest, objects)
            names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == CRDS.kind]
            await definitions.served(rest, *names)
        await self.give_access()

    def manifests(self) -> list[manifests.Object]:
        """Return the objects that an administrator with this configuration applies."""
        more = manifests.native_group_rights() if "groups" in self._config else []
        return [*manifests.load(), *more]

    async def give_access(self) -> None:
        """Write a kubeconfig for each existing account."""
        async with Rest.open(self._kubeconfig) as rest:
            for name in ALL:
                token = await accounts.token(rest, NAMESPACE, f"muster-{name}")
                kubeconfigs.derive(self._kubeconfig, self.kubeconfig(name), token)

    def kubeconfig(self, process: str) -> Path:
        """Return the kubeconfig of a process's account; `install` and `give_access` write it."""
        return self._temporary / f"{process}.kubeconfig"

    async def uninstall(self) -> None:
        """Remove the webhook registrations, which would make requests fail; CRDs are kept.

        The webhook process ends first: it would try to register itself again, for which it lacks
        the permission.
        """
        self.kill(WEBHOOK)
        async with await Client.connect(self._kubeconfig) as client:
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                try:
                    await client.delete(resource, "muster")
                except NotFound:
                    continue

    async def start(self, *names: str) -> None:
        """Start processes and wait until they are ready. Raises ProcessFailedError."""
        for name in names:
            self._processes[name].process.start()
        await asyncio.gather(*(self.ready(name) for name in names))

    async def ready(self, name: str, timeout: float = 120) -> None:
        """Wait until `/readyz` succeeds. Raises ProcessFailedError with the end of the log."""
        part = self._processes[name]

        async def probe() -> bool:
            return await healthy(self.page(name, "/readyz"))

        await part.process.ready(probe, timeout=timeout)

    def page(self, name: str, path: str) -> str:
        """Return the URL of one of a process's own pages, `/metrics` for instance."""
        return f"http://{self._processes[name].address}{path}"

    def kill(self, name: str) -> None:
        """Send SIGKILL: the process flushes and releases nothing."""
        self._processes[name].process.kill()

    def launch(self, name: str) -> None:
        """Start a process without waiting."""
        self._processes[name].process.start()

    async def restart(self, name: str) -> None:
        """Kill, start with the same arguments, and wait until ready."""
        self.kill(name)
        await self.start(name)

    def add(
        self,
        name: str,
        process: str,
        kubeconfig: Path,
        *,
        arguments: Sequence[str] = (),
        wrapper: Sequence[str] = (),
        muster: Sequence[str] = MUSTER,
    ) -> None:
        """Add another replica of a process, with its own kubeconfig.

        `wrapper` is a command that runs the following one, `env` for instance. `muster` is the
        command itself, to run another version than this checkout's.
        """
        (health,) = ports.free(1)
        config = str(self._temporary / "muster.yaml")
        given = ["--config", config, *arguments]
        part = self._part(name, health, given, process, kubeconfig, muster)
        part.process.command[:0] = wrapper
        self._processes[name] = part

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal, SIGSTOP and SIGCONT for instance."""
        self._processes[name].process.send(number)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stop a process, which keeps its state and its connections, until the end of the block."""
        self.send(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(name, signal.SIGCONT)

    def pid(self, name: str) -> int:
        return self._processes[name].process.pid

    def running(self, name: str) -> bool:
        return self._processes[name].process.running

    def stop(self) -> None:
        """Kill all processes and remove the temporary files."""
        for part in self._processes.values():
            part.process.kill()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _part(
        self,
        name: str,
        health: int,
        arguments: Sequence[str],
        process: str | None = None,
        kubeconfig: Path | None = None,
        muster: Sequence[str] = MUSTER,
    ) -> _Process:
        address = f"127.0.0.1:{health}"
        process = process or name
        access = kubeconfig or self.kubeconfig(process)
        options = ["--kubeconfig", str(access), "--health", address]
        command = [*muster, process, *options, *arguments]
        return _Process(Process(name, command, logs=self.logs), address)
