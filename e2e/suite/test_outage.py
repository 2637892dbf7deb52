"""The API server stops and starts again: everything resumes by itself."""

import asyncio

import pytest

from e2e.suite.objects import job, jobset, of_job, of_jobset, replicated_job
from e2e.suite.stage import Stage
from kube.errors import Unreachable
from kube.resources import JOBS, JOBSETS, NAMESPACES

# Longer than a lease and the longest wait between two tries, and a busy machine besides.
RESUMES_WITHIN = 20.0


@pytest.mark.timeout(400)
async def test_everything_resumes_after_an_outage_of_the_api_server(
    stage: Stage, long: bool
) -> None:
    await stage.add_node(cpu=4)
    spare = await stage.add_node(cpu=4, closed=True)
    await stage.create(JOBS, job("runs", stage.name))
    await stage.runs_whole(of_job("runs"), 4)
    await stage.create(JOBSETS, jobset("waits", replicated_job("w", stage.name, pods=2)))
    await stage.waits("pg-waits", needed=4, free=0)

    await stage.cluster.stop_apiserver()
    try:
        with pytest.raises(Unreachable):
            await stage.client.request("GET", NAMESPACES.path(), timeout=1)
        # Longer than a lease: every leader has given up when the server comes back.
        await asyncio.sleep(20 if long else 4)
    finally:
        await stage.cluster.start_apiserver()

    await stage.open_node(spare)

    async def all_bound() -> bool:
        return await stage.bound(of_jobset("waits")) == 4

    await stage.until("the waiting gang to be bound", all_bound, RESUMES_WITHIN)
    await stage.runs_whole(of_jobset("waits"), 4)
    assert await stage.running(of_job("runs")) == 4
    await stage.delete(JOBS, "runs")
    await stage.create(JOBS, job("later", stage.name))
    await stage.runs_whole(of_job("later"), 4)
    await stage.delete(JOBS, "later")
    await stage.delete(JOBSETS, "waits")
    await stage.empty()
