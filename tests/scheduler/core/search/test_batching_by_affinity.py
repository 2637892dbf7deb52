"""Single pods with required pod affinity or anti-affinity: a batch equals one by one."""

import random

import pytest

from scheduler.core.decide import decide
from scheduler.core.groups.forest import Pod
from scheduler.core.search.batching import batchable_by_affinity, place_batch, signature
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.search.tree import TreeSearch
from scheduler.core.values.model import (
    SINGLE_POD,
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    WeightedPodTerm,
)
from tests.scheduler.state_builder import StateBuilder, requests
from tools.testing import effort

APPS = ("web", "db", "cache")
WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))


def term(rng: random.Random) -> PodTerm:
    apps = tuple(rng.sample(APPS, rng.randint(1, 2)))
    selector = PodSelector((Expression("app", "In", apps),), ("ns",))
    return PodTerm(selector, rng.choice(("rack", "host")))


def terms(rng: random.Random, chance: float) -> tuple[PodTerm, ...]:
    return tuple(term(rng) for _ in range(2) if rng.random() < chance)


def cluster(rng: random.Random) -> StateBuilder:
    """Create ten nodes, some of them without a rack, with pods that may exclude others."""
    builder = StateBuilder()
    for number in range(10):
        labels = {"host": f"n{number}"} | ({"rack": f"r{number % 4}"} if rng.random() < 0.9 else {})
        builder.node(f"n{number}", rng.randint(1, 6), labels=labels)
    for number in range(rng.randint(0, 6)):
        builder.pod(
            node=f"n{rng.randrange(10)}",
            name=f"runs{number}",
            labels={"app": rng.choice(APPS)},
            requirements=Requirements(requests(1), required_anti_affinity=terms(rng, 0.15)),
        )
    return builder


def nominate(rng: random.Random, builder: StateBuilder) -> None:
    """Let another pod preempt pods of a node."""
    priority = rng.choice((-1, 0, 1))
    wants = Requirements(requests(1), required_anti_affinity=terms(rng, 0.4))
    labels = {"app": rng.choice(APPS)}
    other = builder.single(
        builder.pod(name="other", requirements=wants, labels=labels, priority=priority)
    )
    builder.nominate(other, f"n{rng.randrange(10)}")


def waiting(builder: StateBuilder, requirements: Requirements, count: int) -> list[Pod]:
    pods = []
    for number in range(count):
        info = builder.pod(requirements=requirements, labels={"app": "web"}, name=f"p{number:02}")
        pods.append(builder.state.singles[SINGLE_POD, "ns", info.name])
    return pods


def may_be_batched(builder: StateBuilder, pod: Pod, budget: SearchBudget) -> bool:
    kind = signature(pod)
    assert kind is not None
    return batchable_by_affinity(builder.state, kind, budget)


def one_by_one(builder: StateBuilder, pods: list[Pod]) -> list[int]:
    rows = []
    for pod in pods:
        decision = decide(builder.state, pod, SearchBudget())
        if not isinstance(decision, Placement):
            break
        builder.state.assume(decision.pods, decision.rows)
        rows.append(decision.rows[0])
    return rows


def test_a_batch_has_the_places_of_one_pod_after_the_other() -> None:
    rng, batched, runs = random.Random(5), 0, effort.count(100, 300)
    for _ in range(runs):
        builder = cluster(rng)
        requirements = Requirements(
            requests(1),
            required_affinity=terms(rng, 0.4),
            required_anti_affinity=terms(rng, 0.4),
        )
        pods = waiting(builder, requirements, 12)
        if rng.random() < 0.3:
            nominate(rng, builder)
        if not may_be_batched(builder, pods[0], SearchBudget()):
            continue
        together = place_batch(builder.state, pods, SearchBudget())

        assert [each.rows[0] for each in together] == one_by_one(builder, pods)
        batched += bool(together)
    assert batched > runs // 3


@pytest.mark.parametrize(
    ("requirements", "budget", "want"),
    [
        (Requirements(required_affinity=(PodTerm(WEB, "rack"),)), SearchBudget(), True),
        (Requirements(required_anti_affinity=(PodTerm(WEB, "rack"),)), SearchBudget(), True),
        (
            Requirements(required_affinity=(PodTerm(WEB, "rack"),)),
            SearchBudget(profile="spread"),
            False,
        ),
        (Requirements(spread=(Spread(WEB, "rack"),)), SearchBudget(), False),
        (
            Requirements(preferred_affinity=(WeightedPodTerm(1, PodTerm(WEB, "rack")),)),
            SearchBudget(),
            False,
        ),
        (Requirements(claims=(("ns", "data"),)), SearchBudget(), False),
    ],
    ids=["affinity", "anti-affinity", "profile spread", "spread", "preferred", "a volume"],
)
def test_what_may_be_batched(requirements: Requirements, budget: SearchBudget, want: bool) -> None:
    builder = StateBuilder()
    builder.nodes(4, rack_of=2)
    (pod,) = waiting(builder, requirements, 1)

    assert may_be_batched(builder, pod, budget) == want


def test_a_batch_is_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    minimums = TreeSearch.minimums

    def counted(self: TreeSearch, *arguments: object) -> object:
        searches.append(1)
        return minimums(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(TreeSearch, "minimums", counted)
    builder = StateBuilder()
    builder.nodes(40, rack_of=2)
    pods = waiting(builder, Requirements(required_anti_affinity=(PodTerm(WEB, "rack"),)), 20)

    assert len(place_batch(builder.state, pods, SearchBudget())) == 20
    assert len(searches) == 1
