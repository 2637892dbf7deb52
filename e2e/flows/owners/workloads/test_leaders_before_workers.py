"""Leaders start where their workers will fit; places are held until these are created."""

import pytest

from api import names
from api.integration.lws.view import LEADER_FIRST, TOGETHER
from e2e.flows.owners.workloads.lws_pods import leader, workers
from e2e.flows.owners.workloads.test_leader_worker_pods import cluster, running_muster
from e2e.harness.environment import Environment
from e2e.harness.groups import held
from e2e.harness.muster import SCHEDULER
from e2e.harness.objects import Json, job, of_job, pod_spec
from kube.client.resources import JOBS, LEADER_WORKER_SETS, PODS
from tests.support.lws import LwsBuilder, make_lws

__all__ = ["cluster", "running_muster"]

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("expected_pods")]


def gang(env: Environment, size: int, *, cpu: str = "1") -> LwsBuilder:
    spec = pod_spec(env.name)
    made = make_lws().replicas(1, size).asks(gang_mode="Gang").leader_ready()
    more = {"containers": [spec["containers"][0] | {"resources": {"requests": {"cpu": cpu}}}]}
    return made.leader(**spec).worker(**spec | more)


def group(*, first: bool = False) -> str:
    key = LEADER_FIRST.text() if first else TOGETHER.key
    return names.pod_group_of_value("serve", key, "0")


async def run(env: Environment, *pods: Json) -> None:
    for pod in pods:
        await env.create(PODS, pod)


async def ended(env: Environment) -> None:
    await env.delete(LEADER_WORKER_SETS, "serve")
    for pod in await env.pods():
        await env.delete(PODS, pod["metadata"]["name"])


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True], ids=["", "a leader killed"])
async def test_workers_get_their_places_and_another_gang_waits(
    env: Environment, killed: bool
) -> None:
    await env.add_node(cpu=9)
    lws = await env.create(LEADER_WORKER_SETS, gang(env, 9).to_create())
    await run(env, leader(lws, 0))
    await env.runs("", 1)
    await held(env, group(), 8)
    await env.create(JOBS, job("other", env.name, pods=8))
    await env.waits("pg-job-other", needed=8)
    if killed:
        env.muster.kill(SCHEDULER)
        await env.muster.start(SCHEDULER)
        await held(env, group(), 8)

    await run(env, *workers(lws, 0))

    await env.runs(f"{TOGETHER.key}=0", 9)
    assert await env.bound(of_job("other")) == 0
    await env.delete(LEADER_WORKER_SETS, "serve")
    for pod in await env.pods(f"{TOGETHER.key}=0"):
        await env.delete(PODS, pod["metadata"]["name"])
    await env.runs(of_job("other"), 8)


@pytest.mark.long
async def test_a_leader_does_not_start_before_there_is_room_for_its_workers(
    env: Environment,
) -> None:
    await env.add_node(cpu=2)
    lws = await env.create(LEADER_WORKER_SETS, gang(env, 3).to_create())
    await run(env, leader(lws, 0))
    await env.waits(group(first=True))
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs("", 1)
    await held(env, group(), 2)
    await run(env, *workers(lws, 0))
    await env.runs("", 3)
    await ended(env)
