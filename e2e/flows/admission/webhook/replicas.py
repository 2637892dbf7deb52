"""Replicas of `muster webhook` behind one URL or their Service, installed as by administrators."""

import asyncio
import base64
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.flows.admission.webhook.balancer import Backend, Balancer
from e2e.harness.controlplane.process import Process
from e2e.harness.endpoint_slices import EndpointSlices
from e2e.harness.support import accounts, definitions, kubeconfig, manifests, ports
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually, healthy

NAMESPACE = "muster-system"
SERVICE = "muster-webhook"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/muster-webhook-certificates"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    f"{REGISTRATIONS}/mutatingwebhookconfigurations/muster",
    f"{REGISTRATIONS}/validatingwebhookconfigurations/muster",
)
POLICIES = tuple(
    f"{REGISTRATIONS}/validatingadmissionpolic{ending}/muster-webhook-{what}"
    for ending in ("ybindings", "ies")
    for what in ("configurations", "definitions")
)


class Replicas:
    """`count` replicas on one cluster, with only the permissions of their account.

    `certificates` is that section of the configuration. With `by_service`, API servers call the
    Service of the manifests, and the replicas share its Secret. `command` is the `muster` command.
    With `leaves_all`, nothing is uninstalled at the end. Use it as an async context manager: on
    entry, everything is installed and no replica runs yet.
    """

    def __init__(
        self,
        admin: Path,
        *,
        count: int = 1,
        certificates: Mapping[str, Any] | None = None,
        drain: float = 0.0,
        by_service: bool = False,
        command: Sequence[str] = (sys.executable, "-m", "cli"),
        leaves_all: bool = False,
    ) -> None:
        self._admin = admin
        self._by_service = by_service
        self._command = command
        self._leaves_all = leaves_all
        self._folder = Path(tempfile.mkdtemp(prefix="muster-replicas-"))
        self._access = self._folder / "webhook.kubeconfig"
        self._kept = self._folder / "certificates"
        self._port, *own = ports.free(1 + 2 * count)
        direct = count == 1 and not by_service
        if direct:
            own[0] = self._port
        self._section: dict[str, Any] = {
            "host": "0.0.0.0" if by_service else "127.0.0.1",
            "certificates": dict(certificates or {}),
            "drainSeconds": drain,
        }
        if not by_service:
            self._section["certDir"] = str(self._kept)
        self.backends = [
            Backend(port, f"http://127.0.0.1:{health}/readyz")
            for port, health in zip(own[:count], own[count:], strict=True)
        ]
        self.processes = [
            self._process(number, port, health)
            for number, (port, health) in enumerate(zip(own[:count], own[count:], strict=True))
        ]
        self._front: Balancer | EndpointSlices | None = None
        if by_service:
            self._front = EndpointSlices(admin, NAMESPACE, SERVICE, self.backends)
        elif not direct:
            self._front = Balancer(self._port, self.backends)

    async def __aenter__(self) -> Self:
        async with Rest.open(self._admin) as rest:
            await install(rest, by_service=self._by_service)
            token = await accounts.token(rest, NAMESPACE, "muster-webhook")
        kubeconfig.derive(self._admin, self._access, token)
        if self._front is not None:
            await self._front.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()
        if self._front is not None:
            await self._front.__aexit__()
        if not self._leaves_all:
            async with Rest.open(self._admin) as rest:
                await uninstall(rest)
        if error is None:
            shutil.rmtree(self._folder)

    async def start(self) -> None:
        """Start all replicas, and wait until each is ready and the balancer knows it."""
        for process in self.processes:
            process.start()
        await asyncio.gather(*(self.ready(number) for number in range(len(self.processes))))

    async def ready(self, number: int) -> None:
        """Wait until one replica is ready. Raises ProcessFailedError."""
        backend = self.backends[number]
        await self.processes[number].ready(lambda: healthy(backend.ready_url), timeout=180)
        if self._front is not None:
            await eventually(lambda: _is(backend, ready=True), "the replica to be called")

    async def restart(self, number: int) -> None:
        """Restart a replica as a Deployment does: SIGTERM, wait for its end, start a new one."""
        process = self.processes[number]
        process.send(signal.SIGTERM)

        async def ended() -> bool:
            return not process.running

        await eventually(ended, "the replica to end", 60)
        process.start()
        await self.ready(number)

    async def certificates(self, rest: Rest) -> tuple[str, str]:
        """Return the currently served CA and server certificate, in PEM."""
        if not self._by_service:
            return (self._kept / "ca.crt").read_text(), (self._kept / "tls.crt").read_text()
        held = (await rest.get(SECRET)).ok()["data"]
        ca, server = (base64.b64decode(held[key]).decode() for key in ("ca.crt", "tls.crt"))
        return ca, server

    def log(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(process.log.read_text()[-3000:] for process in self.processes)

    def _process(self, number: int, port: int, health: int) -> Process:
        config = self._folder / f"replica-{number}.yaml"
        section = {**self._section, "port": port}
        config.write_text(yaml.safe_dump({"namespace": NAMESPACE, "webhook": section}))
        command = [*self._command, "webhook", f"--kubeconfig={self._access}"]
        arguments = [f"--config={config}", f"--health=127.0.0.1:{health}"]
        if not self._by_service:
            arguments.append(f"--url=https://127.0.0.1:{self._port}")
        return Process(f"webhook-{number}", [*command, *arguments], logs=self._folder / "logs")


async def install(rest: Rest, *, by_service: bool = True) -> None:
    """Install all of manifests/base, and wait until our kinds are served."""
    objects = manifests.load() if by_service else manifests.by_url(manifests.load())
    await manifests.create(rest, objects)
    kind = "CustomResourceDefinition"
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == kind]
    await definitions.served(rest, *names)


async def uninstall(rest: Rest) -> None:
    """Restore the state before a first install: no CRDs of ours, no registered webhooks."""
    for path in (*CONFIGURATIONS, *POLICIES):
        await rest.delete(path)
    names = [
        obj["metadata"]["name"]
        for obj in manifests.load()
        if obj["kind"] == "CustomResourceDefinition"
    ]
    for name in names:
        await _emptied(rest, name)
        await rest.delete(f"{definitions.PATH}/{name}")
    for name in names:
        await eventually(partial(_absent, rest, f"{definitions.PATH}/{name}"), name, 240)


async def _emptied(rest: Rest, name: str) -> None:
    """Remove the finalizers of all objects: no controller runs here that would."""
    plural, _, group = name.partition(".")
    version = "v1alpha1" if group.startswith("coscheduling") else "v1alpha3"
    found = await rest.get(f"/apis/{group}/{version}/{plural}", timeout=180)
    objects = found.body.get("items", []) if found.status == 200 else []
    held = [obj["metadata"] for obj in objects if obj["metadata"].get("finalizers")]
    gate = asyncio.Semaphore(32)

    async def free(meta: Mapping[str, str]) -> None:
        path = f"/apis/{group}/{version}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
        async with gate:
            await rest.patch(path, {"metadata": {"finalizers": None}}, timeout=180)

    await asyncio.gather(*map(free, held))


async def _absent(rest: Rest, path: str) -> bool:
    return (await rest.get(path)).status == 404


async def _is(backend: Backend, *, ready: bool) -> bool:
    return backend.ready is ready
