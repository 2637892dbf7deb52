"""Failed Bindings: accepted, retried, rejected, and abandoned ones."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kube.base.errors import (
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from scheduler.binding.deadlines import Deadlines
from scheduler.binding.in_flight import Intent
from tests.scheduler.harness import Harness
from tests.support.memory_api import Request


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
    harness.api.fail_bind = lambda name: trouble.pop() if name == second and trouble else None

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
            harness.api.bound_elsewhere(name, "n2")
            return Unreachable("POST", "/", "reset")
        return None

    harness.api.fail_bind = fail
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

    harness.api.fail_bind = fail
    async with harness.leading():
        await harness.settle(5)

    assert set(harness.api.bound) == {first}
    assert f"uid-{second}" not in harness.builder.state.pods


async def test_a_refused_member_is_placed_again_with_the_others_kept() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    refusals = [Forbidden(403, "Forbidden", "quota")]
    harness.api.fail_bind = lambda name: refusals.pop() if name == second and refusals else None

    async with harness.leading():
        await harness.settle(5)

    assert set(harness.api.bound) == {first, second}
    assert harness.api.attempts.count(first) == 1


async def test_a_conflict_of_an_unbound_pod_is_tried_again() -> None:
    harness = Harness()
    first, second = gang_of_two(harness)
    conflicts = [Conflict(409, "Conflict", "object was modified")]
    harness.api.fail_bind = lambda name: conflicts.pop() if name == second and conflicts else None

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
    harness.api.fail_bind = lambda name: (
        Unreachable("POST", "/", "reset") if name == second else None
    )

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
    # As many as there are workers wait for a response.
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
    harness.api.bound_elsewhere(first, "n2")
    refused = Forbidden(403, "Forbidden", "no")
    harness.api.fail_bind = lambda name: refused if name == second else None

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
    harness.api.fail_bind = lambda name: refusals.pop() if name == first.name and refusals else None

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

    assert "1 pod beyond the minimum needs capacity; 0 fit." in harness.summary(key)


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
        kept = list(harness.api.reservations)
        answer.set()
        await harness.settle(2)

    assert len(kept) == 1
    assert harness.api.reservations == {}


async def test_a_slow_namespace_does_not_hold_up_the_bindings_of_others() -> None:
    harness = Harness(workers=10)
    harness.builder.nodes(1, cpu=100)
    slow = [harness.builder.pod() for _ in range(50)]
    for pod in slow:
        harness.api.delayed[pod.name] = asyncio.Event()

    async with harness.leading(unsettled="Bindings have no answer"):
        await harness.settle(1)
        quick = [harness.builder.pod(namespace="other") for _ in range(20)]
        await harness.settle(1)

        assert set(harness.api.bound) == {pod.name for pod in quick}


async def test_bindings_that_are_tried_again_keep_no_worker() -> None:
    harness = Harness(workers=4)
    harness.builder.nodes(1, cpu=100)
    failing = [harness.builder.pod(namespace=f"bad{number}") for number in range(20)]
    names = {pod.name for pod in failing}
    down = ServerError(500, "InternalError", "failed calling webhook")
    harness.api.fail_bind = lambda name: down if name in names else None

    async with harness.leading(unsettled="they are tried again"):
        await harness.settle(1)
        quick = [harness.builder.pod(namespace="other") for _ in range(20)]
        await harness.settle(0)

    assert set(harness.api.bound) == {pod.name for pod in quick}


@pytest.mark.parametrize(("asked", "tries"), [(7.0, {3}), (None, set(range(6, 15))), (1e9, {1})])
async def test_the_server_is_not_asked_again_before_it_wants_to_be(
    asked: float | None, tries: set[int]
) -> None:
    harness = Harness(timeout=20)
    first, second = gang_of_two(harness)
    busy = TooManyRequests(429, "TooManyRequests", "too busy", retry_after=asked)
    harness.api.fail_bind = lambda name: busy if name == second else None

    async with harness.leading(unsettled="it is given up"):
        await harness.settle(18)
        assert harness.api.attempts.count(second) in tries
        harness.api.fail_bind = lambda _name: None
        await harness.settle(4)

    assert set(harness.api.bound) == {first, second}
    assert harness.api.deleted == []


async def test_a_gang_that_is_bound_slowly_but_in_time_is_not_given_up() -> None:
    harness = Harness(timeout=60, workers=10)
    harness.builder.nodes(20, cpu=1)
    harness.builder.gang("g", 20)
    pods = harness.builder.pods("g", 20)
    bind = harness.api.bind

    async def slow(*what: Any, **more: Any) -> None:
        await harness.clock.sleep(8)
        await bind(*what, **more)

    harness.api.bind = slow  # type: ignore[method-assign]
    async with harness.leading():
        await harness.settle(50)

    assert len(harness.api.bound) == len(pods)
    assert harness.api.deleted == []


async def test_a_binding_that_raises_an_error_of_ours_is_rejected_and_the_others_are_sent() -> None:
    harness = Harness()
    harness.builder.nodes(8, cpu=1)
    for name in ("a", "poison", "z"):
        harness.builder.gang(name, 2)
        harness.builder.pods(name, 2)
    members = harness.builder.state.forest.groups["PodGroup", "ns", "poison"].members
    bad = next(iter(members.values())).info.name
    faults = [KeyError("metadata")] * 3
    harness.api.fail_bind = lambda name: faults.pop() if name == bad and faults else None

    async with harness.leading():
        await harness.settle(20)

    assert len(harness.api.bound) == 6
    assert not faults


async def test_a_deadline_that_cannot_be_checked_holds_up_no_other() -> None:
    harness = Harness(timeout=10)
    harness.builder.nodes(4, cpu=1)
    for name in ("a", "poison"):
        harness.builder.gang(name, 2)
        harness.builder.pods(name, 2)
    groups = harness.builder.state.forest.groups
    second = [list(group.members.values())[1].info.name for group in groups.values()]
    harness.api.fail_bind = lambda name: (
        Forbidden(403, "Forbidden", "no") if name in second else None
    )
    check = Deadlines._half_bound

    def faulty(deadlines: Deadlines, intent: Intent) -> bool:
        if intent.root[2] == "poison":
            raise KeyError
        return check(deadlines, intent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadlines, "_half_bound", faulty)
        async with harness.leading(unsettled="one gang is never given up"):
            await harness.settle(30)
            deleted = list(harness.api.deleted)

    state = harness.builder.state
    assert deleted
    assert all(name.startswith("p") for name in deleted)
    assert {state.forest.groups["PodGroup", "ns", "poison"].running_total} == {1}


async def test_a_pod_whose_binding_is_refused_says_so_and_is_tried_ever_more_seldom() -> None:
    harness = Harness()
    harness.builder.nodes(1)
    pod = harness.builder.pod()
    harness.observe_pods()
    harness.api.fail_bind = lambda _name: Forbidden(403, "Forbidden", "denied by policy")

    async with harness.leading(unsettled="it is tried again"):
        await harness.settle(1000)

    # After 1, 2, 4, ... 256 s, and then every 300 s.
    assert harness.api.attempts.count(pod.name) == 11
    (condition,) = [ops for kind, name, ops in harness.api.patches if kind == "Pod"][-1][-1:]
    [value] = condition["value"] if isinstance(condition["value"], list) else [condition["value"]]
    assert value["reason"] == "SchedulerError"
    assert "Binding failed, retry in" in value["message"]
    assert "denied by policy" in value["message"]


async def test_a_gang_whose_member_is_refused_says_so() -> None:
    harness = Harness()
    _, second = gang_of_two(harness)
    key = ("PodGroup", "ns", "g")
    denied = Forbidden(403, "Forbidden", "denied by policy")
    harness.api.fail_bind = lambda name: denied if name == second else None

    async with harness.leading(unsettled="it is tried again"):
        await harness.settle(6)

    assert harness.summary(key).endswith("403 Forbidden: denied by policy")
    assert harness.condition(key)[:2] == ("False", "Unschedulable")


async def test_each_bound_pod_gets_the_event_that_kube_scheduler_writes() -> None:
    harness = Harness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("g", 2)
    harness.builder.pods("g", 2)
    # One is bound by a request whose response is lost.
    lost = iter([Unreachable("POST", "/", "reset")])

    def loses(request: Request) -> None:
        if request.subresource == "binding" and (error := next(lost, None)) is not None:
            raise error

    harness.api.on(loses, "create", answered=True)

    async with harness.leading():
        await harness.settle(5)

    assert sorted(harness.bound_events.told) == [
        (f"Pod/{name}", "Scheduled", f"Successfully assigned ns/{name} to {node}")
        for name, node in sorted(harness.api.bound.items())
    ]


async def test_a_pod_that_was_not_bound_gets_no_such_event() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    harness.builder.pod()
    harness.api.fail_bind = lambda _name: Forbidden(403, "Forbidden", "no")

    async with harness.leading(unsettled="it is tried again and again"):
        await harness.settle(5)

    assert harness.bound_events.told == []
