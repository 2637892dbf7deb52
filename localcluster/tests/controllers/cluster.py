"""A complete cluster in the test's process, on virtual time: API server, nodes, controllers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from localcluster.base.resources import BUILT_IN, CRDS, Registry, ResourceInfo
from localcluster.base.store import Store
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.garbage_collector import GarbageCollector
from localcluster.controllers.in_process import InProcess
from localcluster.controllers.jobsets.admission import JobSetAdmission
from localcluster.controllers.manager import ControllerManager
from localcluster.custom.crd import CustomResources
from localcluster.definitions.jobset import jobset_crd
from localcluster.registry.api import Api
from localcluster.registry.bootstrap import bootstrap
from localcluster.testing.clock import FakeClock, settle

Obj = dict[str, Any]

TICK = 0.05


class SimulatedCluster:
    """A cluster on virtual time; `settle` runs everything that is due."""

    def __init__(self, api: Api, manager: ControllerManager, clock: FakeClock) -> None:
        self.api = api
        self.manager = manager
        self.clock = clock

    def info(self, kind: str) -> ResourceInfo:
        return next(info for info in self.api.registry.all() if info.kind == kind)

    async def create(self, obj: Obj, namespace: str = "default") -> Obj:
        stored = await self.api.create(self.info(obj["kind"]), obj, namespace)
        return stored.obj

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj:
        return self.api.get(self.info(kind), name, namespace).obj

    def list(self, kind: str, namespace: str = "") -> list[Obj]:
        return [stored.obj for stored in self.api.list(self.info(kind), namespace).items]

    async def patch(self, kind: str, name: str, patch: Obj, namespace: str = "default") -> Obj:
        return (await self.api.patch(self.info(kind), name, patch, namespace)).obj

    async def bind(self, namespace: str, name: str, node: str) -> None:
        """Bind the pod unless it has a node or is being deleted."""
        pod = self.get("Pod", name, namespace)
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        info = self.info("Pod")
        await self.api.create(info, binding, namespace, name=name, subresource="binding")

    def client(self) -> CachedClient:
        """Return a controllers' client of the server, without caches."""
        return CachedClient(InProcess(self.api), (), self.clock)

    async def restart_controllers(self) -> None:
        """Replace the controllers and kubelets, as after a crash of their process."""
        await self.manager.stop()
        self.manager = ControllerManager(InProcess(self.api), self.clock)
        await self.manager.start()

    async def settle(self) -> None:
        """Advance the time until nothing changes for one second of the cluster's time."""
        quiet = 0
        while quiet < 20:
            before = self.api.store.revision
            await self.clock.advance(TICK)
            busy = self.api.store.revision != before or not self.manager.idle
            quiet = 0 if busy else quiet + 1

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.settle()


@asynccontextmanager
async def simulated_cluster(*, jobset_scaling: bool = False) -> AsyncIterator[SimulatedCluster]:
    """Yield a running cluster without transport and without nodes; JobSet is installed."""
    clock = FakeClock()
    store, registry = Store(), Registry(BUILT_IN)
    custom = CustomResources(store, registry, clock)
    api = Api(store=store, registry=registry, clock=clock, schemas=custom)
    api.admission.append(JobSetAdmission(scaling=jobset_scaling))
    await bootstrap(api)
    await api.create(CRDS, jobset_crd())
    manager = ControllerManager(InProcess(api), clock, jobset_scaling=jobset_scaling)
    cluster = SimulatedCluster(api, manager, clock)
    collector = GarbageCollector(api)
    for part in (custom, collector, cluster.manager):
        await part.start()
    await settle()
    try:
        yield cluster
    finally:
        for part in (cluster.manager, collector, custom):
            await part.stop()
