"""The schedulers: kube-scheduler with its groups, or Muster with its own or with those."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Protocol

import aiohttp

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.process import ProcessFailedError
from e2e.harness.muster import NAMESPACE, SCHEDULER, WEBHOOK, Muster
from e2e.harness.support.waiting import eventually
from tools.bench.end_to_end.cases import KUBE_SCHEDULER, MUSTER, MUSTER_NATIVE
from tools.bench.end_to_end.objects import NATIVE, NATIVE_OF_MUSTER, OURS, Flavour

_GATES = ("CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling")
OPTIONS = Options(
    controllers=False,
    kwok=False,
    jobset=False,
    taint_nodes=False,
    audit=False,
    feature_gates=dict.fromkeys(_GATES, True),
    runtime_config=("scheduling.k8s.io/v1alpha3=true", "scheduling.k8s.io/v1beta1=true"),
)
"""The same API server for all: no other controllers, no taints of nodes."""

_PATIENCE = 120
"""Seconds until a scheduler must be ready, on a machine with other work."""


class Subject(Protocol):
    flavour: Flavour

    async def prepare(self) -> None:
        """Create what must exist before groups can be created."""

    async def start(self) -> float:
        """Start to schedule; return when the caches were in sync (wall clock)."""
        ...

    def pids(self) -> dict[str, int]: ...

    def stop(self) -> None: ...


class KubeScheduler:
    """kube-scheduler with all its features for groups, and a client without rate limits."""

    flavour = NATIVE

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def prepare(self) -> None:
        """Do nothing: its kinds are built in."""

    async def start(self) -> float:
        started = time.time()
        url = self._plane.start_scheduler()
        async with aiohttp.ClientSession(trust_env=False) as session:

            async def probe() -> bool:
                try:
                    # Its certificate is self-signed; the port was free before, so this is
                    # kube-scheduler.
                    async with session.get(url, ssl=False) as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            process = self._plane.processes[KUBE_SCHEDULER]
            try:
                await process.ready(probe, timeout=60)
            except ProcessFailedError:
                if not process.running:
                    raise
                return started  # it runs but needs minutes to be in sync, which counts as its time
        return time.time()

    def pids(self) -> dict[str, int]:
        process = self._plane.processes.get(KUBE_SCHEDULER)
        return {KUBE_SCHEDULER: process.pid} if process else {}

    def stop(self) -> None:
        """Do nothing: it ends with the control plane."""


class MusterScheduler:
    """The scheduler, installed and with its own rights, and the webhook that groups need."""

    flavour = OURS

    def __init__(self, plane: ControlPlane) -> None:
        self._muster = Muster(plane.kubeconfig, config={"namespace": NAMESPACE})
        self._started = False

    async def prepare(self) -> None:
        await self._muster.install()
        await self._muster.start(WEBHOOK)

    async def start(self) -> float:
        self._muster.launch(SCHEDULER)
        await self._muster.ready(SCHEDULER, _PATIENCE)
        self._started = True

        async def said() -> bool:
            return bool(self._synced())

        await eventually(said, "the log to say when the scheduler was in sync", _PATIENCE)
        return self._synced()

    def pids(self) -> dict[str, int]:
        pids = {"muster webhook": self._muster.pid(WEBHOOK)}
        if self._started:
            pids[f"{MUSTER} scheduler"] = self._muster.pid(SCHEDULER)
        return pids

    def stop(self) -> None:
        self._muster.stop()

    def _synced(self) -> float:
        """Return the time in its log, 0 before: under load its readiness probe may respond late."""
        for line in (self._muster.logs / f"{SCHEDULER}.log").read_text().splitlines():
            said = json.loads(line)
            if said.get("event") == "synced":
                return datetime.fromisoformat(said["timestamp"]).timestamp()
        return 0.0


class MusterWithNative(MusterScheduler):
    """The same, with Kubernetes' groups."""

    flavour = NATIVE_OF_MUSTER


SUBJECTS: dict[str, type[KubeScheduler | MusterScheduler]] = {
    KUBE_SCHEDULER: KubeScheduler,
    MUSTER: MusterScheduler,
    MUSTER_NATIVE: MusterWithNative,
}
