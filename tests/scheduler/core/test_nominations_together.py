"""Nominations are subtracted together if that is equivalent, once for all trials of a plan."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.core.decide import decide
from scheduler.core.groups.forest import Pod
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.nominations import Nomination, Nominations
from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    HostPort,
    PodSelector,
    PodTerm,
    Requirements,
    VolumeInfo,
)
from tests.scheduler.state_builder import StateBuilder, requests
from tools.testing.effort import count, seeds

BLUE = PodTerm(PodSelector((Expression("colour", "In", ("blue",)),), ("ns",)), "host")
KINDS = ("plain", "blue", "apart", "claim", "unbound", "port")


class Nominated:
    """Nodes with running pods, and pending pods of several kinds, most with a nomination."""

    def __init__(self, seed: int, kinds: tuple[str, ...] = KINDS) -> None:
        self.rng = random.Random(seed)
        self.builder = StateBuilder()
        self.state = self.builder.state
        for number in range(6):
            self.builder.node(f"n{number}", 4, labels={"host": f"n{number}"})
        for number in range(self.rng.randint(4, 14)):
            node, cpu = f"n{self.rng.randrange(6)}", self.rng.randint(1, 2)
            self.builder.pod(name=f"runs{number}", node=node, cpu=cpu)
        count = 10 if kinds else 0
        self.pods = [self.waits(f"p{n}", self.rng.choice(kinds)) for n in range(count)]
        for pod in self.pods[:8]:
            self.builder.nominate(pod, f"n{self.rng.randrange(6)}")

    def waits(self, name: str, kind: str) -> Pod:
        cpu, labels = requests(self.rng.randint(1, 3)), dict[str, str]()
        more: dict[str, Any] = {}
        if kind == "blue":
            labels = {"colour": "blue"}
        elif kind == "apart":
            more = {"required_anti_affinity": (BLUE,)}
        elif kind in ("claim", "unbound"):
            volume = f"pv-{name}" if kind == "claim" else ""
            self.state.volumes.set_claim(ClaimInfo(("ns", name), volume, "now"))
            self.state.volumes.set_volume(VolumeInfo(f"pv-{name}", driver="csi.example"))
            more = {"claims": (("ns", name),)}
        elif kind == "port":
            more = {"ports": (HostPort("TCP", 80),)}
        wants = Requirements(cpu, **more)
        info = self.builder.pod(
            name=name, requirements=wants, priority=self.rng.randint(1, 3), labels=labels
        )
        return self.builder.single(info)

    def seen(self) -> tuple[Any, ...]:
        """Return everything that decisions read of used resources."""
        nodes, framework = self.state.nodes, self.state.framework
        nodes.touch()
        slots = [framework.slots(pod.shape).tolist() for pod in self.pods]
        counts = {key: dict(sorted(of.items())) for key, of in nodes.match_counts._counts.items()}
        return (nodes.free.tolist(), slots, counts)


@contextmanager
def one_by_one(case: Nominated, root: Pod) -> Iterator[None]:
    """Apply the rule: subtract every nomination of equal or higher priority, shape by shape."""
    with case.state.nodes.trial():
        for each in case.state.nominations:
            if each.root == root.key or each.priority < root.priority:
                continue
            for shape, places in each.places:
                for name, count in places:
                    if name in case.state.nodes.row_of:
                        take(case, shape, name, count)
        yield


def take(case: Nominated, shape: Shape, name: str, count: int) -> None:
    rows = [case.state.nodes.row_of[name]]
    case.state.framework.reserve(shape, np.array(rows), np.array([count]))


@pytest.mark.parametrize("seed", seeds(12, 150))
def test_together_they_take_what_they_take_one_by_one(seed: int) -> None:
    case = Nominated(seed)
    before = case.seen()
    for root in case.pods:
        with one_by_one(case, root):
            wanted = case.seen()
        with case.state.nominations.respected(root.key, root.priority):
            assert case.seen() == wanted
        assert case.seen() == before


@pytest.mark.parametrize("limited", [False, True])
def test_what_is_left_out_says_nothing_to_the_root(limited: bool) -> None:
    for seed in range(count(6, 60)):
        case = Nominated(seed)
        state, nodes = case.state, case.state.nodes
        for number in range(6 if limited else 0):
            state.volumes.set_limits(f"n{number}", {"csi.example": 1})
        for root in case.pods:
            claims = root.info.requirements.claims
            sharer = case.waits("sharer", "plain")  # another that uses the root's volume
            if claims:
                wants = replace(sharer.info.requirements, claims=claims)
                sharer = case.builder.single(
                    case.builder.pod(name="shares", requirements=wants, priority=3)
                )
            places = ((sharer.shape, (("n0", 1),)),)
            state.nominations.set(Nomination(sharer.key, 3, places))
            found = []
            for shapes in (None, (root.shape,)):
                with state.nominations.respected(root.key, root.priority, shapes=shapes):
                    nodes.touch()
                    codes = state.framework.pod_codes(root.shape).tolist()
                    slots = state.framework.slots(root.shape).tolist()
                    found.append((codes, slots, nodes.free.tolist()))
            assert found[0] == found[1], (seed, root.info.name)
            state.nominations.drop(sharer.key)
            state.remove_pod(sharer.info.uid)


def plan_of(case: Nominated, root: Pod) -> object:
    decision = decide(case.state, root, SearchBudget())
    if isinstance(decision, Placement):
        return decision.rows
    plan = preempt(case.state, root, decision, SearchBudget(), SearchEffort())
    if isinstance(plan, Refusal):
        return "refused"
    assert isinstance(plan, Plan)
    victims = sorted(
        uid for unit in plan.victims for uid in (p.info.uid for p in unit.pods.values())
    )
    return victims, plan.placement.rows, plan.solves


def test_a_plan_is_the_same_where_they_are_taken_once_for_all_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned, clusters = 0, count(15, 200)
    for seed in range(clusters):
        case = Nominated(seed, ("plain", "blue", "claim"))
        found = [plan_of(case, root) for root in case.pods]
        with monkeypatch.context() as patch:
            patch.setattr(Nominations, "kept", lambda *_arguments: nothing())
            assert [plan_of(case, root) for root in case.pods] == found
        planned += sum(isinstance(each, tuple) and len(each) == 3 for each in found)
    assert planned > clusters // 2


@contextmanager
def nothing() -> Iterator[None]:
    yield


@pytest.mark.parametrize("count", [10, 100])
def test_a_plan_does_not_take_each_place_in_each_trial(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    builder = StateBuilder()
    builder.nodes(count + 1, cpu=4)
    for number in range(count + 1):
        builder.pod(name=f"runs{number}", node=f"n{number}", cpu=3)
    pods = []
    for number in range(count + 1):
        builder.state.volumes.set_claim(ClaimInfo(("ns", f"c{number}"), f"pv-{number}", "now"))
        builder.state.volumes.set_volume(VolumeInfo(f"pv-{number}", driver="csi.example"))
        wants = Requirements(requests(3), claims=(("ns", f"c{number}"),))
        info = builder.pod(name=f"p{number}", requirements=wants, priority=5)
        pods.append(builder.single(info))
    for number, pod in enumerate(pods[:count]):
        builder.nominate(pod, f"n{number}")
        builder.state.units.mark_evicting([builder.state.pods[f"uid-runs{number}"]], 9e9)
    calls = Counter[str]()
    for name in ("take", "count"):
        monkeypatch.setattr(NodeTable, name, counted(calls, name))
    decision = decide(builder.state, pods[count], SearchBudget())
    assert isinstance(decision, Refusal)
    plan = preempt(builder.state, pods[count], decision, SearchBudget(), SearchEffort())

    assert isinstance(plan, Plan)
    assert [unit.pods.keys() for unit in plan.victims] == [{f"uid-runs{count}"}]
    assert calls["take"] < 100
    assert calls["count"] == 2  # for the decision, and for all trials of the plan


def counted(calls: Counter[str], name: str) -> Callable[..., Any]:
    original = getattr(NodeTable, name)

    def call(self: NodeTable, *args: Any) -> Any:
        calls[name] += 1
        return original(self, *args)

    return call


def test_sums_follow_nominations_that_come_and_go_and_nodes_that_change() -> None:
    for seed in range(count(3, 50)):
        case = Nominated(seed)
        state, rng = case.state, case.rng
        for step in range(12):
            with state.nominations.respected(case.pods[9].key, 1):
                pass  # the current sums have to follow
            pod = rng.choice(case.pods)
            if pod.key in state.nominations:
                state.nominations.drop(pod.key)
            else:
                case.builder.nominate(pod, f"n{rng.randrange(7)}", rng.randint(1, 2))
            if step % 4 == 3:
                case.builder.node("n6", 4, labels={"host": f"n6-{step}"})
            for root in case.pods:
                with one_by_one(case, root):
                    wanted = case.seen()
                with state.nominations.respected(root.key, root.priority):
                    assert case.seen() == wanted, (seed, step)


@pytest.mark.parametrize("priorities", [3, 40])
def test_sums_are_kept_for_some_priorities_only(priorities: int) -> None:
    """The number of priorities of a tenant's pods does not matter."""
    case = Nominated(1)
    for priority in range(priorities):
        with case.state.nominations.respected(case.pods[0].key, priority):
            pass
    assert len(case.state.nominations._merged) == min(priorities, 16)


@pytest.mark.parametrize(("kind", "once"), [("claim", True), ("unbound", False), ("port", False)])
def test_what_depends_on_who_has_left_is_taken_in_each_trial(kind: str, once: bool) -> None:
    case = Nominated(1, ())
    other, root = case.waits("other", kind), case.waits("root", "plain")
    case.state.nominations.set(Nomination(other.key, 9, ((other.shape, (("n0", 1),)),)))
    before = case.state.nodes.free.copy()

    with case.state.nominations.kept(root.key, 5):
        assert (case.state.nodes.free != before).any() == once
        with case.state.nominations.respected(root.key, 5):
            assert (case.state.nodes.free != before).any()
    assert (case.state.nodes.free == before).all()
