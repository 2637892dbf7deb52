"""Gangs that cannot be bound are abandoned in time, independently, with growing backoff."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kube.base.errors import Conflict, Forbidden, Invalid, KubeError, ServerError, TooManyRequests
from kube.client.resources import PODS
from scheduler.core.values.model import GroupKey, PodInfo, Requirements
from tests.scheduler.binding.test_binder import gang_of_two
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import requests

RETRY_SECONDS = 30.0
BUSY = TooManyRequests(429, "TooManyRequests", "too busy", retry_after=RETRY_SECONDS)
FAILING = ServerError(500, "InternalError", 'failed calling webhook "deny"')
DENIED = Forbidden(403, "Forbidden", "denied by policy")


def gang(harness: Harness, name: str, size: int = 2) -> list[PodInfo]:
    harness.observe(harness.builder.gang(name, size))
    return harness.builder.pods(name, size)


def told(harness: Harness, name: str) -> list[str]:
    """Return the messages of the group's GangBindFailed events."""
    events = harness.events.told
    return [text for of, reason, text in events if of == f"PodGroup/{name}" and "Gang" in reason]


def replaced(harness: Harness, deleted: PodInfo, serial: int) -> PodInfo:
    """Return a Job's replacement of a deleted pod."""
    info = replace(deleted, uid=f"uid-{serial}", name=f"again-{serial}", node="", phase="Pending")
    harness.builder.state.set_pod(info)
    return info


async def test_a_gang_that_cannot_be_completed_is_given_up_in_time() -> None:
    harness = Harness(timeout=20)
    first, second = gang_of_two(harness)
    harness.api.fail_bind = lambda name: FAILING if name == second else None

    async with harness.leading():
        await harness.settle(25)

    assert harness.api.deleted == [first]
    assert ("PodGroup/g", "GangBindFailed") in [told[:2] for told in harness.events.told]


async def test_a_gang_with_its_own_timeout_is_given_up_after_that() -> None:
    harness = Harness(timeout=120)
    first, second = gang_of_two(harness)
    spec = harness.builder.state.forest.groups["PodGroup", "ns", "g"].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, bind_within=20.0))
    harness.api.fail_bind = lambda name: FAILING if name == second else None

    async with harness.leading():
        await harness.settle(15)
        assert harness.api.deleted == []
        await harness.settle(10)

    assert harness.api.deleted == [first]
    told = [text for _, reason, text in harness.events.told if reason == "GangBindFailed"]
    assert "in 20 s" in told[0]


async def test_members_that_ran_before_are_never_deleted() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(3, cpu=1)
    harness.builder.gang("g", 3)
    old = harness.builder.pod("g", node="n0")
    new, never = harness.builder.pods("g", 2)
    harness.api.fail_bind = lambda name: FAILING if name == never.name else None

    async with harness.leading():
        await harness.settle(25)

    assert harness.api.deleted == [new.name]
    assert old.uid in harness.builder.state.pods


@pytest.mark.parametrize("rest", ["fails", "has no capacity"])
async def test_a_child_group_beyond_the_minimum_of_its_root_is_given_up_too(rest: str) -> None:
    """The root has enough with the other child, whose pod stays."""
    harness = Harness(timeout=20)
    builder = harness.builder
    root = builder.composite("tree", 1)
    harness.observe(root, builder.gang("a", 1, parent="tree"), builder.gang("b", 3, parent="tree"))
    builder.nodes(4, cpu=1)
    one = builder.pod("a")
    first, second, third = builder.pods("b", 3)
    harness.api.fail_bind = lambda name: FAILING if name == third.name else None

    async with harness.leading():
        await harness.settle(2)
        assert set(harness.api.bound) == {one.name, first.name, second.name}
        if rest == "has no capacity":
            free = {"n0", "n1", "n2", "n3"} - set(harness.api.bound.values())
            builder.state.remove_node(free.pop())
            # A later decision on the root succeeds, and is about another of its groups.
            builder.node("other", cpu=1, labels={"for": "late"})
            late = builder.pod(
                "a", requirements=Requirements(requests(cpu=1), selector=(("for", "late"),))
            )
            await harness.settle(5)
            assert harness.api.bound[late.name] == "other"
        await harness.settle(25)

    assert sorted(harness.api.deleted) == sorted([first.name, second.name])
    assert harness.api.reservations == {}


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FAILING, id="a webhook that fails"),
        pytest.param(DENIED, id="a webhook that denies"),
    ],
)
async def test_a_deletion_that_fails_for_ever_stops_no_other_deadline(error: KubeError) -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(4, cpu=1)
    stuck, missing = gang(harness, "stuck")
    other, also_missing = gang(harness, "other")
    never = {missing.name, also_missing.name}
    harness.api.fail_bind = lambda name: FAILING if name in never else None
    harness.api.fail_delete = lambda name: error if name == stuck.name else None

    async with harness.leading(unsettled="one deletion is tried again for ever"):
        await harness.settle(30)

    assert harness.api.deleted == [other.name]
    assert any("could not be deleted" in text for text in told(harness, "stuck"))
    assert "could not be deleted" in harness.summary(("PodGroup", "ns", "stuck"))


