"""Two replicas of each process, and their replacement by those of another version.

This models the Deployments of manifests/base: at most one replica more than two, none fewer, and
the next one ends only once the new one is ready. No pods run here, so the replicas are processes
with the accounts of the manifests; API servers find the webhook's by its Service.
"""

import asyncio
import itertools
import signal
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.flows.admission.webhook.balancer import Backend
from e2e.flows.admission.webhook.replicas import SERVICE
from e2e.harness.endpoint_slices import EndpointSlices
from e2e.harness.muster import ALL, NAMESPACE, SCHEDULER, WEBHOOK, Muster
from e2e.harness.support import ports
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.install.upgrade.versions import Version
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.resources import LEASES

REPLICAS = 2
_READY_SECONDS = 180.0
"""Timeout of a replica; a rollout waits ten minutes, but failures here show sooner."""
_GRACE_SECONDS = 30.0
"""terminationGracePeriodSeconds of the manifests."""
_DRAIN_SECONDS = 10.0
"""Seconds that a terminating webhook still serves: the default behind a Service."""


@dataclass(eq=False, slots=True)
class Replica:
    """One running replica; `name` is that of its process in Muster."""

    name: str
    process: str
    version: Version
    slices: EndpointSlices | None = None


class Fleet:
    """The replicas of one installation; `scheduler_access` is the kubeconfig of its schedulers.

    kubectl applies the manifests, as administrators do.
    """

    def __init__(self, admin: Path, muster: Muster, folder: Path, scheduler_access: Path) -> None:
        self._admin = admin
        self._muster = muster
        self._folder = folder
        self._access = {SCHEDULER: scheduler_access}
        self._kubectl = Kubectl(admin, folder)
        self._numbers = itertools.count()
        self.replicas: list[Replica] = []

    async def apply(self, version: Version) -> None:
        """Apply the objects that the version's documentation names, over the existing ones."""
        await self._kubectl("apply", "-k", str(version.base))

    async def start(self, version: Version) -> None:
        """Start all replicas of an applied version."""
        await asyncio.gather(
            *(self.add(process, version) for process in ALL for _ in range(REPLICAS))
        )

    async def stop(self) -> None:
        """End all replicas at once."""
        for replica in self.replicas:
            self._muster.kill(replica.name)
            if replica.slices is not None:
                await replica.slices.__aexit__()
        self.replicas.clear()

    def of(self, process: str) -> list[Replica]:
        """Return the replicas of one process, oldest first."""
        return [one for one in self.replicas if one.process == process]

    async def add(self, process: str, version: Version) -> Replica:
        """Add a replica, and wait until it is ready."""
        replica = Replica(f"{process}-{next(self._numbers)}-{version.name}", process, version)
        arguments: list[str] = []
        if process == WEBHOOK:
            (port,) = ports.free(1)
            arguments = ["--config", str(self._webhook_config(replica, port))]
        self._muster.add(
            replica.name,
            process,
            self._access.get(process, self._muster.kubeconfig(process)),
            arguments=arguments,
            muster=version.command,
        )
        self._muster.launch(replica.name)
        self.replicas.append(replica)
        if process == WEBHOOK:
            await self._join_service(replica, port)
        await self._muster.ready(replica.name, _READY_SECONDS)
        return replica

    async def replace(self, process: str, version: Version) -> None:
        """Replace the replicas one by one, oldest first."""
        for old in self.of(process):
            await self.add(process, version)
            await self.end(old)

    async def end(self, replica: Replica) -> None:
        """End a replica as a pod is deleted: SIGTERM, and it must end within its grace period."""
        self._muster.send(replica.name, signal.SIGTERM)

        async def ended() -> bool:
            return not self._muster.running(replica.name)

        await eventually(ended, f"{replica.name} to end", _GRACE_SECONDS)
        await self.forget(replica)

    async def forget(self, replica: Replica) -> None:
        """Remove a replica that has ended."""
        self.replicas.remove(replica)
        if replica.slices is not None:
            await replica.slices.__aexit__()

    async def leader(self, client: Client) -> Replica:
        """Wait until a scheduler has the lease, and return it."""
        found: list[Replica] = []

        async def probe() -> bool:
            try:
                lease = await client.get(LEASES, "muster-scheduler", NAMESPACE)
            except NotFound:
                return False
            holder = lease["spec"].get("holderIdentity") or ""
            found[:] = [
                one for one in self.of(SCHEDULER) if f"_{self._muster.pid(one.name)}_" in holder
            ]
            return bool(found)

        await eventually(probe, "a scheduler to lead", 60)
        return found[0]

    def _webhook_config(self, replica: Replica, port: int) -> Path:
        file = self._folder / f"{replica.name}.yaml"
        webhook = {"port": port, "drainSeconds": _DRAIN_SECONDS}
        file.write_text(yaml.safe_dump({"namespace": NAMESPACE, "webhook": webhook}))
        return file

    async def _join_service(self, replica: Replica, port: int) -> None:
        backend = Backend(port, self._muster.page(replica.name, "/readyz"))
        slices = EndpointSlices(self._admin, NAMESPACE, SERVICE, [backend])
        await slices.__aenter__()
        replica.slices = slices
