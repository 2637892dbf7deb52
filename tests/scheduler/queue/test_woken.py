"""The end of a victim wakes only roots for which it can change the result."""

from prometheus_client import REGISTRY

from scheduler.core.values.model import PodInfo, Requirements
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.state_builder import requests


def decisions() -> float:
    """Return the number of decided roots since the process began."""
    name, results = "muster_scheduler_schedule_attempts_total", ("scheduled", "unschedulable")
    return sum(REGISTRY.get_sample_value(name, {"result": each}) or 0.0 for each in results)


async def compete(harness: EvictionHarness, gangs: int, size: int) -> None:
    """Create as many pending gangs as lower ones fill the cluster; all victims are terminating."""
    harness.builder.nodes(gangs * size, cpu=1)
    for number in range(gangs):
        harness.observe(harness.builder.group(f"low{number}", size, mode="all"))
        first = number * size
        harness.builder.runs(f"low{number}", *(f"n{first + i}" for i in range(size)))
    for number in range(gangs):
        harness.observe(harness.builder.group(f"high{number}", size, priority=5))
        harness.builder.waits(f"high{number}", size, priority=5)
    await harness.settle(5)
    assert len(harness.evictor_api.deleted) == gangs * size


async def test_each_of_many_preemptors_is_decided_once_its_own_victims_are_gone() -> None:
    harness, gangs, size = EvictionHarness(), 8, 6
    async with harness.leading():
        await compete(harness, gangs, size)
        before = decisions()
        # The victims end interleaved, so that for long no gang has all of its slots.
        for name in sorted(harness.evictor_api.deleted, key=lambda name: name[::-1]):
            harness.builder.state.remove_pod(f"uid-{name}")
            await harness.settle()
        await harness.settle(1)  # Reservations are shared
        assert len(harness.api.bound) == gangs * size
        assert decisions() - before == gangs


async def test_room_without_a_nomination_wakes_all_roots_that_could_use_it() -> None:
    harness = EvictionHarness()
    async with harness.leading(unsettled="victims stay"):
        await compete(harness, 2, 3)
        for number in range(6):
            harness.builder.node(f"new{number}", 1)
        await harness.settle()
        assert len(harness.api.bound) == 6


async def test_nominated_room_wakes_roots_of_higher_priority() -> None:
    harness = EvictionHarness()
    async with harness.leading(unsettled="victims stay"):
        await compete(harness, 2, 3)
        harness.observe(harness.builder.group("top", 3, priority=9))
        harness.builder.waits("top", 3, priority=9)
        await harness.settle()
        for pod in list(harness.builder.state.pods.values()):
            if pod.info.terminating and pod.node in ("n0", "n1", "n2"):
                harness.builder.state.remove_pod(pod.info.uid)
                await harness.settle()
        groups = {pod.info.name: pod.info.group for pod in harness.builder.state.pods.values()}
        assert [groups[name] for name in harness.api.bound] == ["top"] * 3


async def test_a_gang_starts_at_min_count_though_a_further_pod_still_waits_for_its_place() -> None:
    harness = EvictionHarness()
    async with harness.leading(unsettled="one victim stays"):
        harness.builder.nodes(4, cpu=1)
        harness.observe(harness.builder.group("low", 4, mode="all"))
        victims: list[PodInfo] = harness.builder.runs("low", "n0", "n1", "n2", "n3")
        harness.observe(harness.builder.group("high", 3, priority=5))
        harness.builder.waits("high", 4, priority=5)
        await harness.settle(5)
        for victim in victims[:3]:
            harness.builder.state.remove_pod(victim.uid)
            await harness.settle()
        assert len(harness.api.bound) == 3


async def test_a_place_that_was_nominated_and_not_taken_is_room_for_others() -> None:
    """The gang's first victim is deleted, the other terminates; then a rack for both is added."""
    harness = EvictionHarness()
    builder = harness.builder
    for name in ("n0", "n1"):
        builder.node(name, cpu=4, labels={"rack": "old"})
    builder.runs(None, "n0", "n1", cpu=4)
    harness.observe(builder.group("gang", 2, priority=10, topology="rack"))
    builder.waits("gang", 2, cpu=4, priority=10)
    async with harness.leading():
        await harness.settle(2)
        api = harness.evictor_api
        gone, stays = sorted(api.leaving, key=lambda name: builder.state.pods[f"uid-{name}"].node)
        builder.state.remove_pod(f"uid-{gone}")
        await harness.settle(1)
        wants = Requirements(requests(4), selector=(("rack", "old"),))
        low = builder.pod(name="low", requirements=wants, priority=1)
        await harness.settle(1)
        assert low.name not in api.bound
        builder.node("large", cpu=8, labels={"rack": "new"})
        await harness.settle(1)
        assert sorted(api.bound.values()) == ["large", "large", "n0"]
        assert stays in api.leaving
