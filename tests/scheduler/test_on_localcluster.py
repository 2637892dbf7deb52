"""The complete process on the embedded cluster: TLS, watches, Bindings, statuses, the lease."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.scheduler_names import SchedulerNames
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.meta import Json, Key, RawObject, decode_raw
from kube.client.patch import PatchBuilder
from kube.client.resources import (
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    STORAGE_CLASSES,
    Resource,
)
from kube.informers.reflector import Reflector
from localcluster.cluster import LocalCluster
from scheduler.app import Scheduler
from scheduler.core.decide import decide
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import PodInfo
from scheduler.decoding import decode
from scheduler.decoding.objects import Pod
from scheduler.support.config import Config, Status
from scheduler.support.kinds import GROUPS
from scheduler.watch.informers import read

CONFIG = Config(status=Status(delay_seconds=0.05, pods_seconds=0.2))
ELECTION = LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.5)
MANIFESTS = Path(__file__).parents[2] / "manifests" / "crd"
POD_GROUPS = GROUPS["PodGroup"]


class Seen:
    """The objects of one resource as a watch delivers them; `until` waits for a condition."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self._changed = asyncio.Condition()

    def upsert(self, obj: RawObject) -> None:
        self.objects[obj.metadata.name] = obj.raw
        self._notify()

    def delete(self, key: Key) -> None:
        self.objects.pop(key[1], None)
        self._notify()

    async def until(self, nominations: Callable[[dict[str, Json]], Any]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: nominations(self.objects))

    def _notify(self) -> None:
        asyncio.ensure_future(self._tell())  # noqa: RUF006 - awaited by whoever waits

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class Stage:
    def __init__(self, client: Client, cluster: LocalCluster) -> None:
        self.client = client
        self.cluster = cluster
        self.pods, self.groups, self.events = Seen(), Seen(), Seen()

    async def node(self, name: str, cpu: str) -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        node = {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": amounts, "capacity": amounts},
        }  # fmt: skip
        await self.client.create(NODES, node)

    async def gang(self, name: str, size: int, *, pods: int | None = None) -> None:
        policy = {"gang": {"minCount": size}}
        group = {
            "apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind,
            "metadata": {"name": name}, "spec": {"schedulingPolicy": policy},
        }  # fmt: skip
        await self.client.create(POD_GROUPS, group, "default")
        for index in range(size if pods is None else pods):
            await self.pod(f"{name}-{index}", name)

    async def pod(self, name: str, group: str) -> None:
        wants = {"requests": {"cpu": "1"}}
        pod = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"scheduling.muster.dev/pod-group": group}},
            "spec": {
                "schedulerName": "muster-scheduler",
                "containers": [{"name": "c", "image": "none", "resources": wants}],
            },
        }  # fmt: skip
        await self.client.create(PODS, pod, "default")

    async def until_bound(self, group: str, count: int) -> None:
        await self.pods.until(lambda _: self.bound(group) == count)

    def bound(self, group: str) -> int:
        pods = self.pods.objects.items()
        return sum(
            name.startswith(f"{group}-") and bool(p["spec"].get("nodeName")) for name, p in pods
        )

    async def until_told(self, reason: str) -> Json:
        """Wait for the first event with this reason."""

        def of_reason() -> list[Json]:
            return [each for each in self.events.objects.values() if each["reason"] == reason]

        await self.events.until(lambda _: of_reason())
        return of_reason()[0]

    async def until_condition(self, group: str, reason: str) -> Json:
        def nominations(groups: dict[str, Json]) -> bool:
            status = groups.get(group, {}).get("status", {})
            return any(c["reason"] == reason for c in status.get("conditions", ()))

        await self.groups.until(nominations)
        status: Json = self.groups.objects[group]["status"]
        return status


