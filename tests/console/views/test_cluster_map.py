"""The cluster map, with numbers computed by hand."""

from dataclasses import replace

import pytest

from console.base.protocols import RefusedError
from console.views import cluster_map
from console.views.cluster_map import parsed
from scheduler.core.values.model import GroupSpec, NodeInfo, PodInfo, Taint
from tests.console.cluster_builder import BLOCK, RACK, Builder, flat, numbers, plain
from tests.scheduler.state_builder import GIB


@pytest.fixture
def cluster() -> Builder:
    """Two blocks of two racks of two nodes of 4 cores; block before rack, as it has fewer."""
    made = Builder()
    made.racks()
    made.use_keys(RACK, BLOCK)
    return made


def test_domains_are_nested_by_the_keys_that_groups_name(cluster: Builder) -> None:
    found = cluster.map()

    assert found.keys == [BLOCK, RACK]
    assert [one.id for one in found.domains] == ["b1", "b2"]
    assert [one.id for one in found.domains[1].children] == ["b2/r1", "b2/r2"]
    assert [one.name for one in flat(found.domains)["b2/r1"].nodes] == ["n-2-1-1", "n-2-1-2"]
    assert found.domains[0].nodes == []


def test_amounts_are_in_thousandths_of_a_core(cluster: Builder) -> None:
    cluster.pod(node="n-1-1-1", cpu=3)
    cluster.pod(node="n-1-2-1", cpu=1)

    domains = flat(cluster.map().domains)

    assert numbers(domains["b1"]) == (16_000, 4_000, 0, 12_000)
    assert numbers(domains["b1/r1"]) == (8_000, 3_000, 0, 5_000)
    assert numbers(domains["b2"]) == (16_000, 0, 0, 16_000)
    node = domains["b1/r1"].nodes[0]
    assert (node.name, node.used, node.free, node.pods) == ("n-1-1-1", 3_000, 1_000, 1)


def test_each_resource_has_its_unit(cluster: Builder) -> None:
    offered = {"cpu": 4_000, "memory": 0, "pods": 110, "nvidia.com/gpu": 8, "hugepages-2Mi": 4}
    cluster.state.set_node(NodeInfo("gpus", offered, {BLOCK: "b1", RACK: "r1"}))

    found = {each.name: each.unit for each in cluster.map().resources}

    assert list(found)[:3] == ["cpu", "memory", "pods"]
    assert found["cpu"] == "milli"
    assert found["memory"] == found["hugepages-2Mi"] == "bytes"
    assert found["nvidia.com/gpu"] == found["pods"] == ""
    assert flat(cluster.map("nvidia.com/gpu").domains)["b1"].free == 8
    assert flat(cluster.map("memory").domains)["b1/r2"].capacity == 2 * 64 * GIB


def test_a_resource_that_no_node_offers_is_refused(cluster: Builder) -> None:
    with pytest.raises(RefusedError, match="No node offers bananas") as raised:
        cluster.map("bananas")

    assert raised.value.status == 404


def test_cordoned_nodes_and_those_that_are_not_ready_have_nothing_free_for_others() -> None:
    cluster = Builder()
    cluster.node("cordoned", 4, unschedulable=True)
    cluster.node("lost", 4, taints=(Taint("node.kubernetes.io/unreachable", "", "NoExecute"),))
    cluster.node("tainted", 4, taints=(Taint("team", "a", "NoSchedule"),))

    (everything,) = cluster.map().domains

    assert numbers(everything) == (12_000, 0, 0, 4_000)
    flags = {node.name: (node.schedulable, node.ready) for node in everything.nodes}
    assert flags == {"cordoned": (False, True), "lost": (True, False), "tainted": (True, True)}


def test_nodes_without_any_key_are_one_domain() -> None:
    cluster = Builder()
    cluster.nodes(2)

    (everything,) = cluster.map().domains

    assert (everything.id, everything.key, everything.value) == ("*", "", "all nodes")


def test_nodes_that_lack_a_label_are_where_their_other_labels_say(cluster: Builder) -> None:
    cluster.node("no-rack", labels={BLOCK: "b1"})
    cluster.node("no-block", labels={RACK: "r1"})
    cluster.node("nothing")

    domains = flat(cluster.map().domains)

    assert [node.name for node in domains["b1"].nodes] == ["no-rack"]
    assert [node.name for node in domains["example.com%2Frack=r1"].nodes] == ["no-block"]
    assert domains["*"].value == "other nodes"
    assert sum(one.capacity for one in cluster.map().domains) == 4_000 * 11


