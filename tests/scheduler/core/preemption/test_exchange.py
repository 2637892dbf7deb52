"""Of victims that cost the same, those go that their owner reports as cheaper to evict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    GroupKey,
    GroupSpec,
    Topology,
)
from scheduler.core.values.run_protection import RunProtection
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.reported_costs import (
    NATIVE,
    NOW,
    Gang,
    cluster,
    set_checkpoint,
    victims,
)


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [
        pytest.param(Gang(cost=5), Gang(cost=3), 1, id="the lower cost"),
        pytest.param(Gang(cost=3), Gang(cost=5, started=9), 0, id="before the later start"),
        pytest.param(Gang(cost=-1), Gang(started=9), 0, id="a negative cost"),
        pytest.param(Gang(), Gang(started=9), 1, id="no report: the later start"),
        pytest.param(Gang(cost=7, priority=1), Gang(cost=9), 1, id="a lower priority first"),
        pytest.param(Gang(checkpoint=NOW - 60), Gang(), 0, id="a checkpoint"),
        pytest.param(Gang(checkpoint=NOW - 60), Gang(started=NOW - 9), 1, id="less work since"),
        pytest.param(Gang(checkpoint=NOW - 9), Gang(checkpoint=NOW - 60, started=9), 0, id="later"),
        pytest.param(Gang(checkpoint=2, started=5), Gang(started=9), 1, id="before its start"),
        pytest.param(Gang(checkpoint=NOW + 61), Gang(started=9), 1, id="in the future: none"),
        pytest.param(Gang(checkpoint=1e12), Gang(started=9), 1, id="far in the future"),
        pytest.param(Gang(cost=1, checkpoint=NOW), Gang(), 1, id="costs before checkpoints"),
        pytest.param(
            Gang(checkpoint=NOW, preempted=(1, NOW - 9)), Gang(), 1, id="preempted before"
        ),
        pytest.param(Gang(cost=9), Gang(namespace="other", started=9), 1, id="other namespace"),
        pytest.param(
            Gang(cost=9, started=9), Gang(namespace="other", cost=-9), 0, id="not compared"
        ),
        pytest.param(
            Gang(checkpoint=NOW), Gang(namespace="other", started=9), 1, id="nor checkpoints"
        ),
    ],
)
@pytest.mark.parametrize("mode", ["all", "single"])
def test_which_of_two_gangs_goes(mode: str, first: Gang, second: Gang, goes: int) -> None:
    builder = cluster([replace(each, mode=mode) for each in (first, second)])

    assert victims(builder, pods=1) == {f"g{goes}"}


def test_a_pod_beyond_the_minimum_goes_whatever_its_gang_costs() -> None:
    gangs = [Gang(extra=True, cost=9, mode="single"), Gang(cost=0, started=9, mode="single")]

    assert victims(cluster(gangs), pods=1) == {"g0"}


def test_a_pod_without_a_group_reports_for_itself() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    costly, cheap = builder.runs(None, "n0"), builder.runs(None, "n1")
    for info, cost in ((cheap[0], 1), (costly[0], 2)):
        builder.state.set_pod(
            replace(info, preemption=replace(info.preemption, eviction_cost=cost))
        )
    builder.state.set_pod(replace(builder.state.pods[costly[0].uid].info, started=99.0))
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == {cheap[0].name}


def test_fewer_units_go_before_cheaper_ones() -> None:
    builder = cluster([Gang(cost=9, cpu=2), Gang(cpu=1), Gang(cpu=1)])

    assert victims(builder, pods=1, cpu=2) == {"g0"}


def test_the_checkpoint_of_any_pod_is_that_of_its_gang() -> None:
    builder = cluster([Gang(pods=2), Gang(pods=2, started=9)])
    set_checkpoint(builder, "g0", NOW - 5)

    assert victims(builder, pods=2) == {"g0"}


def test_the_root_reports_for_its_tree_whatever_its_children_report() -> None:
    builder = cluster([Gang(cost=-9), Gang(cost=9)])
    for number, cost in ((0, 2), (1, 1)):
        builder.state.set_group(root := GroupSpec(
            (COMPOSITE_POD_GROUP, "ns", f"root{number}"), 1, disruption="all", priority=0,
            eviction_cost=cost,
        ))  # fmt: skip
        leaf = builder.state.forest.groups[POD_GROUP, "ns", f"g{number}"].spec
        assert leaf is not None
        builder.state.set_group(replace(leaf, parent=root.key[2]))

    assert victims(builder, pods=1) == {"g1"}


def test_all_victims_in_a_domain_are_exchanged_for_those_of_another() -> None:
    """No pod can be exchanged alone: the preemptor needs a complete rack."""
    gangs = [Gang(pods=2, cost=5, mode="single"), Gang(pods=2, mode="single")]
    builder = cluster(gangs, rack_of=2)
    builder.state.set_group(
        GroupSpec((POD_GROUP, "ns", "high"), 2, priority=5, topology=Topology("rack"))
    )

    assert victims(builder, pods=2) == {"g1"}


def test_devices_of_one_kind_are_exchanged() -> None:
    """Nodes without the resource that the preemptor needs do not help, however cheap."""
    builder = PreemptionBuilder()
    gpu = {"gpu": 1}
    for name, number in (("n0", 1), ("n1", 1), ("n2", 0)):
        builder.node(name, cpu=1, gpu=number)
    for at, (cost, others) in enumerate(((5, gpu), (3, gpu), (-9, {}))):
        builder.state.set_group(
            GroupSpec((POD_GROUP, "ns", f"g{at}"), 1, priority=0, eviction_cost=cost)
        )
        builder.runs(f"g{at}", f"n{at}", others=others)
    (high,) = builder.waits(None, others=gpu, priority=5)

    plan = builder.preempt(high.name)
    assert isinstance(plan, Plan)
    assert [pod.info.group for pod in plan.pods] == ["g1"]


@pytest.mark.parametrize("mode", ["all", "single"])
def test_native_groups_report_their_costs(mode: str) -> None:
    builder = cluster([Gang(cost=5, kind=NATIVE, mode=mode), Gang(cost=3, kind=NATIVE, mode=mode)])

    assert victims(builder, pods=1) == {"g1"}


def test_a_proof_is_about_the_cost_without_reports() -> None:
    builder = cluster([Gang(cost=5), Gang(cost=3), Gang(cost=4)])
    builder.group("high", 2, priority=5)
    builder.waits("high", 2, priority=5)

    plan = builder.preempt("high")

    assert isinstance(plan, Plan)
    assert plan.proved
    assert plan.minimal
    assert {unit.key[2] for unit in plan.victims} == {"g1", "g2"}


def test_costs_count_when_the_time_is_over_at_once() -> None:
    """On a slow machine the search takes all of the time, and the choice may not depend on it."""
    builder = cluster([Gang(cost=number) for number in range(4)])
    (high,) = builder.waits(None, priority=5)
    budget = SearchBudget(expired=lambda: True)
    refusal = place(builder.state, builder.root(high.name), SearchBudget())
    assert isinstance(refusal, Refusal)

    plan = preempt(builder.state, builder.root(high.name), refusal, budget)

    assert isinstance(plan, Plan)
    assert {unit.key[2] for unit in plan.victims} == {"g0"}


def test_few_exchanges_are_tried_beyond_the_budget() -> None:
    builder = cluster([Gang(cost=20 - number) for number in range(20)])
    builder.group("high", 10, priority=5)
    builder.waits("high", 10, priority=5)

    enough, little = (
        builder.preempt("high", effort=SearchEffort(solves=solves)) for solves in (600, 1)
    )

    assert isinstance(enough, Plan)
    assert isinstance(little, Plan)
    assert {unit.key[2] for unit in enough.victims} == {f"g{at}" for at in range(10, 20)}
    assert little.solves < enough.solves
    assert len(little.victims) == 10


def keys(plan: Plan) -> set[GroupKey]:
    return {unit.key for unit in plan.victims}


def test_reports_that_change_all_the_time_change_the_choice_only() -> None:
    builder = cluster([Gang(), Gang(started=9)])
    (high,) = builder.waits(None, priority=5)
    for turn in range(6):
        spec = builder.state.forest.groups[POD_GROUP, "ns", "g0"].spec
        assert spec is not None
        builder.state.set_group(replace(spec, eviction_cost=turn % 2 * 2 - 1))
        plan = builder.preempt(high.name)
        assert isinstance(plan, Plan)
        assert keys(plan) == {(POD_GROUP, "ns", f"g{turn % 2}")}
    builder.state.remove_pod("uid-v00001")
    builder.state.remove_pod("uid-v00002")
    builder.state.units.refresh()
    assert not builder.state.units.costs.namespaces


def test_a_checkpoint_counts_once_its_time_has_come() -> None:
    builder = cluster([Gang(checkpoint=NOW + 100), Gang(started=9)])
    (high,) = builder.waits(None, priority=5)
    for now, goes in ((NOW, "g1"), (NOW + 100, "g0")):
        builder.state.units.protection = RunProtection(now)
        plan = builder.preempt(high.name)
        assert isinstance(plan, Plan)
        assert keys(plan) == {(POD_GROUP, "ns", goes)}
