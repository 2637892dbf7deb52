"""NodeVolumeLimits: how many volumes of each CSI driver a node can attach."""

from __future__ import annotations

from scheduler.core.place import Placement
from tests.scheduler.core.plugins.cluster import (
    SSD,
    bound,
    cluster_in_zones,
    open_nodes,
    unbound,
    using,
    why,
)


def test_a_node_attaches_no_more_volumes_than_it_can() -> None:
    builder = cluster_in_zones()
    for name in ("one", "two", "three"):
        bound(builder, name, driver="csi.example")
    builder.state.volumes.set_limits("a", {"csi.example": 2})
    builder.pod(node="a", requirements=using("one"))
    builder.pod(node="a", requirements=using("one", "two"))

    shared = builder.pod(requirements=using("two"))
    more = builder.pod(requirements=using("three"))

    assert open_nodes(builder, shared) == "a b c"
    assert open_nodes(builder, more) == "b c"
    assert why(builder, more) == {"node(s) exceed max volume count"}


def test_members_of_a_gang_count_each_others_volumes() -> None:
    builder = cluster_in_zones()
    builder.gang("g", 3)
    for name in ("one", "two", "three"):
        bound(builder, name, driver="csi.example", affinity=SSD)
        builder.pod("g", requirements=using(name))
    placed = isinstance(builder.place("g"), Placement)
    builder.state.volumes.set_limits("a", {"csi.example": 2})

    assert placed
    assert not isinstance(builder.place("g"), Placement)


def test_volumes_still_to_be_made_count_for_the_limit() -> None:
    builder = cluster_in_zones()
    unbound(builder)
    builder.state.volumes.set_limits("a", {"csi.example": 0})

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "b c"