async def test_a_gang_whose_deletion_fails_is_not_decided_and_keeps_its_reservation() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(2, cpu=1)
    stuck, missing = gang(harness, "stuck")
    harness.api.fail_bind = lambda name: FAILING if name == missing.name else None
    harness.api.fail_delete = lambda _name: FAILING

    async with harness.leading(unsettled="the deletion is tried again for ever"):
        await harness.settle(25)
        tries = harness.api.attempts.count(missing.name)
        await harness.settle(120)

        assert harness.api.attempts.count(missing.name) == tries
        assert len(harness.api.reservations) == 1

        harness.api.fail_delete = lambda _name: None
        await harness.settle(61)

    assert harness.api.deleted == [stuck.name]
    assert harness.api.reservations == {}


async def test_a_failing_deletion_is_tried_again_after_growing_waits() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(2, cpu=1)
    _, missing = gang(harness, "stuck")
    harness.api.fail_bind = lambda name: FAILING if name == missing.name else None
    times: list[float] = []

    def note(_name: str) -> KubeError:
        times.append(harness.clock.monotonic())
        return FAILING

    harness.api.fail_delete = note
    async with harness.leading(unsettled="the deletion is tried again for ever"):
        await harness.settle(400)

    waits = [after - before for before, after in pairwise(times)]
    limits = [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(waits) >= 8
    assert all(
        limit / 2 <= wait <= limit + 0.25 for wait, limit in zip(waits, limits, strict=False)
    )


async def test_a_busy_server_is_asked_again_when_it_says_and_for_no_other_pod_before() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(20, cpu=1)
    *_, missing = gang(harness, "stuck", size=20)
    harness.api.fail_bind = lambda name: FAILING if name == missing.name else None
    times: list[float] = []

    def busy(_name: str) -> KubeError:
        times.append(harness.clock.monotonic())
        # The first errors are the server's; one with Retry-After counts.
        return FAILING if len(times) < 3 else BUSY

    harness.api.fail_delete = busy
    async with harness.leading(unsettled="the deletion is tried again for ever"):
        await harness.settle(100)

    begun = [times[0], *(after for before, after in pairwise(times) if after - before > 1)]
    assert len(times) < 20 * len(begun)
    assert len(begun) >= 2
    assert all(after - before >= RETRY_SECONDS for before, after in pairwise(begun))


async def test_a_stuck_gang_that_becomes_whole_is_kept() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(2, cpu=1)
    stuck, missing = gang(harness, "stuck")
    harness.api.fail_bind = lambda name: FAILING if name == missing.name else None
    harness.api.fail_delete = lambda _name: FAILING

    async with harness.leading():
        await harness.settle(25)
        harness.builder.gang("stuck", 1)
        harness.api.fail_delete = lambda _name: None
        harness.api.fail_bind = lambda _name: None
        await harness.settle(100)

    assert harness.api.deleted == []
    assert stuck.uid in harness.builder.state.pods
    assert harness.api.reservations == {}


@pytest.mark.parametrize("error", [DENIED, Invalid(422, "Invalid", "no")], ids=str)
async def test_a_gang_is_given_up_early_if_the_server_refuses_a_member_again_and_again(
    error: KubeError,
) -> None:
    harness = Harness(timeout=120)
    first, second = gang_of_two(harness)
    harness.api.fail_bind = lambda name: error if name == second else None

    async with harness.leading(unsettled="it pauses"):
        await harness.settle(10)
        assert harness.api.deleted == []
        await harness.settle(10)

    assert harness.api.deleted == [first]
    assert "in 5 attempts: " in told(harness, "g")[0]
    assert str(error) in told(harness, "g")[0]


async def test_a_gang_that_can_never_be_bound_is_tried_at_growing_intervals() -> None:
    harness = Harness(timeout=120)
    harness.builder.nodes(3, cpu=1)
    first, second = gang(harness, "g")
    denied = {second.name}
    harness.api.fail_bind = lambda name: DENIED if name in denied else None
    running, serial, times = first, 0, []

    async with harness.leading(unsettled="it is tried again after each pause"):
        for _ in range(4 * 3600 * 2):
            await harness.clock.advance(0.5)
            if running.uid not in harness.builder.state.pods:
                times.append(harness.clock.monotonic())
                running, serial = replaced(harness, running, serial), serial + 1

    pauses = [after - before for before, after in pairwise(times)]
    # Each is a backoff and the 15 s of the next five attempts.
    assert [round(pause, -1) for pause in pauses[:5]] == [140, 260, 500, 980, 1940]
    assert all(3600 <= pause <= 3640 for pause in pauses[5:])
    assert "Retry in 60 min" in told(harness, "g")[-1]


@pytest.mark.parametrize("change", ["the spec", "the members"])
async def test_a_change_of_the_gang_ends_its_pause(change: str) -> None:
    harness = Harness(timeout=120)
    harness.builder.nodes(3, cpu=1)
    first, second = gang(harness, "g")
    key: GroupKey = ("PodGroup", "ns", "g")
    harness.api.fail_bind = lambda name: DENIED if name == second.name else None
    state = harness.builder.state

    async with harness.leading():
        await harness.settle(25)
        again = replaced(harness, first, 1)
        await harness.settle(20)
        assert "Retry in 2 min" in harness.summary(key)
        assert again.name not in harness.api.attempts

        if change == "the spec":
            harness.api.fail_bind = lambda _name: None
            spec = state.forest.groups[key].spec
            assert spec is not None
            state.set_group(replace(spec, bind_within=60.0))
        else:
            state.remove_pod(second.uid)
            harness.builder.pod("g", requirements=Requirements(requests(1, memory=1)))
        await harness.settle(5)

    assert again.name in harness.api.bound


async def test_a_gang_without_room_for_its_rest_is_given_up_without_a_pause() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(2, cpu=1)
    first, second = gang(harness, "g")
    slow = harness.api.delayed[second.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle(1)
        harness.builder.state.remove_node("n1")
        harness.api.fail_bind = lambda name: Conflict(409, "Conflict", "the node is gone")
        slow.set()
        await harness.settle(25)
        assert harness.api.deleted == [first.name]
        harness.api.fail_bind = lambda _name: None
        replaced(harness, first, 1)
        harness.builder.node("n2", cpu=1)
        await harness.settle(2)

    assert {"again-1", second.name} <= set(harness.api.bound)


async def test_a_slow_namespace_does_not_hold_up_the_deletions_of_others() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(40, cpu=2)
    never = harness.builder.pods(None, 0)
    for number in range(30):
        harness.observe(harness.builder.gang(f"slow{number}", 2))
        pair = [harness.builder.pod(f"slow{number}") for _ in range(2)]
        never.append(pair[1])
    quick = harness.builder.gang("quick", 2)
    spec = harness.builder.state.forest.groups[quick].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, key=("PodGroup", "other", "quick")))
    first = harness.builder.pod("quick", namespace="other")
    never.append(harness.builder.pod("quick", namespace="other"))
    names = {info.name for info in never}
    harness.api.fail_bind = lambda name: FAILING if name in names else None
    delete, frozen = harness.api.delete, asyncio.Event()

    async def slow(resource: Any, name: str, namespace: str | None = None, **more: Any) -> None:
        if resource == PODS and namespace == "ns":
            await frozen.wait()
        await delete(resource, name, namespace, **more)

    harness.api.delete = slow  # type: ignore[method-assign]
    async with harness.leading(unsettled="deletions have no answer"):
        await harness.settle(30)

    assert harness.api.deleted == [first.name]


async def test_a_webhooks_answer_of_any_length_is_cut() -> None:
    harness = Harness(timeout=20)
    harness.builder.nodes(2, cpu=1)
    _, missing = gang(harness, "g")
    long = Forbidden(403, "Forbidden", "no" * 100_000)
    harness.api.fail_bind = lambda name: long if name == missing.name else None
    harness.api.fail_delete = lambda _name: long

    async with harness.leading(unsettled="its deletion is tried again"):
        await harness.settle(25)

    assert "..." in harness.summary(("PodGroup", "ns", "g"))
    assert len(harness.summary(("PodGroup", "ns", "g"))) < 1000
    assert all(len(text) < 1000 for text in told(harness, "g"))
