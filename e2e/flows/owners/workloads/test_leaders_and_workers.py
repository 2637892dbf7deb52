"""Leaders created first, by their own controller, start where their complete replica fits.

`make test-workloads` builds that controller and runs these flows.
"""

import pytest

from e2e.flows.owners.workloads.test_leader_worker_sets import (
    SIZE,
    applied,
    cluster,
    gang,
    group,
    running_muster,
)
from e2e.harness.environment import Environment
from e2e.harness.groups import held

__all__ = ["cluster", "running_muster"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(400), pytest.mark.usefixtures("expected_pods")]


async def test_a_leader_starts_once_there_is_room_for_its_workers(env: Environment) -> None:
    await env.add_node(cpu=SIZE - 1)
    async with applied(env, gang(env, 1).leader_ready().to_create()):
        await env.waits(group(0, leader=True))
        assert await env.bound() == 0

        await env.add_node(cpu=1)
        await env.runs("", SIZE)
        await held(env, group(0), 0)


async def test_leaders_leave_each_other_the_room_for_workers(env: Environment) -> None:
    """Leaders of both replicas would use the capacity for one replica's workers."""
    await env.add_node(cpu=2 * SIZE - 1)
    async with applied(env, gang(env, 2).leader_ready().to_create()):
        await env.runs("", SIZE)
        assert await env.bound() == SIZE

        await env.add_node(cpu=1)
        await env.runs("", 2 * SIZE)


async def test_replicas_of_a_tree_start_together(env: Environment) -> None:
    await env.add_node(cpu=2 * SIZE - 1)
    async with applied(env, gang(env, 2, "Composite").leader_ready().to_create()):
        await env.waits(group(0, leader=True))
        assert await env.bound() == 0

        await env.add_node(cpu=1)
        await env.runs("", 2 * SIZE)


async def test_an_exclusive_topology_brings_workers_to_their_places(env: Environment) -> None:
    key = "test.muster.dev/rack"
    for rack in ("a", "b"):
        for _ in range(2):
            await env.add_node(cpu=2, labels={key: f"{env.name}-{rack}"})
    async with applied(env, gang(env).exclusive(key).to_create()):
        await env.runs("", 2 * SIZE)
