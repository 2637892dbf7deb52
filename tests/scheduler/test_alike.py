"""Single pods decided in one go get what they would have got one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.alike import place_alike, together
from scheduler.core.forest import Pod
from scheduler.core.holds import Hold
from scheduler.core.placement import Budget, Placement, place
from tests.scheduler.harness import Harness
from tests.scheduler.world import World


def a_world(rooms: list[int], taken: list[int], count: int) -> tuple[World, list[Pod]]:
    world = World()
    for index, room in enumerate(rooms):
        world.node(f"n{index}", cpu=room)
    for index, pods in enumerate(taken[: len(rooms)]):
        for _ in range(min(pods, rooms[index])):
            world.pod(node=f"n{index}")
    infos = [world.pod() for _ in range(count)]
    return world, [world.state.pods[info.uid] for info in infos]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.integers(0, 4), min_size=8, max_size=8),
    st.integers(1, 12),
)
def test_many_in_one_go_are_as_one_by_one(rooms: list[int], taken: list[int], count: int) -> None:
    world, pods = a_world(rooms, taken, count)
    assert together(world.state, pods[0].shape)
    at_once = {p.pods[0].info.name: p.rows[0] for p in place_alike(world.state, pods, Budget())}

    in_turn: dict[str, int] = {}
    for pod in pods:
        decision = place(world.state, pod, Budget())
        if isinstance(decision, Placement):
            world.state.assume(decision.pods, decision.rows)
            in_turn[pod.info.name] = decision.rows[0]

    assert at_once == in_turn


async def test_who_finds_no_room_among_many_alike_is_refused_alone() -> None:
    harness = Harness()
    harness.world.node("n", cpu=3)
    names = [harness.world.pod().name for _ in range(5)]

    async with harness.leading():
        await harness.settle()

    assert sorted(harness.api.bound) == names[:3]
    assert harness.queue.sizes() == {"ready": 0, "refused": 2, "backing off": 0}


async def test_a_pod_of_another_kind_has_its_turn_in_between() -> None:
    harness = Harness()
    harness.world.node("n", cpu=4)
    first = harness.world.pod(cpu=1)
    large = harness.world.pod(cpu=3)
    late = harness.world.pod(cpu=1)

    async with harness.leading():
        await harness.settle()

    assert sorted(harness.api.bound) == [first.name, large.name]
    assert late.name not in harness.api.bound


async def test_what_is_held_for_others_keeps_its_order_of_deciding() -> None:
    harness = Harness()
    world = harness.world
    world.node("n", cpu=2)
    pod = world.pod()
    shape = world.state.pods[pod.uid].shape
    assert together(world.state, shape)

    world.state.holds.set(Hold(("PodGroup", "ns", "g"), 0, ((shape, (("n", 1),)),)))

    assert not together(world.state, shape)
