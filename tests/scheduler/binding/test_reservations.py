"""Reservations: stored before the first Binding, few, small enough, and deleted in the end."""

import json
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from kube.base.errors import Forbidden, Invalid, KubeError, Unreachable
from kube.client.meta import Json
from scheduler.binding.reservations import Reservations, ReservedPod, StoredDecision, _merge
from scheduler.support.activity import Activity
from tests.scheduler.harness import Harness


def gangs(harness: Harness, count: int, size: int = 2) -> None:
    harness.builder.nodes(1, cpu=count * size)
    for index in range(count):
        key = harness.builder.gang(f"g{index}", size)
        harness.builder.pods(f"g{index}", size)
        harness.observe(key)


def written(obj: Json) -> list[Json]:
    assert obj["spec"]["roots"] == len(obj["spec"]["intents"])
    return [json.loads(intent) for intent in obj["spec"]["intents"]]


def intents(harness: Harness) -> list[Json]:
    return [i for obj in harness.api.reservations.values() for i in written(obj)]


async def test_the_decision_is_stored_before_the_first_binding_and_deleted_after_the_last() -> None:
    harness = Harness()
    gangs(harness, 1, size=3)
    harness.api.fail_bind = lambda _name: (
        None if harness.api.reservations else KubeError("too early")
    )

    async with harness.leading():
        await harness.settle(1)

    assert [line.split()[0] for line in harness.api.log] == ["store", "bind", "bind", "bind"]
    assert harness.api.reservations == {}


async def test_one_reservation_covers_all_roots_decided_in_a_tick() -> None:
    harness = Harness()
    gangs(harness, 20)

    async with harness.leading():
        await harness.settle(3)

    stored = [line for line in harness.api.log if line.startswith("store")]
    assert len(harness.api.bound) == 40
    assert len(stored) == 1


async def test_a_single_decision_is_written_at_once_and_a_stream_shares_writes() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=40)
    async with harness.leading():
        await harness.settle(1)
        for number in range(10):
            harness.builder.gang(f"g{number}", 2)
            harness.builder.pods(f"g{number}", 2)
            await harness.settle()
            if not number:
                assert len(harness.api.bound) == 2  # no time had to pass for it
        await harness.settle(1)

    stored = [line for line in harness.api.log if line.startswith("store")]
    assert len(harness.api.bound) == 20
    # `settle` advances by ten milliseconds; a write waits fifty for others.
    assert len(stored) == 3


async def test_the_first_write_waits_for_what_is_decided_in_the_same_moment() -> None:
    harness = Harness()
    activity = Activity(deciding=True)
    roots: list[int] = []
    harness.api.fail_store = lambda obj: roots.append(obj["spec"]["roots"])
    harness.binder._intents.reservations = Reservations(
        harness.api, clock=harness.clock, activity=activity, saturated=lambda: False
    )
    gangs(harness, 3)

    async with harness.leading():
        await harness.settle()
        assert roots == []
        activity.deciding = False
        await harness.settle(1)

    assert roots == [3]


async def test_with_enough_roots_a_write_waits_for_no_more() -> None:
    harness = Harness()
    roots: list[int] = []
    harness.api.fail_store = lambda obj: roots.append(obj["spec"]["roots"])
    harness.binder._intents.reservations = Reservations(
        harness.api,
        clock=harness.clock,
        activity=Activity(deciding=True),
        saturated=lambda: False,
    )
    gangs(harness, 4)

    async with harness.leading():
        await harness.settle()

    assert roots == [4]


@pytest.mark.parametrize(
    ("minimum", "pods", "gang"),
    [
        pytest.param(1, 1, True, id="one pod alone"),
        pytest.param(1, 3, False, id="a group that need not be whole"),
    ],
)
async def test_a_decision_that_cannot_be_left_half_bound_needs_no_reservation(
    minimum: int, pods: int, gang: bool
) -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=4)
    harness.builder.gang("g", minimum, gang=gang)
    harness.builder.pods("g", pods)
    harness.builder.pod()

    async with harness.leading():
        await harness.settle(1)

    stored = [line for line in harness.api.log if line.startswith("store")]
    assert len(harness.api.bound) == pods + 1
    assert stored == []


async def test_a_lost_answer_to_the_write_is_harmless() -> None:
    harness = Harness()
    gangs(harness, 1)
    lost = [Unreachable("POST", "/", "reset")]

    def lose(obj: Json) -> KubeError | None:
        if lost:
            harness.api.reservations[obj["metadata"]["name"]] = obj
            return lost.pop()
        return None

    harness.api.fail_store = lose
    async with harness.leading():
        await harness.settle(2)

    assert len(harness.api.bound) == 2
    assert harness.api.reservations == {}


