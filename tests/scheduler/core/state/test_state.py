"""The state follows events in any order, and includes the results of decisions."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.nodes.resource_table import PODS
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import MembershipInfo
from tests.scheduler.state_builder import StateBuilder


def used_pods(state: State, node: str) -> int:
    nodes = state.nodes
    row, pods = nodes.row_of[node], nodes.resources.indices[PODS]
    return int(nodes.allocatable[pods, row] - nodes.free[pods, row])


def test_a_pod_seen_before_its_node_is_counted_when_the_node_comes() -> None:
    builder = StateBuilder()
    builder.pod(node="n")
    builder.node("n")

    assert used_pods(builder.state, "n") == 1


def test_a_node_that_returns_finds_its_pods_again() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.pod(node="n")
    builder.state.remove_node("n")
    builder.node("other")
    builder.node("n")

    assert (used_pods(builder.state, "n"), used_pods(builder.state, "other")) == (1, 0)


def test_a_finished_pod_gives_its_place_back() -> None:
    builder = StateBuilder()
    builder.node("n")
    info = builder.pod("g", node="n")
    builder.state.set_pod(replace(info, phase="Succeeded"))

    assert used_pods(builder.state, "n") == 0


def test_a_terminating_pod_keeps_its_place_until_it_is_gone() -> None:
    builder = StateBuilder()
    builder.node("n")
    info = builder.pod(node="n")
    builder.state.set_pod(replace(info, terminating=True))
    held = used_pods(builder.state, "n")
    builder.state.remove_pod(info.uid)

    assert (held, used_pods(builder.state, "n")) == (1, 0)


def test_an_assumed_pod_takes_its_place_once_and_keeps_it_when_confirmed() -> None:
    builder = StateBuilder()
    builder.node("n")
    info = builder.pod()
    builder.state.assume([builder.single(info)], [0])
    assumed = used_pods(builder.state, "n")
    builder.state.set_pod(replace(info, node="n", phase="Running"))

    assert (assumed, used_pods(builder.state, "n")) == (1, 1)
    assert not builder.single(info).assumed


def test_an_assumed_pod_bound_elsewhere_is_counted_there() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.node("m")
    info = builder.pod()
    builder.state.assume([builder.single(info)], [0])
    builder.state.set_pod(replace(info, node="m"))

    assert (used_pods(builder.state, "n"), used_pods(builder.state, "m")) == (0, 1)


def test_a_forgotten_assumption_frees_the_place_and_wakes() -> None:
    builder = StateBuilder()
    builder.node("n")
    info = builder.pod()
    builder.state.assume([builder.single(info)], [0])
    builder.state.take_changes()
    builder.state.forget(info.uid)
    changes = builder.state.take_changes()

    assert used_pods(builder.state, "n") == 0
    assert changes.rows == {0}
    assert changes.reconsider == {("Pod", "ns", info.name)}


def test_changes_have_the_pods_without_a_group_that_run_and_that_were_deleted() -> None:
    builder = StateBuilder()
    builder.node("n")
    runs, gone = (builder.single(builder.pod(node="n")) for _ in range(2))
    builder.gang("g")
    builder.pod("g", node="n")
    builder.state.remove_pod(gone.info.uid)

    assert builder.state.take_changes().singles == {runs.key: runs, gone.key: gone}
    assert builder.state.take_changes().singles == {}


def test_a_shape_is_kept_as_long_as_a_place_is_nominated_for_it() -> None:
    builder = StateBuilder()
    builder.node("n")
    state, pod = builder.state, builder.single(builder.pod(cpu=3))
    state.nominations.set(Nomination(pod.key, 0, ((pod.shape, (("n", 1),)),)))
    state.remove_pod(pod.info.uid)
    state.take_changes()
    assert pod.shape in list(state.shapes)

    state.end_nomination(pod.key)
    state.take_changes()
    assert pod.shape not in list(state.shapes)


def test_a_pod_that_merely_starts_to_run_as_decided_stirs_nothing() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.gang("g")
    info = builder.pod("g")
    builder.state.assume([builder.single(info)], [0])
    builder.state.take_changes()
    builder.state.set_pod(replace(info, node="n", phase="Running"))
    changes = builder.state.take_changes()

    assert (changes.reconsider, changes.rows) == (set(), set())
    assert ("PodGroup", "ns", "g") in changes.entities


def test_a_heartbeat_changes_nothing() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.state.take_changes()
    version = builder.state.nodes.version
    builder.node("n")

    assert builder.state.take_changes().rows == set()
    assert builder.state.nodes.version == version


def test_a_node_that_shrinks_under_its_pods_has_no_room() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=4)
    builder.pod(node="n", cpu=4)
    builder.node("n", cpu=2)
    info = builder.pod()

    assert int(builder.state.framework.slots(builder.single(info).shape).sum()) == 0


def test_a_vacated_row_is_used_again() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    builder.state.remove_node("n1")
    builder.node("new", cpu=7)

    assert builder.state.nodes.row_of["new"] == 1
    assert builder.state.nodes.size == 3


@pytest.mark.parametrize(
    ("held", "touched"),
    [
        pytest.param({"unclaimed": "its claim is missing"}, True, id="claims"),
        pytest.param({"membership": MembershipInfo(held=True)}, True, id="reference"),
        pytest.param({"gated": True}, False, id="gate"),
    ],
)
def test_a_new_leader_learns_of_the_held_pods_of_which_it_states_the_reason(
    held: dict[str, Any], touched: bool
) -> None:
    builder = StateBuilder()
    info = builder.pod()
    builder.state.set_pod(replace(info, **held))
    builder.state.take_changes()

    builder.state.reconsider_all()

    changes = builder.state.take_changes()
    assert (builder.state.pods[info.uid].key in changes.entities) == touched
    assert not changes.reconsider


def test_groups_nobody_names_are_forgotten() -> None:
    builder = StateBuilder()
    key = builder.gang("g", parent="root")
    info = builder.pod("g")
    builder.state.remove_group(key)
    named = set(builder.state.forest.groups)
    builder.state.remove_pod(info.uid)

    assert (named, set(builder.state.forest.groups)) == ({key}, set())


def test_pods_that_came_and_went_leave_nothing_behind() -> None:
    builder = StateBuilder()
    builder.node("n")
    for _ in range(3):
        info = builder.pod("g", node="n")
        builder.state.units.mark_evicting([builder.state.pods[info.uid]])
        builder.state.remove_pod(info.uid)

    units = builder.state.units
    held = (units._dirty, units._evicting, builder.state.pods, builder.state.forest.groups)
    assert held == ({}, {}, {}, {})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_of_no_group_that_is_done_is_not_kept(phase: str) -> None:
    builder = StateBuilder()
    builder.nodes(1)
    info = builder.pod(node="n0")

    assert builder.state.set_pod(replace(info, phase=phase)) is None

    assert builder.state.pods == {}
    assert int(builder.state.nodes.free[0, 0]) == 110
