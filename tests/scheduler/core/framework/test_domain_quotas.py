"""Pods that must be spread: many at once, and never less evenly than one by one."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.explain.explain import explain
from scheduler.core.framework.domain_quotas import SkewLimit
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import Expression, PodSelector, PodTerm, Requirements, Spread
from tests.scheduler.state_builder import StateBuilder, requests

OF_WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))


def gang(builder: StateBuilder, count: int, minimum: int | None = None, **terms: object) -> None:
    wants = Requirements(requests(1), **terms)  # type: ignore[arg-type]
    builder.gang("g", minimum or count)
    for _ in range(count):
        builder.pod("g", requirements=wants, labels={"app": "web"})


def build(sizes: list[tuple[int, int]]) -> StateBuilder:
    """Create nodes of (cpu, rack)."""
    builder = StateBuilder()
    for index, (cpu, rack) in enumerate(sizes):
        builder.node(f"n{index}", cpu, labels={"rack": f"r{rack}", "host": f"n{index}"})
    return builder


def fits_one_by_one(sizes: list[tuple[int, int]], count: int, skews: dict[str, int]) -> bool:
    """Return True if an exhaustive search can place that many pods one by one."""
    domains = {"host": list(range(len(sizes))), "rack": [rack for _, rack in sizes]}
    seen: set[tuple[int, ...]] = set()

    def go(taken: tuple[int, ...], left: int) -> bool:
        if not left:
            return True
        if taken in seen:
            return False
        seen.add(taken)
        counts = {
            key: {d: sum(t for t, of in zip(taken, domains[key], strict=True) if of == d)
                  for d in set(domains[key])}
            for key in skews
        }  # fmt: skip
        for node, (cpu, _) in enumerate(sizes):
            allowed = all(
                counts[key][domains[key][node]] + 1 - min(counts[key].values()) <= max_skew
                for key, max_skew in skews.items()
            )
            if taken[node] < cpu and allowed:
                more = (*taken[:node], taken[node] + 1, *taken[node + 1 :])
                if go(more, left - 1):
                    return True
        return False

    return go((0,) * len(sizes), count)


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        pytest.param((0, 1, 1), True, id="the others grow evenly"),
        pytest.param((0, 2, 0), False, id="one of the others grows alone"),
        pytest.param((1, 1, 1), False, id="the crowded one grows"),
    ],
)
def test_a_domain_that_was_crowded_before_stops_only_pods_of_its_own(
    counts: tuple[int, ...], *, kept: bool
) -> None:
    """Otherwise a gang of thousands next to it takes a wave for each of its pods."""
    builder = build([(9, 0), (9, 1), (9, 2)])
    racks = builder.state.topologies.of_groups("rack")
    rows = np.arange(3)

    limit = SkewLimit(racks, np.array([5, 0, 0]), np.ones(3, np.bool_), max_skew=1)

    assert limit.kept(rows, np.array(counts)) is kept


SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=4)


@given(SIZES, st.integers(1, 8), st.sampled_from(["rack", "host"]), st.integers(1, 2))
def test_one_constraint_lets_in_exactly_what_can_come_one_by_one(
    sizes: list[tuple[int, int]], count: int, key: str, max_skew: int
) -> None:
    builder = build(sizes)
    gang(builder, count, spread=(Spread(OF_WEB, key, max_skew),))

    placed = isinstance(builder.place("g"), Placement)

    assert placed == fits_one_by_one(sizes, count, {key: max_skew})


@given(SIZES, st.integers(1, 8), st.integers(1, 2), st.integers(1, 2))
def test_two_constraints_are_both_kept(
    sizes: list[tuple[int, int]], count: int, max_skew: int, other: int
) -> None:
    builder = build(sizes)
    gang(builder, count, spread=(Spread(OF_WEB, "rack", max_skew), Spread(OF_WEB, "host", other)))
    decision = builder.place("g")

    if isinstance(decision, Placement):
        for key, most in (("rack", max_skew), ("host", other)):
            nodes = [node for node in builder.state.nodes.infos if node is not None]
            pods = Counter({node.labels[key]: 0 for node in nodes})
            pods.update(nodes[row].labels[key] for row in decision.rows)
            assert max(pods.values()) - min(pods.values()) <= most


@pytest.mark.parametrize("count", [1_000, 2_997])
def test_two_constraints_over_many_nodes_take_a_few_steps(count: int) -> None:
    builder = build([(100, index % 3) for index in range(300)])
    gang(builder, count, spread=(Spread(OF_WEB, "rack"), Spread(OF_WEB, "host")))
    decision = builder.place("g", budget=SearchBudget(steps=10))

    assert isinstance(decision, Placement), decision
    assert decision.steps <= 4


def test_a_domain_that_has_too_many_pods_already_does_not_slow_down_the_others() -> None:
    """Only domains that gain pods must keep the skew; r0 exceeds it before and after."""
    builder = build([(20, 0), (20, 1), (20, 2)])
    for _ in range(10):
        builder.pod(node="n0", labels={"app": "web"})
    gang(builder, 10, spread=(Spread(OF_WEB, "rack"),))
    decision = builder.place("g")

    assert Counter(builder.where(decision).values()) == {"n1": 5, "n2": 5}
    assert isinstance(decision, Placement)
    assert decision.steps <= 1


@pytest.mark.parametrize("expired", [False, True], ids=["in time", "the time is over"])
def test_where_the_first_pod_decides_for_all_others_they_follow_whatever_the_time(
    *, expired: bool
) -> None:
    """The pods need two waves. A slow machine must not reject the gang for the second one."""
    builder = build([(4, 0), (4, 1)])
    gang(builder, 4, required_affinity=(PodTerm(OF_WEB, "rack"),))
    decision = builder.place("g", budget=SearchBudget(expired=lambda: expired))

    assert isinstance(decision, Placement)


@pytest.mark.parametrize("expired", [False, True], ids=["in time", "the time is over"])
def test_many_waves_end_with_the_time_and_not_with_the_steps(*, expired: bool) -> None:
    """Spread out, each wave adds one pod to either node."""
    builder = build([(40, 0), (40, 0)])
    gang(builder, 60, required_affinity=(PodTerm(OF_WEB, "rack"),))
    budget = SearchBudget(profile="spread", expired=lambda: expired)
    decision = builder.place("g", budget=budget)

    assert isinstance(decision, Refusal if expired else Placement), decision


@pytest.mark.parametrize(
    ("terms", "count", "want"),
    [
        pytest.param(
            {"required_anti_affinity": (PodTerm(OF_WEB, "rack"),)},
            5,
            "0/6 nodes are available: 6 node(s) didn't match pod anti-affinity rules. The"
            " group needs capacity for 5 more pods; 3 fit. Waiting does not help:"
            " anti-affinity keeps the pods apart by rack. Lower minCount, or add nodes.",
            id="more than there are racks",
        ),
        pytest.param(
            {"required_anti_affinity": (PodTerm(OF_WEB, "host"),)},
            7,
            "0/6 nodes are available: 6 node(s) didn't match pod anti-affinity rules. The"
            " group needs capacity for 7 more pods; 6 fit. Waiting does not help:"
            " anti-affinity keeps the pods apart by host. Lower minCount, or add nodes.",
            id="more than there are nodes",
        ),
    ],
)
def test_a_refusal_says_for_how_many_there_is_room(
    terms: dict[str, object], count: int, want: str
) -> None:
    builder = build([(4, index // 2) for index in range(6)])
    gang(builder, count, **terms)  # type: ignore[arg-type]
    decision = builder.place("g")
    assert isinstance(decision, Refusal)

    assert explain(builder.state, decision).summary == want


def test_pods_that_must_be_apart_may_only_be_waiting_for_others_to_go() -> None:
    builder = build([(4, index // 2) for index in range(6)])
    builder.pod(node="n0", labels={"app": "web"})
    gang(builder, 3, required_anti_affinity=(PodTerm(OF_WEB, "rack"),))
    decision = builder.place("g")
    assert isinstance(decision, Refusal)
    blocker = explain(builder.state, decision)

    assert (blocker.needed, blocker.free, blocker.impossible) == (3, 2, False)
