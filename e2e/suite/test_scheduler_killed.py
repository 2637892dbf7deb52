"""kill -9 of the scheduler at any moment of binding a gang: afterwards the gang is whole."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.muster import SCHEDULER
from e2e.suite.environment import Environment
from e2e.suite.objects import job, of_job
from kube.meta import RawObject
from kube.resources import JOBS

SIZE = 320
"""Far more than the Bindings that are under way at once: what is sent is carried out."""


@pytest.mark.timeout(900)
async def test_a_gang_is_whole_after_the_scheduler_was_killed_while_binding_it(
    env: Environment, long: bool
) -> None:
    for _ in range(4):
        await env.add_node(cpu=SIZE // 4)
    chance = random.Random(3)
    bound_at_death = []
    for number in range(20 if long else 3):
        name = f"gang{number}"
        async with killer(env, after=chance.randrange(1, SIZE // 2)) as killed:
            await env.create(JOBS, job(name, env.name, pods=SIZE))
            async with asyncio.timeout(60):
                bound_at_death.append(await killed)

        await env.muster.start(SCHEDULER)

        await env.runs(of_job(name), SIZE)
        await env.scheduled(f"pg-job-{name}")
        await env.delete(JOBS, name)
        await env.empty()
    assert min(bound_at_death) < SIZE, f"never killed in the middle: {bound_at_death}"


@asynccontextmanager
async def killer(env: Environment, *, after: int) -> AsyncIterator["asyncio.Future[int]"]:
    """Kills the scheduler when so many pods are seen bound; gives how many really were."""
    seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def count() -> int:
        await seen
        return await env.bound()

    async with env.followed() as pods:
        pods.add_index("bound", lambda pod: ["yes"] if pod.raw["spec"].get("nodeName") else [])

        def look(_old: RawObject | None, _new: RawObject | None) -> None:
            if not seen.done() and len(pods.by_index("bound", "yes")) >= after:
                env.muster.kill(SCHEDULER)
                seen.set_result(None)

        pods.subscribe(look)
        counting = asyncio.ensure_future(count())
        try:
            yield counting
        finally:
            counting.cancel()
            await asyncio.wait({counting})
