"""Claims that several pods of a subtree share, and the nodes where they can be allocated."""

import numpy as np
import pytest

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Region
from scheduler.core.search.shared_claims import MOST_CLAIMS, SharedClaims
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, ClaimKey
from tests.scheduler.devices.builders import ask, gpu
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.devices.test_shared_claims import SWITCH, racks

ONE = ask(gpu())


def group(made: DeviceCluster, name: str, kind: str = POD_GROUP) -> Group:
    return made.state.forest.groups[kind, "ns", name]


def rows_for(made: DeviceCluster, key: ClaimKey, *rows: int) -> list[str]:
    """Return the names of the nodes for the claim of gang g, in the order of attempts."""
    demand = {shape: len(pods) for shape, pods in group(made, "g").pending.items()}
    region = Region(np.array(rows)) if rows else None
    found = [row for row, _ in SharedClaims(made.state).places(key, demand, region)]
    return [made.state.nodes.name_of(row) for row in found]


def test_claims_that_several_pods_name_are_shared_those_of_most_pods_first() -> None:
    made = DeviceCluster()
    made.gpu_node("n0", count=9)
    few, many, alone = (made.claim(name, ONE) for name in ("few", "many", "alone"))
    made.composite("tree", 2)
    for name in ("a", "b"):
        made.gang(name, 1, parent="tree")
        made.asks(name, many)
        made.asks(name, many, few)
    made.asks("a", alone, ask(gpu()))
    made.pod("a")

    shared = SharedClaims(made.state)

    assert shared.of(group(made, "tree", COMPOSITE_POD_GROUP)) == [many, few]
    assert shared.of(group(made, "b")) == [many]


def test_a_claim_that_has_an_allocation_has_no_place_to_choose() -> None:
    made = DeviceCluster()
    made.gpu_node("n0", count=1)
    key = made.claim("shared", ONE)
    made.gang("g", 1)
    made.asks("g", key)
    made.write(made.place("g"))
    made.gang("later", 2)
    made.asks("later", key)
    made.asks("later", key)

    assert SharedClaims(made.state).of(group(made, "later")) == []


def test_of_many_shared_claims_only_some_are_places_to_choose() -> None:
    made = DeviceCluster()
    made.gpu_node("n0", count=9)
    keys = [made.claim(f"c{number}", ONE) for number in range(MOST_CLAIMS + 2)]
    made.gang("g", 2)
    for _ in range(2):
        made.asks("g", *keys)

    assert len(SharedClaims(made.state).of(group(made, "g"))) == MOST_CLAIMS


@pytest.mark.parametrize(
    ("cpus", "rows", "want"),
    [
        pytest.param((3, 3), (), ["n2", "n0"], id="the tightest node with room for both first"),
        pytest.param((3, 3), (0, 1), ["n0"], id="inside the region"),
        pytest.param((5, 5), (), [], id="room for each, but not for both"),
        pytest.param((2, 2), (), ["n1", "n2", "n0"], id="exactly as much as there is"),
    ],
)
def test_a_claim_of_one_node_goes_where_all_that_share_it_have_room(
    cpus: tuple[int, ...], rows: tuple[int, ...], want: list[str]
) -> None:
    made = DeviceCluster()
    for name, cpu in (("n0", 9), ("n1", 4), ("n2", 6)):
        made.gpu_node(name, count=1, cpu=cpu)
    made.node("bare", 6)
    key = made.claim("shared", ONE)
    made.gang("g", len(cpus))
    for cpu in cpus:
        made.asks("g", key, cpu=cpu)
    made.pod("g", cpu=60)

    assert rows_for(made, key, *rows) == want


def test_the_room_for_pods_of_two_shapes_is_not_counted_twice() -> None:
    """Each node fits either shape; only n1 has the cores for both."""
    made = DeviceCluster()
    for name, cpu in (("n0", 6), ("n1", 7)):
        made.gpu_node(name, count=1, cpu=cpu)
    key = made.claim("shared", ONE)
    made.gang("g", 3)
    for cpu in (2, 2, 3):
        made.asks("g", key, cpu=cpu)

    assert rows_for(made, key) == ["n1"]


def test_a_claim_that_many_nodes_reach_goes_to_each_set_of_nodes_once() -> None:
    """A switch for each rack: r0 has 8 cores, r1 has 6, r2 has 4."""
    made = racks(3, 2, cpu=4)
    made.pod(None, 2, node="r1n0")
    for name in ("r2n0", "r2n1"):
        made.pod(None, 2, node=name)
    key = made.claim("switch", SWITCH)
    made.gang("g", 6)
    for _ in range(6):
        made.asks("g", key)

    assert [name[:2] for name in rows_for(made, key)] == ["r1", "r0"]
    assert [name[:2] for name in rows_for(made, key, 0, 1)] == ["r0"]
