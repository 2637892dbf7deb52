"""The status of a root group counts the preemptions that disrupted its gangs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from api.constants import NATIVE_POD_GROUP, SCHEDULER_NAME
from api.eviction import preemptions_of
from kube.base.errors import ServerError
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey, PodInfo
from scheduler.decoding import decode
from scheduler.decoding.objects import group_of
from scheduler.support.config import Preemption
from scheduler.support.kinds import GROUP_RESOURCES
from tests.scheduler.eviction_harness import EvictionHarness

LOW: GroupKey = (POD_GROUP, "ns", "low")


def stored(harness: EvictionHarness, key: GroupKey) -> dict[str, Any]:
    found = harness.evictor_api.stored(GROUP_RESOURCES[key[0]], key[2], key[1])
    return found or {}


def counts(harness: EvictionHarness, key: GroupKey = LOW) -> int:
    return preemptions_of(stored(harness, key).get("status") or {})[0]


def repeated() -> float:
    return REGISTRY.get_sample_value("muster_scheduler_preemption_repeated_total") or 0.0


def running(
    harness: EvictionHarness, pods: int, *, minimum: int, mode: str, **more: Any
) -> list[PodInfo]:
    harness.builder.nodes(pods, cpu=1)
    harness.observe(harness.builder.group("low", minimum, mode=mode, **more))
    return harness.builder.runs("low", *(f"n{at}" for at in range(pods)))


def comes(harness: EvictionHarness, name: str, pods: int) -> None:
    harness.observe(harness.builder.group(name, pods, priority=5))
    harness.builder.waits(name, pods, priority=5)


def starts_again(harness: EvictionHarness, by: str, nodes: list[str]) -> None:
    """Remove the preemptor, and let the gang run again as the watch would deliver it."""
    for pod in [it for it in harness.builder.state.pods.values() if it.info.group == by]:
        harness.builder.state.remove_pod(pod.info.uid)
    harness.builder.state.remove_group((POD_GROUP, "ns", by))
    group = group_of(stored(harness, LOW))
    spec = harness.builder.state.forest.groups[LOW].spec
    assert spec is not None
    preempted = decode.group_spec(POD_GROUP, group).preempted
    harness.builder.state.set_group(replace(spec, preempted=preempted))
    harness.builder.runs("low", *nodes)


@pytest.mark.parametrize("mode", ["all", "single"])
async def test_each_preemption_of_a_gang_counts_and_repeated_ones_are_a_metric(mode: str) -> None:
    harness = EvictionHarness()
    harness.evictor_api.quick = True
    running(harness, 2, minimum=2, mode=mode)
    before = repeated()

    async with harness.leading():
        for number in range(3):
            comes(harness, f"high{number}", 2)
            await harness.settle(5)
            assert counts(harness) == number + 1
            assert repeated() - before == number
            starts_again(harness, f"high{number}", ["n0", "n1"])

    spec = harness.builder.state.forest.groups[LOW].spec
    assert spec is not None
    assert spec.preempted[0] == 3


async def test_a_count_starts_again_after_its_window() -> None:
    harness = EvictionHarness(config=Preemption(repeat_window_seconds=60))
    harness.evictor_api.quick = True
    running(harness, 1, minimum=1, mode="all")

    async with harness.leading():
        comes(harness, "first", 1)
        await harness.settle(5)
        starts_again(harness, "first", ["n0"])
        await harness.settle(61)
        comes(harness, "second", 1)
        await harness.settle(5)

    assert counts(harness) == 1


@pytest.mark.parametrize(
    ("pods", "minimum", "config", "want"),
    [
        pytest.param(1, 1, Preemption(), 1, id="a pod that the gang needs"),
        pytest.param(2, 1, Preemption(), 0, id="a pod beyond its minCount"),
        pytest.param(1, 1, Preemption(repeat_window_seconds=0), 0, id="not counted"),
    ],
)
async def test_only_what_a_gang_needs_counts(
    pods: int, minimum: int, config: Preemption, want: int
) -> None:
    harness = EvictionHarness(config=config)
    running(harness, pods, minimum=minimum, mode="single")
    comes(harness, "high", 1)

    async with harness.leading():
        await harness.settle(5)

    assert len(harness.evictor_api.deleted) == 1
    assert counts(harness) == want


async def test_pods_of_a_basic_group_are_no_preemption_of_it() -> None:
    harness = EvictionHarness()
    running(harness, 1, minimum=1, mode="single", gang=False)
    comes(harness, "high", 1)

    async with harness.leading():
        await harness.settle(5)

    assert len(harness.evictor_api.deleted) == 1
    assert counts(harness) == 0


@pytest.mark.parametrize("mode", ["all", "single"])
async def test_the_root_counts_for_its_tree(mode: str) -> None:
    harness = EvictionHarness()
    root = harness.builder.group("root", 1, composite=True, mode=mode)
    harness.observe(root)
    running(harness, 2, minimum=2, mode=mode, parent="root")
    comes(harness, "high", 2)

    async with harness.leading():
        await harness.settle(5)

    assert root[0] == COMPOSITE_POD_GROUP
    assert counts(harness, root) == 1
    assert counts(harness) == 0


async def test_native_groups_count_as_well() -> None:
    harness = EvictionHarness()
    key = (NATIVE_POD_GROUP.full_kind, "ns", "low")
    harness.builder.nodes(1, cpu=1)
    spec = harness.builder.state.forest.groups[harness.builder.group("low", 1, mode="all")].spec
    assert spec is not None
    harness.builder.state.remove_group(LOW)
    harness.builder.state.set_group(replace(spec, key=key, shared=True))
    harness.observe(key)
    (info,) = harness.builder.runs(None, "n0")
    harness.builder.state.remove_pod(info.uid)
    harness.builder.state.set_pod(
        replace(info, group="low", group_kind=key[0], scheduler=SCHEDULER_NAME)
    )
    comes(harness, "high", 1)

    async with harness.leading():
        await harness.settle(5)

    assert counts(harness, key) == 1


async def test_a_count_that_cannot_be_written_delays_no_eviction() -> None:
    harness = EvictionHarness()
    low = running(harness, 1, minimum=1, mode="single")
    comes(harness, "high", 1)
    harness.evictor_api.fail_patch = lambda name: (
        ServerError(500, "InternalError", "not now") if name == "low" else None
    )

    async with harness.leading():
        await harness.settle()
        assert harness.evictor_api.deleted == [low[0].name]
        harness.evictor_api.fail_patch = lambda _name: None
        await harness.settle(10)

    assert counts(harness) == 1
