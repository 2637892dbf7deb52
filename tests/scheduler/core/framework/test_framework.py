"""Slots and usage follow the rows, the fullest nodes are filled first, reasons count nodes."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.explain.explain import reasons
from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.node_table import Region
from scheduler.core.nodes.resource_table import PODS
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.node_selection import choose
from scheduler.core.state.state import State
from scheduler.core.values.model import NodeInfo, Requirements
from tests.scheduler.state_builder import StateBuilder, requests

CPU = 1000


def node(number: int, cpus: int) -> NodeInfo:
    return NodeInfo(f"n{number}", {"cpu": cpus * CPU, "memory": 64, PODS: 110})


def a_shape(state: State, cpus: int, memory: int) -> Shape:
    return state.shapes.intern(Requirements(requests=(("cpu", cpus * CPU), ("memory", memory))))


def assert_counted_right(framework: Framework, shape: Shape) -> None:
    nodes = framework.nodes
    capacity = framework.capacity(shape)
    np.testing.assert_array_equal(framework.slots(shape), capacity)
    used, step = framework.usage(shape)
    rows = np.arange(nodes.size)
    fresh_used, fresh_step = framework.usage_at(shape, rows)
    np.testing.assert_array_equal(used, fresh_used)
    np.testing.assert_array_equal(step, fresh_step)


number = st.integers(0, 49)  # the table starts with 40, so that some are new
step = st.one_of(
    st.tuples(st.just("take"), number, st.integers(1, 3)),
    st.tuples(st.just("try"), number, st.integers(1, 3)),
    st.tuples(st.just("look"), number, st.just(0)),
    st.tuples(st.just("set"), number, st.integers(1, 16)),
    st.tuples(st.just("remove"), number, st.just(0)),
    st.tuples(st.just("other resource"), number, st.integers(0, 2)),
)


@given(st.lists(step, max_size=30))
def test_slots_and_use_follow_whatever_happens_to_the_rows(
    steps: list[tuple[str, int, int]],
) -> None:
    state = State()
    nodes = state.nodes
    for index in range(40):
        nodes.set_node(node(index, 8))
    shapes = [a_shape(state, 1, 2), a_shape(state, 3, 1)]
    # One that requests the same as the first: their utilization is computed once.
    wants = shapes[0].requirements
    shapes.append(state.shapes.intern(replace(wants, node_name="n3")))
    for what, target, amount in steps:
        row = nodes.row_of.get(f"n{target}")
        if what == "set":
            nodes.set_node(node(target, amount))
        elif what == "remove":
            nodes.remove_node(f"n{target}")
        elif what == "other resource":
            offers = {"cpu": CPU, PODS: 110, f"example.com/{target}": amount}
            nodes.set_node(NodeInfo(f"n{target}", offers))
        elif what == "take" and row is not None:
            nodes.take_one(row, shapes[0].load, amount)
        elif what == "try" and row is not None:
            with nodes.trial():
                nodes.take(np.array([row]), np.array([amount]), shapes[1].load)
                assert_counted_right(state.framework, shapes[0])
        for shape in shapes:
            assert_counted_right(state.framework, shape)


def test_use_is_right_for_more_different_requests_than_are_cached() -> None:
    state = State()
    for index in range(3):
        state.nodes.set_node(node(index, 8))
    shapes = [a_shape(state, 1, memory) for memory in range(1, 100)]

    for row in range(3):
        state.nodes.take_one(row, shapes[row].load, 1)
        for shape in shapes:
            assert_counted_right(state.framework, shape)


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=40),
    st.integers(1, 12),
    st.booleans(),
)
def test_the_fullest_nodes_are_filled_first_and_equal_ones_in_order(
    taken: list[int], count: int, confined: bool
) -> None:
    state = State()
    nodes = state.nodes
    shape = a_shape(state, 1, 1)
    for index, pods in enumerate(taken):
        row = nodes.set_node(node(index, 8))
        nodes.take_one(row, shape.load, pods)
    region = Region(np.arange(nodes.size)) if confined else None
    capacity = {row: 8 - pods for row, pods in enumerate(taken)}
    want: dict[int, int] = {}
    for row in sorted(capacity, key=lambda row: (capacity[row], row)):
        if capacity[row] and sum(want.values()) < count:
            want[row] = min(capacity[row], count - sum(want.values()))

    chosen = choose(state.framework, shape, count, region, "pack")

    if sum(capacity.values()) < count:
        assert chosen is None
    else:
        assert chosen is not None
        rows, counts = chosen
        assert dict(zip(rows.tolist(), counts.tolist(), strict=True)) == want


def test_one_node_counts_under_each_reason() -> None:
    builder = StateBuilder()
    builder.node("full", cpu=1, pods=1)
    builder.pod(node="full")
    builder.node("cordoned", unschedulable=True)
    shape = builder.state.shapes.intern(Requirements(requests(1)))

    assert reasons(builder.state.framework, shape) == (
        ("Insufficient cpu", 1),
        ("Too many pods", 1),
        ("node(s) were unschedulable", 1),
    )
