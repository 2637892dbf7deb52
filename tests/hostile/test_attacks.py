"""The attacks of e2e/faults/hostile in memory: no effect, and linear work."""

import asyncio
import inspect
from collections.abc import Sequence
from functools import cache

import pytest

from e2e.faults.hostile.attacks import ATTACKS, Attack
from e2e.faults.hostile.steps import Step
from tests.hostile.processes import Processes
from tests.support.counting import calls
from tools.testing.effort import selected

TWICE = 2.7
"""Maximum ratio of the calls at twice the size."""

GROWING = ("deep_chain", "flood_of_groups", "groups_from_pods", "own_shapes")
"""Attacks with the highest cost per object; with `--long` all are measured at two sizes."""
EACH = [pytest.param(attack, id=attack.__name__) for attack in ATTACKS]


async def play(steps: Sequence[Step]) -> None:
    processes = Processes()
    await processes.start()
    try:
        await processes.carry_out(steps)
        await processes.another_gang_runs()
        await processes.snapshot()
        await processes.all_goes()
    finally:
        await processes.stop()


@pytest.mark.parametrize("attack", EACH)
async def test_another_tenant_does_not_notice(attack: Attack) -> None:
    await play(attack())


@pytest.mark.parametrize("attack", selected({it.__name__: it for it in ATTACKS}, GROWING))
def test_twice_the_size_is_twice_the_work(attack: Attack) -> None:
    whole: int = inspect.signature(attack).parameters["size"].default
    idle, half, full = idle_work(), work(attack(whole // 8)), work(attack(whole // 4))

    assert full - idle <= TWICE * max(half - idle, idle)


@cache
def idle_work() -> int:
    """Return the number of calls while the tenant is idle."""
    return work([])


def work(steps: Sequence[Step]) -> int:
    """Return the number of calls that the steps cause in all processes."""
    return calls(lambda: asyncio.run(play(steps)))
