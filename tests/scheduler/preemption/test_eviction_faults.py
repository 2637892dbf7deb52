"""Deletions that hang, fail or are rejected delay no others, and are not repeated forever."""

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from kube.base.errors import Conflict, Forbidden, KubeError, ServerError
from scheduler.core.state.units import LONGEST_GRACE
from scheduler.core.values.model import PodInfo, PreemptionInfo
from scheduler.preemption.evictor import SPARED_FOR
from tests.scheduler.eviction_harness import EvictionHarness

FORBIDDEN = Forbidden(403, "Forbidden", "not yours")
BROKEN = ServerError(500, "InternalError", "failed calling webhook")


def spared(reason: str) -> float:
    name = "muster_scheduler_preemption_victims_spared_total"
    return REGISTRY.get_sample_value(name, {"reason": reason}) or 0.0


def failing(harness: EvictionHarness, error: KubeError, *names: str) -> None:
    harness.evictor_api.fail_delete = lambda name: error if name in names else None


def two_nodes(harness: EvictionHarness) -> tuple[PodInfo, PodInfo, PodInfo]:
    """Create a first-choice victim, a second-choice one, and the preemptor."""
    harness.builder.nodes(2, cpu=1)
    (first,) = harness.builder.runs(None, "n0", priority=0)
    (second,) = harness.builder.runs(None, "n1", priority=1)
    (high,) = harness.builder.waits(None, priority=5)
    return first, second, high


async def test_a_deletion_that_always_fails_is_given_up_and_others_go_instead() -> None:
    harness, before = EvictionHarness(), spared("unanswered")
    first, second, high = two_nodes(harness)
    failing(harness, BROKEN, first.name)

    async with harness.leading():
        await harness.settle(80)
        harness.evictor_api.end()
        await harness.settle(2)

    assert harness.evictor_api.deleted == [second.name]
    assert set(harness.api.bound) == {high.name}
    assert spared("unanswered") == before + 1
    ((who, said),) = harness.events_of("EvictionFailed")
    assert (who, "failed calling webhook" in said) == (f"Pod/{first.name}", True)


async def test_a_plan_whose_deletions_fail_does_not_delay_other_plans() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(40, cpu=1)
    harness.observe(harness.builder.group("stuck", 20, mode="all"))
    stuck = harness.builder.runs("stuck", *(f"n{i}" for i in range(20)))
    failing(harness, BROKEN, *(info.name for info in stuck))
    harness.observe(harness.builder.group("first", 20, priority=9))
    harness.builder.waits("first", 20, priority=9)
    free = harness.builder.runs(None, *(f"n{i}" for i in range(20, 40)), priority=6)

    async with harness.leading(unsettled="the first plan is still tried"):
        await harness.settle(3)
        tried = list(harness.evictor_api.marked)
        harness.observe(harness.builder.group("second", 20, priority=9))
        harness.builder.waits("second", 20, priority=9)
        await harness.settle(3)

    assert f"Pod/{stuck[0].name}" in tried
    assert set(harness.evictor_api.deleted) == {info.name for info in free}


async def test_what_was_not_answered_may_be_chosen_again_later() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    (low,) = harness.builder.runs(None, "n0")
    (high,) = harness.builder.waits(None, priority=5)
    failing(harness, BROKEN, low.name)

    async with harness.leading():
        await harness.settle(90)
        gave_up = len(harness.events_of("EvictionFailed"))
        failing(harness, BROKEN)
        await harness.settle(SPARED_FOR)
        harness.evictor_api.end()
        await harness.settle(2)

    assert gave_up == 1
    assert set(harness.api.bound) == {high.name}


async def test_what_was_refused_is_tried_again_as_seldom() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    (low,) = harness.builder.runs(None, "n0")
    harness.builder.waits(None, priority=5)
    failing(harness, FORBIDDEN, low.name)

    async with harness.leading():
        await harness.settle(SPARED_FOR - 60)
        assert len(harness.events_of("EvictionFailed")) == 1
        await harness.settle(180)
        assert len(harness.events_of("EvictionFailed")) == 2


