"""kill -9 of the scheduler at any moment of binding a gang: afterwards the gang is whole."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.muster import SCHEDULER
from e2e.suite.objects import job, of_job
from e2e.suite.stage import Stage
from kube.meta import RawObject
from kube.resources import JOBS

SIZE = 320
"""Far more than the Bindings that are under way at once: what is sent is carried out."""


@pytest.mark.timeout(900)
async def test_a_gang_is_whole_after_the_scheduler_was_killed_while_binding_it(
    stage: Stage, long: bool
) -> None:
    for _ in range(4):
        await stage.add_node(cpu=SIZE // 4)
    chance = random.Random(3)
    bound_at_death = []
    for number in range(20 if long else 3):
        name = f"gang{number}"
        async with killer(stage, after=chance.randrange(1, SIZE // 2)) as killed:
            await stage.create(JOBS, job(name, stage.name, pods=SIZE))
            async with asyncio.timeout(60):
                bound_at_death.append(await killed)

        await stage.muster.start(SCHEDULER)

        await stage.runs_whole(of_job(name), SIZE)
        await stage.scheduled(f"pg-job-{name}")
        await stage.delete(JOBS, name)
        await stage.empty()
    assert min(bound_at_death) < SIZE, f"never killed in the middle: {bound_at_death}"


@asynccontextmanager
async def killer(stage: Stage, *, after: int) -> AsyncIterator["asyncio.Future[int]"]:
    """Kills the scheduler when so many pods are seen bound; gives how many really were."""
    seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def count() -> int:
        await seen
        return await stage.bound()

    async with stage.followed() as pods:
        pods.add_index("bound", lambda pod: ["yes"] if pod.raw["spec"].get("nodeName") else [])

        def look(_old: RawObject | None, _new: RawObject | None) -> None:
            if not seen.done() and len(pods.by_index("bound", "yes")) >= after:
                stage.muster.kill(SCHEDULER)
                seen.set_result(None)

        pods.subscribe(look)
        counting = asyncio.ensure_future(count())
        try:
            yield counting
        finally:
            counting.cancel()
            await asyncio.wait({counting})
