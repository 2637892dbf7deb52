"""Lists of alternatives: a pod may make an earlier one of its gang take the smaller one."""

import pytest

from scheduler.core.search.place import Placement
from tests.scheduler.devices.builders import ask, first_of, gpu
from tests.scheduler.devices.cluster import DeviceCluster

TWO_OR_ONE = ask(first_of("g", gpu(2, name="two"), gpu(1, name="one")))


@pytest.mark.parametrize("minimum", [1, 3])
def test_a_pod_that_makes_another_give_way_takes_something(minimum: int) -> None:
    """Three pods on a node with two devices: exactly two of them fit."""
    cluster = DeviceCluster()
    cluster.gpu_node("n", count=2)
    cluster.gang("g", minimum)
    for _ in range(3):
        cluster.asks("g", TWO_OR_ONE)

    found = cluster.place("g")

    assert isinstance(found, Placement) == (minimum < 3)
    if isinstance(found, Placement):
        cluster.write(found)
        assert len(found.pods) == 2
        assert cluster.complaints() == []


@pytest.mark.parametrize(("nodes", "pods"), [((3,), 3), ((5,), 4), ((2, 1), 3), ((4,), 4)])
def test_all_pods_take_the_smaller_alternative_where_that_is_enough(
    nodes: tuple[int, ...], pods: int
) -> None:
    cluster = DeviceCluster()
    for number, count in enumerate(nodes):
        cluster.gpu_node(f"n{number}", count=count)
    cluster.gang("g", pods)
    for _ in range(pods):
        cluster.asks("g", TWO_OR_ONE)

    cluster.write(cluster.place("g"))

    assert cluster.complaints() == []
