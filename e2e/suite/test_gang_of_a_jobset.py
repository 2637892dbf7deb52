"""The main job: a JobSet's gang waits with numbers, runs whole, and leaves nothing behind."""

import asyncio

import pytest

from e2e.suite.objects import job, jobset, of_job, of_jobset, replicated_job
from e2e.suite.stage import Stage
from kube.resources import JOBS, JOBSETS

pytestmark = pytest.mark.timeout(400)


async def test_a_gang_waits_with_numbers_runs_whole_and_leaves_nothing(stage: Stage) -> None:
    for _ in range(3):
        await stage.add_node(cpu=5)
    workers = replicated_job("workers", stage.name), replicated_job("servers", stage.name)
    await stage.create(JOBSETS, jobset("training", *workers))
    await stage.create(
        JOBSETS, jobset("too-big", replicated_job("w", stage.name, replicas=4, pods=16))
    )

    await stage.has_pods(of_jobset("training"), 16)
    blocker = await stage.waits("pg-training", needed=16, free=15)
    assert not blocker.get("impossible", False) or blocker["needed"] > 15
    await stage.waits("pg-too-big", needed=64)
    assert await stage.bound() == 0

    await stage.add_node(cpu=5)
    await stage.runs_whole(of_jobset("training"), 16)
    await stage.scheduled("pg-training")
    blocker = await stage.waits("pg-too-big", needed=64, impossible=True)
    assert blocker["summary"]
    assert await stage.bound(of_jobset("too-big")) == 0

    for name in ("training", "too-big"):
        await stage.delete(JOBSETS, name)
    await stage.empty()


async def test_gangs_of_replicated_jobs_start_one_by_one(stage: Stage) -> None:
    await stage.add_node(cpu=5)
    await stage.create(
        JOBSETS,
        jobset("rl", replicated_job("w", stage.name, mode="ReplicatedGang"), mode=None),
    )

    await stage.has_pods(of_jobset("rl"), 8)
    await stage.runs_whole(of_jobset("rl"), 4)
    await asyncio.sleep(1)  # nothing more may happen
    groups = [await stage.blocker(f"pg-rl-w-{index}") for index in range(2)]
    assert [bool(blocker) for blocker in groups].count(True) == 1
    assert await stage.bound(of_jobset("rl")) == 4

    await stage.add_node(cpu=4)
    await stage.runs_whole(of_jobset("rl"), 8)


async def test_the_pods_of_a_finished_gang_make_room_for_the_next(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    await stage.create(JOBS, job("first", stage.name))
    await stage.runs_whole(of_job("first"), 4)
    await stage.create(JOBS, job("second", stage.name))
    await stage.waits("pg-job-second", needed=4, free=0)

    await stage.cluster.finish_pods(stage.name, of_job("first"))

    await stage.runs_whole(of_job("second"), 4)
