"""From events to Bindings: the bound pods, their order, and waiting roots."""

import random

import pytest

from scheduler.core.values.model import PodInfo
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import StateBuilder
from tools.testing.effort import seeds


def gangs(builder: StateBuilder, *sizes: int, cpu: int = 1) -> list[list[PodInfo]]:
    made = []
    for index, size in enumerate(sizes):
        builder.gang(f"g{index}", size, created=str(index))
        made.append(builder.pods(f"g{index}", size, cpu))
    return made


def names(pods: list[PodInfo]) -> set[str]:
    return {pod.name for pod in pods}


async def test_two_gangs_of_four_on_room_for_five_give_exactly_one_gang() -> None:
    harness = Harness()
    harness.builder.nodes(5, cpu=1)
    first, _ = gangs(harness.builder, 4, 4)

    async with harness.leading():
        await harness.settle(5)

    assert set(harness.api.bound) == names(first)


async def test_a_gang_that_does_not_fit_lets_smaller_ones_pass() -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    _, small = gangs(harness.builder, 4, 2)
    single = harness.builder.pod()

    async with harness.leading():
        await harness.settle()

    assert set(harness.api.bound) == {*names(small), single.name}


async def test_a_waiting_gang_is_tried_as_soon_as_a_node_comes() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    (pods,) = gangs(harness.builder, 4)

    async with harness.leading():
        await harness.settle()
        assert harness.api.bound == {}
        harness.builder.node("big", cpu=4)
        await harness.settle()

    assert set(harness.api.bound) == names(pods)


async def test_a_waiting_gang_is_tried_as_soon_as_another_leaves() -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=1)
    first, second = gangs(harness.builder, 4, 4)

    async with harness.leading():
        await harness.settle()
        for pod in first:
            harness.builder.state.remove_pod(pod.uid)
        await harness.settle()

    assert set(harness.api.bound) == names(first) | names(second)


async def test_priority_goes_before_age() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    harness.builder.pod(priority=0, name="old")
    harness.builder.pod(priority=5, name="urgent")

    async with harness.leading():
        await harness.settle()

    assert set(harness.api.bound) == {"urgent"}


async def test_a_half_running_gang_is_completed_before_others_of_its_priority() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    gangs(harness.builder, 1)
    harness.builder.gang("half", 2, created="9")
    harness.builder.pod("half", node="n0")
    missing = harness.builder.pod("half")

    async with harness.leading():
        await harness.settle()

    assert set(harness.api.bound) == {missing.name}


async def test_a_more_important_gang_goes_before_a_half_running_one() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("half", 2, created="1", priority=1)
    harness.builder.pod("half", node="n0", priority=1)
    harness.builder.pod("half", priority=1)
    harness.builder.gang("urgent", 1, created="9", priority=2)
    urgent = harness.builder.pod("urgent", priority=2)

    async with harness.leading():
        await harness.settle()

    assert set(harness.api.bound) == {urgent.name}


async def test_late_members_of_a_running_gang_are_bound_one_by_one() -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=1)
    gangs(harness.builder, 2)

    async with harness.leading():
        await harness.settle()
        late = harness.builder.pod("g0")
        await harness.settle()

    assert late.name in harness.api.bound


async def test_assumed_pods_take_room_before_the_watch_confirms_them() -> None:
    harness = Harness()
    harness.api.deliver = False
    harness.builder.nodes(4, cpu=1)
    first, _ = gangs(harness.builder, 3, 3)

    async with harness.leading():
        await harness.settle(2)

    assert set(harness.api.bound) == names(first)


async def test_refused_roots_are_tried_once_a_minute_without_an_event() -> None:
    harness = Harness()
    gangs(harness.builder, 1)

    async with harness.leading():
        await harness.settle()
        due = harness.queue.next_time()
        await harness.settle(61)

    later = harness.queue.next_time()
    assert due is not None
    assert later is not None
    assert later > due


@pytest.mark.parametrize("cpu", [1, 0])
async def test_a_waiting_root_counts_a_new_node_even_if_that_does_not_help(cpu: int) -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    key = harness.builder.gang("g", 9)
    harness.builder.pods("g", 9)
    harness.observe(key)

    async with harness.leading():
        await harness.settle(2)
        before = harness.summary(key)
        harness.builder.node("late", cpu=cpu)
        await harness.settle(20)
        after = harness.summary(key)
        harness.builder.state.remove_node("late")
        await harness.settle(20)

    assert "0/3 nodes are available: 3 Insufficient cpu." in before
    assert "0/4 nodes are available: 4 Insufficient cpu." in after
    assert harness.summary(key) == before


@pytest.mark.parametrize("seed", seeds(3, 8))
async def test_churn_settles_and_stays_settled(seed: int) -> None:
    chance = random.Random(seed)
    harness = Harness()
    builder = harness.builder
    builder.nodes(6, cpu=4, rack_of=2)
    minimums: dict[str, int] = {}

    async with harness.leading():
        for index in range(25):
            name, size = f"g{index}", chance.randint(1, 6)
            minimums[name] = chance.randint(1, size)
            builder.gang(name, minimums[name], rack=chance.random() < 0.4, created=f"{index:03}")
            builder.pods(name, size, chance.randint(1, 2))
            if chance.random() < 0.5 and builder.state.pods:
                gone = chance.choice(
                    sorted({p.info.group for p in builder.state.pods.values()} - {None}, key=str)
                )
                for pod in [p for p in builder.state.pods.values() if p.info.group == gone]:
                    builder.state.remove_pod(pod.info.uid)
            await harness.settle()
        await harness.settle(10)
        before = dict(harness.api.bound)
        for _ in range(5):
            builder.state.reconsider_all()
            await harness.settle(2)

    assert harness.api.bound == before
    assert (builder.state.nodes.free >= 0).all()
    for name, minimum in minimums.items():
        members = [p for p in builder.state.pods.values() if p.info.group == name]
        running = sum(bool(p.info.node) for p in members)
        assert running == 0 or running >= minimum, name
