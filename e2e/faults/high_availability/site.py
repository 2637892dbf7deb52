"""A separate control plane of three with three replicas of each process of Muster."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from e2e.faults.hostile.site import Site
from e2e.harness.controlplane.commands import DEVICES, Options
from e2e.harness.high_availability.members import Member
from e2e.harness.high_availability.replicas import Replica, Replicas, names
from e2e.harness.high_availability.servers import ThreeServers
from e2e.harness.muster import CONTROLLER, SCHEDULER, WEBHOOK

CLIENTS = ("kube-controller-manager", "kwok", "jobset")
"""The processes of Kubernetes that follow the cluster, one of each."""
_NODE_GRACE_SECONDS = 600
"""Longer than any fault: nodes of KWOK that were not ready once leave their pods so for good."""


class ThreeSite(Site):
    """Muster's replicas by name (`replicas`), the processes of the members, and the nodes."""

    schedulers = names(SCHEDULER)
    controllers = names(CONTROLLER)
    replicas = (*schedulers, *controllers, *names(WEBHOOK))

    def __init__(self, nodes: int, folder: Path) -> None:
        options = Options(extra_controllers=DEVICES, node_grace_seconds=_NODE_GRACE_SECONDS)
        self.plane = ThreeServers(options, logs=folder / "controlplane")
        super().__init__(self.plane, nodes)
        self.muster_replicas = Replicas(self.plane, self.muster, self.plane.folder / "replicas")

    @property
    def servers(self) -> Sequence[str]:
        own = (name for it in self.plane.members for name in (it.server, it.etcd))
        return (*own, *CLIENTS)

    def replica(self, name: str) -> Replica:
        return self.muster_replicas[name]

    def member_of(self, name: str) -> Member:
        """Return the member whose API server has most of a replica's connections."""
        link = self.replica(name).link
        return max(self.plane.members, key=lambda it: link.connections(it.apiserver))

    async def _start_muster(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(self.muster_replicas.stop)
        await self.muster_replicas.start()
