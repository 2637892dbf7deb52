"""Equal pods planned together evict the same victims as one after the other."""

import random
from collections import Counter
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from scheduler.core.decide import decide
from scheduler.core.groups.forest import Pod
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.preemption.equal_plans import preempt_equals
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.batching import alike, signature
from scheduler.core.search.place import Refusal, SearchBudget
from scheduler.core.values.model import (
    ClaimInfo,
    HostPort,
    PodInfo,
    Requirements,
    VolumeInfo,
)
from tests.scheduler.core.framework.cluster import HOST, ZONE, on
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import requests

EFFORT = SearchEffort(overdue=0.0, soon=100.0)
WANTED = 8


def waiting(builder: PreemptionBuilder, count: int, cpu: int, gpus: int) -> list[Pod]:
    infos = builder.waits(None, count, cpu=cpu, others={"gpu": gpus}, priority=10)
    return [builder.single(info) for info in infos]


def carry_out(builder: PreemptionBuilder, root: Pod, plan: Plan) -> None:
    """Act as the preemptor: nominate the node, and let the victims terminate."""
    state = builder.state
    node = state.nodes.name_of(plan.placement.rows[0])
    builder.nominate(root, node)
    for unit in plan.victims:
        state.units.mark_evicting(list(unit.pods.values()), 50.0)


ODD: dict[str, dict[str, Any]] = {
    "of one node": {"affinity": on("n0")},
    "in a zone": {"labels": {ZONE: "x"}},
    "attached": {"driver": "csi.example"},
    "lost": {},
    "of one pod": {},
}
"""Volumes that restrict the nodes of their pods, or that two pods cannot share."""


def even_cluster(seed: int) -> tuple[PreemptionBuilder, list[Pod], str]:
    """Create nodes that are equal except n0, the last choice, and pods with a volume each.

    At most one of these volumes is odd; its kind is returned, too.
    """
    rng = random.Random(seed)
    builder, last = PreemptionBuilder(), rng.randint(4, 9)
    builder.state.volumes.set_limits("n1", {"csi.example": 0})
    for number in range(last + 1):
        zone = "y" if number else "x"
        builder.node(f"n{number}", 4, labels={HOST: f"n{number}", ZONE: zone})
        builder.runs(None, *[f"n{number}"] * rng.randint(3, 4), cpu=1, priority=0 if number else 1)
    odd = rng.choice(["", *ODD])
    at = rng.randint(3, 4)
    wanted = [f"pvc{number}" for number in range(8)]
    if odd == "of one pod":
        wanted[at] = wanted[at - 1]
    for name in wanted:
        kind = odd if name == wanted[at] else ""
        builder.state.volumes.set_volume(VolumeInfo(f"pv-{name}", **ODD.get(kind, {})))
        one_pod, lost = kind == "of one pod", kind == "lost"
        claim = ClaimInfo(("ns", name), f"pv-{name}", one_pod=one_pod, lost=lost)
        builder.state.volumes.set_claim(claim)
    infos = builder.waits(None, len(wanted), cpu=rng.randint(2, 4), priority=10)
    for name, info in zip(wanted, infos, strict=True):
        wants = replace(info.requirements, claims=(("ns", name),))
        if name == wanted[at] and not odd:
            wants = replace(wants, requests=requests(1))
        builder.state.set_pod(replace(info, requirements=wants))
    return builder, [builder.single(info) for info in infos], odd or "smaller"


def one_by_one(builder: PreemptionBuilder, roots: list[Pod]) -> list[Plan | None]:
    """Return the plan of each root; None for one that needs no plan of its own."""
    found: list[Plan | None] = []
    for root in roots:
        refusal = decide(builder.state, root, SearchBudget())
        plan = None
        if isinstance(refusal, Refusal):
            plan = preempt(builder.state, root, refusal, SearchBudget(), EFFORT)
        if not isinstance(plan, Plan):
            found.append(None)
            continue
        carry_out(builder, root, plan)
        found.append(plan)
    return found


