"""The free capacity of nodes and domains, as reported by metrics."""

import pytest

from scheduler.core.explain.free_capacity import (
    MOST_DOMAINS,
    MOST_RESOURCES,
    amounts_of_domains,
    free_amounts,
)
from scheduler.core.values.model import NodeInfo
from tests.scheduler.state_builder import GIB, StateBuilder


def cluster() -> StateBuilder:
    """Two racks of two nodes with 4 CPUs; a pod of 1 CPU in the first, and a cordoned node."""
    builder = StateBuilder()
    builder.nodes(4, cpu=4, rack_of=2)
    builder.pod(node="n0")
    builder.node("cordoned", 64, labels={"rack": "r000"}, unschedulable=True)
    return builder


def test_what_all_nodes_have_free_and_offer() -> None:
    found = {
        each.resource: (each.free, each.allocatable) for each in free_amounts(cluster().state.nodes)
    }

    assert found == {
        "cpu": (15.0, 16.0),
        "memory": (4 * 64 * GIB, 4 * 64 * GIB),
        "pods": (439.0, 440.0),
    }


def test_what_each_domain_has_free() -> None:
    state = cluster().state
    [found] = amounts_of_domains(state.nodes, state.topologies, ["rack"])

    assert (found.key, found.count) == ("rack", 2)
    assert found.free["cpu"] == {"r000": 7.0, "r001": 8.0}
    assert found.largest["cpu"] == 8.0


def test_a_node_that_has_less_than_nothing_takes_nothing_from_others() -> None:
    builder = cluster()
    builder.pod(node="n1", cpu=100)
    state = builder.state
    [found] = amounts_of_domains(state.nodes, state.topologies, ["rack"])

    assert found.free["cpu"] == {"r000": 3.0, "r001": 8.0}


def test_a_key_that_no_node_has_has_no_domains() -> None:
    state = cluster().state
    [found] = amounts_of_domains(state.nodes, state.topologies, ["block"])

    assert (found.count, found.free, found.largest) == (0, {}, {})


def test_of_many_domains_only_the_largest_is_told() -> None:
    builder = StateBuilder()
    builder.nodes(MOST_DOMAINS + 1, cpu=4, rack_of=1)
    builder.node("n0", 9, labels={"rack": "r000"})
    state = builder.state
    [found] = amounts_of_domains(state.nodes, state.topologies, ["rack"])

    assert (found.count, found.free, found.largest["cpu"]) == (MOST_DOMAINS + 1, {}, 9.0)


def test_however_many_resources_nodes_offer_few_are_told_and_devices_first() -> None:
    builder = StateBuilder()
    builder.node("n0")
    builder.state.set_node(NodeInfo("n1", {f"hugepages-{each}": 1 for each in range(50)}))
    builder.state.set_node(NodeInfo("n2", {"example.com/gpu": 8}))
    names = [each.resource for each in free_amounts(builder.state.nodes)]

    assert names[:4] == ["cpu", "memory", "pods", "example.com/gpu"]
    assert len(names) == MOST_RESOURCES


@pytest.mark.parametrize("nodes", [0, 1000])
def test_the_largest_amounts_are_added_up(nodes: int) -> None:
    builder = StateBuilder()
    for number in range(nodes):
        builder.state.set_node(NodeInfo(f"n{number}", {"example.com/gpu": 1 << 53}))
    found = {each.resource: each.free for each in free_amounts(builder.state.nodes)}

    assert found.get("example.com/gpu", 0.0) == nodes * float(1 << 53)
