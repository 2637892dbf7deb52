"""Replicas of `muster webhook` behind one URL, installed as an administrator does it."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.controlplane.process import Process
from e2e.support import accounts, kubeconfig, manifests, ports
from e2e.support.rest import Rest
from e2e.support.waiting import eventually, healthy
from e2e.webhook.balancer import Backend, Balancer

NAMESPACE = "muster-system"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    f"{REGISTRATIONS}/mutatingwebhookconfigurations/muster",
    f"{REGISTRATIONS}/validatingwebhookconfigurations/muster",
)


class Hooks:
    """`count` replicas on one cluster, with the rights of their account and no others.

    `certificates` is that section of the configuration. Use it as an async context manager: on
    entering, everything is installed and no replica runs yet.
    """

    def __init__(
        self,
        admin: Path,
        *,
        count: int = 1,
        certificates: Mapping[str, Any] | None = None,
        drain: float = 0.0,
    ) -> None:
        self._admin = admin
        self._folder = Path(tempfile.mkdtemp(prefix="muster-hooks-"))
        self._access = self._folder / "webhook.kubeconfig"
        self.certificates = self._folder / "certificates"
        self._port, *own = ports.free(1 + 2 * count)
        if count == 1:
            own[0] = self._port  # one replica is called directly
        self._section = {
            "certDir": str(self.certificates),
            "certificates": dict(certificates or {}),
            "drainSeconds": drain,
        }
        self.backends = [
            Backend(port, f"http://127.0.0.1:{health}/readyz")
            for port, health in zip(own[:count], own[count:], strict=True)
        ]
        self.processes = [
            self._process(number, port, health)
            for number, (port, health) in enumerate(zip(own[:count], own[count:], strict=True))
        ]
        self._balancer = Balancer(self._port, self.backends) if count > 1 else None

    async def __aenter__(self) -> Self:
        async with Rest.open(self._admin) as rest:
            await install(rest)
            token = await accounts.token(rest, NAMESPACE, "muster-webhook")
        kubeconfig.derive(self._admin, self._access, token)
        if self._balancer is not None:
            await self._balancer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()
        if self._balancer is not None:
            await self._balancer.__aexit__()
        async with Rest.open(self._admin) as rest:
            await uninstall(rest)
        if error is None:
            shutil.rmtree(self._folder)

    async def start(self) -> None:
        """All replicas at once; until each is ready and the balancer knows it."""
        for process in self.processes:
            process.start()
        await asyncio.gather(*(self.ready(number) for number in range(len(self.processes))))

    async def ready(self, number: int) -> None:
        """Until one replica is ready. Raises ProcessFailedError."""
        backend = self.backends[number]
        await self.processes[number].ready(lambda: healthy(backend.ready_url), timeout=60)
        if self._balancer is not None:
            await eventually(lambda: _is(backend, ready=True), "the balancer to see the replica")

    async def restart(self, number: int) -> None:
        """As a Deployment restarts a pod: SIGTERM, until it has ended by itself; a new one."""
        process = self.processes[number]
        process.send(signal.SIGTERM)

        async def ended() -> bool:
            return not process.running

        await eventually(ended, "the replica to end", 60)
        process.start()
        await self.ready(number)

    def log(self) -> str:
        """The ends of all logs."""
        return "\n".join(process.log.read_text()[-3000:] for process in self.processes)

    def _process(self, number: int, port: int, health: int) -> Process:
        config = self._folder / f"replica-{number}.yaml"
        section = {**self._section, "host": "127.0.0.1", "port": port}
        config.write_text(yaml.safe_dump({"namespace": NAMESPACE, "webhook": section}))
        command = [sys.executable, "-m", "cli", "webhook", f"--kubeconfig={self._access}"]
        url = f"--url=https://127.0.0.1:{self._port}"
        arguments = [f"--config={config}", url, f"--health=127.0.0.1:{health}"]
        return Process(f"webhook-{number}", [*command, *arguments], logs=self._folder / "logs")


async def install(rest: Rest) -> None:
    """All of manifests/base, until our kinds are served."""
    objects = manifests.load()
    await manifests.create(rest, objects)
    for obj in objects:
        if obj["kind"] == "CustomResourceDefinition":
            path = f"{DEFINITIONS}/{obj['metadata']['name']}"
            await eventually(lambda path=path: _established(rest, path), path, 30)  # type: ignore[misc]


async def uninstall(rest: Rest) -> None:
    """What a first install finds: none of our kinds, and nothing registered."""
    for path in CONFIGURATIONS:
        await rest.delete(path)
    names = [
        obj["metadata"]["name"]
        for obj in manifests.load()
        if obj["kind"] == "CustomResourceDefinition"
    ]
    for name in names:
        await _emptied(rest, name)
        await rest.delete(f"{DEFINITIONS}/{name}")
    for name in names:
        await eventually(lambda name=name: _absent(rest, f"{DEFINITIONS}/{name}"), name, 240)  # type: ignore[misc]


async def _emptied(rest: Rest, name: str) -> None:
    """Take the finalizers off all objects: no controller runs here that would."""
    plural, _, group = name.partition(".")
    version = "v1alpha1" if group.startswith("coscheduling") else "v1alpha3"
    found = await rest.get(f"/apis/{group}/{version}/{plural}", timeout=60)
    objects = found.body.get("items", []) if found.status == 200 else []
    held = [obj["metadata"] for obj in objects if obj["metadata"].get("finalizers")]
    gate = asyncio.Semaphore(32)

    async def free(meta: Mapping[str, str]) -> None:
        path = f"/apis/{group}/{version}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
        async with gate:
            await rest.patch(path, {"metadata": {"finalizers": None}}, timeout=60)

    await asyncio.gather(*map(free, held))


async def _established(rest: Rest, path: str) -> bool:
    conditions = (await rest.get(path)).ok().get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def _absent(rest: Rest, path: str) -> bool:
    return (await rest.get(path)).status == 404


async def _is(backend: Backend, *, ready: bool) -> bool:
    return backend.ready is ready
