"""Muster's three processes on a cluster: started, killed and started again by tests."""

import asyncio
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from e2e.controlplane.places import ROOT
from e2e.controlplane.process import Process
from e2e.support import ports
from e2e.support.rest import APPLY_PATCH, Rest
from e2e.support.waiting import eventually, healthy

NAMES = ("webhook", "controller", "scheduler")
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Muster:
    """The webhook (registered by URL), the controllers and the scheduler, a process each.

    `arguments` are added to every process' command line, shorter leases for instance.
    """

    def __init__(self, kubeconfig: Path, logs: Path, *, arguments: tuple[str, ...] = ()) -> None:
        self._kubeconfig = kubeconfig
        webhook, *health = ports.free(1 + len(NAMES))
        self._health = dict(zip(NAMES, health, strict=True))
        self.processes = {
            name: Process(
                f"muster-{name}",
                [*self._command(name), *arguments, *self._own(name, webhook)],
                logs=logs,
            )
            for name in NAMES
        }

    def _command(self, name: str) -> list[str]:
        health = f"127.0.0.1:{self._health[name]}"
        kubeconfig = str(self._kubeconfig)
        return [sys.executable, "-m", "cli", name, "--kubeconfig", kubeconfig, "--health", health]

    @staticmethod
    def _own(name: str, port: int) -> list[str]:
        return ["--url", f"https://127.0.0.1:{port}"] if name == "webhook" else []

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
        """Installs the CRDs, and starts all three; raises ProcessFailedError."""
        async with Rest.open(self._kubeconfig) as rest:
            await _install(rest)
        for process in self.processes.values():
            process.start()
        await asyncio.gather(*(self._ready(name) for name in NAMES))

    async def stop(self) -> None:
        for process in self.processes.values():
            process.kill()

    def kill(self, name: str) -> None:
        """SIGKILL to "webhook", "controller" or "scheduler"."""
        self.processes[name].kill()

    async def restart(self, name: str) -> None:
        """Starts it again after `kill`, and waits until it is ready."""
        self.processes[name].start()
        await self._ready(name)

    async def _ready(self, name: str) -> None:
        url = f"http://127.0.0.1:{self._health[name]}/readyz"
        await self.processes[name].ready(partial(healthy, url), timeout=60)


async def _install(rest: Rest) -> None:
    """Applies manifests/crd and waits until each kind is served."""
    crds = [yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob("manifests/crd/*.yaml"))]
    params = {"fieldManager": "muster-e2e", "force": "true"}
    for crd in crds:
        path = f"{_CRDS}/{crd['metadata']['name']}"
        (await rest.patch(path, crd, APPLY_PATCH, params=params)).ok()
    for crd in crds:
        spec = crd["spec"]
        version = spec["versions"][0]["name"]
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        await eventually(partial(_answers, rest, path), f"{path} to be served")


async def _answers(rest: Rest, path: str) -> bool:
    return (await rest.get(path)).status == 200