def together(builder: PreemptionBuilder, roots: list[Pod]) -> tuple[list[Plan], Plan | None]:
    """Return the plan of the first root and those derived from it; none without victims."""
    refusal = decide(builder.state, roots[0], SearchBudget())
    if not isinstance(refusal, Refusal):
        return [], None
    first = preempt(builder.state, roots[0], refusal, SearchBudget(), EFFORT)
    if not isinstance(first, Plan) or not first.victims:
        return [], None
    carry_out(builder, roots[0], first)
    before, kind = seen(builder), signature(roots[0])
    assert kind is not None

    def like_the_first(root: Pod) -> bool:
        own = signature(root)
        return own is not None and (own == kind or alike(builder.state, kind, own))

    equal = list(takewhile(like_the_first, roots[1:]))
    plans = (
        preempt_equals(builder.state, equal, (refusal, first), SearchBudget(), EFFORT)
        if equal
        else []
    )
    assert seen(builder) == before
    return plans, first


def seen(builder: PreemptionBuilder) -> object:
    nodes = builder.state.nodes
    return nodes.free.tolist(), nodes.version, list(builder.state.nominations)


def said(plan: Plan) -> object:
    victims = [unit.name for unit in plan.victims]
    pods = [pod.info.name for pod in plan.placement.pods]
    return victims, pods, plan.placement.rows, plan.cost, plan.minimal, plan.proved


def cluster(seed: int) -> tuple[PreemptionBuilder, list[Pod]]:
    """Create nodes of a few sizes, and running pods of a few sizes and priorities.

    Some pods are in groups.
    """
    rng = random.Random(seed)
    builder = PreemptionBuilder()
    sizes = rng.choice([(4,), (4, 6), (9,), (3, 5, 12)])
    cpus, of_gpus = rng.choice([((1,), (1,)), ((1, 2), (1,)), ((1, 2, 3), (1, 2))])
    priorities = rng.choice([(0,), (0, 0, 0, 1), (0, 1, 2)])
    for number in range(rng.randint(2, 7)):
        size = rng.choice(sizes)
        builder.node(f"n{number}", size, gpu=2 * size)
        left = size - rng.randint(0, 1)
        while left > 0:
            cpu = min(left, rng.choice(cpus))
            group = None
            if rng.random() < 0.02:
                group = "together"
                builder.group(group, 1, mode="all")
            gpus, priority = rng.choice(of_gpus), rng.choice(priorities)
            of_group = 0 if group else priority
            builder.runs(group, f"n{number}", cpu=cpu, others={"gpu": gpus}, priority=of_group)
            left -= cpu
    if rng.random() < 0.1:
        builder.runs(None, "n0", cpu=1, priority=20)  # permanently more than there is
    return builder, waiting(builder, WANTED, rng.randint(1, 4), rng.randint(1, 2))


def test_together_they_find_what_they_find_one_after_the_other(long: bool) -> None:
    met: Counter[str] = Counter()
    seeds = 60 if long else 15
    for seed in range(seeds):
        builder, roots = cluster(seed)
        plans, first = together(builder, roots)
        again, same_roots = cluster(seed)
        wanted = one_by_one(again, same_roots)
        if first is None:
            continue
        found = [first, *plans]
        for plan, other in zip(found, wanted, strict=False):
            assert other is not None, seed
            assert said(plan) == said(other), seed
        met["planned from it"] += len(plans)
        met["on one node again"] += len({p.placement.rows for p in found}) < len(found)
        met["ended early"] += len(found) < len(wanted)
    assert met["planned from it"] > 0.6 * seeds
    assert met["on one node again"] > 0.05 * seeds
    assert met["ended early"] > 0.4 * seeds


def test_a_node_where_fewer_victims_may_do_ends_what_is_planned_from_the_first() -> None:
    """The first takes 70 + 49 + 49 on n0, which leaves 48: then 36 + 36 are enough there.

    n1, where one pod has 65 of the 120 cores, looks cheaper and takes three victims.
    """
    builder = PreemptionBuilder()
    builder.node("n0", 240)
    builder.node("n1", 120)
    for node, cpus in (("n0", (36, 36, 49, 49, 70)), ("n1", (15, 40, 65))):
        for cpu in cpus:
            builder.runs(None, node, cpu=cpu)
    roots = [builder.single(info) for info in builder.waits(None, 2, cpu=120, priority=10)]

    plans, first = together(builder, roots)

    assert first is not None
    assert (first.placement.rows, len(first.victims)) == ((0,), 3)
    assert plans == []
    refusal = decide(builder.state, roots[1], SearchBudget())
    assert isinstance(refusal, Refusal)
    second = preempt(builder.state, roots[1], refusal, SearchBudget(), EFFORT)
    assert isinstance(second, Plan)
    assert (second.placement.rows, len(second.victims)) == ((0,), 2)


