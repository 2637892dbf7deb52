"""Kubernetes' own PodGroups and CompositePodGroups: the complete process on the embedded cluster.

The embedded cluster serves them as custom resources. A real API server plays the same flows in
`e2e/flows/native`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api import features
from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_GROUP_KINDS, NATIVE_POD_GROUP
from api.features import Feature, FeatureGates
from kube.client import discovery
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import CRDS, NODES, PODS
from localcluster.cluster import LocalCluster
from scheduler.app import Scheduler
from scheduler.support.kinds import NATIVE_GROUPS
from tests.scheduler.test_on_localcluster import CONFIG, ELECTION, Seen, Stage, stage

__all__ = ["stage"]

POD_GROUPS = NATIVE_GROUPS[NATIVE_POD_GROUP.full_kind]
COMPOSITES = NATIVE_GROUPS[NATIVE_COMPOSITE_POD_GROUP.full_kind]
GANG_OF_2: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def definition(kind: Any) -> Json:
    """Return a CRD that serves a kind of Kubernetes' own, with any fields."""
    version = {
        "name": kind.version, "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.full_name},
        "spec": {
            "group": kind.group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": kind.plural, "kind": kind.kind},
        },
    }  # fmt: skip


class Native:
    """Objects of a cluster that serves native groups."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.client = stage.client
        self.groups = Seen()

    async def serve(self) -> None:
        for kind in NATIVE_GROUP_KINDS:
            await self.client.create(CRDS, definition(kind))

    async def group(self, name: str, spec: Json, kind: Any = POD_GROUPS) -> None:
        obj = {
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip
        await self.client.create(kind, obj, "default")

    async def pods(self, group: str, count: int, **spec: Any) -> None:
        for index in range(count):
            pod = {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{group}-{index}"},
                "spec": {
                    "schedulerName": "muster-scheduler",
                    "schedulingGroup": {"podGroupName": group},
                    "containers": [
                        {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
                    ],
                } | spec,
            }  # fmt: skip
            await self.client.create(PODS, pod, "default")

    async def condition(self, name: str, reason: str, kind: Any = POD_GROUPS) -> Json:
        """Wait until the group has a condition of this reason, and return its status."""
        while True:
            status: Json = (await self.client.get(kind, name, "default")).get("status") or {}
            if any(each["reason"] == reason for each in status.get("conditions", ())):
                return status
            await asyncio.sleep(0.05)


@pytest.fixture
def native(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Native:
    monkeypatch.setattr(discovery, "PROBE_SECONDS", 0.2)
    return Native(stage)


@contextlib.asynccontextmanager
async def scheduling(
    cluster: LocalCluster, gates: FeatureGates = features.USUAL
) -> AsyncIterator[Scheduler]:
    stop = asyncio.Event()
    async with await Client.connect(cluster.kubeconfig) as client:
        scheduler = Scheduler(client, CONFIG, ELECTION, gates=gates)
        task = asyncio.ensure_future(scheduler.run(stop))
        try:
            yield scheduler
        finally:
            stop.set()
            await task


async def test_a_gang_starts_whole_and_another_says_why_it_waits(native: Native) -> None:
    """Their status gets conditions only, and no field or finalizer of Muster's."""
    await native.serve()
    await native.stage.node("n", "3")
    for name in ("first", "second"):
        await native.group(name, GANG_OF_2)
        await native.pods(name, 2)

    async with scheduling(native.stage.cluster):
        await native.stage.until_bound("first", 2)
        started = await native.condition("first", "Scheduled")
        waits = await native.condition("second", "Unschedulable")

    assert native.stage.bound("second") == 0
    assert list(started) == list(waits) == ["conditions"]
    (condition,) = waits["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu. The group needs capacity for 2"
        " more pods; 1 fits. Waiting does not help: at most 1 such pod fits"
        " on empty nodes. Lower minCount to 1,"
        " or add nodes.",
        "observedGeneration": 1,
    } | {key: condition[key] for key in ("message",)}
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    group = await native.client.get(POD_GROUPS, "second", "default")
    assert "finalizers" not in group["metadata"]


