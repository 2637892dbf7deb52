"""Domains and potential victims in explain and simulate, which evict no pod."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from analysis.explain.explain import explain_lines
from api.eviction import preempted_condition
from api.features import USUAL, Feature
from scheduler.core.search.place import SearchBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.run_protection import RunProtection
from scheduler.decoding.objects import group_of
from tests.scheduler.preemption_builder import PreemptionBuilder


def test_the_domains_and_the_victims_are_listed_and_nothing_is_evicted() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1, rack_of=2)
    builder.group("low", 2, mode="all")
    builder.runs("low", "n0", "n1")
    builder.runs(None, "n2", priority=9)
    builder.group("high", 2, priority=5, topology="rack")
    builder.waits("high", 2, priority=5)

    lines = [
        line.strip() for line in explain_lines(builder.state, builder.root("high"), SearchBudget())
    ]

    assert "rack=r000: capacity for 0 pods, 2 more by preemption, 0 missing" in lines
    assert "rack=r001: capacity for 1 pod, 0 more by preemption, 1 missing" in lines
    at = lines.index("would preempt 2 pods of lower priority:")
    assert lines[at + 1] == "PodGroup ns/low, priority 0, 2 pods"
    cost = "0 PodDisruptionBudget violations, highest priority 0"
    want = f"cheapest choice found: {cost}; none can be left out"
    assert lines[at + 2] == want
    assert lines[at + 3] == "would then be scheduled: n0 x1, n1 x1"
    assert len(builder.state.pods) == 5


def test_a_gang_of_which_a_part_is_evicted_is_named() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1)
    builder.group("low", 4, mode="single")
    for node in range(4):
        builder.runs("low", f"n{node}", cpu=1)
    builder.group("high", 1, priority=5)
    builder.waits("high", 1, priority=5)

    lines = [*explain_lines(builder.state, builder.root("high"), SearchBudget())]

    assert "      PodGroup ns/low keeps 3 of its minCount 4" in lines


@pytest.mark.parametrize(
    ("evicted", "want"),
    [
        (["top", "leaf"], ["was preempted for a PodGroup"]),
        (["leaf"], ["PodGroup ns/leaf was preempted for a PodGroup"]),
        ([], []),
    ],
)
def test_for_whom_a_group_was_evicted(evicted: list[str], want: list[str]) -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.group("top", 1, composite=True)
    builder.group("leaf", 2, parent="top")
    builder.waits("leaf", 2)
    message = "muster-scheduler: preempted for a PodGroup"
    condition = {"type": "DisruptionTarget", "status": "True", "message": message}
    observed = {
        key: group_of({"metadata": {}, "status": {"conditions": [condition]}})
        for key in builder.state.forest.groups
        if key[2] in evicted
    }

    lines = explain_lines(builder.state, builder.root("top"), SearchBudget(), observed=observed)

    assert [line.strip() for line in lines if "preempted" in line] == want


def test_how_often_a_group_was_preempted() -> None:
    builder = PreemptionBuilder()
    key = builder.group("low", 1)
    now = datetime(2026, 11, 30, 16, tzinfo=UTC)
    status: dict[str, object] = {}
    for _ in range(2):
        status = {"conditions": [preempted_condition(status, now, 3600, 1)[0]]}
    observed = {key: group_of({"metadata": {}, "status": status})}

    lines = explain_lines(builder.state, builder.root("low"), SearchBudget(), observed=observed)

    assert "  was preempted 2 times since 2026-11-30T16:00:00Z" in list(lines)


@pytest.mark.parametrize("where", ["PodGroup ns/low", "Pod ns/v00001", ""])
def test_a_checkpoint_in_the_future_is_reported(where: str) -> None:
    builder = PreemptionBuilder()
    builder.state.units.protection = RunProtection(1_000.0)
    builder.nodes(1, cpu=1)
    spec = builder.state.forest.groups[builder.group("low", 1)].spec
    assert spec is not None
    builder.state.set_group(replace(spec, checkpoint=9e9 if "low" in where else 1_000.0))
    (info,) = builder.runs("low", "n0")
    late = replace(info.preemption, checkpoint=9e9 if "Pod " in where else 1_000.0)
    builder.state.set_pod(replace(info, preemption=late))

    lines = explain_lines(builder.state, builder.root("low"), SearchBudget())

    said = [line.strip() for line in lines if "last-checkpoint" in line]
    want = f"last-checkpoint of {where} is in the future: it does not count"
    assert said == [want] * bool(where)


def test_while_preemption_is_off_the_gate_is_named_in_place_of_victims() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.runs(None, "n0")
    builder.group("high", 1, priority=5)
    builder.waits("high", 1, priority=5)
    gates = USUAL.without(Feature.PREEMPTION)

    lines = [
        line.strip()
        for line in explain_lines(builder.state, builder.root("high"), SearchBudget(), gates)
    ]

    assert "no preemption: feature gate WorkloadAwarePreemption is off" in lines
    assert not any("would preempt" in line for line in lines)


def test_racks_of_one_name_in_two_blocks_are_two_rows_of_the_table() -> None:
    builder = PreemptionBuilder()
    for block, rack, cpu in (("a", "r", 1), ("b", "r", 2), ("b", "s", 1)):
        labels = {"block": block, "rack": rack}
        builder.node(f"{block}-{rack}", cpu, labels=labels)
        builder.node(f"{block}-{rack}-closed", 9, labels=labels, unschedulable=True)
    builder.group("top", 1, composite=True, topology="block")
    builder.group("leaf", 3, parent="top", topology="rack")
    builder.waits("leaf", 3)

    lines = [
        line.strip() for line in explain_lines(builder.state, builder.root("top"), SearchBudget())
    ]

    closed = "nodes: 1 node(s) were unschedulable"
    assert [line for line in lines if line.startswith("rack=")] == [
        f"rack=b/r: capacity for 2 pods, 0 more by preemption, 1 missing; {closed}",
        f"rack=a/r: capacity for 1 pod, 0 more by preemption, 2 missing; {closed}",
        f"rack=b/s: capacity for 1 pod, 0 more by preemption, 2 missing; {closed}",
    ]


@pytest.mark.parametrize(
    ("preempts", "priority", "want"),
    [
        (False, 5, "preemptionPolicy is Never"),
        (True, 0, "nothing with a priority below 0 runs"),
        (True, 5, "it does not fit even without the unit with a priority below 5"),
    ],
)
def test_why_nothing_is_evicted(preempts: bool, priority: int, want: str) -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=2)
    builder.runs(None, "n0")
    builder.group("high", 3, priority=priority, topology="rack", preempts=preempts)
    builder.node("n0", 2, labels={"rack": "r"})
    builder.waits("high", 3, priority=priority)

    lines = [
        line.strip() for line in explain_lines(builder.state, builder.root("high"), SearchBudget())
    ]

    assert f"no preemption: {want}" in lines
    more = int(preempts and priority > 0)
    assert f"rack=r: capacity for 1 pod, {more} more by preemption, {2 - more} missing" in lines


def test_places_held_for_others_are_not_free_in_the_table() -> None:
    builder = PreemptionBuilder()
    builder.node("n0", 2, labels={"rack": "r"})
    builder.group("low", 2, topology="rack")
    builder.waits("low", 2)
    (first, _) = list(builder.state.pods.values())
    builder.state.nominations.set(
        Nomination(("PodGroup", "ns", "high"), 9, ((first.shape, (("n0", 1),)),))
    )

    lines = [
        line.strip() for line in explain_lines(builder.state, builder.root("low"), SearchBudget())
    ]

    assert "rack=r: capacity for 1 pod, 0 more by preemption, 1 missing" in lines


def test_who_may_not_be_evicted_yet_is_said_with_the_time() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    for info in builder.runs(None, "n0", "n1"):
        builder.state.set_pod(replace(info, started=1_000.0))
    builder.state.units.protection = RunProtection(1_030.0, usual=60, most=60)
    builder.group("high", 1, priority=5)
    builder.waits("high", 1, priority=5)

    lines = [
        line.strip() for line in explain_lines(builder.state, builder.root("high"), SearchBudget())
    ]

    assert (
        "no preemption: nothing else with a priority below 5 runs; 2 pods or groups of lower"
        " priority have a min-run-time, the first until 1970-01-01T00:17:40Z"
    ) in lines
