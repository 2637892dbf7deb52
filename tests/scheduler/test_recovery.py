"""A new leader completes what the last one began before it decides anything."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from kube.clock import rfc3339
from kube.errors import Forbidden
from scheduler.core.model import PodInfo
from tests.scheduler.harness import Harness


def left_behind(
    harness: Harness, *pods: tuple[PodInfo, str], age: float = 0, root: str = "g"
) -> None:
    """A Reservation of an earlier leader, so many seconds old."""
    since = rfc3339(harness.clock.now() - timedelta(seconds=age))
    intent = {
        "root": {"kind": "PodGroup", "namespace": "ns", "name": root},
        "attempt": 1,
        "since": since,
        "pods": {pod.uid: node for pod, node in pods},
    }
    body = {
        "metadata": {"name": "old-1", "creationTimestamp": since},
        "spec": {"roots": 1, "intents": [json.dumps(intent)]},
    }
    harness.api.stored["old-1"] = body


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

    # Decided anew they would have gone to n0 and after.
    assert harness.api.bound == {pods[i].name: f"n{i + 3}" for i in range(bound, 3)}
    assert harness.api.stored == {}


async def test_a_decision_that_cannot_be_completed_and_is_not_begun_is_made_again() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pods("g", 2)
    left_behind(harness, (first, "n1"), (second, "gone"))

    await lead(harness)

    assert set(harness.api.bound.values()) == {"n0", "n1"}
    assert harness.api.stored == {}


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
    assert harness.api.stored == {}


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
    assert harness.api.stored == {}


async def test_a_binding_that_is_not_in_the_cache_yet_counts_as_bound() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    first, second = harness.builder.pods("g", 2)
    harness.api.bound[first.name] = "n1"
    left_behind(harness, (first, "n1"), (second, "gone"))

    await lead(harness)

    assert harness.api.bound == {first.name: "n1", second.name: "n0"}
    assert harness.api.stored == {}


async def test_a_gang_stored_in_part_only_was_never_begun() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=3)
    harness.builder.gang("g", 4)
    pods = harness.builder.pods("g", 4)
    left_behind(harness, (pods[0], "n0"), (pods[1], "n0"))

    await lead(harness)

    assert harness.api.bound == {}
    assert harness.api.stored == {}


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
    assert harness.api.stored == {}


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
    harness.api.fail = lambda _name: Forbidden(403, "Forbidden", "never")
    await lead(harness, seconds=3)

    assert harness.api.deleted == [pod.name for pod in pods]
    assert list(harness.api.stored) == ["old-1"]


@pytest.mark.parametrize("intent", ["", "{}", '{"root": 1}', 7, {"root": {"name": "g"}}])
async def test_an_intent_that_cannot_be_decoded_is_deleted_with_its_reservation(
    intent: object,
) -> None:
    harness = Harness()
    left_behind(harness)
    harness.api.stored["old-1"]["spec"]["intents"] = [intent]

    await lead(harness)

    assert harness.api.stored == {}
