"""The main use case: a JobSet's gang waits with numbers, runs completely, and leaks nothing."""

import asyncio

import pytest

from e2e.harness.environment import Environment
from e2e.harness.objects import job, jobset, of_job, of_jobset, replicated_job
from kube.client.resources import JOBS, JOBSETS

pytestmark = pytest.mark.timeout(400)


async def test_a_gang_waits_with_numbers_runs_whole_and_leaves_nothing(env: Environment) -> None:
    for _ in range(3):
        await env.add_node(cpu=5)
    workers = replicated_job("workers", env.name), replicated_job("servers", env.name)
    await env.create(JOBSETS, jobset("training", *workers))
    await env.create(JOBSETS, jobset("too-big", replicated_job("w", env.name, replicas=4, pods=16)))

    await env.has_pods(of_jobset("training"), 16)
    blocker = await env.waits("pg-training", needed=16, free=15)
    assert not blocker.get("impossible", False) or blocker["needed"] > 15
    await env.waits("pg-too-big", needed=64)
    assert await env.bound() == 0

    await env.add_node(cpu=5)
    await env.runs(of_jobset("training"), 16)
    await env.scheduled("pg-training")
    blocker = await env.waits("pg-too-big", needed=64, impossible=True)
    assert blocker["summary"]
    assert await env.bound(of_jobset("too-big")) == 0

    for name in ("training", "too-big"):
        await env.delete(JOBSETS, name)
    await env.empty()


async def test_gangs_of_replicated_jobs_start_one_by_one(env: Environment) -> None:
    await env.add_node(cpu=5)
    await env.create(
        JOBSETS,
        jobset("rl", replicated_job("w", env.name, mode="ReplicatedGang"), mode=None),
    )

    await env.has_pods(of_jobset("rl"), 8)
    await env.runs(of_jobset("rl"), 4)
    await asyncio.sleep(1)  # no further change may happen
    groups = [await env.blocker(f"pg-rl-w-{index}") for index in range(2)]
    assert [bool(blocker) for blocker in groups].count(True) == 1
    assert await env.bound(of_jobset("rl")) == 4

    await env.add_node(cpu=4)
    await env.runs(of_jobset("rl"), 8)


async def test_the_pods_of_a_finished_gang_make_room_for_the_next(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, job("first", env.name))
    await env.runs(of_job("first"), 4)
    await env.create(JOBS, job("second", env.name))
    await env.waits("pg-job-second", needed=4, free=0)

    await env.cluster.finish_pods(env.name, of_job("first"))

    await env.runs(of_job("second"), 4)
