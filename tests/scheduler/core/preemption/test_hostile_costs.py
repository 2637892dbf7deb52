"""Whatever a namespace reports, others lose no more units than without its reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from api.eviction import HIGHEST_COST
from scheduler.core.preemption.plan import Plan
from scheduler.core.values.model import GroupKey
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.reported_costs import NOW, Gang, cluster
from tools.testing.effort import examples

HOSTILE = "hostile"
NAMESPACES = ("a", HOSTILE, "z")

COSTS = st.sampled_from([0, 1, 2, HIGHEST_COST, -HIGHEST_COST])
CHECKPOINTS = st.sampled_from([0.0, NOW - 500, NOW - 5, NOW, NOW + 1e6])

GANGS = st.builds(
    Gang,
    namespace=st.sampled_from(NAMESPACES),
    started=st.integers(1, 900).map(float),
    pods=st.integers(1, 2),
    cpu=st.integers(1, 2),
    priority=st.integers(0, 1),
    mode=st.sampled_from(["all", "single"]),
    extra=st.booleans(),
)
EQUAL = st.builds(
    Gang, namespace=st.sampled_from(NAMESPACES), started=st.integers(1, 900).map(float)
)
REPORTS = st.lists(st.tuples(COSTS, CHECKPOINTS), min_size=10, max_size=10)


def reporting(
    gangs: list[Gang], reports: list[tuple[int, float]], namespaces: set[str]
) -> list[Gang]:
    """Return the gangs of which those in these namespaces report."""
    return [
        replace(gang, cost=cost, checkpoint=checkpoint) if gang.namespace in namespaces else gang
        for gang, (cost, checkpoint) in zip(gangs, reports, strict=False)
    ]


def plan_for(builder: PreemptionBuilder, pods: int, cpu: int) -> Plan | None:
    builder.group("high", pods, priority=5)
    builder.waits("high", pods, cpu=cpu, priority=5)
    plan = builder.preempt("high")
    return plan if isinstance(plan, Plan) else None


def lost(plan: Plan) -> Counter[str]:
    return Counter(unit.key[1] for unit in plan.victims)


def of_others(plan: Plan) -> set[GroupKey]:
    return {unit.key for unit in plan.victims if unit.key[1] != HOSTILE}


@examples(150, 3000)
@given(
    st.lists(GANGS, min_size=2, max_size=7), REPORTS, REPORTS, st.integers(1, 3), st.integers(1, 2)
)
def test_reports_move_no_eviction_to_another_namespace(
    gangs: list[Gang],
    honest: list[tuple[int, float]],
    false: list[tuple[int, float]],
    pods: int,
    cpu: int,
) -> None:
    others = {"a", "z"}
    before = plan_for(cluster(reporting(gangs, honest, others)), pods, cpu)
    builder = cluster(reporting(reporting(gangs, honest, others), false, {HOSTILE}))
    after = plan_for(builder, pods, cpu)

    assert (before is None) == (after is None)
    if before is None or after is None:
        return
    assert before.cost is not None
    assert after.cost is not None
    assert after.cost.decided <= before.cost.decided
    assert after.cost.needed <= before.cost.needed
    assert lost(after) <= lost(before)
    everyone = [uid for unit in after.victims for uid in unit.pods]
    assert builder.fits_without("high", everyone)
    for unit in after.victims:
        assert not builder.fits_without("high", [it for it in everyone if it not in unit.pods])


@examples(100, 2000)
@given(st.lists(GANGS, min_size=2, max_size=7), REPORTS, st.integers(1, 3))
def test_the_victims_of_others_stay_the_same(
    gangs: list[Gang], false: list[tuple[int, float]], pods: int
) -> None:
    before = plan_for(cluster(gangs), pods, 1)
    after = plan_for(cluster(reporting(gangs, false, {HOSTILE})), pods, 1)

    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert of_others(after) <= of_others(before)


@examples(100, 2000)
@given(st.lists(EQUAL, min_size=1, max_size=10), REPORTS, st.integers(1, 6))
def test_a_namespace_loses_its_cheapest_of_equal_gangs(
    gangs: list[Gang], reports: list[tuple[int, float]], pods: int
) -> None:
    pods = min(pods, len(gangs))
    before = plan_for(cluster(gangs), pods, 1)
    told = reporting(gangs, reports, set(NAMESPACES))
    after = plan_for(cluster(told), pods, 1)
    assert before is not None
    assert after is not None

    assert lost(after) == lost(before)
    for namespace, number in lost(after).items():
        costs = {f"g{at}": _cost(it) for at, it in enumerate(told) if it.namespace == namespace}
        gone = [costs[unit.key[2]] for unit in after.victims if unit.key[1] == namespace]
        reports_any = any(it.cost or it.checkpoint for it in told if it.namespace == namespace)
        if reports_any:
            assert sorted(gone) == sorted(costs.values())[:number]


def _cost(gang: Gang) -> tuple[int, float]:
    """Return the cost as the documentation has it: the annotation, then the work since."""
    known = gang.checkpoint if gang.checkpoint <= NOW else 0.0
    return (gang.cost, -max(gang.started, known))
