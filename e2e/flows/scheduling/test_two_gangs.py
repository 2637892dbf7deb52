"""Two gangs, capacity for little more than one: one runs, the other uses no resources."""

import asyncio
from functools import partial

import pytest

from e2e.harness.environment import Environment
from e2e.harness.objects import job, of_job
from kube.client.meta import RawObject
from kube.client.resources import JOBS


@pytest.mark.timeout(900)
async def test_exactly_one_of_two_gangs_runs_never_a_mix(env: Environment, long: bool) -> None:
    await env.add_node(cpu=3)
    await env.add_node(cpu=2)
    for number in range(15 if long else 3):
        names = [f"a{number}", f"b{number}"]
        ever_bound: set[str] = set()

        async with env.followed() as pods:
            pods.subscribe(partial(note_bound, ever_bound))
            await asyncio.gather(*(env.create(JOBS, job(name, env.name)) for name in names))
            await asyncio.gather(*(env.has_pods(of_job(name), 4) for name in names))
            winner, loser = await one_of(env, names)
            await env.waits(f"pg-job-{loser}", needed=4, free=1)

        assert ever_bound == {winner}
        assert await env.bound(of_job(winner)) == 4
        assert await env.bound(of_job(loser)) == 0

        await env.delete(JOBS, winner)
        await env.runs(of_job(loser), 4)
        await env.delete(JOBS, loser)
        await env.empty()


def note_bound(jobs: set[str], _old: RawObject | None, pod: RawObject | None) -> None:
    """Add the Job of a pod that has a node."""
    if pod is not None and pod.raw["spec"].get("nodeName"):
        jobs.add(pod.metadata.labels["batch.kubernetes.io/job-name"])


async def one_of(env: Environment, names: list[str]) -> tuple[str, str]:
    """Return the gang that runs and the one that does not."""

    async def probe() -> bool:
        return any([await env.running(of_job(name)) == 4 for name in names])

    await env.until("one gang to run", probe)
    first, second = names
    return (first, second) if await env.running(of_job(first)) else (second, first)
