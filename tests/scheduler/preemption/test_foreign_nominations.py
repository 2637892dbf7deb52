"""Nodes that another scheduler nominated for its pods, which these take after their victims."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.search.batching import batchable, place_batch
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.values.model import PodInfo
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.preemption_builder import PreemptionBuilder


def nominated(
    builder: PreemptionBuilder, node: str = "n0", *, priority: int = 1000, cpu: int = 1
) -> PodInfo:
    """Add a pending pod of kube-scheduler with a nominated node."""
    (info,) = builder.waits(None, cpu=cpu, priority=priority)
    info = replace(info, ours=False, nominated=node)
    builder.state.set_pod(info)
    return info


@pytest.mark.parametrize(
    ("priority", "fits"),
    [
        pytest.param(0, False, id="lower"),
        pytest.param(1000, False, id="equal"),
        pytest.param(1001, True, id="higher"),
    ],
)
def test_only_a_higher_priority_takes_the_place(priority: int, fits: bool) -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    nominated(builder)
    (pod,) = builder.waits(None, priority=priority)

    assert isinstance(builder.place_single(pod), Placement) is fits


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"terminating": True}, id="terminating"),
        pytest.param({"phase": "Failed"}, id="ended"),
        pytest.param({"gated": True}, id="gated"),
        pytest.param({"nominated": "gone"}, id="a node that is gone"),
        pytest.param({"nominated": ""}, id="cleared"),
        pytest.param({"node": "n1"}, id="bound elsewhere"),
        pytest.param(None, id="deleted"),
    ],
)
def test_a_nomination_that_no_longer_holds_takes_nothing(
    change: dict[str, Any] | None,
) -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.runs(None, "n1", priority=9999)
    foreign = nominated(builder)
    (pod,) = builder.waits(None)
    before = builder.place_single(pod)

    if change is None:
        builder.state.remove_pod(foreign.uid)
    else:
        builder.state.set_pod(replace(foreign, **change))

    assert not isinstance(before, Placement)
    assert isinstance(builder.place_single(pod), Placement)


def test_a_nomination_on_a_node_that_is_too_small_takes_what_the_pod_asks_there() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    nominated(builder, cpu=500)
    one, other = builder.waits(None, 2)
    builder.run(builder.place_single(one))

    assert not isinstance(builder.place_single(other), Placement)
    assert builder.single(one).node == "n1"


@pytest.mark.parametrize("priority", [-9, 0])
def test_roots_in_one_batch_leave_the_place_alone(priority: int) -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    nominated(builder, "n0", priority=priority)
    infos = builder.waits(None, 3, priority=priority)
    roots = [builder.single(info) for info in infos]

    together = batchable(builder.state, roots[0].shape)
    placements = place_batch(builder.state, roots, SearchBudget())

    assert together
    assert [builder.state.nodes.name_of(p.rows[0]) for p in placements] == ["n1", "n2"]


async def test_a_waiting_pod_is_bound_once_the_other_schedulers_pod_is_gone() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    foreign = nominated(harness.builder)
    (pod,) = harness.builder.waits(None)

    async with harness.leading():
        await harness.settle()
        assert not harness.api.bound
        harness.builder.state.remove_pod(foreign.uid)
        await harness.settle()

    assert set(harness.api.bound) == {pod.name}


async def test_a_new_leader_keeps_what_others_nominated() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    nominated(harness.builder)
    harness.builder.waits(None)

    harness.preemptor.reset()
    async with harness.leading():
        await harness.settle()

    assert not harness.api.bound


def test_nominations_that_came_and_went_leave_nothing_behind() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    for _ in range(9):
        builder.state.remove_pod(nominated(builder).uid)
    builder.state.take_changes()

    nominations = builder.state.nominations
    assert (list(nominations), nominations._on) == ([], {})
