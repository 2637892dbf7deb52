"""PodGroups of scheduler-plugins where its CRD is installed, and the bind timeout."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from api.constants import (
    COSCHEDULING,
    FOREIGN_GROUPS_ENABLED,
    LABEL_COSCHEDULING,
    LABEL_FOREIGN_GROUPS,
    LABEL_POD_GROUP,
    LABEL_SUBSET,
    PLUGINS_POD_GROUP,
)
from e2e.flows.owners.jobs import definitions
from e2e.flows.owners.jobs.queries import change, items, min_count_is, wait_for_objects
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, SCHEDULER
from e2e.harness.objects import POD_GROUPS, WORKLOADS, Json, pod, resource
from e2e.harness.support.intercepting_proxy import InterceptingProxy
from kube.client.patch import PatchBuilder
from kube.client.resources import EVENTS, NAMESPACES, PODS, Resource

OURS, PLUGINS = resource(COSCHEDULING), resource(PLUGINS_POD_GROUP)
SLOW = "slow-scheduler"


@pytest.fixture
async def plugins(env: Environment) -> AsyncIterator[None]:
    """The CRD of scheduler-plugins, installed for the test."""
    async with definitions.installed(env, "podgroups.scheduling.x-k8s.io.yaml"):
        # The controllers check for new kinds four times a minute; a starting one checks at once.
        await env.muster.restart(CONTROLLER)
        yield


@pytest.fixture
async def opted_in(env: Environment) -> None:
    """Opt in the namespace, so that Muster schedules pods of scheduler-plugins' groups."""
    label = {LABEL_FOREIGN_GROUPS: FOREIGN_GROUPS_ENABLED}
    found = await env.client.get(NAMESPACES, env.name)
    labels = found["metadata"].get("labels") or {}
    ops = PatchBuilder().add("/metadata/labels", {**labels, **label})
    await env.client.patch(NAMESPACES, env.name, ops)


def member(name: str, env: Environment, subset: str = "") -> Json:
    """Return a pod that only names its group: admission sets the scheduler if opted in."""
    made = pod(name, env.name, scheduler="default-scheduler")
    labels = {LABEL_COSCHEDULING: "g"} | ({LABEL_SUBSET: subset} if subset else {})
    made["metadata"]["labels"] = labels
    return made


def gang(name: str) -> Json:
    policy = {"gang": {"minCount": 1}}
    metadata = {"name": name}
    made: Json = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": metadata}
    return made | {"spec": {"schedulingPolicy": policy}}


def group(kind: Resource, **spec: Any) -> Json:
    metadata = {"name": "g"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


async def status_is(env: Environment, **wanted: Any) -> None:
    async def probe() -> bool:
        status = (await env.client.get(PLUGINS, "g", env.name)).get("status") or {}
        return bool(wanted.items() <= status.items())

    await env.until(f"the status to say {wanted}", probe)


@pytest.mark.usefixtures("plugins", "opted_in")
async def test_a_pod_group_of_scheduler_plugins_is_a_gang(env: Environment) -> None:
    await env.add_node(cpu=3)
    await env.create(PLUGINS, group(PLUGINS, minMember=3))
    for name in ("p0", "p1"):
        await env.create(PODS, member(name, env))
    made = await env.grouped("g")
    assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    await status_is(env, phase="Pending", running=0)
    assert await env.bound() == 0

    await env.create(PODS, member("p2", env))
    await env.runs("", 3)
    await status_is(env, phase="Running", running=3)
    assert await items(env, WORKLOADS) == []

    await change(env, PLUGINS, "g", minMember=2)

    await min_count_is(env, "g", 2)
    await env.delete(PODS, "p0")
    await status_is(env, phase="Running", running=2)

    await env.delete(PLUGINS, "g")
    await wait_for_objects(env, PLUGINS)
    assert await env.running() == 2, "no one stops pods that run"
    await env.delete_pods()
    await wait_for_objects(env, POD_GROUPS)


@pytest.mark.usefixtures("plugins")
async def test_pods_of_others_are_left_alone_where_the_namespace_does_not_opt_in(
    env: Environment,
) -> None:
    await env.create(PLUGINS, group(PLUGINS, minMember=1))
    theirs = await env.create(PODS, member("theirs", env))
    assert theirs["spec"]["schedulerName"] == "default-scheduler"

    # The queue processes it after the earlier one.
    await env.add_node(cpu=1)
    ours = pod("ours", env.name)
    ours["metadata"]["labels"] = {LABEL_POD_GROUP: "mine"}
    await env.create(PODS, ours)
    await env.create(POD_GROUPS, gang("mine"))
    await env.runs("", 1)

    found = await env.client.get(PODS, "theirs", env.name)
    assert [it["type"] for it in (found.get("status") or {}).get("conditions") or []] == []
    assert [it["metadata"]["name"] for it in await items(env, POD_GROUPS)] == ["mine"]
    assert "status" not in await env.client.get(PLUGINS, "g", env.name)
    await env.delete(PLUGINS, "g")
    await env.delete_pods()
    await env.delete(POD_GROUPS, "mine")


GANGS: Mapping[str, tuple[Resource, Json, tuple[str, str]]] = {
    "one group": (OURS, {"subsets": [{"minMember": 2}]}, ("", "")),
    "subsets": (
        OURS,
        {"subsets": [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 1}]},
        ("ps", "worker"),
    ),
    "scheduler-plugins": (PLUGINS, {"minMember": 2}, ("", "")),
}


@pytest.mark.usefixtures("plugins", "opted_in")
@pytest.mark.long
@pytest.mark.parametrize("gang", GANGS)
async def test_a_placement_that_cannot_be_bound_in_its_time_is_given_up(
    env: Environment, tmp_path: Path, gang: str
) -> None:
    """The scheduler's own timeout is longer than the flow would wait."""
    kind, spec, subsets = GANGS[gang]
    await env.add_node(cpu=2)
    muster = env.muster
    muster.kill(SCHEDULER)
    async with InterceptingProxy(muster.kubeconfig(SCHEDULER), tmp_path).running() as proxy:
        lost = proxy.pause_at(lambda method, path: method == "POST" and "/binding" in path, nth=2)
        lost.release(drop=True)
        muster.add(SLOW, SCHEDULER, proxy.kubeconfig)
        try:
            await muster.start(SLOW)
            await env.create(kind, group(kind, **spec, scheduleTimeoutSeconds=2))
            for name, subset in zip(("p0", "p1"), subsets, strict=True):
                await env.create(PODS, member(name, env, subset))

            await env.until("it to be given up", lambda: _given_up(env))
            await env.has_pods("", 1)
            assert await env.bound() == 0
        finally:
            muster.kill(SLOW)
            await muster.start(SCHEDULER)

    (left,) = await env.pods()
    for name, subset in zip(("p0", "p1"), subsets, strict=True):
        if name != left["metadata"]["name"]:
            await env.create(PODS, member(name, env, subset))
    await env.runs("", 2)

    await env.delete(kind, "g")
    await env.delete_pods()
    await env.empty()


async def _given_up(env: Environment) -> bool:
    said = [it["message"] for it in await items(env, EVENTS) if it["reason"] == "GangBindFailed"]
    text = "only 1 of its pods could be bound within 2 s"
    return any(text in message for message in said)
