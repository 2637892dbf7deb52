"""A new leader completes the work of the last one before it decides anything."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from api.constants import RESERVATION
from kube.base.clock import rfc3339
from kube.base.errors import Forbidden
from scheduler.core.values.model import (
    POD_GROUP,
    Expression,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
)
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import requests


def left_behind(
    harness: Harness,
    *pods: tuple[PodInfo, str],
    age: float = 0,
    root: str = "g",
    kind: str = "PodGroup",
) -> None:
    """Store a Reservation of an earlier leader, `age` seconds old."""
    since = rfc3339(harness.server_clock.now() - timedelta(seconds=age))
    intent = {
        "root": {"kind": kind, "namespace": "ns", "name": root},
        "attempt": 1,
        "since": since,
        "pods": {pod.uid: node for pod, node in pods},
    }
    body = {
        "metadata": {"name": "old-1", "creationTimestamp": since},
        "spec": {"roots": 1, "intents": [json.dumps(intent)]},
    }
    harness.api.reservations["old-1"] = body


async def lead(harness: Harness, seconds: float = 5, *, unsettled: str = "") -> None:
    await harness.binder.recover(harness.fence)
    harness.builder.state.reconsider_all()
    async with harness.leading(unsettled=unsettled):
        await harness.settle(seconds)


@pytest.mark.parametrize("bound", [0, 1, 2, 3])
async def test_a_half_bound_gang_is_completed_on_the_decided_nodes(bound: int) -> None:
    harness = Harness()
    harness.builder.nodes(6, cpu=1)
    harness.builder.gang("g", 3)
    pods = [harness.builder.pod("g", node=f"n{i + 3}" if i < bound else "") for i in range(3)]
    left_behind(harness, *((pod, f"n{i + 3}") for i, pod in enumerate(pods)))

    await lead(harness)

    # A new decision would place them on n0 and after.
    assert harness.api.bound == {pods[i].name: f"n{i + 3}" for i in range(bound, 3)}
    assert harness.api.reservations == {}


def switch_off(harness: Harness) -> None:
    """Turn off the gate of a feature that the gang uses."""
    spec = harness.builder.state.forest.groups[POD_GROUP, "ns", "g"].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, gate_off="TopologyAwareWorkloadScheduling"))


@pytest.mark.parametrize(("bound", "want"), [(0, 0), (1, 2), (2, 1), (3, 0)])
async def test_with_its_gate_off_what_was_begun_is_completed_and_nothing_else_starts(
    bound: int, want: int
) -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    harness.builder.gang("g", 3)
    pods = [harness.builder.pod("g", node=f"n{i}" if i < bound else "") for i in range(3)]
    left_behind(harness, *((pod, f"n{i}") for i, pod in enumerate(pods)))
    switch_off(harness)

    await lead(harness)

    assert len(harness.api.bound) == want
    assert harness.api.reservations == {}


async def test_with_its_gate_off_what_cannot_be_completed_is_taken_back() -> None:
    """Another node would be a new decision, and a partial gang must not remain."""
    harness = Harness(timeout=20)
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    first = harness.builder.pod("g", node="n0")
    second = harness.builder.pod("g")
    left_behind(harness, (first, "n0"), (second, "gone"))
    switch_off(harness)

    await lead(harness, 30)

    assert harness.api.bound == {}
    assert harness.api.deleted == [first.name]
    assert harness.api.reservations == {}


async def test_a_half_bound_child_group_of_a_root_that_has_enough_others_is_given_up() -> None:
    harness = Harness(timeout=20)
    builder = harness.builder
    builder.nodes(3, cpu=1)
    builder.composite("tree", 1)
    builder.gang("a", 1, parent="tree")
    builder.gang("b", 3, parent="tree")
    one = builder.pod("a", node="n0")
    two = [builder.pod("b", node=name) for name in ("n1", "n2")]
    pods = [(one, "n0"), (two[0], "n1"), (two[1], "n2"), (builder.pod("b"), "gone")]
    left_behind(harness, *pods, root="tree", kind="CompositePodGroup")

    await lead(harness, 30)

    assert sorted(harness.api.deleted) == sorted(pod.name for pod in two)
    assert harness.api.reservations == {}


async def test_a_decision_that_cannot_be_completed_and_is_not_begun_is_made_again() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pods("g", 2)
    left_behind(harness, (first, "n1"), (second, "gone"))

    await lead(harness)

    assert set(harness.api.bound.values()) == {"n0", "n1"}
    assert harness.api.reservations == {}


async def test_missing_members_are_placed_again_with_the_bound_ones_kept() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    first = harness.builder.pod("g", node="n0")
    second = harness.builder.pod("g")
    left_behind(harness, (first, "n0"), (second, "gone"))

    await lead(harness)

    assert harness.api.bound == {second.name: "n1"}
    assert harness.api.deleted == []
    assert harness.api.reservations == {}


async def test_a_gang_whose_time_is_over_is_given_up_by_the_next_leader() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(1, cpu=1)
    key = harness.builder.gang("g", 2)
    harness.observe(key)
    first = harness.builder.pod("g", node="n0")
    second = harness.builder.pod("g")
    left_behind(harness, (first, "n0"), (second, "gone"), age=15)

    await lead(harness, seconds=3, unsettled="its time is not over yet")
    before = list(harness.api.deleted)
    async with harness.leading():
        await harness.settle(5)

    assert before == []
    assert harness.api.deleted == [first.name]
    assert ("PodGroup/g", "GangBindFailed") in [told[:2] for told in harness.events.told]
    assert harness.api.reservations == {}


async def test_a_gang_stored_in_part_only_was_never_begun() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=3)
    harness.builder.gang("g", 4)
    pods = harness.builder.pods("g", 4)
    left_behind(harness, (pods[0], "n0"), (pods[1], "n0"))

    await lead(harness)

    assert harness.api.bound == {}
    assert harness.api.reservations == {}


async def test_a_decided_place_that_another_pod_took_is_not_used() -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pods("g", 2)
    harness.builder.pod(node="n0", ours=False)
    left_behind(harness, (first, "n0"), (second, "n1"))

    await lead(harness)

    assert set(harness.api.bound.values()) == {"n1", "n2"}


async def test_a_decision_whose_pods_are_deleted_is_closed() -> None:
    harness = Harness()
    harness.builder.nodes(1)
    gone = harness.builder.pod("g")
    harness.builder.state.remove_pod(gone.uid)
    left_behind(harness, (gone, "n0"))

    await lead(harness)

    assert harness.api.bound == {}
    assert harness.api.reservations == {}


async def test_giving_up_continues_after_a_change_of_leaders() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(1, cpu=2)
    harness.builder.gang("g", 3)
    pods = [harness.builder.pod("g", node="n0") for _ in range(2)]
    missing = harness.builder.pod("g")
    left_behind(harness, (pods[0], "n0"), (pods[1], "n0"), (missing, "gone"), age=30)

    def lose_the_lease(name: str) -> None:
        if name == pods[1].name:
            harness.fence.revoke()

    harness.api.fail_delete = lose_the_lease
    harness.api.fail_bind = lambda _name: Forbidden(403, "Forbidden", "never")
    await lead(harness, seconds=3)

    assert harness.api.deleted == [pod.name for pod in pods]
    assert list(harness.api.reservations) == ["old-1"]


async def test_a_gang_is_not_given_up_by_a_leader_that_could_not_delete_all() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(1, cpu=20)
    harness.builder.gang("g", 13)
    pods = [harness.builder.pod("g", node="n0") for _ in range(12)]
    missing = harness.builder.pod("g")
    left_behind(harness, *((pod, "n0") for pod in pods), (missing, "gone"), age=30)
    harness.api.fail_delete = lambda _name: harness.fence.revoke()
    harness.api.fail_bind = lambda _name: Forbidden(403, "Forbidden", "never")

    await lead(harness, seconds=3)

    assert len(harness.api.deleted) < len(pods)
    assert [intent.root[2] for intent in harness.binder._intents.by_root.values()] == ["g"]


DEEP = '{"root": {"kind": "PodGroup", "namespace": "ns", "name": "g"}, "x": ' + "[" * 300_000


@pytest.mark.parametrize(
    "intent", ["", "{}", '{"root": 1}', 7, {"root": {"name": "g"}}, DEEP], ids=range(6)
)
async def test_an_intent_that_cannot_be_decoded_is_deleted_with_its_reservation(
    intent: object,
) -> None:
    harness = Harness()
    left_behind(harness)
    with harness.api.edit(RESERVATION, "old-1") as reservation:
        reservation["spec"]["intents"] = [intent]

    await lead(harness)

    assert harness.api.reservations == {}


@pytest.mark.parametrize("spec", [None, {}, {"intents": None}, {"intents": "x"}, 7, ["x"]])
async def test_a_reservation_without_intents_is_deleted(spec: object) -> None:
    harness = Harness()
    left_behind(harness)
    with harness.api.edit(RESERVATION, "old-1") as reservation:
        reservation["spec"] = spec

    await lead(harness)

    assert harness.api.reservations == {}


@pytest.mark.parametrize(
    "since",
    ["", "soon", "2026-01-01", "2026-01-01T00:00:00", "9999-12-31T23:59:59Z", "-1", "1e99", "\x00"],
)
async def test_a_gang_is_completed_whatever_its_time_says(since: str) -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pod("g", node="n0"), harness.builder.pod("g")
    left_behind(harness, (first, "n0"), (second, "n1"))
    with harness.api.edit(RESERVATION, "old-1") as reservation:
        written = json.loads(reservation["spec"]["intents"][0])
        reservation["spec"]["intents"] = [json.dumps(written | {"since": since})]

    await lead(harness)

    assert harness.api.bound == {second.name: "n1"}
    assert harness.api.deleted == []
    assert harness.api.reservations == {}


@pytest.mark.parametrize("root", ["", "gone", "\u0000", "x" * 10_000, "other"])
async def test_a_decision_whose_root_is_gone_or_another_is_closed(root: str) -> None:
    harness = Harness(timeout=5)
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    harness.builder.gang("other", 1)
    runs = [harness.builder.pod("g", node="n0"), harness.builder.pod("g", node="n1")]
    waits = harness.builder.pod("other")
    left_behind(harness, (runs[0], "n0"), (waits, "gone"), root=root, age=60)

    await lead(harness, seconds=10)

    assert harness.api.bound == {}
    assert harness.api.deleted == []
    assert harness.api.reservations == {}


async def test_pods_of_another_gang_are_not_bound_or_deleted_for_this_one() -> None:
    harness = Harness(timeout=5)
    harness.builder.nodes(2, cpu=2)
    harness.builder.gang("g", 1)
    harness.builder.gang("whole", 1)
    harness.builder.gang("other", 3)
    harness.builder.pod("whole", node="n0")
    half = [harness.builder.pod("other"), harness.builder.pod("other")]
    left_behind(harness, (half[0], "n1"), (half[1], "n1"), root="whole")

    await lead(harness, seconds=10)

    assert harness.api.attempts == []
    assert harness.api.deleted == []
    assert harness.api.reservations == {}


async def test_a_pod_in_two_reservations_is_bound_once_where_the_later_one_says() -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pods("g", 2)
    left_behind(harness, (first, "n0"), (second, "n1"))
    old = harness.api.reservations["old-1"]
    left_behind(harness, (first, "n2"), (second, "n1"))
    new = harness.api.reservations.pop("old-1")
    harness.api.reservations.update({"old-2": new, "old-1": old})

    await lead(harness)

    assert harness.api.bound == {first.name: "n2", second.name: "n1"}
    assert harness.api.reservations == {}


async def test_two_gangs_that_claim_one_place_do_not_both_get_it() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    for name in ("a", "b"):
        harness.builder.gang(name, 2)
    pods = {name: harness.builder.pods(name, 2) for name in ("a", "b")}
    for name in ("a", "b"):
        left_behind(harness, *zip(pods[name], ("n0", "n1"), strict=True), root=name)
        harness.api.reservations[name] = harness.api.reservations.pop("old-1")

    await lead(harness)

    assert set(harness.api.bound) == {pod.name for pod in pods["a"]}
    assert harness.api.reservations == {}


async def test_other_tasks_run_between_the_decisions_of_an_earlier_leader() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    for number in range(50):
        left_behind(harness, root=f"g{number}")
        harness.api.reservations[f"r-{number}"] = harness.api.reservations.pop("old-1")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    await harness.binder.recover(harness.fence)
    task.cancel()

    assert turns >= 50


async def test_pods_that_exclude_each_other_on_their_decided_node_are_decided_again() -> None:
    """The first fits there, but does not reserve the slot for a root that is not completed."""
    harness = Harness()
    harness.builder.nodes(3, cpu=2, rack_of=1)
    harness.builder.gang("g", 2)
    web = PodSelector((Expression("app", "In", ("web",)),), ("ns",))
    apart = Requirements(requests(1), required_anti_affinity=(PodTerm(web, "rack"),))
    labels = {"app": "web"}
    one, other = (harness.builder.pod("g", requirements=apart, labels=labels) for _ in range(2))
    left_behind(harness, (one, "n2"), (other, "n2"))

    await harness.binder.recover(harness.fence)
    assert not [pod for pod in harness.builder.state.pods.values() if pod.assumed]
    await lead(harness)

    assert len(set(harness.api.bound.values())) == 2
