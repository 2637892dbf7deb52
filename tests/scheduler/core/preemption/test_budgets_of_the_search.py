"""Preemption ends with its budget, and never evicts a unit that is not needed."""

from itertools import product

import pytest

from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.state.disruption_budgets import (
    MOST_BUDGETS,
    Coverage,
    DisruptionBudget,
    DisruptionBudgets,
)
from scheduler.core.values.model import HostPort, PodInfo, Requirements
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import GIB, requests
from tests.support.counting import calls


def names(*infos: PodInfo) -> set[str]:
    return {info.name for info in infos}


def crowded(nodes: int, *, free: int = 0) -> PreemptionBuilder:
    """Create a gang that needs the victim on each node.

    Each frees more than is missing, so the number of needed victims is not known in advance.
    """
    builder = PreemptionBuilder()
    builder.nodes(nodes, cpu=5)
    for number in range(nodes):
        builder.runs(None, f"n{number}", cpu=4)
    builder.group("g", nodes, priority=5)
    builder.waits("g", nodes, cpu=3, priority=5)
    return builder


def test_putting_victims_back_ends_with_the_effort() -> None:
    builder = crowded(60)

    plan = builder.preempt("g", effort=SearchEffort(solves=10))

    assert isinstance(plan, Plan)
    assert plan.solves <= 12
    assert not plan.minimal


def test_a_plan_whose_search_ended_early_has_no_victim_that_its_placement_can_spare() -> None:
    builder = crowded(60)

    plan = builder.preempt("g", effort=SearchEffort(solves=10))

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 60
    used = {builder.state.nodes.name_of(row) for row in plan.placement.rows}
    for unit in plan.victims:
        (pod,) = unit.pods.values()
        assert pod.node in used


def test_a_plan_is_minimal_if_the_effort_lasts() -> None:
    plan = crowded(6).preempt("g")

    assert isinstance(plan, Plan)
    assert plan.minimal
    assert len(plan.victims) == 6


def test_when_the_time_is_over_at_once_the_plan_says_that_it_may_not_be_minimal() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=5)
    builder.runs(None, "n0", "n1", "n2", "n3", cpu=4)
    builder.group("g", 4, priority=5)
    builder.waits("g", 4, cpu=3, priority=5)
    root = builder.root("g")
    refusal = place(builder.state, root, SearchBudget())
    assert isinstance(refusal, Refusal)

    plan = preempt(builder.state, root, refusal, SearchBudget(expired=lambda: True), SearchEffort())

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 4
    assert not plan.minimal


def test_a_plan_with_the_fewest_that_can_be_is_minimal_without_a_trial_for_each_victim() -> None:
    builder = PreemptionBuilder()
    builder.nodes(60, cpu=1)
    builder.runs(None, *(f"n{number}" for number in range(60)))
    builder.group("g", 60, priority=5)
    builder.waits("g", 60, priority=5)

    plan = builder.preempt("g", effort=SearchEffort(solves=10))

    assert isinstance(plan, Plan)
    assert (plan.minimal, len(plan.victims)) == (True, 60)
    assert plan.solves <= 4


def test_extras_that_preempt_after_the_time_is_over_do_not_end_in_an_error() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    builder.group("g", 1, priority=5)
    builder.runs("g", "n0", priority=5)
    builder.runs(None, "n1", "n2")
    builder.waits("g", 2, priority=5)
    root = builder.root("g")
    refusal = place(builder.state, root, SearchBudget())
    assert isinstance(refusal, Refusal)

    plan = preempt(builder.state, root, refusal, SearchBudget(expired=lambda: True), SearchEffort())

    assert isinstance(plan, Plan)


def test_pods_of_equal_labels_are_matched_with_budgets_once() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=999)
    for number in range(10):
        builder.budget(f"pdb{number}", 0, app="a")
    infos = builder.runs(None, *["n0"] * 500, app="a")
    coverage = Coverage(builder.state.disruption_budgets)

    found = coverage.of([builder.single(info) for info in infos])

    assert set(found.values()) == {500}
    assert len(found) == 10
    assert coverage.matched == 10


def test_a_namespace_with_too_many_budgets_is_protected_as_a_whole() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    for number in range(MOST_BUDGETS + 1):
        builder.budget(f"pdb{number}", 9, app="none")
    builder.runs(None, "n0", app="a")
    coverage = Coverage(builder.state.disruption_budgets)
    (info,) = builder.runs(None, "n1", app="b")

    found = coverage.of([builder.single(info)])

    assert coverage.matched == 0
    assert [(budget.allowed, count) for budget, count in found.items()] == [(0, 1)]


def test_many_covered_units_are_chosen_without_counting_them_anew_each_time() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=9999)
    builder.budget("pdb", 1000, app="a")
    builder.runs(None, *["n0"] * 1500, app="a")
    builder.state.units.refresh()
    units = builder.state.units
    protected = ProtectedUnits(builder.state.disruption_budgets, units, units.below(5))

    first = next(protected.largest_sets(0))

    assert first is not None
    assert len(first) == 1000
    assert protected.violations(first.tolist()) == 0
    assert protected.violations(units.below(5).tolist()) == 500
    assert not DisruptionBudgets()