@contextlib.asynccontextmanager
async def running(*parts: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def scheduling(cluster: LocalCluster) -> AsyncIterator[None]:
    """Run a scheduler process from its start to its orderly end."""
    stop = asyncio.Event()
    async with await Client.connect(cluster.kubeconfig) as client:
        task = asyncio.ensure_future(Scheduler(client, CONFIG, ELECTION).run(stop))
        try:
            yield
        finally:
            stop.set()
            await task


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        for path in sorted(MANIFESTS.glob("*.yaml")):
            await client.create(CRDS, yaml.safe_load(path.read_text()))
        await client.create(NAMESPACES, _namespace("muster-system"))
        stage = Stage(client, cluster)
        async with running(
            _follow(client, PODS, stage.pods),
            _follow(client, POD_GROUPS, stage.groups),
            _follow(client, EVENTS, stage.events),
        ):
            yield stage


async def test_one_of_two_gangs_runs_and_the_other_says_why_it_waits(stage: Stage) -> None:
    await stage.node("small", "5")
    await stage.gang("first", 4)
    await stage.gang("second", 4)

    async with scheduling(stage.cluster):
        await stage.until_bound("first", 4)
        await stage.until_condition("first", "Scheduled")
        status = await stage.until_condition("second", "Unschedulable")

    assert stage.bound("second") == 0
    assert (status["blocker"]["needed"], status["blocker"]["free"]) == (4, 1)
    assert status["blocker"]["impossible"] is False


async def test_a_gang_runs_as_soon_as_its_last_member_and_a_node_are_there(stage: Stage) -> None:
    await stage.gang("late", 3, pods=2)

    async with scheduling(stage.cluster):
        await stage.until_condition("late", "Incomplete")
        await stage.pod("late-2", "late")
        await stage.until_condition("late", "Unschedulable")
        await stage.node("new", "3")
        await stage.until_bound("late", 3)


async def test_objects_of_every_watched_kind_are_taken_in(stage: Stage) -> None:
    await stage.node("n", "2")
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                 "hostPath": {"path": "/data"}},
    }  # fmt: skip
    storage = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "example.com/disk",
    }  # fmt: skip
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }  # fmt: skip
    await stage.client.create(PVCS, claim, "default")
    await stage.client.create(PVS, volume)
    await stage.client.create(STORAGE_CLASSES, storage)
    await stage.client.create(PDBS, budget, "default")

    informers = await read(stage.client)

    assert list(informers.state.volumes.claims) == [("default", "data")]
    assert list(informers.state.volumes.volumes) == ["disk"]
    assert list(informers.state.volumes.classes) == ["fast"]
    assert informers.state.disruption_budgets
    assert informers.state.nodes.row_of == {"n": 0}


async def test_the_lease_is_given_back_at_the_end(stage: Stage) -> None:
    await stage.node("n", "2")
    await stage.gang("g", 2)
    async with scheduling(stage.cluster):
        await stage.until_bound("g", 2)

    lease = await stage.client.get(LEASES, "muster-scheduler", "muster-system")

    assert lease["spec"]["holderIdentity"] == ""


async def test_neither_an_object_nor_a_decision_ends_the_process(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod_info = decode.pod_info

    def picky(pod: Pod, before: PodInfo | None, schedulers: SchedulerNames, **more: Any) -> PodInfo:
        if pod.metadata.name == "poison-0" and "cured" not in pod.metadata.labels:
            raise OverflowError("int too big to convert")
        return pod_info(pod, before, schedulers, **more)

    def faulty(state: State, root: Any, budget: SearchBudget) -> Placement | Refusal:
        if root.key[2] == "cursed":
            raise RecursionError
        return decide(state, root, budget)

    monkeypatch.setattr(decode, "pod_info", picky)
    monkeypatch.setattr("scheduler.cycle.cycle.decide", faulty)
    await stage.node("n", "8")
    await stage.gang("poison", 1)
    await stage.gang("cursed", 2)  # another size, because equal gangs are decided together

    async with scheduling(stage.cluster):
        await stage.gang("first", 1)
        await stage.until_bound("first", 1)
        status = await stage.until_condition("cursed", "SchedulerError")
        told = await stage.until_told("Quarantined")
        await stage.gang("second", 1)
        await stage.until_bound("second", 1)
        cured = PatchBuilder().add("/metadata/labels/cured", "yes")
        await stage.client.patch(PODS, "poison-0", cured, "default")
        await stage.until_bound("poison", 1)

    assert told["involvedObject"]["name"] == "poison-0"
    assert stage.bound("cursed") == 0
    assert "RecursionError" in status["blocker"]["summary"]


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _follow(client: Client, resource: Resource, seen: Seen) -> None:
    await Reflector(client, resource, seen, decode=decode_raw).run()
