"""Pods that terminate slowly free no capacity: they are victims only as a last resort.

Any user may set a grace period of ten years. A finalizer does not determine the duration: most are
removed at once, and they must not protect pods from eviction.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.state.units import LONGEST_GRACE
from scheduler.core.values.model import PodInfo, PreemptionInfo
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.preemption_builder import PreemptionBuilder

TEN_YEARS = 315_360_000.0

Slows = Callable[[PodInfo], PodInfo]

SLOW: dict[str, Slows] = {
    "a grace period of ten years": lambda info: replace(
        info, preemption=PreemptionInfo(grace=TEN_YEARS)
    ),
    "being deleted with ten years": lambda info: replace(
        info, terminating=True, preemption=PreemptionInfo(grace=TEN_YEARS, leaves_by=TEN_YEARS)
    ),
}


def names(*infos: PodInfo) -> set[str]:
    return {info.name for info in infos}


def victims(builder: PreemptionBuilder, high: PodInfo) -> set[str]:
    plan = builder.preempt(high.name, effort=SearchEffort.at(0.0, 60))
    assert isinstance(plan, Plan), plan
    return {pod.info.name for unit in plan.victims for pod in unit.pods.values()}


def slow(builder: PreemptionBuilder, why: str, *infos: PodInfo) -> None:
    for info in infos:
        builder.state.set_pod(SLOW[why](info))


@pytest.mark.parametrize("why", SLOW)
def test_others_are_evicted_also_of_a_higher_priority(why: str) -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    slow(builder, why, *builder.runs(None, "n0"))
    prompt = builder.runs(None, "n1", priority=3)
    (high,) = builder.waits(None, priority=5)

    assert victims(builder, high) == names(*prompt)


@pytest.mark.parametrize("why", list(SLOW)[:1])
def test_they_are_evicted_where_nobody_else_can_be(why: str) -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    low = builder.runs(None, "n0")
    slow(builder, why, *low)
    builder.runs(None, "n1", priority=9)
    (high,) = builder.waits(None, priority=5)

    assert victims(builder, high) == names(*low)


def test_a_unit_is_as_slow_as_its_slowest_pod() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    builder.group("g", 2, mode="all")
    one, other = builder.runs("g", "n0", "n1")
    slow(builder, "a grace period of ten years", one)
    prompt = builder.runs(None, "n2", priority=3)
    (high,) = builder.waits(None, priority=5)

    assert victims(builder, high) == names(*prompt)
    builder.state.set_pod(one)
    assert victims(builder, high) == names(one, other)


def test_the_longest_grace_that_is_given_anyway_is_not_long() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (low,) = builder.runs(None, "n0")
    builder.state.set_pod(replace(low, preemption=PreemptionInfo(grace=LONGEST_GRACE)))
    builder.runs(None, "n1", priority=3)
    (high,) = builder.waits(None, priority=5)

    assert victims(builder, high) == names(low)


@pytest.mark.parametrize("why", SLOW)
async def test_a_tenant_who_fills_nodes_with_them_keeps_no_gang_waiting(why: str) -> None:
    harness = EvictionHarness()
    builder = harness.builder
    builder.nodes(12, cpu=1)
    slow(builder, why, *builder.runs(None, *(f"n{i}" for i in range(8))))
    prompt = builder.runs(None, *(f"n{i}" for i in range(8, 12)), priority=3)
    builder.group("high", 4, priority=5)
    builder.waits("high", 4, priority=5)

    async with harness.leading():
        await harness.settle(1)
        assert set(harness.evictor_api.deleted) == names(*prompt)
        harness.evictor_api.end()
        await harness.settle(2)
        assert len(harness.api.bound) == 4


@pytest.mark.parametrize("why", SLOW)
async def test_many_equal_pods_evict_the_others_too(why: str) -> None:
    harness = EvictionHarness()
    builder = harness.builder
    builder.nodes(12, cpu=1)
    slow(builder, why, *builder.runs(None, *(f"n{i}" for i in range(8))))
    prompt = builder.runs(None, *(f"n{i}" for i in range(8, 12)), priority=3)
    builder.waits(None, 4, priority=5)

    async with harness.leading():
        await harness.settle(1)
        assert set(harness.evictor_api.deleted) == names(*prompt)
        harness.evictor_api.end()
        await harness.settle(2)
        assert len(harness.api.bound) == 4
