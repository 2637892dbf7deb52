"""Backtracking over pods of different shapes, and the nodes that it treats as equal."""

from scheduler.core.search.exhaustive_packing import pack_exhaustively
from scheduler.core.values.model import Expression, NodeTerm, Requirements
from tests.scheduler.state_builder import StateBuilder, requests


def test_nodes_with_equal_room_are_both_tried_if_a_shape_may_use_only_one_of_them() -> None:
    """The large pod is first and fits both nodes; the small one may use only n0."""
    builder = StateBuilder()
    builder.node("n0", cpu=2, labels={"disk": "ssd"})
    builder.node("n1", cpu=2)
    on_ssd = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)
    large = builder.state.shapes.intern(Requirements(requests(2)))
    small = builder.state.shapes.intern(Requirements(requests(1), affinity=on_ssd))

    runs = pack_exhaustively(builder.state.framework, {large: 1, small: 1}, None, steps=100)

    assert runs is not None
    rows = builder.state.nodes.row_of
    assert {shape: at.tolist() for shape, at, _ in runs} == {
        large: [rows["n1"]],
        small: [rows["n0"]],
    }


def test_of_nodes_with_equal_room_that_all_shapes_may_use_one_is_tried() -> None:
    builder = StateBuilder()
    builder.nodes(8, cpu=2)
    shapes = [builder.state.shapes.intern(Requirements((("cpu", m),))) for m in (1500, 1600)]

    assert pack_exhaustively(builder.state.framework, dict.fromkeys(shapes, 4), None, steps=8)
    assert (
        pack_exhaustively(builder.state.framework, dict.fromkeys(shapes, 5), None, steps=90) is None
    )
