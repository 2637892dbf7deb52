"""LeaderWorkerSets on the embedded cluster: the flows act as their controller."""

import asyncio
from collections.abc import Iterator

import pytest

from api import names
from api.constants import ANNOTATION_WAITING_FOR
from api.integration.lws.view import LEADER_FIRST, TOGETHER
from e2e.flows.owners.workloads.lws_pods import CRD, SUBGROUP_KEY, alone, leader, workers
from e2e.harness.clusters.local import Local
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import POD_GROUPS, Json, pod_spec
from e2e.harness.running import installed, started
from e2e.harness.support import definitions
from kube.client.resources import LEADER_WORKER_SETS, PODS
from tests.support.lws import LwsBuilder, make_lws


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[Local]:
    if server_kind != "local":
        pytest.skip("make test-workloads runs these sets with their own controller")
    made = Local()
    with started(made):
        asyncio.run(_define(made))
        yield made


async def _define(cluster: Local) -> None:
    """Create the definition before Muster starts, which later checks for it only every 15 s."""
    async with cluster.client() as rest:
        (await rest.post(definitions.PATH, CRD)).ok()
        await definitions.served(rest, CRD["metadata"]["name"])


@pytest.fixture(scope="module")
def running_muster(cluster: Local) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def gang(env: Environment, replicas: int) -> LwsBuilder:
    spec = pod_spec(env.name)
    return make_lws().replicas(replicas, 3).asks(gang_mode="Gang").worker(**spec)


def group(replica: int, *, first: bool = False) -> str:
    key = LEADER_FIRST.text() if first else TOGETHER.key
    return names.pod_group_of_value("serve", key, str(replica))


async def run(env: Environment, *pods: Json) -> None:
    for pod in pods:
        await env.create(PODS, pod)


async def test_replicas_are_gangs_and_go_with_the_set(env: Environment) -> None:
    await env.add_node(cpu=5)
    lws = await env.create(LEADER_WORKER_SETS, gang(env, 2).to_create())
    await run(env, leader(lws, 0), *workers(lws, 0))
    await env.scheduled(group(0))
    await run(env, leader(lws, 1), *workers(lws, 1))
    await env.waits(group(1), needed=3)

    async def told() -> bool:
        found = await env.client.get(LEADER_WORKER_SETS, "serve", env.name)
        return group(1) in found["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR, "")

    await env.until("the set to say what it waits for", told)
    await env.add_node(cpu=1)
    await env.runs("", 6)

    await env.delete(LEADER_WORKER_SETS, "serve")
    for pod in await env.pods():
        await env.delete(PODS, pod["metadata"]["name"])
    await env.gone(POD_GROUPS, group(0))
    await env.gone(POD_GROUPS, group(1))


async def test_workers_start_all_or_none_after_their_leader(env: Environment) -> None:
    await env.add_node(cpu=2)
    lws = await env.create(LEADER_WORKER_SETS, gang(env, 1).leader_ready().to_create())
    await run(env, leader(lws, 0))
    await env.scheduled(group(0, first=True))

    await run(env, *workers(lws, 0))
    await env.waits(group(0), needed=2)
    assert await env.bound() == 1
    await env.add_node(cpu=1)
    await env.runs("", 3)
    await env.delete(LEADER_WORKER_SETS, "serve")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_replicas_that_are_replaced_together_keep_their_groups(
    env: Environment, mode: str
) -> None:
    """A rolling update with maxUnavailable 2 replaces two replicas, with interleaved pods."""
    await env.add_node(cpu=12)
    made = gang(env, 4).asks(gang_mode=mode).updating(unavailable=2).to_create()
    lws = await env.create(LEADER_WORKER_SETS, made)
    for at in range(4):
        await run(env, leader(lws, at), *workers(lws, at))
    await env.runs("", 12)
    before = [(await env.group(group(at)))["metadata"]["uid"] for at in range(4)]

    for first in (2, 0):
        pair = (first + 1, first)
        gone_now = {it["metadata"]["name"] for at in pair for it in all_of(lws, at)}
        for name in sorted(gone_now):
            await env.delete(PODS, name)
        await env.has_pods("", 6)
        await run(env, *(leader(lws, at) for at in pair))
        mixed = zip(*(workers(lws, at) for at in pair), strict=True)
        await run(env, *(it for both in mixed for it in both))
        await env.runs("", 12)

    assert [(await env.group(group(at)))["metadata"]["uid"] for at in range(4)] == before
    await env.delete(LEADER_WORKER_SETS, "serve")


async def test_subgroups_are_alone_in_their_domains_and_start_together(env: Environment) -> None:
    key = "test.muster.dev/rack"
    await env.add_node(cpu=2, labels={key: f"{env.name}-a"})
    made = gang(env, 1).replicas(1, 4).subgroups(2, exclusive=key).to_create()
    lws = await env.create(LEADER_WORKER_SETS, made)
    await run(env, *(alone(it, 2, key) for it in all_of(lws, 0)))
    await env.waits(group(0))
    assert await env.bound() == 0

    await env.add_node(cpu=2, labels={key: f"{env.name}-b"})
    await env.runs("", 4)
    nodes: dict[str, set[str]] = {}
    for pod in await env.pods():
        nodes.setdefault(pod["metadata"]["labels"][SUBGROUP_KEY], set()).add(
            pod["spec"]["nodeName"]
        )
    assert sorted(map(len, nodes.values())) == [1, 1]
    assert len(set.union(*nodes.values())) == 2
    await env.delete(LEADER_WORKER_SETS, "serve")


def all_of(lws: Json, replica: int) -> list[Json]:
    return [leader(lws, replica), *workers(lws, replica)]
