"""Preemption compared with the exact solver: it finds fits, with few and low victims."""

from collections import Counter
from collections.abc import Callable

import pytest

from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from tests.scheduler.oracle.cluster import build, decide
from tests.scheduler.oracle.instances import (
    ROOT,
    Instance,
    preemption_instance,
    topology_instance,
)
from tests.scheduler.oracle.solver import ExactSolver, Optimum
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.victims import lawful


@pytest.mark.timeout(1800)
def test_what_fits_under_topology_is_found(
    long: bool, record_property: Callable[[str, object], None]
) -> None:
    found: Counter[str] = Counter()
    for seed in range(120 if long else 20):
        instance = topology_instance(seed)
        placed = isinstance(decide(instance, build(instance)), Placement)
        feasible = ExactSolver(instance).feasible()
        assert feasible or not placed, f"seed {seed}: placed what does not fit"
        if feasible:
            found["placed" if placed else "missed"] += 1

    record_property("found", dict(found))
    assert found["missed"] <= max(1, 0.01 * found.total()), found


@pytest.mark.timeout(1800)
def test_victims_are_those_of_the_exact_solver(
    long: bool, record_property: Callable[[str, object], None]
) -> None:
    found: Counter[str] = Counter()
    ratios = []
    for seed in range(120 if long else 12):
        instance = preemption_instance(seed)
        best = ExactSolver(instance).optimum()
        builder = build(instance)
        decision = decide(instance, builder)
        if isinstance(decision, Placement):
            assert best is not None, f"seed {seed}: placed what does not fit"
            continue
        plan = preempt(builder.state, builder.root(ROOT), decision, SearchBudget())
        outcome = evaluate(builder, plan, best)
        found[outcome] += 1
        if outcome == "equal" and isinstance(plan, Plan) and best is not None:
            ratios.append(len(plan.victims) / best.units)

    possible = found.total() - found["impossible"]
    record_property("found", dict(found))
    record_property("units over the optimum", sum(ratios) / len(ratios))
    assert found["missed"] + found["worse"] <= max(1, 0.01 * possible), found
    assert sum(ratios) <= 1.05 * len(ratios), sum(ratios) / len(ratios)


def evaluate(builder: PreemptionBuilder, plan: Plan | Refusal, best: Optimum | None) -> str:
    """Return the comparison of the plan, which must be valid and without a needless victim."""
    if isinstance(plan, Refusal):
        return "impossible" if best is None else "missed"
    assert best is not None, "a plan where there is none"
    assert plan.cost is not None
    lawful(builder, plan)
    assert Optimum(*plan.cost.decided) == best or not plan.proved
    same = (plan.cost.violations, plan.cost.priority) == (best.violations, best.priority)
    return "equal" if same else "worse"


def test_the_instances_are_worth_solving() -> None:
    """Most instances have a choice of victims, and each kind occurs."""
    instances: list[Instance] = [preemption_instance(seed) for seed in range(40)]

    assert sum(any(group.whole for group in i.running) for i in instances) > 20
    assert sum(bool(i.budgets) for i in instances) > 20
    assert sum(i.tree.children[0].key is not None for i in instances) > 15
