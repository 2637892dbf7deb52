"""The time limit of a start beside native groups, expected pods, elastic gangs and preemption."""

from dataclasses import replace

import pytest

from api.constants import ANNOTATION_PREEMPTION_DELAY, ANNOTATION_START_TIMEOUT, NATIVE_POD_GROUP
from api.features import USUAL
from kube.client.meta import Json
from scheduler.core.groups.groups import StartWait
from scheduler.core.search.place import SearchBudget
from scheduler.core.values.model import POD_GROUP, GroupKey, GroupSpec
from scheduler.decoding import decode
from scheduler.decoding.objects import group_of
from scheduler.snapshot.snapshot import Limits, restore, take
from scheduler.status.conditions import group_view, waiting_for
from scheduler.status.group_status import wanted_status
from tests.scheduler.cycle.test_start_limits import KEY, given_up, limited, waiting
from tests.scheduler.harness import Harness
from tests.scheduler.holding_harness import HoldingHarness, kind

LIMIT = {ANNOTATION_START_TIMEOUT: "60s"}
NOW = "2026-01-01T00:09:00Z"


def key(name: str) -> GroupKey:
    return (POD_GROUP, "ns", name)


def test_a_native_group_has_the_wait_in_its_conditions() -> None:
    harness = Harness()
    native: GroupKey = (NATIVE_POD_GROUP.full_kind, "ns", "g")
    state = harness.builder.state
    state.set_group(GroupSpec(native, 1, shared=True, start_within=60.0))
    info = harness.builder.pod(None, scheduler="muster-scheduler")
    state.remove_pod(info.uid)
    state.set_pod(replace(info, group="g", group_kind=native[0]))
    harness.start_limits.changed(native)
    group = state.forest.groups[native]
    before: Json = {"conditions": []}
    assert group.start_wait == StartWait("2026-01-01T00:00:00Z", 60.0)

    state.set_start_wait(group, replace(group.start_wait, since=NOW, given_up="no nodes"))
    why = waiting_for(state, group, USUAL)
    assert why is not None
    status, changed = wanted_status(group_view(state, group, why), before, 3, NOW, lambda: False)

    assert changed
    said = {it["type"]: (it["status"], it["reason"], it["message"]) for it in status["conditions"]}
    assert said == {
        "PodGroupInitiallyScheduled": ("False", "StartTimeout", "no nodes"),
        "StartTimeout": ("True", "StartTimeout", "no nodes"),
    }
    written = group_of({"metadata": {"name": "g"}, "spec": {}, "status": status})
    assert decode.start_wait(written, 60.0) == group.start_wait


async def test_a_group_that_expects_pods_counts_from_its_first_one() -> None:
    harness = HoldingHarness()
    harness.builder.node("n", cpu=2)
    harness.group("g", 3, kind("worker", 3), annotations=LIMIT)
    async with harness.leading(unsettled="the pods come in the end"):
        await harness.settle(600)
        assert harness.builder.state.forest.groups[key("g")].start_wait is None
        harness.pod("p0", "g")
        await harness.settle(58)
        assert not given_up(harness)
        await harness.settle(4)
        assert given_up(harness)


async def test_a_group_whose_places_are_held_is_not_given_up() -> None:
    harness = HoldingHarness()
    harness.builder.node("n", cpu=3)
    harness.group("g", 3, kind("worker", 3), annotations=LIMIT)
    harness.pod("p0", "g")
    async with harness.leading(unsettled="the other pods are missing"):
        await harness.settle(90)
        assert harness.held("g") == {"n": 2}
        assert not given_up(harness)
        for name in ("p1", "p2"):
            harness.pod(name, "g")
        await harness.settle(1)

    assert set(harness.where()) == {"p0", "p1", "p2"}


async def test_pods_beyond_the_minimum_of_an_elastic_gang_may_wait_for_ever() -> None:
    harness = waiting(cpu=3)
    harness.builder.pods("g", 2)
    async with harness.leading():
        await harness.settle(120)

    assert len(harness.api.bound) == 3
    assert not given_up(harness)


async def test_a_gang_that_is_given_up_before_its_delay_is_over_evicts_nobody() -> None:
    harness = HoldingHarness()
    harness.builder.node("n", cpu=2)
    harness.group("low", 2)
    for name in ("l0", "l1"):
        harness.pod(name, "low")
    async with harness.leading():
        await harness.settle(1)
        notes = LIMIT | {ANNOTATION_PREEMPTION_DELAY: "2m"}
        harness.group("g", 2, priority=9, annotations=notes)
        for name in ("h0", "h1"):
            harness.pod(name, "g", priority=9)
        await harness.settle(240)
        assert given_up(harness)

    assert set(harness.where()) == {"l0", "l1"}
    assert harness.evictor_api.marked == []


async def test_a_gang_that_is_preempted_after_its_start_may_wait_for_ever() -> None:
    harness = HoldingHarness()
    harness.builder.node("n", cpu=2)
    harness.group("g", 2, mode="all", annotations=LIMIT)
    for name in ("l0", "l1"):
        harness.pod(name, "g")
    async with harness.leading():
        await harness.settle(1)
        harness.group("high", 2, priority=9)
        for name in ("h0", "h1"):
            harness.pod(name, "high", priority=9)
        await harness.settle(5)
        harness.evictor_api.end()
        # Its controller creates the pods again.
        for name in ("l2", "l3"):
            harness.pod(name, "g")
        await harness.settle(300)
        assert not given_up(harness)

    assert set(harness.where("h")) == {"h0", "h1"}


async def test_the_starvation_gate_does_not_stay_closed_for_a_root_that_is_given_up() -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(5)
        state, group = harness.builder.state, harness.builder.state.forest.groups[KEY]
        assert group.spec is not None
        limits = replace(harness.starvation._limits, seconds=0.0, passed=0)
        harness.starvation._enabled = True
        now = harness.server_clock.monotonic()
        state.starvation.close(KEY, 0, now, limits)
        await harness.settle(60)
        assert given_up(harness)
        assert state.starvation.closed_for is None


async def test_a_snapshot_has_the_roots_that_were_given_up() -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(62)
        assert given_up(harness)
    taken = take(harness.builder.state, harness.queue, Limits.of(SearchBudget()))
    assert taken.queue == []

    state, _ = restore(taken)

    group = state.forest.groups[KEY]
    why = waiting_for(state, group, USUAL)
    assert why is not None
    assert why.kind == "timeout"
    assert why.summary == harness.summary(KEY)


@pytest.mark.parametrize("pods_first", [False, True])
def test_who_only_reads_knows_it_from_the_status(pods_first: bool) -> None:
    """A replica that does not lead, and `muster explain`, get objects in any order."""
    condition = {
        "type": "StartTimeout",
        "status": "True",
        "message": "no nodes",
        "lastTransitionTime": NOW,
    }
    harness = HoldingHarness()
    for what in ("pods", "group") if pods_first else ("group", "pods"):
        if what == "group":
            harness.group("g", 2, annotations=LIMIT, status={"conditions": [condition]})
            continue
        for name in ("p0", "p1"):
            harness.pod(name, "g")

    group = harness.builder.state.forest.groups[KEY]
    why = waiting_for(harness.builder.state, group, USUAL)
    assert why is not None
    assert (why.kind, why.summary) == ("timeout", "no nodes")


async def test_a_limit_that_changes_all_the_time_costs_no_write_for_each_change() -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(5)
        before = len(harness.api.patches)
        for number in range(200):
            limited(harness, limit=60.0 + number)
            harness.changed.set()
        await harness.settle(5)

    assert len(harness.api.patches) - before <= 2