def test_a_domain_that_lacks_a_level_is_told_from_one_of_that_level() -> None:
    cluster = Builder()
    row = "example.com/row"
    cluster.node("a", labels={BLOCK: "b", row: "x"})
    cluster.node("b", labels={BLOCK: "b", row: "y", RACK: "x"})
    cluster.node("c", labels={BLOCK: "b", RACK: "x"})
    cluster.node("d", labels={BLOCK: "b", row: "z", RACK: "q"})
    cluster.node("e", labels={BLOCK: "b", row: "z", RACK: "p"})
    cluster.node("f", labels={BLOCK: "b", row: "z", RACK: "o"})
    cluster.node("g", labels={BLOCK: "b", row: "z", RACK: "n"})
    cluster.use_keys(BLOCK, row, RACK)

    found = cluster.map()

    assert found.keys == [BLOCK, row, RACK]
    ids = set(flat(found.domains))
    assert {"b/x", "b/y/x", "b/example.com%2Frack=x"} <= ids
    assert sum(len(one.nodes) for one in flat(found.domains).values()) == 7


def test_zones_are_shown_if_nodes_differ_in_them_and_hostnames_never() -> None:
    cluster = Builder()
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    for name in ("a", "b"):
        cluster.node(name, labels={zone: name, host: name, "topology.kubernetes.io/region": "eu"})
    cluster.use_keys(host)

    assert cluster.map().keys == [zone]


def test_a_key_is_left_out_once_no_group_names_it(cluster: Builder) -> None:
    assert cluster.map().keys == [BLOCK, RACK]
    before = cluster.following.map.revision

    cluster.state.remove_group(("PodGroup", "keys", "g0"))

    assert cluster.map().keys == [BLOCK]
    assert cluster.following.map.revision > before


def test_places_that_are_nominated_are_held(cluster: Builder) -> None:
    cluster.state.set_group(GroupSpec(("PodGroup", "ns", "next"), 2))
    for number in (1, 2):
        info = cluster.pod("next", 2, name=f"next-{number}")
        cluster.state.set_pod(_nominated(info, "n-2-2-1"))

    domains = flat(cluster.map().domains)

    assert domains["b2/r2"].held == domains["b2"].held == 4_000
    assert domains["b2"].free == 16_000
    assert domains["b1"].held == 0

    cluster.state.remove_pod("uid-next-1")
    cluster.state.remove_pod("uid-next-2")

    assert flat(cluster.map().domains)["b2"].held == 0


def test_the_largest_gang_is_what_fits_into_one_domain_together(cluster: Builder) -> None:
    # One pod of 3 per node with 4 cores. Each rack takes 2, each block 4.
    cluster.pod(node="n-1-1-1", cpu=2)
    cluster.node("n-2-2-2", 4, labels={BLOCK: "b2", RACK: "r2"}, unschedulable=True)
    following = cluster.refresh()

    racks = following.map.largest("cpu=3", RACK)
    blocks = following.map.largest("cpu=3,memory=1Gi", BLOCK)

    assert {one.id: one.pods for one in racks.domains} == {
        "b1/r1": 1, "b1/r2": 2, "b2/r1": 2, "b2/r2": 1,
    }  # fmt: skip
    assert {one.id: one.pods for one in blocks.domains} == {"b1": 3, "b2": 3}
    assert [one.value for one in blocks.domains] == ["b1", "b2"]


def test_what_is_nominated_for_others_is_no_room_for_the_largest_gang(
    cluster: Builder,
) -> None:
    cluster.state.set_group(GroupSpec(("PodGroup", "ns", "next"), 1, priority=0))
    cluster.state.set_pod(_nominated(cluster.pod("next", 4, name="next-1"), "n-1-1-1"))
    following = cluster.refresh()

    found = following.map.largest("cpu=4", RACK)

    assert {one.id: one.pods for one in found.domains}["b1/r1"] == 1


def test_a_shape_that_needs_what_no_node_offers_fits_nowhere(cluster: Builder) -> None:
    found = cluster.refresh().map.largest("nvidia.com/gpu=1", BLOCK)

    assert {one.pods for one in found.domains} == {0}


