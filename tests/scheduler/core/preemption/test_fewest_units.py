"""The lower bound of victims is known before smaller sets are tried, and never too high."""

import random
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from scheduler.core.preemption.candidates import EvictionScopes
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.state.disruption_budgets import DisruptionBudgets
from scheduler.core.state.nominations import Nomination, Nominations
from tests.scheduler.preemption_builder import PreemptionBuilder


def instance(seed: int) -> PreemptionBuilder:
    """Create a gang of equal pods on a few nodes, full of single pods and gangs across nodes."""
    rng = random.Random(seed)
    builder = PreemptionBuilder()
    nodes = rng.randint(2, 4)
    for index in range(nodes):
        builder.node(f"n{index}", rng.randint(3, 6), gpu=rng.randint(0, 4))
    for _ in range(rng.randint(2, 5)):
        node = f"n{rng.randrange(nodes)}"
        builder.runs(None, node, cpu=rng.randint(1, 3), others={"gpu": rng.randint(0, 2)})
    for number in range(rng.randint(0, 3)):
        builder.group(f"low{number}", 1, mode="all")
        where = (f"n{rng.randrange(nodes)}" for _ in range(rng.randint(1, 3)))
        builder.runs(f"low{number}", *where, cpu=rng.randint(1, 2))
    count = rng.randint(1, 3)
    builder.group("g", count, priority=5)
    wanted = {"gpu": rng.randint(0, 2)}
    builder.waits("g", count, cpu=rng.randint(1, 4), others=wanted, priority=5)
    return builder


def least(builder: PreemptionBuilder, dry_run: DryRun) -> int:
    candidates = builder.state.units.below(5)
    return EvictionScopes(dry_run, candidates).least()


def fewest(builder: PreemptionBuilder) -> int | None:
    """Return the minimum number of units to evict for the gang, by an exhaustive search."""
    units = builder.state.units
    below = [list(units.unit(index).pods) for index in units.below(5).tolist()]
    for size in range(1, len(below) + 1):
        for chosen in combinations(below, size):
            if builder.fits_without("g", [uid for unit in chosen for uid in unit]):
                return size
    return None


def dry_runs() -> Iterator[tuple[PreemptionBuilder, DryRun]]:
    """Yield dry runs of gangs that do not fit now."""
    for seed in range(150):
        builder = instance(seed)
        root = builder.root("g")
        refusal = place(builder.state, root, SearchBudget())
        if isinstance(refusal, Refusal) and refusal.shortage.resolvable:
            builder.state.units.refresh()
            yield builder, DryRun(builder.state, root, refusal, SearchBudget(), SearchEffort())


def test_the_bound_never_exceeds_the_fewest_and_is_often_exact() -> None:
    exact = compared = 0
    for builder, dry_run in dry_runs():
        bound = least(builder, dry_run)
        best = fewest(builder)
        if best is not None:
            builder.state.units.refresh()
            compared += 1
            exact += bound == best
            assert bound <= best

    assert compared >= 50
    assert exact >= 0.5 * compared, (exact, compared)


def test_a_node_with_less_than_nothing_is_not_counted_for_more_than_it_costs() -> None:
    """Its first slot costs much, and each further one little."""
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=2)
    builder.runs(None, "n0", "n0", cpu=4)
    builder.group("g", 2, priority=5)
    builder.waits("g", 2, priority=5)

    plan = builder.preempt("g")

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 2


def crowded(nodes: int) -> PreemptionBuilder:
    """Create nodes on which three victims must go for a pod of four, with much total capacity."""
    builder = PreemptionBuilder()
    builder.nodes(nodes, cpu=5)
    for number in range(nodes):
        builder.runs(None, *[f"n{number}"] * 4)
    return builder


def test_nothing_smaller_is_tried_once_the_plan_has_the_fewest() -> None:
    builder = crowded(40)
    (pod,) = builder.waits(None, cpu=4, priority=5)

    plan = builder.preempt(pod.name)

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 3
    assert plan.solves <= 4


def test_places_that_are_nominated_for_others_are_no_room() -> None:
    """Otherwise the search would start from nodes where the root does not fit."""
    builder = crowded(40)
    taken = builder.waits(None, 30, cpu=4, priority=5)
    for number, info in enumerate(taken):
        pod = builder.single(info)
        for victim in list(builder.state.pods.values()):
            if victim.node == f"n{number}" and len(builder.state.pods_on(victim.node)) > 1:
                builder.state.remove_pod(victim.info.uid)
        places = ((pod.shape, ((f"n{number}", 1),)),)
        builder.state.nominations.set(Nomination(pod.key, 5, places))
    (last,) = builder.waits(None, cpu=4, priority=5)

    plan = builder.preempt(last.name)

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 3
    assert plan.solves <= 4


def test_what_is_nominated_is_the_same_as_if_it_had_been_counted_anew() -> None:
    rng = random.Random(1)
    builder = PreemptionBuilder()
    builder.nodes(6, cpu=9)
    shapes = [builder.single(builder.waits(None, cpu=cpu)[0]).shape for cpu in (1, 2)]
    nominations = builder.state.nominations
    for _ in range(200):
        root = ("Pod", "ns", f"p{rng.randrange(8)}")
        if rng.random() < 0.4:
            nominations.drop(root)
        else:
            names = [f"n{rng.randrange(8)}" for _ in range(2)]  # some do not exist
            places = tuple((s, tuple((n, rng.randint(1, 2)) for n in names)) for s in shapes)
            nominations.set(Nomination(root, rng.randrange(3), places))
        anew = Nominations(builder.state.framework)
        for each in nominations:
            anew.set(each)
        for priority in range(4):
            assert taken(builder, nominations, priority) == taken(builder, anew, priority)


def taken(builder: PreemptionBuilder, nominations: Nominations, priority: int) -> list[int]:
    nodes = builder.state.nodes
    with nominations.respected(("Pod", "ns", "other"), priority):
        free: list[int] = np.concatenate(list(nodes.free[:, : nodes.size])).tolist()
        return free


def test_units_of_namespaces_without_a_budget_cost_next_to_nothing() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=999)
    builder.runs(None, *["n0"] * 600)
    builder.budget("theirs", 0, app="a")
    (budget,) = builder.state.disruption_budgets
    elsewhere = DisruptionBudgets()
    elsewhere.set(type(budget)(("other", "theirs"), budget.expressions, 0))
    units = builder.state.units
    units.refresh()
    pauses: list[None] = []

    found = ProtectedUnits(
        elsewhere, units, units.below(5), SearchBudget(pause=lambda: pauses.append(None))
    )

    assert not len(found.covered)
    assert len(pauses) <= 4
