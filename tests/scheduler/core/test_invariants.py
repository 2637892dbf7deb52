"""Invariants of any cluster and any pods."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.search.node_selection import choose
from scheduler.core.search.place import Placement
from scheduler.core.values.model import Requirements, Topology
from tests.scheduler.state_builder import StateBuilder, requests

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def build(nodes: list[int], pods: list[int], *, gpus: list[int] | None = None) -> StateBuilder:
    builder = StateBuilder()
    for index, cpu in enumerate(nodes):
        gpu = gpus[index % len(gpus)] if gpus else 0
        builder.node(f"n{index}", cpu, labels={"rack": f"r{index % 2}"}, gpu=gpu)
    for cpu in pods:
        builder.pod("g", cpu)
    return builder


def feasible(nodes: list[int], pods: list[int], minimum: int) -> bool:
    """Return True if `minimum` of the pods fit together, by an exhaustive search."""
    for chosen in itertools.combinations(pods, minimum):
        for places in itertools.product(range(len(nodes)), repeat=minimum):
            used = Counter[int]()
            for place, cpu in zip(places, chosen, strict=True):
                used[place] += cpu
            if all(used[i] <= size for i, size in enumerate(nodes)):
                return True
    return False


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 4), st.integers(1, 3))
def test_equal_pods_are_placed_exactly_when_they_fit(cpus: list[int], count: int, cpu: int) -> None:
    builder = build(cpus, [cpu] * count)
    builder.gang("g", count)

    assert isinstance(builder.place("g"), Placement) == feasible(cpus, [cpu] * count, count)


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_unequal_pods_on_few_nodes_are_placed_exactly_when_they_fit(
    nodes: list[int], pods: list[int]
) -> None:
    builder = build(nodes, pods)
    builder.gang("g", len(pods))

    assert isinstance(builder.place("g"), Placement) == feasible(nodes, pods, len(pods))


def test_packing_that_needs_a_search_is_found_among_nodes_of_several_kinds() -> None:
    builder = StateBuilder()
    builder.node("any", 6)
    builder.node("fast", 6, labels={"fast": "yes"})
    builder.gang("g", 4)
    fast = (("fast", "yes"),)
    for cpu, selector in ((3, ()), (3, ()), (4, fast), (2, fast)):
        builder.pod("g", requirements=Requirements(requests(cpu), selector=selector))

    assert len(builder.where(builder.place("g"))) == 4


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=12), st.integers(0, 12))
def test_rollback_restores_bit_for_bit(takes: list[tuple[int, int]], keep: int) -> None:
    builder = build([9, 9, 9, 9, 9], [])
    nodes = builder.state.nodes
    shape = builder.state.shapes.intern(Requirements(requests(1)))

    def take(row: int, count: int) -> None:
        nodes.take(np.array([row]), np.array([count]), shape.load)

    with nodes.trial() as kept:
        for row, count in takes[:keep]:
            take(row, count)
        want = nodes.free.copy()
        slots = builder.state.framework.slots(shape).copy()
        with nodes.trial():
            for row, count in takes[keep:]:
                take(row, count)
            builder.state.framework.slots(shape)
        assert (nodes.free == want).all()
        assert (builder.state.framework.slots(shape) == slots).all()
        kept.keep()
    assert (nodes.free == want).all()
    take(0, 1)
    assert int(builder.state.framework.slots(shape)[0]) == int(
        want[nodes.resources.indices["cpu"], 0]
    ) // 1000 - 1 or (int(want[nodes.resources.indices["cpu"], 0]) < 1000)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 40), st.booleans())
def test_choose_gives_exactly_the_count_or_nothing(
    cpus: list[int], count: int, spread: bool
) -> None:
    builder = build(cpus, [])
    shape = builder.state.shapes.intern(Requirements(requests(1)))

    chosen = choose(builder.state.framework, shape, count, None, "spread" if spread else "pack")

    if chosen is None:
        assert sum(cpus) < count
    else:
        rows, counts = chosen
        assert int(counts.sum()) == count
        assert len(set(rows.tolist())) == len(rows)
        assert all(n <= cpus[row] for row, n in zip(rows.tolist(), counts.tolist(), strict=True))


def test_domains_are_rebuilt_when_a_node_moves_to_another_rack() -> None:
    builder = StateBuilder()
    builder.nodes(2, rack_of=1)
    topology = Topology("rack")
    before = builder.state.topologies.domains(topology.key).values
    builder.node("n1", labels={"rack": "r000"})

    assert (before, builder.state.topologies.domains("rack").values) == (
        ("r000", "r001"),
        ("r000",),
    )
