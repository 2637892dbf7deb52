"""A root whose decision raises gets SchedulerError and backs off; all others continue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import GroupKey
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.harness import Harness

POISON: GroupKey = ("PodGroup", "ns", "poison")


class BugError(Exception):
    """An error that no code expects."""


@contextmanager
def raising(where: str, is_about: Callable[..., bool]) -> Iterator[None]:
    """Let the function of this name raise for those calls, after it has done its work."""
    with pytest.MonkeyPatch.context() as patch:
        module, _, name = where.rpartition(".")
        function = getattr(import_module(module), name)

        def faulty(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if is_about(*args):
                raise BugError(where)
            return result

        patch.setattr(where, faulty)
        yield


def about_root(_state: Any, root: Group | Pod, *_: Any) -> bool:
    return root.key == POISON


def about_refusal(_state: Any, refusal: Refusal, *_: Any) -> bool:
    return refusal.root == POISON


def about_batch(_state: Any, roots: list[Group], *_: Any) -> bool:
    return POISON in [root.key for root in roots]


def about_placement(_state: Any, root: Group, *_: Any) -> bool:
    return root.key == POISON


FAULTS = [
    pytest.param("scheduler.cycle.cycle.decide", about_root, id="in the decision"),
    pytest.param("scheduler.core.search.place._placement", about_placement, id="in the open trial"),
    pytest.param(
        "scheduler.cycle.cycle.signature", lambda root: root.key == POISON, id="in batching"
    ),
]


def pod_reasons(harness: Harness) -> set[str]:
    """Return the reasons of all conditions that were written to pods."""
    ops = [op for kind, _, ops in harness.api.patches if kind == "Pod" for op in ops]
    values = [op["value"] for op in ops if op["path"].startswith("/status/conditions")]
    return {each["reason"] for value in values for each in _listed(value)}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def failing() -> float:
    return REGISTRY.get_sample_value("muster_failing", {"work": "decide"}) or 0.0


@pytest.mark.parametrize(("where", "is_about"), FAULTS)
async def test_others_are_decided_and_the_root_says_why_it_is_not(
    where: str, is_about: Callable[..., bool]
) -> None:
    harness = Harness()
    harness.builder.nodes(8, cpu=1)
    before = failing()
    for name, pods in (("a", 2), ("poison", 3), ("z", 2)):
        harness.observe(harness.builder.gang(name, pods))
        harness.builder.pods(name, pods)
    harness.observe_pods()

    with raising(where, is_about), capture_logs() as logs:
        async with harness.leading(unsettled="the root fails again and again"):
            await harness.settle(40)
        details = list(harness.cycle.details())

    state = harness.builder.state
    assert {state.pods[f"uid-{name}"].info.group for name in harness.api.bound} == {"a", "z"}
    status, reason, message = harness.condition(POISON)
    assert (status, reason) == ("False", "SchedulerError")
    assert message.startswith("The decision raised BugError, which is a bug in the scheduler.")
    assert ("PodGroup/poison", "SchedulerError") in [told[:2] for told in harness.events.told]
    assert pod_reasons(harness) == {"SchedulerError"}
    assert (
        sorted(state.nodes.free[state.nodes.resources.indices["cpu"], :8]) == [0] * 4 + [1000] * 4
    )
    assert details == [f"decide: failing: PodGroup/ns/poison (BugError: {where})"]
    assert sum("exc_info" in log for log in logs) == 1
    assert failing() - before == 1


async def test_a_root_that_fails_is_tried_later_and_later_and_bound_once_it_can_be() -> None:
    harness = Harness()
    harness.builder.nodes(1)
    harness.builder.gang("poison")
    pod = harness.builder.pod("poison")
    tried: list[float] = []

    def note(_state: Any, root: Group | Pod, *_: Any) -> bool:
        tried.append(harness.clock.monotonic())
        return True

    async with harness.leading():
        with raising("scheduler.cycle.cycle.decide", note):
            await harness.settle(1200)
        await harness.settle(300)

    waits = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert len(tried) <= 20
    assert waits[0] <= 2
    assert max(waits) <= 301
    assert waits[-1] >= 150
    assert set(harness.api.bound) == {pod.name}
    assert list(harness.cycle.details()) == []


async def test_a_change_of_a_failing_root_does_not_make_it_spin() -> None:
    harness = Harness()
    harness.builder.nodes(1)
    harness.builder.gang("poison")
    harness.builder.pod("poison")
    tried: list[str] = []

    def note(_state: Any, root: Group | Pod, *_: Any) -> bool:
        tried.append(root.key[2])
        return True

    with raising("scheduler.cycle.cycle.decide", note):
        async with harness.leading(unsettled="the root fails again and again"):
            for index in range(100):
                harness.builder.gang("poison", created=str(index))
                await harness.settle(0.25)

    assert 3 <= len(tried) <= 8


async def test_a_new_root_of_the_name_of_one_that_failed_starts_afresh() -> None:
    harness = Harness()
    harness.builder.nodes(1)
    failed = harness.builder.pod(name="p")
    with raising("scheduler.cycle.cycle.decide", lambda *_: True):
        async with harness.leading(unsettled="the root fails again and again"):
            await harness.settle(100)
            harness.builder.state.remove_pod(failed.uid)
            await harness.settle()
            details = list(harness.cycle.details())

    async with harness.leading():
        harness.builder.pod(name="p")
        await harness.settle(0.25)

    assert details == []
    assert set(harness.api.bound) == {"p"}


async def test_a_root_whose_refusal_cannot_be_explained_is_refused_all_the_same() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    # Of different sizes, because equal roots share one result.
    for name, size in (("big", 3), ("poison", 4)):
        harness.observe(harness.builder.gang(name, size))
        harness.builder.pods(name, size)

    with raising("scheduler.cycle.outcomes.explain", about_refusal):
        async with harness.leading(unsettled="the root fails again and again"):
            await harness.settle(10)

    assert harness.condition(("PodGroup", "ns", "big"))[1] == "Unschedulable"
    assert harness.condition(POISON)[1] == "SchedulerError"


async def test_a_batch_that_raises_is_decided_one_by_one() -> None:
    harness = Harness()
    harness.builder.nodes(8, cpu=1)
    for name in ("a", "b", "poison", "z"):
        harness.builder.gang(name, 2)
        harness.builder.pods(name, 2)

    with raising("scheduler.cycle.equal_roots.place_batch", about_batch):
        async with harness.leading():
            await harness.settle(1)

    assert len(harness.api.bound) == 8


@pytest.mark.parametrize("groups", [1, 3], ids=["alone", "in a batch"])
async def test_pods_that_cannot_be_handed_to_the_binder_give_back_their_places(
    groups: int,
) -> None:
    harness = Harness()
    harness.builder.nodes(6, cpu=1)
    for name in ["poison", "y", "z"][:groups]:
        harness.builder.gang(name, 2)
        harness.builder.pods(name, 2)
    state, submit = harness.builder.state, harness.binder.submit

    def faulty(placement: Placement) -> None:
        if placement.root == POISON:
            raise BugError
        submit(placement)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness.binder, "submit", faulty)
        async with harness.leading(unsettled="the root fails again and again"):
            await harness.settle(10)
            waiting = [pod.info.group for pod in state.pods.values() if pod.waiting]
            free = int((state.nodes.free[state.nodes.resources.indices["cpu"]] > 0).sum())

    assert waiting == ["poison", "poison"]
    assert free == 6 - 2 * (groups - 1)

    async with harness.leading():
        await harness.settle(20)
    assert len(harness.api.bound) == 2 * groups


async def test_a_root_for_which_preemption_raises_evicts_nobody() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.gang("poison", 1, priority=10)
    harness.builder.gang("fine", 1, priority=10)
    for node in ("n0", "n1"):
        harness.builder.pod(node=node)
    for name in ("poison", "fine"):
        harness.builder.pod(name, priority=10)

    with raising("scheduler.preemption.preemptor.preempt", about_root):
        async with harness.leading(unsettled="the root fails again and again"):
            await harness.settle(1)
            harness.evictor_api.end()
            await harness.settle(20)

    state = harness.builder.state
    assert [state.pods[f"uid-{name}"].info.group for name in harness.api.bound] == ["fine"]
    assert len(harness.evictor_api.deleted) == 1
    assert POISON not in state.nominations


async def test_a_change_that_the_queue_cannot_take_in_is_about_its_root_alone() -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    for name in ("a", "poison", "z"):
        harness.builder.gang(name, 1)
        harness.builder.pod(name)

    with raising("scheduler.queue.scheduling_queue.rank_of", lambda root: root.key == POISON):
        async with harness.leading(unsettled="the root fails again and again"):
            await harness.settle(3)

    state = harness.builder.state
    assert {state.pods[f"uid-{name}"].info.group for name in harness.api.bound} == {"a", "z"}
    assert "PodGroup/ns/poison" in "".join(harness.cycle.details())