def test_asking_for_shapes_leaves_nothing_behind(cluster: Builder) -> None:
    cluster.refresh()
    before = len(cluster.state.shapes)

    for cores in range(1, 30):
        cluster.following.map.largest(f"cpu={cores}", BLOCK)
    cluster.refresh()

    assert len(cluster.state.shapes) == before


@pytest.mark.parametrize(
    "shape",
    ["", "cpu", "cpu=", "=1", "cpu=1,cpu=2", "cpu=x", "cpu=-1", "pods=1", "cpu=1," * 20, "c" * 2000,
     "cpu=١"],
)  # fmt: skip
def test_what_is_no_shape_is_refused(shape: str) -> None:
    with pytest.raises(RefusedError) as raised:
        parsed(shape)

    assert raised.value.status == 400


def test_changes_are_those_of_nodes_and_the_domains_around_them(cluster: Builder) -> None:
    following = cluster.refresh()
    following.map.changes("cpu")
    cluster.pod(node="n-2-1-2", cpu=1)

    change = cluster.refresh().map.changes("cpu")

    assert change is not None
    assert [(node.name, node.used, node.free, node.pods) for node in change.nodes] == [
        ("n-2-1-2", 1_000, 3_000, 1)
    ]
    assert plain(change.domains) == [
        {"id": "b2", "used": 1_000, "free": 15_000, "held": 0},
        {"id": "b2/r1", "used": 1_000, "free": 7_000, "held": 0},
    ]
    quiet = cluster.refresh().map.changes("cpu")
    assert quiet is not None
    assert (quiet.nodes, quiet.domains) == ([], [])


def test_a_cordoned_node_is_a_change_and_a_new_one_needs_a_new_answer(
    cluster: Builder,
) -> None:
    cluster.refresh().map.changes("cpu")
    labels = {BLOCK: "b1", RACK: "r1"}
    cluster.node("n-1-1-1", 4, labels=labels, unschedulable=True)

    change = cluster.refresh().map.changes("cpu")

    assert change is not None
    assert [(node.name, node.schedulable) for node in change.nodes] == [("n-1-1-1", False)]

    cluster.node("n-1-1-3", 4, labels=labels)

    assert cluster.refresh().map.changes("cpu") is None
    assert cluster.refresh().map.changes("cpu") is not None


def test_a_question_to_the_solver_is_no_change(cluster: Builder) -> None:
    cluster.refresh().map.changes("cpu")
    cluster.following.map.largest("cpu=1", BLOCK)

    change = cluster.refresh().map.changes("cpu")

    assert change is not None
    assert change.nodes == []


def test_hostile_values_are_told_apart() -> None:
    cluster = Builder()
    hostile = ["a/b", "a", "*", "../..", "<b>", "x" * 63, "\u202eabc"]
    for number, value in enumerate(hostile):
        cluster.node(f"n{number}", labels={BLOCK: value, RACK: "b"})
    cluster.use_keys(BLOCK, RACK)

    found = cluster.map()
    ids = list(flat(found.domains))

    assert len(ids) == len(set(ids)) == 1 + len(hostile)
    assert {one.value for one in flat(found.domains).values()} == {"b", *hostile}


def test_amounts_beyond_all_measure_break_nothing() -> None:
    cluster = Builder()
    cluster.node("a", cpu=2**62)
    cluster.node("b", cpu=2**62)
    cluster.pod(node="a", cpu=2**50)

    (everything,) = cluster.map().domains

    assert everything.capacity >= everything.free > 0


def _nominated(info: PodInfo, node: str) -> PodInfo:
    return replace(info, nominated=node)


def test_keys_that_no_node_has_cost_no_new_layout(
    cluster: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.map()
    made: list[tuple[str, ...]] = []
    monkeypatch.setattr(cluster_map, "layout", lambda _state, keys: made.append(keys))

    for number in range(50):
        cluster.gang(f"g{number}", 1, rack=True, key=f"tenants.example/{number}")
        cluster.map()

    assert made == []


def test_a_cluster_without_nodes_is_an_empty_map() -> None:
    found = Builder().map("cpu")

    assert (found.domains, found.keys) == ([], [])
    assert [each.name for each in found.resources] == ["pods"]
