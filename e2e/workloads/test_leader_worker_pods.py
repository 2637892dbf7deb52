"""LeaderWorkerSets on the embedded cluster: the flows make their pods as their controller does."""

import asyncio
from collections.abc import Iterator

import pytest

from api import names
from api.constants import ANNOTATION_WAITING_FOR
from api.integration.lws_view import LEADER_FIRST, TOGETHER
from e2e.clusters.local import Local
from e2e.muster import Muster
from e2e.running import installed, started
from e2e.suite.environment import Environment
from e2e.suite.objects import Json, pod_spec
from e2e.support import definitions
from e2e.workloads.examples import gone
from e2e.workloads.lws_pods import CRD, leader, workers
from kube.resources import LEADER_WORKER_SETS, PODS
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
    """Before Muster starts: later it would look for the kind four times a minute only."""
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
    await gone(env, group(0))
    await gone(env, group(1))


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