async def test_a_403_of_an_api_server_that_starts_spares_nobody() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    (low,) = harness.builder.runs(None, "n0")
    (high,) = harness.builder.waits(None, priority=5)
    failing(harness, FORBIDDEN, low.name)

    async with harness.leading():
        await harness.settle(1)
        failing(harness, FORBIDDEN)
        await harness.settle(5)
        harness.evictor_api.end()
        await harness.settle(5)

    assert harness.events_of("EvictionFailed") == []
    assert set(harness.api.bound) == {high.name}


@pytest.mark.parametrize("another", [True, False])
async def test_a_conflict_says_that_another_pod_has_the_name_only_if_one_has(
    another: bool,
) -> None:
    harness = EvictionHarness()
    first, _, _ = two_nodes(harness)
    answers = iter([Conflict(409, "Conflict", "modified")])

    def fails(name: str) -> KubeError | None:
        error = next(answers, None)
        if error is not None and another:
            harness.builder.state.remove_pod(first.uid)
            harness.builder.state.set_pod(replace(first, uid="uid-another"))
        return error

    harness.evictor_api.fail_delete = fails
    async with harness.leading(unsettled="the victim ends when the test says so"):
        await harness.settle(5)

    assert harness.evictor_api.deleted == ([] if another else [first.name])


@pytest.mark.parametrize("error", [FORBIDDEN, BROKEN])
async def test_the_mark_of_a_spared_pod_is_taken_back(error: KubeError) -> None:
    harness = EvictionHarness()
    first, _, _ = two_nodes(harness)
    failing(harness, error, first.name)

    async with harness.leading():
        await harness.settle(80)

    assert harness.builder.single(first).info.preemption.targeted is False


async def test_a_new_leader_does_not_evict_what_an_earlier_one_could_not() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.group("g", 2, mode="all")
    one, other = harness.builder.runs("g", "n0", "n1")
    (high,) = harness.builder.waits(None, priority=5)
    failing(harness, FORBIDDEN, one.name, other.name)
    async with harness.leading():
        await harness.settle(10)
    harness.builder.state.remove_pod(high.uid)
    failing(harness, FORBIDDEN)

    harness.preemptor.reset()
    harness.evictor.reset()
    harness.evictor.resume()
    harness.preemptor.restore()
    async with harness.leading():
        await harness.settle(5)

    assert harness.evictor_api.deleted == []


async def test_a_unit_with_a_pod_that_cannot_be_marked_keeps_all_its_pods() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    harness.observe(harness.builder.group("g", 2, mode="all"))
    one, _ = harness.builder.runs("g", "n0", "n1")
    harness.builder.waits(None, priority=5)
    harness.evictor_api.fail_patch = lambda name: FORBIDDEN if name == one.name else None

    async with harness.leading():
        await harness.settle(10)

    assert harness.evictor_api.deleted == []


async def test_a_mark_on_a_terminating_pod_says_nothing_about_those_that_came_later() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    harness.builder.group("g", 1, mode="all")
    (stuck,) = harness.builder.runs("g", "n0")
    marked = PreemptionInfo(targeted=True, leaves_by=1.0)
    harness.builder.state.set_pod(replace(stuck, terminating=True, preemption=marked))
    harness.builder.runs("g", "n1")

    harness.evictor.reset()
    harness.evictor.resume()
    async with harness.leading():
        await harness.settle()

    assert harness.evictor_api.deleted == []