def covered(*priorities: int) -> ProtectedUnits:
    """Return units of these priorities, of whose pods a budget allows one eviction."""
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=9999)
    builder.budget("pdb", 1, app="a")
    for priority in priorities:
        builder.runs(None, "n0", app="a", priority=priority)
    builder.state.units.refresh()
    units = builder.state.units
    return ProtectedUnits(builder.state.disruption_budgets, units, units.below(9))


def test_the_largest_sets_are_all_there_are() -> None:
    found = [None if each is None else each.tolist() for each in covered(1, 2, 3).largest_sets(1)]

    assert sorted(filter(None, found)) == [[0, 1], [0, 2], [1, 2]]
    assert None not in found


def test_the_largest_sets_of_lower_priority_have_no_others() -> None:
    found = [
        None if each is None else each.tolist() for each in covered(1, 2, 3).largest_sets(0, 3)
    ]

    assert sorted(filter(None, found)) == [[0], [1]]


def test_that_there_are_more_sets_than_are_looked_for_is_said() -> None:
    *_, last = covered(*[0] * 200).largest_sets(3)

    assert last is None


def one_namespace_a_node(nodes: int, per: int = 20) -> PreemptionBuilder:
    """Create pods of one namespace on each node, of which a budget allows one eviction.

    On the last node, where all started first, each pod is in its own namespace.
    """
    builder = PreemptionBuilder()
    for node, at in product(range(nodes), range(per)):
        namespace = f"ns{node}" if node < nodes - 1 else f"last{at}"
        if not at:
            builder.node(f"n{node:03}", per)
        name, started = f"p{node:03}-{at}", 1.0 if node == nodes - 1 else 2.0
        builder.state.set_pod(
            PodInfo(
                f"uid-{name}", namespace, name, Requirements(requests(1)), f"n{node:03}", None, 1,
                name, "Running", started=started,
            )
        )  # fmt: skip
        builder.state.disruption_budgets.set(DisruptionBudget((namespace, "b"), (), 1))
    return builder


@pytest.mark.parametrize("nodes", [90, 110])
def test_no_budget_is_exceeded_where_another_node_would_do(nodes: int) -> None:
    """The number of protected pods is below or above the remaining steps of the search."""
    builder = one_namespace_a_node(nodes)
    builder.group("g", 1, priority=10)
    builder.waits("g", cpu=20, priority=10)

    plan = builder.preempt("g")

    assert isinstance(plan, Plan)
    assert plan.cost is not None
    assert plan.cost.violations == 0
    assert set(plan.placement.rows) == {nodes - 1}


def test_a_lower_priority_decides_before_the_node_that_frees_most() -> None:
    """There are 120 protected pods.

    Those of priority 1 are on n1, and the budgets allow evictions.
    """
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=40)
    for at in range(40):
        builder.runs(None, "n0", priority=3, app=f"a{at}")
        builder.runs(None, "n1", priority=1, app=f"b{at}")
        builder.runs(None, "n2", priority=2, app="one")
    builder.budget("one", 2, app="one")
    for at in range(8):
        builder.budget(f"a{at}", 9, app=f"a{at}")
        builder.budget(f"b{at}", 9, app=f"b{at}")
    builder.group("g", 1, priority=10)
    builder.waits("g", cpu=40, priority=10)

    plan = builder.preempt("g")

    assert isinstance(plan, Plan)
    assert plan.cost is not None
    assert (plan.cost.violations, plan.cost.priority) == (0, 1)


def test_deciding_among_many_budgets_grows_with_their_number() -> None:
    def work(nodes: int) -> int:
        builder = one_namespace_a_node(nodes, per=8)
        builder.group("g", 2, priority=10)
        builder.waits("g", 2, cpu=8, priority=10)
        return calls(lambda: builder.preempt("g"))

    assert work(48) <= 2.3 * work(24)


def test_whoever_need_not_go_is_put_back_where_another_resource_is_overcommitted() -> None:
    """Resized pods overcommit the node's memory; the root requests only cpu."""
    builder = PreemptionBuilder()
    builder.node("n0", 8)
    builder.runs(None, "n0", cpu=1, others={"memory": 999 * GIB}, priority=20)
    builder.runs(None, *["n0"] * 7, cpu=1, priority=1)
    builder.group("g", 1, priority=10)
    builder.waits("g", cpu=2, priority=10)

    plan = builder.preempt("g", effort=SearchEffort(solves=4))

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 2


def test_a_pod_whose_own_ports_overlap_does_not_keep_others_from_staying() -> None:
    """It has port 80 of all addresses and of one, and no other pod does: there is no conflict."""
    builder = PreemptionBuilder()
    builder.node("n0", 8)
    ports = (HostPort("TCP", 80), HostPort("TCP", 80, "1.2.3.4"))
    builder.pod(None, node="n0", requirements=Requirements(requests(1), ports=ports), priority=20)
    builder.runs(None, *["n0"] * 7, cpu=1, priority=1)
    builder.group("g", 1, priority=10)
    builder.waits("g", cpu=2, priority=10)

    plan = builder.preempt("g", effort=SearchEffort(solves=4))

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 2
