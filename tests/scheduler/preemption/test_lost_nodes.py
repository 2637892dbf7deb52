"""A node with terminating victims becomes unusable: the root evicts elsewhere at once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.values.model import NodeInfo, Requirements, Taint
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.state_builder import requests

Spoil = Callable[[NodeInfo], NodeInfo]


def cordoned(node: NodeInfo) -> NodeInfo:
    return replace(node, unschedulable=True)


SPOILS: dict[str, Spoil] = {
    "cordoned": cordoned,
    "tainted": lambda node: replace(node, taints=(Taint("broken", "", "NoSchedule"),)),
    "tainted so that pods leave": lambda node: replace(
        node, taints=(Taint("broken", "", "NoExecute"),)
    ),
    "relabelled": lambda node: replace(node, labels={"pool": "b"}),
    "smaller": lambda node: replace(node, allocatable={**node.allocatable, "cpu": 0}),
}


def change(harness: EvictionHarness, name: str, spoil: Spoil) -> None:
    nodes = harness.builder.state.nodes
    info = nodes.infos[nodes.row_of[name]]
    assert info is not None
    harness.builder.state.set_node(spoil(info))
    harness.changed.set()


def stage(pods: int) -> EvictionHarness:
    """Create nodes with one pod each, and a root that needs that many of them, all of one pool."""
    harness = EvictionHarness()
    for index in range(pods + 1):
        harness.builder.node(f"n{index}", cpu=1, labels={"pool": "a"})
        harness.builder.runs(None, f"n{index}", priority=index)
    wants = Requirements(requests(1), selector=(("pool", "a"),))
    if pods > 1:
        harness.observe(harness.builder.group("high", pods, priority=50))
    for _ in range(pods):
        harness.builder.pod("high" if pods > 1 else None, requirements=wants, priority=50)
    return harness


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("pods", [1, 2])
async def test_others_are_evicted_where_the_node_cannot_be_used_any_more(
    pods: int, spoil: str
) -> None:
    harness = stage(pods)
    async with harness.leading(unsettled="the first victim does not end"):
        await harness.settle(1)
        assert len(harness.evictor_api.deleted) == pods
        change(harness, "n0", SPOILS[spoil])
        await harness.settle(1)
        assert len(harness.evictor_api.deleted) == pods + 1
        harness.evictor_api.leaving.remove(harness.evictor_api.deleted[0])
        harness.evictor_api.end()
        await harness.settle(3)
        assert len(harness.api.bound) == pods
        assert "n0" not in harness.api.bound.values()


@pytest.mark.parametrize("pods", [1, 2])
async def test_others_are_evicted_where_the_node_is_deleted(pods: int) -> None:
    harness = stage(pods)
    async with harness.leading(unsettled="the first victim does not end"):
        await harness.settle(1)
        assert len(harness.evictor_api.deleted) == pods
        harness.builder.state.remove_node("n0")
        await harness.settle(1)
        assert len(harness.evictor_api.deleted) == pods + 1


async def test_a_change_that_hinders_nobody_has_nobody_else_evicted() -> None:
    harness = stage(1)
    async with harness.leading(unsettled="the first victim does not end"):
        await harness.settle(1)
        change(harness, "n0", lambda node: replace(node, labels={**node.labels, "more": "x"}))
        await harness.settle(20)
        assert len(harness.evictor_api.deleted) == 1


async def test_the_root_does_not_pause_as_if_others_had_taken_its_place() -> None:
    """Its victims ended before the node was cordoned."""
    harness = stage(1)
    async with harness.leading(unsettled="the second victim ends when the test says so"):
        await harness.settle(1)
        change(harness, "n0", cordoned)
        harness.evictor_api.end()
        await harness.settle(2)
        assert len(harness.evictor_api.deleted) == 2
