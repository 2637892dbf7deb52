"""PodGroups of scheduler-plugins where its CRD is installed, and how long bindings may take."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import COSCHEDULING, LABEL_COSCHEDULING, LABEL_SUBSET, PLUGINS_POD_GROUP
from e2e.controllers.questions import change, have, items
from e2e.muster import CONTROLLER, SCHEDULER
from e2e.suite.objects import POD_GROUPS, WORKLOADS, Json, pod, resource
from e2e.suite.stage import Stage
from e2e.support.gate import Gate
from kube.errors import NotFound
from kube.resources import CRDS, EVENTS, PODS, Resource

OURS, PLUGINS = resource(COSCHEDULING), resource(PLUGINS_POD_GROUP)
CRD = Path(__file__).parent / "crds" / "podgroups.scheduling.x-k8s.io.yaml"
SLOW = "slow-scheduler"


@pytest.fixture
async def plugins(stage: Stage) -> AsyncIterator[None]:
    """scheduler-plugins' CRD is installed for the test."""
    crd = yaml.safe_load(CRD.read_text())
    name = crd["metadata"]["name"]
    await stage.client.create(CRDS, crd)

    async def served() -> bool:
        status = (await stage.client.get(CRDS, name)).get("status") or {}
        conditions = {it["type"]: it["status"] for it in status.get("conditions") or []}
        return conditions.get("Established") == "True"

    await stage.until("the CRD to be established", served)
    await stage.cluster.kinds_installed()
    # The controllers look for new kinds four times a minute; one that starts looks at once.
    await stage.muster.restart(CONTROLLER)
    yield
    await stage.client.delete(CRDS, name)

    async def gone() -> bool:
        try:
            await stage.client.get(CRDS, name)
        except NotFound:
            return True
        return False

    await stage.until("the CRD to be gone", gone)
    await stage.muster.restart(CONTROLLER)


def member(name: str, stage: Stage, subset: str = "") -> Json:
    """A pod that says its group alone: admission gives it the scheduler."""
    made = pod(name, stage.name, scheduler="default-scheduler")
    labels = {LABEL_COSCHEDULING: "g"} | ({LABEL_SUBSET: subset} if subset else {})
    made["metadata"]["labels"] = labels
    return made


def group(kind: Resource, **spec: Any) -> Json:
    metadata = {"name": "g"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


async def remove_pods(stage: Stage) -> None:
    for found in await stage.pods():
        await stage.delete(PODS, found["metadata"]["name"])


async def status_is(stage: Stage, **wanted: Any) -> None:
    async def probe() -> bool:
        status = (await stage.client.get(PLUGINS, "g", stage.name)).get("status") or {}
        return bool(wanted.items() <= status.items())

    await stage.until(f"the status to say {wanted}", probe)


@pytest.mark.usefixtures("plugins")
async def test_a_pod_group_of_scheduler_plugins_is_a_gang(stage: Stage) -> None:
    await stage.add_node(cpu=3)
    await stage.create(PLUGINS, group(PLUGINS, minMember=3))
    for name in ("p0", "p1"):
        await stage.create(PODS, member(name, stage))
    made = await stage.grouped("g")
    assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    await status_is(stage, phase="Pending", running=0)
    assert await stage.bound() == 0

    await stage.create(PODS, member("p2", stage))
    await stage.runs_whole("", 3)
    await status_is(stage, phase="Running", running=3)
    assert await items(stage, WORKLOADS) == []

    await change(stage, PLUGINS, "g", minMember=2)

    async def lowered() -> bool:
        policy = (await stage.group("g"))["spec"]["schedulingPolicy"]
        return bool(policy == {"gang": {"minCount": 2}})

    await stage.until("the floor to follow", lowered)
    await stage.delete(PODS, "p0")
    await status_is(stage, phase="Running", running=2)

    await stage.delete(PLUGINS, "g")
    await have(stage, PLUGINS)
    assert await stage.running() == 2, "pods that run are nobody's to stop"
    await remove_pods(stage)
    await have(stage, POD_GROUPS)


GANGS: Mapping[str, tuple[Resource, Json, tuple[str, str]]] = {
    "one group": (OURS, {"subsets": [{"minMember": 2}]}, ("", "")),
    "subsets": (
        OURS,
        {"subsets": [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 1}]},
        ("ps", "worker"),
    ),
    "scheduler-plugins": (PLUGINS, {"minMember": 2}, ("", "")),
}


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    "gang",
    ["subsets", *(pytest.param(it, marks=pytest.mark.long) for it in GANGS if it != "subsets")],
)
async def test_a_placement_that_cannot_be_bound_in_its_time_is_given_up(
    stage: Stage, tmp_path: Path, gang: str
) -> None:
    """The scheduler's own time is longer than this flow would wait."""
    kind, spec, subsets = GANGS[gang]
    await stage.add_node(cpu=2)
    muster = stage.muster
    muster.kill(SCHEDULER)
    async with Gate(muster.kubeconfig(SCHEDULER), tmp_path).running() as gate:
        lost = gate.stop_at(lambda method, path: method == "POST" and "/binding" in path, nth=2)
        lost.release(drop=True)
        muster.add(SLOW, SCHEDULER, gate.kubeconfig)
        try:
            await muster.start(SLOW)
            await stage.create(kind, group(kind, **spec, scheduleTimeoutSeconds=2))
            for name, subset in zip(("p0", "p1"), subsets, strict=True):
                await stage.create(PODS, member(name, stage, subset))

            await stage.until("it to be given up", lambda: _given_up(stage))
            await stage.has_pods("", 1)
            assert await stage.bound() == 0
        finally:
            muster.kill(SLOW)
            await muster.start(SCHEDULER)

    (left,) = await stage.pods()
    for name, subset in zip(("p0", "p1"), subsets, strict=True):
        if name != left["metadata"]["name"]:
            await stage.create(PODS, member(name, stage, subset))
    await stage.runs_whole("", 2)

    await stage.delete(kind, "g")
    await remove_pods(stage)
    await stage.empty()


async def _given_up(stage: Stage) -> bool:
    said = [it["message"] for it in await items(stage, EVENTS) if it["reason"] == "GangBindFailed"]
    text = "1 pods bound, the rest could not be bound within 2 s"
    return any(text in message for message in said)
