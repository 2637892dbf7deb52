"""Deciding about preemption ends with its budget, and never evicts a unit that is not needed."""

from scheduler.core.model import PodInfo
from scheduler.core.place import Refusal, SearchBudget, place
from scheduler.core.preemption.disruption_budgets import (
    MOST_BUDGETS,
    Coverage,
    DisruptionBudgets,
    ProtectedUnits,
)
from scheduler.core.preemption.dry_run import Effort
from scheduler.core.preemption.plan import Plan, preempt
from tests.scheduler.preemption_builder import PreemptionBuilder


def names(*infos: PodInfo) -> set[str]:
    return {info.name for info in infos}


def crowded(nodes: int, *, free: int = 0) -> PreemptionBuilder:
    """A gang that needs the victim on each node.

    Each frees more than is missing, so it is not known beforehand that so many must go.
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

    plan = builder.preempt("g", effort=Effort(solves=10))

    assert isinstance(plan, Plan)
    assert plan.solves <= 12
    assert not plan.minimal


def test_a_plan_whose_search_ended_early_has_no_victim_that_its_placement_can_spare() -> None:
    builder = crowded(60)

    plan = builder.preempt("g", effort=Effort(solves=10))

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

    plan = preempt(builder.state, root, refusal, SearchBudget(expired=lambda: True), Effort())

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 4
    assert not plan.minimal


def test_a_plan_with_the_fewest_that_can_be_is_minimal_without_a_trial_for_each_victim() -> None:
    builder = PreemptionBuilder()
    builder.nodes(60, cpu=1)
    builder.runs(None, *(f"n{number}" for number in range(60)))
    builder.group("g", 60, priority=5)
    builder.waits("g", 60, priority=5)

    plan = builder.preempt("g", effort=Effort(solves=10))

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

    plan = preempt(builder.state, root, refusal, SearchBudget(expired=lambda: True), Effort())

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
    """Units of these priorities, of whose pods a budget lets one go."""
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
