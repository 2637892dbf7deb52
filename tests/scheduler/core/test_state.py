"""The state follows events in any order, and knows what a decision has taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.node_table import PODS
from scheduler.core.state import State
from tests.scheduler.world import World


def used_pods(state: State, node: str) -> int:
    nodes = state.nodes
    row, pods = nodes.row_of[node], nodes.resources[PODS]
    return int(nodes.allocatable[pods, row] - nodes.free[pods, row])


def test_a_pod_seen_before_its_node_is_counted_when_the_node_comes() -> None:
    world = World()
    world.pod(node="n")
    world.node("n")

    assert used_pods(world.state, "n") == 1


def test_a_node_that_returns_finds_its_pods_again() -> None:
    world = World()
    world.node("n")
    world.pod(node="n")
    world.state.remove_node("n")
    world.node("other")
    world.node("n")

    assert (used_pods(world.state, "n"), used_pods(world.state, "other")) == (1, 0)


def test_a_finished_pod_gives_its_place_back() -> None:
    world = World()
    world.node("n")
    info = world.pod("g", node="n")
    world.state.set_pod(replace(info, phase="Succeeded"))

    assert used_pods(world.state, "n") == 0


def test_a_terminating_pod_keeps_its_place_until_it_is_gone() -> None:
    world = World()
    world.node("n")
    info = world.pod(node="n")
    world.state.set_pod(replace(info, terminating=True))
    held = used_pods(world.state, "n")
    world.state.remove_pod(info.uid)

    assert (held, used_pods(world.state, "n")) == (1, 0)


def test_an_assumed_pod_takes_its_place_once_and_keeps_it_when_confirmed() -> None:
    world = World()
    world.node("n")
    info = world.pod()
    world.state.assume([world.single(info)], [0])
    assumed = used_pods(world.state, "n")
    world.state.set_pod(replace(info, node="n", phase="Running"))

    assert (assumed, used_pods(world.state, "n")) == (1, 1)
    assert not world.single(info).assumed


def test_an_assumed_pod_bound_elsewhere_is_counted_there() -> None:
    world = World()
    world.node("n")
    world.node("m")
    info = world.pod()
    world.state.assume([world.single(info)], [0])
    world.state.set_pod(replace(info, node="m"))

    assert (used_pods(world.state, "n"), used_pods(world.state, "m")) == (0, 1)


def test_a_forgotten_assumption_frees_the_place_and_wakes() -> None:
    world = World()
    world.node("n")
    info = world.pod()
    world.state.assume([world.single(info)], [0])
    world.state.take_changes()
    world.state.forget(info.uid)
    changes = world.state.take_changes()

    assert used_pods(world.state, "n") == 0
    assert changes.rows == {0}
    assert changes.reconsider == {("Pod", "ns", info.name)}


def test_a_pod_that_merely_starts_to_run_as_decided_stirs_nothing() -> None:
    world = World()
    world.node("n")
    world.gang("g")
    info = world.pod("g")
    world.state.assume([world.single(info)], [0])
    world.state.take_changes()
    world.state.set_pod(replace(info, node="n", phase="Running"))
    changes = world.state.take_changes()

    assert (changes.reconsider, changes.rows) == (set(), set())
    assert ("PodGroup", "ns", "g") in changes.entities


def test_a_heartbeat_changes_nothing() -> None:
    world = World()
    world.node("n")
    world.state.take_changes()
    version = world.state.nodes.version
    world.node("n")

    assert world.state.take_changes().rows == set()
    assert world.state.nodes.version == version


def test_a_node_that_shrinks_under_its_pods_has_no_room() -> None:
    world = World()
    world.node("n", cpu=4)
    world.pod(node="n", cpu=4)
    world.node("n", cpu=2)
    info = world.pod()

    assert int(world.state.framework.slots(world.single(info).shape).sum()) == 0


def test_a_vacated_row_is_used_again() -> None:
    world = World()
    world.nodes(3)
    world.state.remove_node("n1")
    world.node("new", cpu=7)

    assert world.state.nodes.row_of["new"] == 1
    assert world.state.nodes.size == 3


def test_groups_nobody_names_are_forgotten() -> None:
    world = World()
    key = world.gang("g", parent="root")
    info = world.pod("g")
    world.state.remove_group(key)
    named = set(world.state.forest.groups)
    world.state.remove_pod(info.uid)

    assert (named, set(world.state.forest.groups)) == ({key}, set())


def test_pods_that_came_and_went_leave_nothing_behind() -> None:
    world = World()
    world.node("n")
    for _ in range(3):
        info = world.pod("g", node="n")
        world.state.units.mark_evicting([world.state.pods[info.uid]])
        world.state.remove_pod(info.uid)

    units = world.state.units
    held = (units._dirty, units._evicting, world.state.pods, world.state.forest.groups)
    assert held == ({}, set(), {}, {})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_of_no_group_that_is_done_is_not_kept(phase: str) -> None:
    world = World()
    world.nodes(1)
    info = world.pod(node="n0")

    assert world.state.set_pod(replace(info, phase=phase)) is None

    assert world.state.pods == {}
    assert int(world.state.nodes.free[0, 0]) == 110
