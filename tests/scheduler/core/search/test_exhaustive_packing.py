"""Backtracking over pods of different shapes, and the nodes that it treats as equal."""

from dataclasses import replace

import pytest

from scheduler.core.framework.dynamic_resources import DynamicResources
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.exhaustive_packing import pack_exhaustively
from scheduler.core.state.search_memory import PackingMemory
from scheduler.core.values.model import Expression, NodeTerm, Requirements, Toleration
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


def test_pods_of_equal_requests_that_need_other_devices_do_not_fail_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One memory serves all groups of a root."""
    builder, memory = StateBuilder(), PackingMemory()
    builder.nodes(2, cpu=2)
    wants = Requirements(requests(1))
    without = builder.state.shapes.intern(wants)
    other = replace(wants, tolerations=(Toleration("x", "Exists", "", ""),))
    lacking = builder.state.shapes.intern(other)

    def state_with(_plugin: DynamicResources, shape: Shape, _row: int, used: int) -> int | None:
        return None if shape is lacking else used

    monkeypatch.setattr(DynamicResources, "state_with", state_with)
    framework = builder.state.framework

    assert pack_exhaustively(framework, {lacking: 2}, None, 100, memory=memory) is None
    assert pack_exhaustively(framework, {without: 2}, None, 100, memory=memory) is not None