def test_so_do_pods_that_have_a_volume_each(long: bool) -> None:
    met: Counter[str] = Counter()
    seeds = 60 if long else 15
    for seed in range(seeds):
        builder, roots, odd = even_cluster(seed)
        plans, first = together(builder, roots)
        again, same_roots, _ = even_cluster(seed)
        wanted = one_by_one(again, same_roots)
        found = [] if first is None else [first, *plans]
        for plan, other in zip(found, wanted, strict=False):
            assert other is not None, (seed, odd)
            assert said(plan) == said(other), (seed, odd)
        met["planned from it"] += len(plans)
        met[odd] += len(plans) > 0
    assert met["planned from it"] > 0.6 * seeds
    assert min(met[odd] for odd in [*ODD, "smaller"]) > 0.05 * seeds, met


def test_none_of_them_asks_for_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = PreemptionBuilder()
    builder.nodes(20, cpu=4)
    for number in range(20):
        builder.runs(None, *[f"n{number}"] * 4, cpu=1)
    roots = [builder.single(info) for info in builder.waits(None, 20, cpu=3, priority=10)]
    refusal = decide(builder.state, roots[0], SearchBudget())
    assert isinstance(refusal, Refusal)
    first = preempt(builder.state, roots[0], refusal, SearchBudget(), EFFORT)
    assert isinstance(first, Plan)
    carry_out(builder, roots[0], first)
    asked: list[object] = []
    monkeypatch.setattr(DryRun, "fits", lambda _self, units: asked.append(units))

    plans = preempt_equals(builder.state, roots[1:], (refusal, first), SearchBudget(), EFFORT)

    assert not asked
    nodes = {plan.placement.rows for plan in plans} | {first.placement.rows}
    assert (len(plans), len(nodes)) == (19, 20)
    assert {len(plan.victims) for plan in plans} == {3}


def of(builder: PreemptionBuilder, *, cpu: int, **more: object) -> PodInfo:
    info = builder.waits(None, 1, cpu=cpu, priority=10)[0]
    wants = Requirements(requests(cpu), **more)  # type: ignore[arg-type]
    return info if not more else builder.pod(name=f"{info.name}x", requirements=wants, priority=10)


@pytest.mark.parametrize("what", ["a budget", "a group", "a port", "a port of the pods"])
def test_where_more_than_room_decides_they_are_planned_one_by_one(what: str) -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=2)
    for number in range(3):
        builder.runs(None, *[f"n{number}"] * (1 if what == "a port" else 2), cpu=1, app="a")
        if what == "a port":
            wants = Requirements(requests(1), ports=(HostPort("TCP", 80),))
            builder.pod(name=f"port{number}", node=f"n{number}", requirements=wants)
    if what == "a budget":
        builder.budget("b", 5, app="a")
    if what == "a group":
        builder.group("both", 2, mode="all")
        builder.runs("both", "n0", "n1", cpu=0)
    ports = {"ports": (HostPort("TCP", 8080),)} if what == "a port of the pods" else {}
    roots = [builder.single(of(builder, cpu=2, **ports)) for _ in range(3)]

    plans, first = together(builder, roots)

    assert first is not None
    assert plans == []


@pytest.mark.parametrize("costs", [(0, 0, 0, 0), (3, 1, 2, 0)])
def test_pods_whose_victims_report_costs_are_planned_one_by_one(costs: tuple[int, ...]) -> None:
    """Others may go instead, which only a complete search decides."""
    builder = PreemptionBuilder()
    builder.nodes(len(costs), cpu=1)
    for number, cost in enumerate(costs):
        (info,) = builder.runs(None, f"n{number}")
        reports = replace(info.preemption, eviction_cost=cost)
        builder.state.set_pod(replace(info, started=1.0, preemption=reports))
    first, *others = waiting(builder, 3, cpu=1, gpus=0)
    refusal = decide(builder.state, first, SearchBudget())
    assert isinstance(refusal, Refusal)
    plan = preempt(builder.state, first, refusal, SearchBudget(), EFFORT)
    assert isinstance(plan, Plan)
    carry_out(builder, first, plan)

    more = preempt_equals(builder.state, others, (refusal, plan), SearchBudget(), EFFORT)

    assert len(more) == (0 if any(costs) else len(others))
    if any(costs):
        assert [unit.key[2] for unit in plan.victims] == ["v00004"]
