"""A batch of pods with spread constraints, compared with one decision after the other."""

import random

import pytest

from scheduler.core.decide import decide
from scheduler.core.groups.forest import Pod
from scheduler.core.search import spread_batching
from scheduler.core.search.batching import batchable_by_spread, place_batch, signature
from scheduler.core.search.place import Placement
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.model import (
    SINGLE_POD,
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Taint,
)
from scheduler.core.values.search_budget import SearchBudget
from tests.scheduler.state_builder import StateBuilder, requests
from tools.testing.effort import count

WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))
OTHERS = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
BUDGET = SearchBudget()


class Spreading:
    """A random cluster, and pending pods with one or two constraints."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.builder = StateBuilder()
        for index in range(self.chance.randint(2, 12)):
            self.node(f"n{index}")
        self.keys = self.chance.sample(("zone", "rack", "host"), self.chance.randint(1, 2))
        spread = tuple(
            Spread(
                WEB,
                key,
                self.chance.randint(1, 3),
                min_domains=self.chance.choice((1, 1, 1, 3)),
                honours_taints=self.chance.random() < 0.3,
            )
            for key in self.keys
        )
        amounts = requests(self.chance.randint(0, 2), memory=self.chance.choice((0, 1 << 30)))
        self.wants = Requirements(amounts, spread=spread)
        for index in range(self.chance.randint(0, 6)):
            node = f"n{self.chance.randrange(4)}"
            labels = {"app": self.chance.choice(("web", "db"))}
            self.builder.pod(name=f"there{index}", node=node, labels=labels)
        self.names = [f"p{index}" for index in range(self.chance.randint(1, 25))]
        for name in self.names:
            self.builder.pod(name=name, requirements=self.wants, labels={"app": "web"})
        if self.chance.random() < 0.3:
            self._nominate()

    def _nominate(self) -> None:
        """Let a pod that counts like the others preempt pods of the first node."""
        priority = self.chance.choice((-1, 0, 1))
        info = self.builder.pod(
            name="other", requirements=self.wants, labels={"app": "web"}, priority=priority
        )
        self.builder.nominate(self.builder.single(info), "n0")

    def node(self, name: str) -> None:
        labels = {"zone": f"z{self.chance.randrange(3)}", "rack": f"r{self.chance.randrange(5)}"}
        if self.chance.random() < 0.15:
            del labels[self.chance.choice(("zone", "rack"))]
        taints = (Taint("dedicated", "", "NoSchedule"),) if self.chance.random() < 0.15 else ()
        cpu, pods = self.chance.randint(1, 8), self.chance.choice((110, 3))
        self.builder.node(name, cpu, pods=pods, labels={**labels, "host": name}, taints=taints)

    def waiting(self) -> list[Pod]:
        singles = self.builder.state.singles
        return [singles[SINGLE_POD, "ns", name] for name in self.names]


def one_by_one(case: Spreading) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in case.waiting():
        decision = decide(case.builder.state, pod, BUDGET)
        if isinstance(decision, Placement):
            case.builder.run(decision)
            found[pod.info.name] = decision.rows[0]
    return found


@pytest.mark.parametrize("first", range(0, count(80, 400), 40))
def test_a_batch_has_the_places_of_one_after_the_other(first: int) -> None:
    batched = 0
    for seed in range(first, first + 40):
        case = Spreading(seed)
        kind = signature(case.waiting()[0])
        assert kind is not None
        if not batchable_by_spread(case.builder.state, kind, BUDGET):
            continue
        before = case.builder.state.nodes.free.copy()
        placements = place_batch(case.builder.state, case.waiting(), BUDGET)
        assert (case.builder.state.nodes.free == before).all()
        found = {each.pods[0].info.name: each.rows[0] for each in placements}
        assert found == one_by_one(case), seed
        batched += len(found)
    assert batched >= 100


def test_a_place_that_is_nominated_for_another_is_not_given_away() -> None:
    builder = StateBuilder()
    for index in range(2):
        builder.node(f"n{index}", 1, labels={"zone": f"z{index}"})
    wants = Requirements(requests(1), spread=(Spread(WEB, "zone", 2),))
    for index in range(2):
        builder.pod(name=f"p{index}", requirements=wants, labels={"app": "web"})
    pods = [builder.state.singles[SINGLE_POD, "ns", f"p{index}"] for index in range(2)]
    other = builder.pod(name="other", priority=5)
    places = ((builder.single(other).shape, (("n0", 1),)),)
    builder.state.nominations.set(Nomination((SINGLE_POD, "ns", "o"), 5, places, foreign=True))
    (placement,) = place_batch(builder.state, pods, BUDGET)
    assert builder.state.nodes.name_of(placement.rows[0]) == "n1"


@pytest.mark.parametrize(
    "wants",
    [
        Requirements(requests(1)),
        Requirements(
            requests(1),
            spread=(Spread(WEB, "zone"),),
            required_anti_affinity=(PodTerm(WEB, "host"),),
        ),
        Requirements(
            requests(1),
            spread=(Spread(PodSelector((Expression("app", "In", ("x",)),), ("ns",)), "zone"),),
        ),
        Requirements(
            requests(1), spread=(Spread(WEB, "zone"),), preferred_spread=(Spread(WEB, "host"),)
        ),
        Requirements(requests(1), spread=(Spread(WEB, "zone"),), claims=(("ns", "data"),)),
    ],
)
def test_what_else_decides_is_decided_alone(wants: Requirements) -> None:
    builder = StateBuilder()
    builder.node("n0", labels={"zone": "a", "host": "n0"})
    builder.pod(name="p", requirements=wants, labels={"app": "web"})
    kind = signature(builder.state.singles[SINGLE_POD, "ns", "p"])
    assert kind is not None
    assert not batchable_by_spread(builder.state, kind, BUDGET)


def test_no_node_with_room_is_no_place() -> None:
    builder = StateBuilder()
    builder.node("n0", 1, labels={"zone": "a"})
    builder.pod(name="there", node="n0", requirements=Requirements(requests(1)))
    wants = Requirements(requests(1), spread=(Spread(WEB, "zone"),))
    builder.pod(name="p", requirements=wants, labels={"app": "web"})
    pod = builder.state.singles[SINGLE_POD, "ns", "p"]
    assert place_batch(builder.state, [pod], BUDGET) == []


def test_the_work_grows_with_the_pods_not_with_the_domains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each node is a domain: all but a few of them are checked once, when a batch begins."""
    looked = 0

    def counting(self: spread_batching._Cells, cell: spread_batching._Cell) -> bool:
        nonlocal looked
        looked += 1
        return is_open(self, cell)

    is_open = spread_batching._Cells._is_open
    monkeypatch.setattr(spread_batching._Cells, "_is_open", counting)
    builder = StateBuilder()
    for index in range(300):
        builder.node(f"n{index}", 8, labels={"host": f"n{index}"})
    wants = Requirements(requests(1), spread=(Spread(WEB, "host", 2),))
    for index in range(700):
        builder.pod(name=f"p{index}", requirements=wants, labels={"app": "web"})
    pods = [builder.state.singles[SINGLE_POD, "ns", f"p{index}"] for index in range(700)]
    assert len(place_batch(builder.state, pods, BUDGET)) == 700
    assert looked <= 3 * 700
