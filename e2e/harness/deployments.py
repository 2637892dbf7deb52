"""The Deployment controller's part for Muster's Deployments: processes and their statuses.

Each Deployment has one process, with its arguments, configuration, account and mounted Secrets. The
processes run on this machine: the Deployments' pod and image settings are not tested here.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.process import Process
from e2e.harness.endpoint_slices import SLICES, copy_to_endpoints, own_address
from e2e.harness.mounted import MountedSecret
from e2e.harness.support import accounts, kubeconfig, ports
from e2e.harness.support.rest import Object, Rest
from e2e.harness.support.waiting import eventually, healthy

NAMESPACE = "muster-system"
WEBHOOK = "muster-webhook"
_PROBE_SECONDS = 0.1
_Key = tuple[str, int]
"""UID and generation of a Deployment."""
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_CONFIGURATION = f"/api/v1/namespaces/{NAMESPACE}/configmaps/muster"
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{WEBHOOK}"
_SLICES = SLICES.format(namespace=NAMESPACE)


@dataclass
class _Running:
    """The process of one Deployment in one generation."""

    name: str
    process: Process
    port: int
    address: str
    told: bool = False

    @property
    def ready_url(self) -> str:
        return f"http://{self.address}/readyz"


class Deployments:
    """An async context manager: inside it every Deployment in `muster-system` has its process.

    A changed Deployment gets a new process, and the old one ends when that is ready.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._admin = cluster.kubeconfig
        self._folder = Path(tempfile.mkdtemp(prefix="muster-deployments-"))
        self._running: dict[_Key, _Running] = {}
        self._mounted: dict[str, MountedSecret] = {}
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._following is not None
        self._following.cancel()
        (ended,) = await asyncio.gather(self._following, return_exceptions=True)
        for running in self._running.values():
            running.process.kill()
        shutil.rmtree(self._folder)
        if isinstance(ended, Exception):
            raise ended

    async def rolled_out(self) -> None:
        """Wait until each serves in its current generation. Raises TimeoutError."""
        async with Rest.open(self._admin) as rest:

            async def probe() -> bool:
                there = await _listed(rest)
                return bool(there) and all(map(_is_told, there))

            await eventually(probe, "all Deployments to be rolled out", 180)

    def logs(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(log.read_text()[-3000:] for log in self._folder.glob("logs/*.log"))

    def process(self, name: str) -> Process:
        """Return the newest process of a Deployment."""
        return self._newest(name).process

    def address(self, name: str) -> str:
        """Return HOST:PORT of the pages of its newest process."""
        return self._newest(name).address

    def _newest(self, name: str) -> _Running:
        return [it for it in self._running.values() if it.name == name][-1]

    async def _follow(self) -> None:
        async with Rest.open(self._admin) as rest:
            while True:
                there = {_key(one): one for one in await _listed(rest)}
                for key, deployment in there.items():
                    if not await self._mount(rest, deployment):
                        continue  # its pod waits for the Secret
                    if key not in self._running:
                        self._running[key] = await self._start(rest, deployment)
                    await _tell(rest, deployment, self._running[key])
                for key in self._running.keys() - there.keys():
                    await self._end_old(rest, key, there)
                await asyncio.sleep(_PROBE_SECONDS)

    async def _end_old(self, rest: Rest, old: _Key, there: Mapping[_Key, Object]) -> None:
        """End an old process once its successors, if any, serve."""
        successors = [self._running.get(key) for key in there if key[0] == old[0]]
        if any(it is None or not it.told for it in successors):
            return
        running = self._running.pop(old)
        if running.name == WEBHOOK and successors:
            (await rest.delete(f"{_SLICES}/{WEBHOOK}-{running.port}")).ok()
            await copy_to_endpoints(rest, NAMESPACE, WEBHOOK)
        running.process.kill()

    async def _mount(self, rest: Rest, deployment: Object) -> bool:
        """Update the Secrets that its pod mounts; return False while one is missing."""
        there = True
        for name, path in _secrets(deployment):
            if path not in self._mounted:
                folder = self._folder / name
                self._mounted[path] = MountedSecret(f"{_SECRETS}/{name}", folder)
            there = await self._mounted[path].refresh(rest) and there
        return there

    async def _start(self, rest: Rest, deployment: Object) -> _Running:
        name = deployment["metadata"]["name"]
        pod = deployment["spec"]["template"]["spec"]
        access = self._folder / f"{name}.kubeconfig"
        token = await accounts.token(rest, NAMESPACE, pod["serviceAccountName"])
        kubeconfig.derive(self._admin, access, token)
        port, health = ports.free(2)
        config = await self._configuration(rest, name, port)
        said = [it for it in pod["containers"][0]["args"] if not it.startswith(("--config", "--h"))]
        own = [f"--kubeconfig={access}", f"--config={config}", f"--health=127.0.0.1:{health}"]
        command = [sys.executable, "-m", "cli", *said, *own]
        process = Process(f"{name}-{port}", command, logs=self._folder / "logs")
        process.start()
        return _Running(name, process, port, f"127.0.0.1:{health}")

    async def _configuration(self, rest: Rest, name: str, port: int) -> Path:
        """Write the configuration of the ConfigMap, with a free port and local folders."""
        said = (await rest.get(_CONFIGURATION)).ok()["data"]["muster.yaml"]
        for mount, secret in self._mounted.items():
            said = said.replace(f"mounted: {mount}\n", f"mounted: {secret.folder}\n")
        content: dict[str, Any] = yaml.safe_load(said)
        content["webhook"] = {**content.get("webhook", {}), "host": "0.0.0.0", "port": port}
        path = self._folder / f"{name}-{port}.yaml"
        path.write_text(yaml.safe_dump(content))
        return path


def _secrets(deployment: Object) -> list[tuple[str, str]]:
    """Return the Secrets that its pods mount, with the folders."""
    pod = deployment["spec"]["template"]["spec"]
    volumes = {it["name"]: it["secret"] for it in pod.get("volumes") or [] if "secret" in it}
    mounts = pod["containers"][0].get("volumeMounts") or []
    return [
        (volumes[it["name"]]["secretName"], it["mountPath"])
        for it in mounts
        if it["name"] in volumes
    ]


def _key(deployment: Object) -> _Key:
    meta = deployment["metadata"]
    return meta["uid"], meta["generation"]


def _is_told(deployment: Object) -> bool:
    status = deployment.get("status", {})
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return bool(seen and status.get("availableReplicas") == deployment["spec"]["replicas"])


async def _listed(rest: Rest) -> list[Object]:
    found: list[Object] = (await rest.get(_DEPLOYMENTS)).ok()["items"]
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


async def _tell(rest: Rest, deployment: Object, running: _Running) -> None:
    """Report all replicas as available once the one process is ready."""
    if running.told or not await healthy(running.ready_url):
        return
    name, count = deployment["metadata"]["name"], deployment["spec"]["replicas"]
    if name == WEBHOOK:
        (await rest.post(_SLICES, await _slice(rest, running.port))).expect(201)
        await copy_to_endpoints(rest, NAMESPACE, WEBHOOK)
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    status = {"observedGeneration": deployment["metadata"]["generation"]}
    change = {"status": status | dict.fromkeys(counts, count)}
    (await rest.patch(f"{_DEPLOYMENTS}/{name}/status", change)).ok()
    running.told = True


async def _slice(rest: Rest, port: int) -> Object:
    """Return the EndpointSlice of the Service, deleted with it."""
    service = (await rest.get(_SERVICE)).ok()["metadata"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": WEBHOOK, "uid": service["uid"]}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{WEBHOOK}-{port}",
            "labels": {"kubernetes.io/service-name": WEBHOOK},
            "ownerReferences": [owner],
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
    }