async def test_a_tree_starts_in_one_domain(native: Native) -> None:
    await native.serve()
    topology = {"topology": [{"key": "rack"}]}
    await native.group(
        "root",
        {
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "schedulingConstraints": topology,
            "disruptionMode": {"all": {}},
        },
        COMPOSITES,
    )
    for name in ("a", "b"):
        # `single` is the default of a native group, whatever its parent has.
        await native.group(
            name,
            GANG_OF_2 | {"parentCompositePodGroupName": "root", "disruptionMode": {"single": {}}},
        )
        await native.pods(name, 2)
    for index in range(4):
        await native.client.create(NODES, _node(f"n{index}", {"rack": f"r{index // 2}"}))
    async with scheduling(native.stage.cluster):
        await native.stage.until_bound("a", 2)
        await native.stage.until_bound("b", 2)
        status = await native.condition("root", "Scheduled", COMPOSITES)

    pods = native.stage.pods.objects.values()
    assert {int(pod["spec"]["nodeName"][1:]) // 2 for pod in pods} in ({0}, {1})
    assert status["conditions"][0]["type"] == "CompositePodGroupInitiallyScheduled"


async def test_groups_of_kube_scheduler_are_left_alone(native: Native) -> None:
    await native.serve()
    await native.stage.node("n", "8")
    await native.group("theirs", GANG_OF_2)
    await native.group("without-pods", GANG_OF_2)
    await native.group("mixed", GANG_OF_2)
    await native.pods("theirs", 2, schedulerName="default-scheduler")
    await native.pods("mixed", 1, schedulerName="default-scheduler")
    await native.client.create(PODS, _member("mixed-ours", "mixed", "muster-scheduler"), "default")
    await native.group("ours", GANG_OF_2)

    async with scheduling(native.stage.cluster):
        await native.pods("ours", 2)
        await native.stage.until_bound("ours", 2)
        mixed = await native.condition("mixed", "PodGroupError")
        await native.condition("ours", "Scheduled")
        others = [
            await native.client.get(POD_GROUPS, it, "default") for it in ("theirs", "without-pods")
        ]

    assert [each.get("status") for each in others] == [None, None]
    assert "1 pod of another scheduler" in mixed["conditions"][0]["message"]
    assert native.stage.bound("mixed") == native.stage.bound("theirs") == 0


async def test_a_native_group_and_one_of_musters_may_have_one_name(native: Native) -> None:
    await native.serve()
    await native.stage.node("n", "8")
    await native.group("twin", {"schedulingPolicy": {"gang": {"minCount": 3}}})
    await native.pods("twin", 2)
    await native.stage.gang("twin", 2, pods=0)
    for index in range(2):
        await native.stage.pod(f"label-{index}", "twin")

    async with scheduling(native.stage.cluster):
        await native.stage.until_bound("label", 2)
        waits = await native.condition("twin", "Unschedulable")

    assert native.stage.bound("twin") == 0
    assert waits["conditions"][0]["message"].startswith("The group has 2 of 3 pods.")


async def test_the_api_may_appear_and_disappear_while_the_scheduler_runs(native: Native) -> None:
    """Without it, the field means a group of Muster's, which does not exist here."""
    await native.stage.node("n", "8")
    await native.pods("g", 2)

    async with scheduling(native.stage.cluster) as scheduler:
        await _until(lambda: ("PodGroup", "default", "g") in scheduler.state.forest.groups)
        await native.serve()
        await native.group("g", GANG_OF_2)
        await native.stage.until_bound("g", 2)
        served = {(NATIVE_POD_GROUP.full_kind, "default", "g")}
        assert set(scheduler.state.forest.groups) == served
        for kind in NATIVE_GROUP_KINDS:
            await native.client.delete(CRDS, kind.full_name)
        # The pods are decoded again one by one: for a moment both groups have members.
        await _until(lambda: set(scheduler.state.forest.groups) == {("PodGroup", "default", "g")})

    assert native.stage.bound("g") == 2


async def test_the_gate_leaves_native_groups_to_others(native: Native) -> None:
    await native.serve()
    await native.stage.node("n", "8")
    await native.group("g", GANG_OF_2)
    await native.pods("g", 2)
    off = FeatureGates.of({Feature.NATIVE_GROUPS: False})

    async with scheduling(native.stage.cluster, off) as scheduler:
        await _until(lambda: ("PodGroup", "default", "g") in scheduler.state.forest.groups)
        assert set(scheduler.state.forest.groups) == {("PodGroup", "default", "g")}


async def _until(holds: Any) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)


def _node(name: str, labels: Json) -> Json:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }  # fmt: skip


def _member(name: str, group: str, scheduler: str) -> Json:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler, "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "c", "image": "none"}],
        },
    }  # fmt: skip
