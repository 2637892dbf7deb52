"""Two gangs, room for one and a bit: one runs whole, the other holds nothing."""

import asyncio
from functools import partial

import pytest

from e2e.suite.objects import job, of_job
from e2e.suite.stage import Stage
from kube.meta import RawObject
from kube.resources import JOBS


@pytest.mark.timeout(900)
async def test_exactly_one_of_two_gangs_runs_never_a_mix(stage: Stage, long: bool) -> None:
    await stage.add_node(cpu=3)
    await stage.add_node(cpu=2)
    for number in range(50 if long else 5):
        names = [f"a{number}", f"b{number}"]
        ever_bound: set[str] = set()

        async with stage.followed() as pods:
            pods.subscribe(partial(note_bound, ever_bound))
            await asyncio.gather(*(stage.create(JOBS, job(name, stage.name)) for name in names))
            await asyncio.gather(*(stage.has_pods(of_job(name), 4) for name in names))
            winner, loser = await one_of(stage, names)
            await stage.waits(f"pg-job-{loser}", needed=4, free=1)

        assert ever_bound == {winner}
        assert await stage.bound(of_job(winner)) == 4
        assert await stage.bound(of_job(loser)) == 0

        await stage.delete(JOBS, winner)
        await stage.runs_whole(of_job(loser), 4)
        await stage.delete(JOBS, loser)
        await stage.empty()


def note_bound(jobs: set[str], _old: RawObject | None, pod: RawObject | None) -> None:
    """Add the Job of a pod that has a node."""
    if pod is not None and pod.raw["spec"].get("nodeName"):
        jobs.add(pod.metadata.labels["batch.kubernetes.io/job-name"])


async def one_of(stage: Stage, names: list[str]) -> tuple[str, str]:
    """The gang that runs and the one that does not."""

    async def probe() -> bool:
        return any([await stage.running(of_job(name)) == 4 for name in names])

    await stage.until("one gang to run", probe)
    first, second = names
    return (first, second) if await stage.running(of_job(first)) else (second, first)
