"""From a refusal to the place of the victims: conditions, evictions, nominations, and their end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from kube.errors import Forbidden, ServerError
from scheduler.config import Preemption
from scheduler.core.model import POD_GROUP, PodInfo
from tests.scheduler.arena import WRITERS, Arena


def names(*infos: list[PodInfo]) -> set[str]:
    return {info.name for each in infos for info in each}


def full_rack(arena: Arena, *, nodes: int = 2, mode: str = "all") -> list[PodInfo]:
    arena.world.nodes(nodes, cpu=1)
    key = arena.contest.group("low", nodes, mode=mode)
    arena.observe(key)
    return arena.contest.runs("low", *(f"n{i}" for i in range(nodes)))


def preemptor(arena: Arena, pods: int, *, priority: int = 5, name: str = "high") -> list[PodInfo]:
    key = arena.contest.group(name, pods, priority=priority)
    arena.observe(key)
    return arena.contest.waits(name, pods, priority=priority)


async def test_a_gang_preempts_a_whole_unit() -> None:
    arena = Arena()
    low = full_rack(arena)
    high = preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()
        assert set(arena.arena.deleted) == names(low)
        assert not arena.api.bound
        arena.arena.end()
        await arena.settle()

    assert set(arena.api.bound) == names(high)
    assert "high" not in {hold.root[2] for hold in arena.world.state.nominations}


async def test_all_are_marked_before_the_first_is_deleted() -> None:
    arena = Arena()
    low = full_rack(arena)
    arena.arena.fail_delete = lambda _name: ServerError(500, "InternalError", "not now")
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle(5)  # what is reported while evictions last comes later

    assert set(arena.arena.marked) == {"PodGroup/low", *(f"Pod/{n}" for n in names(low))}


async def test_an_earlier_plan_is_carried_out_first_and_nominations_last() -> None:
    before = REGISTRY.get_sample_value("muster_scheduler_evictions_open")
    arena = Arena()
    arena.arena.turns = 3
    arena.world.nodes(60, cpu=1)
    for number in range(2):
        arena.observe(arena.contest.group(f"low{number}", 30, mode="all"))
        arena.contest.runs(f"low{number}", *(f"n{30 * number + i}" for i in range(30)))
    for number in range(2):
        preemptor(arena, 30, name=f"high{number}")

    async with arena.leading():
        await arena.settle(10)

    assert len(arena.arena.deleted) == 60
    first = arena.arena.order.index(f"delete {arena.arena.deleted[0]}")
    marks = [at for at, said in enumerate(arena.arena.order) if said.startswith("mark Pod/")]
    assert sum(at > first for at in marks) >= 15, "the second plan's marks came first"
    assert {pod[:3] for pod in arena.arena.deleted[:8]} == {arena.arena.deleted[0][:3]}
    nominations = [at for at, said in enumerate(arena.arena.order) if said.startswith("nominate")]
    assert len(nominations) == 60
    assert sum(at < max(marks) for at in nominations) <= 4 * WRITERS
    assert REGISTRY.get_sample_value("muster_scheduler_evictions_open") == before


async def test_a_delete_that_fails_is_retried() -> None:
    arena = Arena()
    low = full_rack(arena)
    failures = iter([ServerError(500, "InternalError", "not now")] * 3)
    arena.arena.fail_delete = lambda _name: next(failures, None)
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle(10)

    assert set(arena.arena.deleted) == names(low)


async def test_a_victim_that_cannot_be_deleted_stays() -> None:
    arena = Arena()
    low = full_rack(arena)
    arena.arena.fail_delete = lambda _name: Forbidden(403, "Forbidden", "not yours")
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()

    assert arena.world.state.units.leaves(arena.world.single(low[0])) is False
    assert len(arena.events_of("Preempting")) == 1
    assert len(arena.arena.nominated) == 2
    assert set(arena.arena.nominated.values()) == {""}


async def test_others_are_evicted_instead_of_a_victim_that_cannot_be_deleted() -> None:
    arena = Arena()
    low = full_rack(arena)
    arena.world.node("n2", cpu=1)
    arena.contest.group("other", 1, priority=1)
    (other,) = arena.contest.runs("other", "n2", priority=1)
    names_of_low = names(low)
    forbidden = Forbidden(403, "Forbidden", "not yours")
    arena.arena.fail_delete = lambda name: forbidden if name in names_of_low else None
    preemptor(arena, 1)

    async with arena.leading():
        await arena.settle(2)

    assert arena.arena.deleted == [other.name]


async def test_victim_and_preemptor_name_each_other() -> None:
    arena = Arena()
    full_rack(arena)
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()

    ((winner, said),) = arena.events_of("Preempting")
    assert (winner, "PodGroup ns/low" in said) == ("PodGroup/high", True)
    victims = arena.events_of("Preempted")
    assert {who for who, _ in victims} >= {"PodGroup/low"}
    assert all("PodGroup ns/high of priority 5" in message for _, message in victims)


async def test_the_preemptors_pods_are_nominated() -> None:
    arena = Arena()
    full_rack(arena)
    high = preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()

    assert set(arena.arena.nominated) == names(high)
    assert set(arena.arena.nominated.values()) == {"n0", "n1"}


async def test_while_victims_terminate_no_others_are_evicted() -> None:
    arena = Arena()
    low = full_rack(arena)
    arena.world.node("other", cpu=2)
    more = arena.contest.runs(None, "other", "other", priority=1)
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()
        for _ in range(5):
            arena.world.state.reconsider_all()
            await arena.settle(61)

    assert set(arena.arena.deleted) in (names(low), names(more))


async def test_equal_and_lower_priority_cannot_take_the_nominated_place() -> None:
    arena = Arena()
    full_rack(arena)
    high = preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()
        for priority in (0, 5):
            arena.contest.waits(None, 2, priority=priority)
        arena.world.state.remove_pod(f"uid-{arena.arena.leaving[0]}")
        arena.arena.leaving.pop(0)
        await arena.settle()
        assert not arena.api.bound
        arena.arena.end()
        await arena.settle()

    assert set(arena.api.bound) == names(high)


async def test_higher_priority_may_take_the_nominated_place() -> None:
    arena = Arena()
    full_rack(arena)
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()
        higher = preemptor(arena, 2, priority=9, name="higher")
        arena.arena.end()
        await arena.settle()

    assert set(arena.api.bound) == names(higher)


async def test_the_nomination_ends_with_its_root() -> None:
    arena = Arena()
    full_rack(arena)
    high = preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()
        arena.arena.end()
        for info in high:
            arena.world.state.remove_pod(info.uid)
        late = arena.contest.waits(None, 2)
        await arena.settle()

    assert set(arena.api.bound) == names(late)


async def test_a_node_deleted_while_victims_terminate_leads_to_a_new_plan() -> None:
    arena = Arena()
    full_rack(arena)
    arena.world.node("n2", cpu=1)
    other = arena.contest.runs(None, "n2", priority=2)
    high = preemptor(arena, 2)

    async with arena.leading():
        await arena.settle()
        arena.world.state.remove_node("n0")
        await arena.settle(10)
        arena.arena.end()
        await arena.settle(10)

    assert set(arena.arena.deleted) >= names(other)
    assert set(arena.api.bound) == names(high)


async def test_a_victim_that_does_not_terminate_is_not_waited_for_for_ever() -> None:
    arena = Arena(config=Preemption(patience_seconds=60))
    arena.world.nodes(2, cpu=1)
    stuck = arena.contest.runs(None, "n0")
    other = arena.contest.runs(None, "n1", priority=1)
    (high,) = arena.contest.waits(None, priority=5)

    async with arena.leading():
        await arena.settle()
        assert set(arena.arena.deleted) == names(stuck)
        by = arena.clock.now().timestamp() + 30
        info = arena.world.single(stuck[0]).info
        arena.world.state.set_pod(replace(info, leaves_by=by))
        await arena.settle(180)
        arena.arena.leaving.remove(stuck[0].name)
        arena.arena.end()
        await arena.settle()

    assert set(arena.arena.deleted) == names(stuck, other)
    assert set(arena.api.bound) == {high.name}


async def test_no_pod_is_evicted_before_the_delay_is_over() -> None:
    arena = Arena()
    low = full_rack(arena)
    preemptor(arena, 2)
    spec = arena.world.state.forest.groups[POD_GROUP, "ns", "high"].spec
    assert spec is not None
    arena.world.state.set_group(replace(spec, delay=30.0))

    async with arena.leading():
        await arena.settle(29)
        assert not arena.arena.deleted
        await arena.settle(2)

    assert set(arena.arena.deleted) == names(low)


async def test_with_room_before_the_delay_is_over_no_pod_is_evicted() -> None:
    arena = Arena()
    full_rack(arena)
    high = preemptor(arena, 2)
    spec = arena.world.state.forest.groups[POD_GROUP, "ns", "high"].spec
    assert spec is not None
    arena.world.state.set_group(replace(spec, delay=30.0))

    async with arena.leading():
        await arena.settle(10)
        arena.world.node("new", cpu=2)
        await arena.settle(40)

    assert not arena.arena.deleted
    assert set(arena.api.bound) == names(high)


@pytest.mark.parametrize("marked", [1, 2])
async def test_a_new_leader_completes_evictions_that_were_begun(marked: int) -> None:
    arena = Arena()
    low = full_rack(arena)
    for info in low[:marked]:
        arena.world.state.set_pod(replace(info, targeted=True))

    arena.evictor.resume()
    async with arena.leading():
        await arena.settle()

    assert set(arena.arena.deleted) == names(low)


async def test_without_preemption_no_pod_is_evicted() -> None:
    arena = Arena(config=Preemption(enabled=False))
    full_rack(arena)
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle(5)

    assert not arena.arena.deleted


async def test_the_blocker_names_the_victims() -> None:
    arena = Arena()
    full_rack(arena)
    preemptor(arena, 2)

    async with arena.leading():
        await arena.settle(5)

    status = arena.observed[POD_GROUP, "ns", "high"].status or {}
    assert status["blocker"]["summary"].endswith("waits for evicted pods to end") or (
        "PodGroup ns/low" in status["blocker"]["summary"]
    )