async def test_a_pod_that_came_after_the_mark_is_not_evicted_with_its_unit() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(3, cpu=1)
    harness.builder.group("g", 3, mode="all")
    marked, before, after = harness.builder.runs("g", "n0", "n1", "n2")
    mark = PreemptionInfo(targeted=True, targeted_at=before.created)
    harness.builder.state.set_pod(replace(marked, preemption=mark))

    harness.evictor.reset()
    harness.evictor.resume()
    async with harness.leading():
        await harness.settle()

    assert set(harness.evictor_api.deleted) == {marked.name, before.name}
    assert after.name not in harness.evictor_api.deleted


@pytest.mark.parametrize(
    ("grace", "terminating", "asked"),
    [
        pytest.param(30.0, False, None, id="its own, as its owner wrote it"),
        pytest.param(3e8, False, LONGEST_GRACE, id="not longer than the longest"),
        pytest.param(30.0, True, 30, id="its own in place of the years that others gave it"),
        pytest.param(3e8, True, LONGEST_GRACE, id="the longest in place of years"),
        pytest.param(0.0, True, 1, id="never removed without its node's word"),
    ],
)
async def test_the_grace_period_of_a_victim(
    grace: float, terminating: bool, asked: int | None
) -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    (low,) = harness.builder.runs(None, "n0")
    leaves_by = harness.clock.monotonic() + 1e8 if terminating else 0.0
    preemption = PreemptionInfo(grace=grace, leaves_by=leaves_by)
    info = replace(low, terminating=terminating, preemption=preemption)
    harness.builder.state.set_pod(info)
    harness.builder.waits(None, priority=5)

    async with harness.leading():
        await harness.settle()

    assert harness.evictor_api.graces == {low.name: asked}


async def test_a_new_leader_keeps_the_places_that_are_nominated() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    (high,) = harness.builder.waits(None, priority=5)
    harness.builder.state.set_pod(replace(high, nominated="n0"))

    harness.preemptor.reset()
    harness.evictor.reset()
    harness.evictor.resume()
    harness.preemptor.restore()

    (kept,) = harness.builder.state.nominations
    assert kept.root == harness.builder.single(high).key
    assert [nodes for _, nodes in kept.places] == [(("n0", 1),)]


@pytest.mark.parametrize(
    "why", ["the node is gone", "the group is not whole", "nothing makes room there"]
)
async def test_a_new_leader_clears_nominations_that_do_not_hold(why: str) -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    harness.builder.runs(None, "n0", priority=9)
    harness.builder.group("g", 2, priority=5)
    infos = harness.builder.waits("g", 1 if "whole" in why else 2, priority=5)
    node = "gone" if "gone" in why else "n0"
    harness.builder.state.set_pod(replace(infos[0], nominated=node))

    harness.preemptor.reset()
    harness.evictor.reset()
    harness.evictor.resume()
    harness.preemptor.restore()
    async with harness.leading():
        await harness.settle(2)

    assert harness.evictor_api.nominated == {infos[0].name: ""}
    assert list(harness.builder.state.nominations) == []


async def test_a_new_plan_clears_the_nominations_of_the_one_before() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    key = harness.builder.group("high", 3, priority=5)
    one, other = map(harness.builder.single, harness.builder.waits("high", 2, priority=5))

    async with harness.leading():
        harness.evictor.nominate(key, {one: "n0", other: "n1"})
        await harness.settle(2)
        harness.evictor.nominate(key, {one: "n0"})
        await harness.settle(2)

    assert harness.evictor_api.nominated == {one.info.name: "n0", other.info.name: ""}


async def test_who_leads_again_has_forgotten_whom_it_was_about_to_evict() -> None:
    """The lease was lost before the first condition: without a new plan no pod is evicted."""
    harness = EvictionHarness()
    first, second, _ = two_nodes(harness)
    units = harness.builder.state.units
    units.mark_evicting([harness.builder.single(first)], 1.0)
    units.spare([harness.builder.single(second)])
    units.refresh()
    before = len(units.below(5))

    harness.evictor.reset()
    harness.evictor.resume()
    units.refresh()

    assert (before, len(units.below(5))) == (0, 2)
    assert not units.evicting
