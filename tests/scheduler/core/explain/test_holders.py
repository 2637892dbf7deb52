"""The usage of held places, with gaps in the indices of resources."""

from scheduler.core.explain.free_capacity import free_amounts
from scheduler.core.explain.holders import held_capacity
from scheduler.core.values.model import NodeInfo
from tests.scheduler.state_builder import StateBuilder


def test_a_resource_that_nobody_offers_any_more_leaves_a_gap() -> None:
    state = StateBuilder().state
    offered = {"cpu": 4000, "pods": 10}
    state.set_node(NodeInfo("n", offered | {"example.com/a": 1, "example.com/b": 2}))
    state.set_node(NodeInfo("n", offered | {"example.com/b": 2}))
    indices = state.nodes.resources.indices
    assert max(indices.values()) >= len(indices), "no gap: this proves nothing"

    found = {each.resource: each.held for each in free_amounts(state.nodes, held_capacity(state))}

    assert found == dict.fromkeys(indices, 0)
