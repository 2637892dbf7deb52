"""A preemptor of terminating victims is decided again only when that can change the result."""

from collections.abc import Callable

import pytest
from prometheus_client import REGISTRY

from scheduler.core.values.model import PodInfo
from tests.scheduler.eviction_harness import EvictionHarness

PODS = 12


def tree(harness: EvictionHarness) -> list[PodInfo]:
    harness.observe(harness.builder.group("high", 2, composite=True, priority=5))
    waiting = []
    for child in ("a", "b"):
        key = harness.builder.group(child, PODS // 2, parent="high", priority=5)
        harness.observe(key)
        waiting += harness.builder.waits(child, PODS // 2, cpu=4, priority=5)
    return waiting


def unequal(harness: EvictionHarness) -> list[PodInfo]:
    harness.observe(harness.builder.group("high", PODS, priority=5))
    few = harness.builder.waits("high", PODS // 2, cpu=3, priority=5)
    return few + harness.builder.waits("high", PODS // 2, cpu=4, priority=5)


def equal(harness: EvictionHarness) -> list[PodInfo]:
    harness.observe(harness.builder.group("high", PODS, priority=5))
    return harness.builder.waits("high", PODS, cpu=4, priority=5)


def full(harness: EvictionHarness) -> list[PodInfo]:
    """Create a victim on each of as many nodes as the preemptor has pods."""
    harness.builder.nodes(PODS, cpu=4)
    return [
        info for index in range(PODS) for info in harness.builder.runs(None, f"n{index}", cpu=4)
    ]


def attempts() -> float:
    name = "muster_scheduler_preemption_attempts_total"
    return sum(
        REGISTRY.get_sample_value(name, {"result": result}) or 0.0 for result in ("evict", "wait")
    )


def end_one(harness: EvictionHarness) -> None:
    harness.builder.state.remove_pod(f"uid-{harness.evictor_api.leaving.pop(0)}")


@pytest.mark.parametrize("root", [tree, unequal, equal])
async def test_a_plan_is_not_decided_again_for_each_victims_end(
    root: Callable[[EvictionHarness], list[PodInfo]],
) -> None:
    harness, before = EvictionHarness(), attempts()
    victims = full(harness)
    waiting = root(harness)

    async with harness.leading():
        await harness.settle(1)
        assert set(harness.evictor_api.deleted) == {info.name for info in victims}
        for _ in victims:
            assert not harness.api.bound
            end_one(harness)
            await harness.settle(0.2)
        decided = attempts() - before

    assert set(harness.api.bound) == {info.name for info in waiting}
    assert decided == 1


@pytest.mark.parametrize("root", [tree, unequal, equal])
async def test_a_preemptor_is_decided_again_if_others_took_a_place_that_it_made(
    root: Callable[[EvictionHarness], list[PodInfo]],
) -> None:
    harness = EvictionHarness()
    full(harness)
    waiting = root(harness)
    harness.builder.node("spare", cpu=4)
    (late,) = harness.builder.runs(None, "spare", cpu=4, priority=1)

    async with harness.leading():
        await harness.settle(1)
        assert late.name not in harness.evictor_api.deleted
        end_one(harness)
        gone = next(n for n in range(PODS) if not harness.builder.state.pods_on(f"n{n}"))
        harness.builder.runs(None, f"n{gone}", cpu=4, priority=9)
        await harness.settle(1)
        harness.evictor_api.end()
        await harness.settle(30)
        assert late.name in harness.evictor_api.deleted
        harness.evictor_api.end()
        await harness.settle(2)

    assert set(harness.api.bound) == {info.name for info in waiting}


async def test_pods_beyond_the_minimum_of_a_tree_are_placed_as_their_victims_end() -> None:
    harness = EvictionHarness()
    full(harness)
    harness.builder.nodes(PODS + 2, cpu=4)
    harness.observe(harness.builder.group("high", 1, composite=True, priority=5))
    harness.observe(harness.builder.group("a", 2, parent="high", priority=5))
    harness.builder.runs("a", f"n{PODS}", f"n{PODS + 1}", cpu=4, priority=5)
    extras = harness.builder.waits("a", 3, cpu=4, priority=5)
    extras += harness.builder.waits("a", 3, cpu=3, priority=5)

    async with harness.leading():
        await harness.settle(1)
        assert len(harness.evictor_api.deleted) == len(extras)
        end_one(harness)
        await harness.settle(0.2)
        assert len(harness.api.bound) == 1
        harness.evictor_api.end()
        await harness.settle(1)

    assert set(harness.api.bound) == {info.name for info in extras}


async def test_a_tree_whose_victim_never_ends_evicts_others() -> None:
    harness = EvictionHarness()
    full(harness)
    waiting = tree(harness)
    harness.builder.node("spare", cpu=4)
    (late,) = harness.builder.runs(None, "spare", cpu=4, priority=1)

    async with harness.leading():
        await harness.settle(1)
        stuck = harness.evictor_api.leaving.pop(0)
        harness.evictor_api.end()
        await harness.settle(300)
        assert late.name in harness.evictor_api.deleted
        harness.evictor_api.end()
        await harness.settle(2)

    assert stuck not in harness.api.bound
    assert set(harness.api.bound) == {info.name for info in waiting}
