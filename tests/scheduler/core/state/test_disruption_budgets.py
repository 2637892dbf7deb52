"""PodDisruptionBudgets and the order in which units are evicted."""

from scheduler.core.preemption.protected_units import ProtectedUnits
from tests.scheduler.preemption_builder import PreemptionBuilder


def test_units_whose_eviction_violates_a_budget_come_after_all_others() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1)
    builder.runs(None, "n0", priority=0, app="protected")
    builder.runs(None, "n1", priority=1, app="protected")
    builder.runs(None, "n2", priority=2)
    builder.runs(None, "n3", priority=0, app="spare")
    builder.budget("none", 0, app="protected")
    builder.budget("one", 1, app="spare")
    units = builder.state.units
    units.refresh()
    candidates = units.below(9, 0.0)
    protected = ProtectedUnits(builder.state.disruption_budgets, units, candidates)

    tiers = protected.tiers(candidates)

    order = candidates[tiers.argsort(kind="stable")].tolist()
    pods = [next(iter(units.unit(index).pods.values())).info.node for index in order]
    assert pods == ["n3", "n2", "n0", "n1"]