async def test_without_a_reservation_nothing_of_a_gang_is_bound() -> None:
    harness = Harness()
    gangs(harness, 1)
    allowed: list[bool] = []
    harness.api.fail_store = lambda _obj: None if allowed else Forbidden(403, "Forbidden", "role")

    async with harness.leading():
        await harness.settle(5)
        bound_while_refused = dict(harness.api.bound)
        allowed.append(True)
        await harness.settle(15)

    assert bound_while_refused == {}
    assert len(harness.api.bound) == 2
    assert harness.api.reservations == {}


async def test_a_large_decision_is_split_and_all_parts_are_stored_before_it_is_bound() -> None:
    harness = Harness()
    harness.binder._intents.reservations = Reservations(
        harness.api,
        clock=harness.clock,
        activity=Activity(),
        saturated=lambda: False,
        limit=700,
    )
    gangs(harness, 1, size=60)
    sizes: list[int] = []
    pods: list[str] = []

    def measure(obj: Json) -> None:
        sizes.append(len(json.dumps(obj, separators=(",", ":"))))
        pods.extend(uid for intent in written(obj) for uid in intent["pods"])

    harness.api.fail_store = measure
    async with harness.leading():
        await harness.settle(3)

    first_bind = next(i for i, line in enumerate(harness.api.log) if line.startswith("bind"))
    assert len(sizes) > 2
    assert max(sizes) < 700 + 150  # including its name and kind
    assert sorted(pods) == sorted(set(pods))
    assert len(pods) == 60
    assert first_bind == len(sizes)
    assert harness.api.reservations == {}


async def test_the_reservation_stays_while_a_member_is_still_to_be_placed_again() -> None:
    harness = Harness(timeout=20)
    gangs(harness, 1)
    second = sorted(pod.info.name for pod in harness.builder.state.pods.values())[1]
    blocked = [True]
    harness.api.fail_bind = lambda name: (
        Forbidden(403, "Forbidden", "quota") if blocked and name == second else None
    )

    async with harness.leading():
        await harness.settle(5)
        while_half = intents(harness)
        blocked.clear()
        await harness.settle(10)

    (intent,) = while_half
    assert intent["root"] == {"kind": "PodGroup", "namespace": "ns", "name": "g0"}
    assert [*intent["pods"].values()] == ["n0", "n0"]
    assert intent["attempt"] == 1
    assert harness.api.reservations == {}
    assert len([line for line in harness.api.log if line.startswith("store")]) == 1


async def test_nothing_is_stored_or_deleted_once_the_lease_may_be_lost() -> None:
    harness = Harness()
    gangs(harness, 1)
    harness.fence.revoke()

    async with harness.leading():
        await harness.settle(3)

    assert harness.api.log == []
    assert harness.api.bound == {}


async def test_an_empty_reservation_is_deleted() -> None:
    harness = Harness()
    empty: dict[str, Any] = {"metadata": {"name": "x-1"}, "spec": {}}
    harness.api.reservations["x-1"] = empty

    await harness.binder.recover(harness.fence)
    async with harness.leading():
        await harness.settle(1)

    assert harness.api.reservations == {}


async def test_of_a_decision_that_is_stored_in_part_nothing_stays() -> None:
    harness = Harness()
    harness.binder._intents.reservations = Reservations(
        harness.api,
        clock=harness.clock,
        activity=Activity(),
        saturated=lambda: False,
        limit=700,
    )
    gangs(harness, 1, size=60)
    stored = count()
    refused = Invalid(422, "Invalid", "too much")
    # Only the first part is stored.
    harness.api.fail_store = lambda _obj: refused if next(stored) > 0 else None

    async with harness.leading(unsettled="it is tried again and again"):
        await harness.settle(5)
        assert harness.api.bound == {}
        assert harness.api.reservations == {}


def test_a_later_addition_to_a_decision_takes_nothing_off_its_age() -> None:
    old, new = (
        StoredDecision(("PodGroup", "ns", "g"), attempt, since, (ReservedPod(uid, "n"),), ())
        for attempt, since, uid in (
            (2, "2026-01-01T00:00:00Z", "a"),
            (1, "2026-01-02T00:00:00Z", "b"),
        )
    )

    merged = _merge(old, new)

    assert (merged.attempt, merged.since) == (2, "2026-01-01T00:00:00Z")
    assert [pod.uid for pod in merged.pods] == ["a", "b"]
    assert _merge(replace(old, since=""), new).since == "2026-01-02T00:00:00Z"
