"""Expressions are evaluated on all nodes at once; labels that no node has cost nothing per node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.devices.table import DeviceTable
from scheduler.core.nodes.label_expressions import compares, matches_value
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.topology.topology import UNLABELLED, Topologies
from scheduler.core.values.model import Expression, NodeInfo, NodeTerm
from tests.scheduler.core.framework.cluster import wants
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls

KEYS, VALUES = ("a", "b", "c"), ("", "x", "7", "-7", "12", "1_0")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expression = st.builds(
    Expression,
    st.sampled_from((*KEYS, "absent")),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
step: st.SearchStrategy[tuple[str, int, dict[str, str]]] = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 70), labels),
    st.tuples(st.just("remove"), st.integers(0, 70), st.just({})),
    st.tuples(st.just("ask"), st.integers(0, 2), st.just({})),
)


@given(st.lists(step, max_size=30), expression, st.integers(60, 66))
def test_answers_are_those_of_asking_every_node(
    steps: list[tuple[str, int, dict[str, str]]], asked: Expression, first: int
) -> None:
    nodes = NodeTable()
    for number in range(first):  # the table grows at 64
        nodes.set_node(NodeInfo(f"first{number}", {}, {"a": VALUES[number % len(VALUES)]}))
    for what, number, of_node in steps:
        if what == "set":
            nodes.set_node(NodeInfo(f"n{number}", {}, of_node))
        elif what == "remove":
            nodes.remove_node(f"n{number}")
        else:
            nodes.labels.column(KEYS[number])
    met, has = nodes.labels.meets(asked), nodes.labels.has(asked.key)
    for row, node in enumerate(nodes.infos):
        if node is not None:
            assert met[row] == matches_value(asked, node.labels.get(asked.key)), node
            assert has[row] == (asked.key in node.labels)
    for key in KEYS:
        known = any(node is not None and key in node.labels for node in nodes.infos)
        assert (nodes.labels.column(key) is not None) == known


@given(st.lists(labels, max_size=12), st.permutations(KEYS), st.integers(1, 3))
def test_domains_are_those_of_looking_at_every_node(
    of_nodes: list[dict[str, str]], order: list[str], depth: int
) -> None:
    nodes = NodeTable()
    for number, of_node in enumerate(of_nodes):
        nodes.set_node(NodeInfo(f"n{number}", {}, of_node))
    *outer, key = order[:depth]
    paths = {
        row: (*(of_node.get(each, "") for each in outer), of_node[key])
        for row, of_node in enumerate(of_nodes)
        if key in of_node
    }
    found = sorted(set(paths.values()))
    domains = Topologies(nodes, DeviceTable(nodes)).domains(key, tuple(outer))

    assert domains.values == tuple(path[-1] for path in found)
    assert domains.paths == tuple("/".join(path) for path in found)
    assert domains.codes.tolist() == [
        found.index(paths[row]) if row in paths else UNLABELLED for row in range(len(of_nodes))
    ]


def cluster(nodes: int) -> StateBuilder:
    builder = StateBuilder()
    for number in range(nodes):
        builder.node(f"n{number}", labels={"zone": f"z{number % 3}", "host": f"n{number}"})
    return builder


def test_keys_that_no_node_has_cost_the_same_on_any_number_of_nodes() -> None:
    selector = tuple((f"example.com/k{number}", "x") for number in range(50))
    terms = tuple(NodeTerm((Expression(key, "NotIn", ("x",)),)) for key, _ in selector)
    strange = wants(selector=selector, affinity=terms)

    def work(nodes: int) -> int:
        builder = cluster(nodes)
        info = builder.pod(requirements=strange)
        return calls(lambda: builder.place_single(info))

    assert work(600) == work(30)


def test_keys_make_nobody_else_be_filtered_again() -> None:
    builder = cluster(6)
    shape = builder.single(builder.pod(requirements=wants(selector=(("zone", "z1"),)))).shape
    codes, generation = builder.state.framework.node_codes(shape), builder.state.nodes.generation
    for number in range(100):
        strange = wants(selector=((f"example.com/k{number}", "x"), ("host", f"n{number}")))
        builder.place_single(builder.pod(requirements=strange))

    assert builder.state.framework.node_codes(shape) is codes
    assert builder.state.nodes.generation == generation
    assert len(builder.state.nodes.labels) == 2
    assert len(builder.state.nodes.classes.all) == 1


def test_a_label_that_a_node_gets_later_counts() -> None:
    builder = cluster(2)
    info = builder.pod(requirements=wants(selector=(("disk", "ssd"),)))
    before = int(builder.state.framework.slots(builder.single(info).shape).sum())
    builder.node("n1", labels={"disk": "ssd"})
    after = builder.state.framework.slots(builder.single(info).shape).tolist()
    builder.node("n1", labels={})

    assert (before, after) == (0, [0, 4])
    assert len(builder.state.nodes.labels) == 0


def test_topology_keys_that_pods_make_up_are_not_kept() -> None:
    builder = cluster(4)
    topologies = builder.state.topologies
    for number in range(1000):
        absent = topologies.domains(f"example.com/k{number}")
        topologies.domains("host", ("zone", f"example.com/k{number}"))

    assert absent.codes.tolist() == [UNLABELLED] * 4
    assert absent.codes is topologies.domains("example.com/other").codes
    assert len(topologies) <= 256


@pytest.mark.parametrize(
    ("operator", "value", "limit", "want"),
    [
        pytest.param("Gt", "8", "7", True, id="greater"),
        pytest.param("Lt", "+6", "7", True, id="a sign"),
        pytest.param("Gt", "1_0", "7", False, id="no underscores"),
        pytest.param("Gt", "٣", "1", False, id="no other digits"),
        pytest.param("Gt", "9" * 19, "7", False, id="not beyond an int64"),
        pytest.param("Gt", "9" * 5000, "7", False, id="thousands of digits"),
        pytest.param("Lt", "7", "0" * 40 + "8", True, id="leading zeros"),
    ],
)
def test_integers_are_read_as_upstream(
    operator: str, value: str, limit: str, *, want: bool
) -> None:
    assert compares(operator, value, limit) == want
    builder = StateBuilder()
    builder.node("n", labels={"k": value})
    met = builder.state.nodes.labels.meets(Expression("k", operator, (limit,)))
    assert met.tolist() == [want]
