"""Kills between any two writes: the next leader completes the work, or rolls it back."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from tests.scheduler.claims.claims_harness import ClaimsApi, ClaimsHarness
from tests.scheduler.harness import SchedulerApi
from tests.support.memory_api import Request

PODS = 3


class MortalApi(ClaimsApi):
    """API that answers `left` writes; the next one is carried out or not, and gets no response."""

    left = 1_000_000
    carries_out_the_last = False

    async def before(self, request: Request) -> None:
        if request.verb in ("create", "patch"):
            self.left -= 1
            if self.left < 0 or (not self.left and not self.carries_out_the_last):
                await asyncio.Future()
        await super().before(request)

    async def after(self, request: Request) -> None:
        await super().after(request)
        if request.verb in ("create", "patch") and self.left <= 0:
            await asyncio.Future()


class MortalHarness(ClaimsHarness):
    api: MortalApi

    def build_api(self) -> SchedulerApi:
        return MortalApi(self.builder, self)


def scheduler() -> MortalHarness:
    """Return a scheduler with one more node, each with one device, than the gang needs."""
    harness = MortalHarness()
    harness.device_class()
    for index in range(PODS + 1):
        harness.builder.node(f"n{index}")
        harness.devices(f"n{index}", 1)
    harness.observe(harness.builder.gang("g", PODS))
    return harness


async def killed(after: int, *, carries_out_the_last: bool) -> MortalHarness:
    """Return a scheduler that is killed at this write of binding a gang."""
    harness = scheduler()
    harness.api.left = after
    harness.api.carries_out_the_last = carries_out_the_last
    for at in range(PODS):
        harness.pod(f"p{at}", "g")
        harness.claim(f"p{at}-0", owner=f"p{at}")
    async with harness.leading(unsettled="it dies"):
        await harness.settle(3)
    return harness


def successor(dead: MortalHarness, made: Callable[[], MortalHarness] = scheduler) -> MortalHarness:
    """Return another scheduler, with the API objects of the killed one."""
    harness = made()
    harness.api.reservations.update(dead.api.reservations)
    harness.api.bound = dict(dead.api.bound)
    for claim in dead.api.claims.values():
        harness.api.store(claim)
    for pod in dead.api.pods.values():
        harness.pod_event(pod)
    return harness


async def lead(harness: MortalHarness, seconds: float = 5) -> None:
    harness.binder.reset()
    await harness.binder.recover(harness.fence)
    harness.builder.state.reconsider_all()
    async with harness.leading():
        await harness.settle(seconds)


@pytest.mark.parametrize("carries_out_the_last", [False, True])
@pytest.mark.parametrize("after", range(1, 13))
async def test_the_next_leader_completes_the_gang(after: int, carries_out_the_last: bool) -> None:
    dead = await killed(after, carries_out_the_last=carries_out_the_last)
    harness = successor(dead)

    await lead(harness)

    assert sorted(harness.api.bound) == ["p0", "p1", "p2"]
    held = harness.held()
    assert sorted(held) == ["p0-0", "p1-0", "p2-0"]
    for pod, node in harness.api.bound.items():
        assert held[f"{pod}-0"] == [f"{node}/d0"]
        assert harness.consumers(f"{pod}-0") == [pod]
    assert harness.api.reservations == {}


@pytest.mark.parametrize("after", range(1, 8))
async def test_what_was_written_for_a_gang_that_is_gone_is_given_back(after: int) -> None:
    dead = await killed(after, carries_out_the_last=True)
    assert dead.api.bound == {}
    harness = successor(dead)
    # A member was deleted meanwhile: the others may not be decided any more.
    harness.delete_pod("p2")

    await lead(harness, seconds=60)

    assert harness.api.bound == {}
    assert [name for name in harness.held() if name != "p2-0"] == []
    assert harness.api.reservations == {}


@pytest.mark.parametrize("after", range(1, 8))
async def test_what_was_written_for_nodes_that_are_gone_is_written_for_others(after: int) -> None:
    dead = await killed(after, carries_out_the_last=True)
    harness = successor(dead)
    harness.builder.state.remove_node("n0")

    await lead(harness, seconds=60)

    assert sorted(harness.api.bound.values()) == ["n1", "n2", "n3"]
    devices = Counter(each for found in harness.held().values() for each in found)
    assert devices == Counter({"n1/d0": 1, "n2/d0": 1, "n3/d0": 1})
