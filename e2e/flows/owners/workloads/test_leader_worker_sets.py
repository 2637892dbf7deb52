"""LeaderWorkerSets with their own controller and Kubernetes' StatefulSets, on a real control plane.

`make test-workloads` builds that controller and runs these flows.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml

from api import names
from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_WAITING_FOR,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_NAME,
    LWS_LABEL_WORKER_INDEX,
)
from api.integration.lws.view import LEADER_FIRST, TOGETHER
from e2e.flows.owners.workloads import lws_pods
from e2e.flows.owners.workloads.examples import EXAMPLES, reports
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER, SCHEDULER, Muster
from e2e.harness.objects import NODE_LABEL, POD_GROUPS, Json
from e2e.harness.running import installed, started
from kube.client.patch import PatchBuilder
from kube.client.resources import LEADER_WORKER_SETS, NODES, PODS, STATEFUL_SETS
from tests.support.lws import LwsBuilder, make_lws

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SIZE = 3
SUBGROUP = "leaderworkerset.sigs.k8s.io/subgroup-index"


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("the embedded cluster has neither StatefulSets nor LeaderWorkerSets")
    made = ControlPlane(Options(extra_controllers=("statefulset-controller",), lws=True))
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def gang(env: Environment, replicas: int = 2, mode: str = "Gang", **words: str) -> LwsBuilder:
    """Return a set with pods of one CPU each, on the nodes of the flow."""
    return (
        make_lws()
        .replicas(replicas, SIZE)
        .asks(gang_mode=mode, **words)
        .restarts_together()
        .worker(**_pod(env))
    )


def _pod(env: Environment, **more: Any) -> Json:
    container = {
        "name": "main",
        "image": "registry.example/none:1",
        "resources": {"requests": {"cpu": "1"}},
    }
    room = {NODE_LABEL: env.name}
    return {
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": room,
        "containers": [container],
    } | more


@asynccontextmanager
async def applied(env: Environment, *sets: Json) -> AsyncIterator[None]:
    """Create the sets for the block; afterwards none of their objects may remain."""
    for made in sets:
        await env.create(LEADER_WORKER_SETS, made)
    try:
        yield
    finally:
        for made in sets:
            await env.delete(LEADER_WORKER_SETS, made["metadata"]["name"])
    await env.empty()
    left = (await env.client.list(STATEFUL_SETS, env.name))["items"]
    assert left == []


def group(replica: int, *, leader: bool = False) -> str:
    key = LEADER_FIRST.text() if leader else TOGETHER.key
    return names.pod_group_of_value("serve", key, str(replica))


def of(replica: int) -> str:
    return f"{LWS_LABEL_GROUP_INDEX}={replica}"


async def scale(env: Environment, replicas: int) -> None:
    """Scale by the subresource, as an autoscaler does."""
    ops = PatchBuilder().replace("/spec/replicas", replicas)
    await env.client.patch(LEADER_WORKER_SETS, "serve", ops, env.name, subresource="scale")


async def bound_is(env: Environment, selector: str, count: int) -> None:
    async def probe() -> bool:
        return await env.bound(selector) == count

    await env.until(f"{count} pods of {selector} to have a node", probe)


async def groups_are(env: Environment, *wanted: str) -> None:
    async def probe() -> bool:
        found = (await env.client.list(POD_GROUPS, env.name))["items"]
        return sorted(it["metadata"]["name"] for it in found) == sorted(wanted)

    await env.until(f"the PodGroups to be {wanted}", probe)


async def test_replicas_are_gangs_that_follow_their_number(env: Environment) -> None:
    await env.add_node(cpu=SIZE + 2)
    async with applied(env, gang(env).to_create()):
        await bound_is(env, "", SIZE)
        pods = await env.pods()
        (placed,) = {
            it["metadata"]["labels"][LWS_LABEL_GROUP_INDEX]
            for it in pods
            if it["spec"].get("nodeName")
        }
        other = 1 - int(placed)
        await env.waits(group(other), needed=SIZE)

        async def told() -> bool:
            lws = await env.client.get(LEADER_WORKER_SETS, "serve", env.name)
            said = lws["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR, "")
            return group(other) in said

        await env.until("the set to say what it waits for", told)
        await env.add_node(cpu=2 * SIZE)
        await env.runs("", 2 * SIZE)

        await scale(env, 3)
        await env.scheduled(group(2))
        await env.runs("", 3 * SIZE)

        await scale(env, 1)
        await groups_are(env, group(0))
        await env.has_pods("", SIZE)


async def test_a_replica_that_restarts_keeps_its_group(env: Environment) -> None:
    await env.add_node(cpu=SIZE)
    async with applied(env, gang(env, 1).to_create()):
        await env.runs("", SIZE)
        before = await env.group(group(0))
        old = await env.uids()

        await env.client.delete(PODS, "serve-0-1", env.name)

        async def anew() -> bool:
            pods = [it for it in await env.pods() if it["spec"].get("nodeName")]
            return len(pods) == SIZE and old.isdisjoint(it["metadata"]["uid"] for it in pods)

        await env.until("all pods to be others, with nodes", anew)
        await env.runs("", SIZE)
        assert (await env.group(group(0)))["metadata"]["uid"] == before["metadata"]["uid"]


async def test_its_stateful_sets_ask_for_nothing_whatever_is_written_on_them(
    env: Environment,
) -> None:
    await env.add_node(cpu=SIZE)
    async with applied(env, gang(env, 1).to_create()):
        await env.runs("", SIZE)
        made = (await env.client.list(STATEFUL_SETS, env.name))["items"]
        assert len(made) == 2
        for it in made:
            notes = it["metadata"].get("annotations") or {}
            asks = PatchBuilder().add(
                "/metadata/annotations", notes | {ANNOTATION_GANG_MODE: "Gang"}
            )
            name = it["metadata"]["name"]
            after = await env.client.patch(STATEFUL_SETS, name, asks, env.name)
            assert after["spec"] == it["spec"]
            assert ANNOTATION_MANAGED_GROUP not in after["metadata"]["annotations"]
        await groups_are(env, group(0))


async def test_a_leader_comes_first_and_its_workers_all_or_none(env: Environment) -> None:
    await env.add_node(cpu=2)
    async with applied(env, gang(env, 1).leader_ready().to_create()):
        await env.scheduled(group(0, leader=True))
        # One of the two workers fits.
        await env.waits(group(0), needed=SIZE - 1)
        assert await env.bound() == 1

        await env.add_node(cpu=1)
        await env.runs("", SIZE)
        (leader,) = await env.pods(f"{LWS_LABEL_WORKER_INDEX}=0")
        assert leader["metadata"]["labels"][LWS_LABEL_GROUP_INDEX] == "0"


async def test_the_pods_are_as_they_are_made_for_clusters_without_the_controller(
    env: Environment,
) -> None:
    await env.add_node(cpu=SIZE)
    async with applied(env, gang(env, 1).to_create()):
        await env.runs("", SIZE)
        lws = await env.client.get(LEADER_WORKER_SETS, "serve", env.name)
        found = {it["metadata"]["name"]: it["metadata"] for it in await env.pods()}

        for made in (lws_pods.leader(lws, 0), *lws_pods.workers(lws, 0)):
            live = found.pop(made["metadata"]["name"])
            for section in ("labels", "annotations"):
                assert made["metadata"][section].items() <= live[section].items()
        assert found == {}


async def test_an_exclusive_topology_holds_for_each_replica(env: Environment) -> None:
    key = "test.muster.dev/rack"
    for rack in ("a", "b"):
        for _ in range(2):
            await env.add_node(cpu=2, labels={key: f"{env.name}-{rack}"})
    async with applied(env, gang(env).exclusive(key).to_create()):
        await env.runs("", 2 * SIZE)
        racks = [await _values(env, key, of(replica)) for replica in range(2)]
        assert [len(it) for it in racks] == [1, 1]
        assert racks[0].isdisjoint(racks[1])


async def test_a_topology_is_each_replicas_own(env: Environment) -> None:
    key = "test.muster.dev/rack"
    for rack, cpu in (("a", 2), ("b", 3), ("c", 4)):
        await env.add_node(cpu=cpu, labels={key: f"{env.name}-{rack}"})
    async with applied(env, gang(env, topology=key).to_create()):
        await env.runs("", 2 * SIZE)
        racks = [await _values(env, key, of(replica)) for replica in range(2)]
        assert sorted(map(sorted, racks)) == [[f"{env.name}-b"], [f"{env.name}-c"]]


async def _values(env: Environment, key: str, selector: str) -> set[str]:
    """Return the values of a node label on the nodes of these pods."""
    nodes = {it["spec"]["nodeName"] for it in await env.pods(selector)}
    found = [await env.client.get(NODES, name) for name in nodes]
    return {it["metadata"]["labels"][key] for it in found}


async def test_a_composite_starts_with_as_many_replicas_as_it_asks_for(env: Environment) -> None:
    await env.add_node(cpu=2 * SIZE - 1)
    async with applied(env, gang(env, 3, "Composite", min_count="2").to_create()):
        await env.has_pods("", 3 * SIZE)
        await env.waits(group(0))
        assert await env.bound() == 0

        await env.add_node(cpu=1)
        await bound_is(env, "", 2 * SIZE)
        await env.add_node(cpu=SIZE)
        await env.runs("", 3 * SIZE)


async def test_an_important_set_takes_the_place_of_another(
    env: Environment, important: str
) -> None:
    await env.add_node(cpu=SIZE)
    low = gang(env, 1, disruption_mode="All").named("low").to_create()
    high = gang(env, 1).worker(**_pod(env, priorityClassName=important)).to_create()
    async with applied(env, low):
        await env.runs(f"{LWS_LABEL_NAME}=low", SIZE)
        async with applied_besides(env, high):
            await env.runs(f"{LWS_LABEL_NAME}=serve", SIZE)
            await bound_is(env, f"{LWS_LABEL_NAME}=low", 0)
            await env.has_pods(f"{LWS_LABEL_NAME}=low", SIZE)


@asynccontextmanager
async def applied_besides(env: Environment, made: Json) -> AsyncIterator[None]:
    await env.create(LEADER_WORKER_SETS, made)
    try:
        yield
    finally:
        await env.delete(LEADER_WORKER_SETS, made["metadata"]["name"])


@pytest.mark.parametrize(
    "unavailable",
    [
        pytest.param(
            0,
            marks=pytest.mark.until(
                "1.37", "LeaderWorkerSet 0.7 gives its StatefulSet a maxUnavailable of 0 then"
            ),
        ),
        1,
    ],
)
async def test_an_update_replaces_replica_by_replica(env: Environment, unavailable: int) -> None:
    """There is an additional replica meanwhile, with a group; and larger replicas."""
    await env.add_node(cpu=4 * SIZE)
    async with applied(env, gang(env).updating(surge=1, unavailable=unavailable).to_create()):
        await env.runs("", 2 * SIZE)
        old = await env.uids()

        size = "/spec/leaderWorkerTemplate/size"
        await env.client.patch(
            LEADER_WORKER_SETS, "serve", PatchBuilder().replace(size, SIZE + 1), env.name
        )
        await env.scheduled(group(2))

        async def updated() -> bool:
            pods = [it for it in await env.pods() if it["spec"].get("nodeName")]
            new = old.isdisjoint(it["metadata"]["uid"] for it in pods)
            return new and len(pods) == 2 * (SIZE + 1)

        await env.until("all replicas to be the new ones", updated)
        await groups_are(env, group(0), group(1))
        spec = (await env.group(group(0)))["spec"]
        assert spec["schedulingPolicy"]["gang"]["minCount"] == SIZE + 1


@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_an_update_may_replace_several_replicas_at_once(env: Environment, mode: str) -> None:
    """Only the replicas fit: new pods take the slots of the deleted ones."""
    await env.add_node(cpu=4 * SIZE)
    made = gang(env, 4, mode).updating(unavailable=2).to_create()
    async with applied(env, made):
        await env.runs("", 4 * SIZE)
        before = [(await env.group(group(at)))["metadata"]["uid"] for at in range(4)]
        old = await env.uids()

        image = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"
        newer = PatchBuilder().replace(image, "registry.example/none:2")
        await env.client.patch(LEADER_WORKER_SETS, "serve", newer, env.name)

        async def updated() -> bool:
            pods = [it for it in await env.pods() if it["spec"].get("nodeName")]
            return len(pods) == 4 * SIZE and old.isdisjoint(it["metadata"]["uid"] for it in pods)

        await env.until("all pods to be new ones, with nodes", updated)
        await env.runs("", 4 * SIZE)
        after = [(await env.group(group(at)))["metadata"]["uid"] for at in range(4)]
        assert after == before


async def test_subgroups_have_a_domain_each_and_start_together(env: Environment) -> None:
    key = "test.muster.dev/rack"
    await env.add_node(cpu=2, labels={key: f"{env.name}-a"})
    made = gang(env, 2).replicas(2, 4).subgroups(2, exclusive=key).to_create()
    async with applied(env, made):
        await env.has_pods("", 8)
        await env.waits(group(0))
        assert await env.bound() == 0, "one rack takes one subgroup, and a replica has two"

        await env.add_node(cpu=2, labels={key: f"{env.name}-b"})
        await bound_is(env, "", 4)
        for rack in ("c", "d"):
            await env.add_node(cpu=2, labels={key: f"{env.name}-{rack}"})
        await env.runs("", 8)
        for replica in range(2):
            racks = [
                await _values(env, key, f"{of(replica)},{SUBGROUP}={index}") for index in range(2)
            ]
            assert [len(it) for it in racks] == [1, 1]
            assert racks[0].isdisjoint(racks[1])
        await groups_are(env, group(0), group(1))


async def test_the_example_runs(env: Environment) -> None:
    await env.add_node(cpu=2 * SIZE)
    made = yaml.safe_load((EXAMPLES / "leaderworkerset-gang.yaml").read_text())
    room = {NODE_LABEL: env.name}
    made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] = room
    async with applied(env, made):
        await env.runs("", 2 * SIZE)


async def test_the_example_of_prefill_and_decode_starts_together(env: Environment) -> None:
    """6012-010: two replicas of prefill and one of decode, or nothing."""
    await env.add_node(cpu=6)
    made = list(yaml.safe_load_all((EXAMPLES / "prefill-decode.yaml").read_text()))
    for it in made:
        room = {NODE_LABEL: env.name}
        it["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] = room
    async with applied(env, *made):
        for it in made:
            await reports(env, LEADER_WORKER_SETS, it["metadata"]["name"], "Insufficient cpu")
        assert await env.bound() == 0
        await env.add_node(cpu=1)
        await bound_is(env, f"{LWS_LABEL_NAME}=prefill", 4)
        await bound_is(env, f"{LWS_LABEL_NAME}=decode", 3)
        await env.add_node(cpu=2)
        await env.runs(f"{LWS_LABEL_NAME}=prefill", 6)


@pytest.mark.unsettled
async def test_both_controllers_may_be_killed_at_any_moment(
    env: Environment, cluster: ControlPlane
) -> None:
    await env.add_node(cpu=3 * SIZE)
    for pause in (0.0, 0.05, 0.2, 0.6):
        async with applied(env, gang(env, 2).leader_ready().to_create()):
            await asyncio.sleep(pause)
            cluster.kill("lws")
            env.muster.kill(CONTROLLER)
            await cluster.restart("lws")
            await env.muster.restart(CONTROLLER)
            await env.runs("", 2 * SIZE)

            await scale(env, 3)
            await asyncio.sleep(pause)
            env.muster.kill(CONTROLLER)
            env.muster.kill(SCHEDULER)
            await env.muster.restart(CONTROLLER)
            await env.muster.restart(SCHEDULER)
            await env.runs("", 3 * SIZE)
