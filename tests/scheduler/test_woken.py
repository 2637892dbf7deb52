"""The end of a victim wakes only roots for which it can make a difference."""

from __future__ import annotations

from prometheus_client import REGISTRY

from scheduler.core.model import PodInfo
from tests.scheduler.arena import Arena


def decisions() -> float:
    """How many roots were decided since the process began."""
    name, outcomes = "muster_scheduler_decisions_total", ("placed", "refused")
    return sum(REGISTRY.get_sample_value(name, {"outcome": each}) or 0.0 for each in outcomes)


async def compete(arena: Arena, gangs: int, size: int) -> None:
    """As many waiting gangs as lower ones fill the cluster; all victims are on their way out."""
    arena.world.nodes(gangs * size, cpu=1)
    for number in range(gangs):
        arena.observe(arena.contest.group(f"low{number}", size, mode="all"))
        first = number * size
        arena.contest.runs(f"low{number}", *(f"n{first + i}" for i in range(size)))
    for number in range(gangs):
        arena.observe(arena.contest.group(f"high{number}", size, priority=5))
        arena.contest.waits(f"high{number}", size, priority=5)
    await arena.settle(5)
    assert len(arena.arena.deleted) == gangs * size


async def test_each_of_many_preemptors_is_decided_once_its_own_victims_are_gone() -> None:
    arena, gangs, size = Arena(), 8, 6
    async with arena.leading():
        await compete(arena, gangs, size)
        before = decisions()
        # The victims end in turns, so that for long nobody has all of its places.
        for name in sorted(arena.arena.deleted, key=lambda name: name[::-1]):
            arena.world.state.remove_pod(f"uid-{name}")
            await arena.settle()
        await arena.settle(1)  # Reservations are shared
        assert len(arena.api.bound) == gangs * size
        assert decisions() - before == gangs


async def test_room_without_a_nomination_wakes_all_roots_that_could_use_it() -> None:
    arena = Arena()
    async with arena.leading(unsettled="victims stay"):
        await compete(arena, 2, 3)
        for number in range(6):
            arena.world.node(f"new{number}", 1)
        await arena.settle()
        assert len(arena.api.bound) == 6


async def test_nominated_room_wakes_roots_of_higher_priority() -> None:
    arena = Arena()
    async with arena.leading(unsettled="victims stay"):
        await compete(arena, 2, 3)
        arena.observe(arena.contest.group("top", 3, priority=9))
        arena.contest.waits("top", 3, priority=9)
        await arena.settle()
        for pod in list(arena.world.state.pods.values()):
            if pod.info.terminating and pod.node in ("n0", "n1", "n2"):
                arena.world.state.remove_pod(pod.info.uid)
                await arena.settle()
        groups = {pod.info.name: pod.info.group for pod in arena.world.state.pods.values()}
        assert [groups[name] for name in arena.api.bound] == ["top"] * 3


async def test_a_gang_starts_at_min_count_though_a_further_pod_still_waits_for_its_place() -> None:
    arena = Arena()
    async with arena.leading(unsettled="one victim stays"):
        arena.world.nodes(4, cpu=1)
        arena.observe(arena.contest.group("low", 4, mode="all"))
        victims: list[PodInfo] = arena.contest.runs("low", "n0", "n1", "n2", "n3")
        arena.observe(arena.contest.group("high", 3, priority=5))
        arena.contest.waits("high", 4, priority=5)
        await arena.settle(5)
        for victim in victims[:3]:
            arena.world.state.remove_pod(victim.uid)
            await arena.settle()
        assert len(arena.api.bound) == 3
