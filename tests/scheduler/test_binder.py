"""Bindings that fail: which are accepted, retried, rejected, and given up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kube.errors import Conflict, Forbidden, KubeError, NotFound, ServerError, Unreachable
from tests.scheduler.harness import Harness


def gang_of_two(harness: Harness) -> tuple[str, str]:
    harness.builder.nodes(3, cpu=1)
    key = harness.builder.gang("g", 2)
    first, second = harness.builder.pods("g", 2)
    harness.observe(key)
    return first.name, second.name


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unreachable("POST", "/", "reset"), id="a lost connection"),
        pytest.param(ServerError(500, "InternalError", "etcd"), id="a server error"),
    ],
)
async def test_failures_of_the_server_are_retried(error: KubeError) -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    trouble = [error] * 3
    harness.api.fail = lambda name: trouble.pop() if name == second and trouble else None

    async with harness.leading():
        await harness.settle(30)

    assert set(harness.api.bound) == {first, second}
    assert harness.api.deleted == []


async def test_a_binding_whose_answer_was_lost_is_accepted() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    lost = [second]

    def fail(name: str) -> KubeError | None:
        if name in lost:
            lost.remove(name)
            harness.api.bound[name] = "n2"
            return Unreachable("POST", "/", "reset")
        return None

    harness.api.fail = fail
    async with harness.leading():
        await harness.settle(5)
        harness.api.deliver_binding(second)
        await harness.settle(5)

    assert harness.api.bound == {first: "n0", second: "n2"}
    assert int(harness.builder.state.nodes.free[0, :3].sum()) == 3 * 110 - 2


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)

    def fail(name: str) -> KubeError | None:
        if name == second:
            harness.builder.state.remove_pod(f"uid-{second}")
            return NotFound(404, "NotFound", name)
        return None

    harness.api.fail = fail
    async with harness.leading():
        await harness.settle(5)

    assert set(harness.api.bound) == {first}
    assert f"uid-{second}" not in harness.builder.state.pods


async def test_a_refused_member_is_placed_again_with_the_others_kept() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    refusals = [Forbidden(403, "Forbidden", "quota")]
    harness.api.fail = lambda name: refusals.pop() if name == second and refusals else None

    async with harness.leading():
        await harness.settle(5)

    assert set(harness.api.bound) == {first, second}
    assert harness.api.attempts.count(first) == 1


async def test_a_gang_that_cannot_be_completed_is_given_up_in_time() -> None:
    harness = Harness(timeout=20)
    first, second = gang_of_two(harness)
    harness.api.fail = lambda name: Forbidden(403, "Forbidden", "never") if name == second else None

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
    harness.api.fail = lambda name: Forbidden(403, "Forbidden", "never") if name == second else None

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
    harness.api.fail = lambda name: (
        Forbidden(403, "Forbidden", "never") if name == never.name else None
    )

    async with harness.leading():
        await harness.settle(25)

    assert harness.api.deleted == [new.name]
    assert old.uid in harness.builder.state.pods


async def test_a_conflict_of_an_unbound_pod_is_tried_again() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    conflicts = [Conflict(409, "Conflict", "object was modified")]
    harness.api.fail = lambda name: conflicts.pop() if name == second and conflicts else None

    async with harness.leading():
        await harness.settle(5)

    assert set(harness.api.bound) == {first, second}


async def test_nothing_is_bound_once_the_lease_may_be_lost() -> None:
    harness = Harness()
    gang_of_two(harness)
    harness.fence.revoke()

    async with harness.leading():
        await harness.settle(5)
    harness.binder.reset()

    assert harness.api.attempts == []
    assert not any(pod.assumed for pod in harness.builder.state.pods.values())
    assert int(harness.builder.state.nodes.free[0, :3].sum()) == 3 * 110


async def test_a_pod_returns_to_the_queue_if_its_node_is_deleted_before_the_binding() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    harness.builder.gang("g", 1)
    pod = harness.builder.pod("g")
    await harness.loop.drain()
    harness.builder.state.remove_node("n0")
    harness.builder.node("n1")

    async with harness.leading():
        await harness.settle(3)

    assert harness.api.bound == {pod.name: "n1"}


async def test_a_binding_is_not_tried_again_once_the_lease_may_be_lost() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    harness.api.fail = lambda name: Unreachable("POST", "/", "reset") if name == second else None

    async with harness.leading(unsettled="it leads no more"):
        await harness.settle()
        harness.fence.revoke()
        before = list(harness.api.attempts)
        await harness.settle(5)

    assert set(before) == {first, second}
    assert harness.api.attempts == before


async def test_a_pod_that_is_deleted_before_its_binding_is_sent_is_not_bound() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=5)
    # As many as there are workers wait for an answer.
    waiting = [harness.builder.pod() for _ in range(4)]
    late = harness.builder.pod()
    for pod in waiting:
        harness.api.delayed[pod.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle()
        harness.builder.state.set_pod(replace(late, terminating=True))
        for answer in harness.api.delayed.values():
            answer.set()
        await harness.settle(2)

    assert set(harness.api.attempts) == {pod.name for pod in waiting}


async def test_a_binding_of_others_is_accepted() -> None:
    harness = Harness(timeout=5)
    first, second = gang_of_two(harness)
    harness.api.bound[first] = "n2"
    refused = Forbidden(403, "Forbidden", "no")
    harness.api.fail = lambda name: refused if name == second else None

    async with harness.leading(unsettled="it is tried again for ever"):
        await harness.settle(1)
        harness.api.deliver_binding(first)
        await harness.settle(20)

    assert harness.api.deleted == []


async def test_a_binding_that_succeeds_in_the_end_counts_as_no_failure() -> None:
    harness = Harness()
    key = harness.builder.gang("g", 2)
    harness.builder.nodes(2, cpu=1)
    first, _ = harness.builder.pods("g", 2)
    refusals = [Forbidden(403, "Forbidden", "not yet")] * 2
    harness.api.fail = lambda name: refusals.pop() if name == first.name and refusals else None

    async with harness.leading():
        await harness.settle(10)

    assert len(harness.api.bound) == 2
    assert harness.queue.failures(key) == 0


async def test_pods_beyond_min_count_without_room_are_told_why_once_it_is_placed() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    key = harness.builder.gang("g", 2)
    harness.observe(key)
    harness.builder.pods("g", 3)

    async with harness.leading():
        await harness.settle(10)

    assert harness.summary(key).startswith("needs room for 1 more pod, there is room for 0")


async def test_a_reservation_stays_until_all_of_its_roots_are_bound() -> None:
    harness = Harness()
    harness.builder.nodes(4, cpu=1)
    for name in ("early", "late"):
        harness.builder.gang(name, 2)
    harness.builder.pods("early", 2)
    slow, _ = harness.builder.pods("late", 2)
    answer = harness.api.delayed[slow.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle(2)
        kept = list(harness.api.stored)
        answer.set()
        await harness.settle(2)

    assert len(kept) == 1
    assert harness.api.stored == {}
