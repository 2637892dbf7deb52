"""A restart of the API server, after which everything resumes by itself."""

import asyncio

import pytest

from e2e.harness.environment import Environment
from e2e.harness.objects import job, jobset, of_job, of_jobset, replicated_job
from kube.base.errors import Unreachable
from kube.client.resources import JOBS, JOBSETS, NAMESPACES

# Longer than a lease and the longest backoff, with a margin for a busy machine.
RESUMES_WITHIN = 20.0


async def test_everything_resumes_after_an_outage_of_the_api_server(
    env: Environment, long: bool
) -> None:
    await env.add_node(cpu=4)
    spare = await env.add_node(cpu=4, tainted=True)
    await env.create(JOBS, job("runs", env.name))
    await env.runs(of_job("runs"), 4)
    await env.create(JOBSETS, jobset("waits", replicated_job("w", env.name, pods=2)))
    await env.waits("pg-waits", needed=4, free=0)

    await env.cluster.stop_apiserver()
    try:
        with pytest.raises(Unreachable):
            await env.client.request("GET", NAMESPACES.path(), timeout=1)
        # Longer than a lease: every leader has given up when the server comes back.
        await asyncio.sleep(20 if long else 4)
    finally:
        await env.cluster.start_apiserver()

    await env.untaint_node(spare)

    async def all_bound() -> bool:
        return await env.bound(of_jobset("waits")) == 4

    await env.until("the waiting gang to be bound", all_bound, RESUMES_WITHIN)
    await env.runs(of_jobset("waits"), 4)
    assert await env.running(of_job("runs")) == 4
    await env.delete(JOBS, "runs")
    await env.create(JOBS, job("later", env.name))
    await env.runs(of_job("later"), 4)
    await env.delete(JOBS, "later")
    await env.delete(JOBSETS, "waits")
    await env.empty()
