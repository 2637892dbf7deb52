"""NodeVolumeLimits: how many volumes of each CSI driver a node can attach."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.place import Placement
from tests.scheduler.core.plugins.cluster import (
    SSD,
    attaching,
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


def test_a_node_beyond_its_limit_takes_pods_that_add_no_volume() -> None:
    """Others may have bound pods there, or the limit was lowered."""
    builder = cluster_in_zones()
    for name in ("one", "two"):
        bound(builder, name, driver="csi.example")
    builder.pod(node="a", requirements=using("one", "two"), ours=False)
    builder.state.volumes.set_limits("a", {"csi.example": 1})

    assert open_nodes(builder, builder.pod(requirements=using("one"))) == "a b c"


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


def test_volumes_that_a_removed_provider_would_make_count_for_its_driver() -> None:
    builder = cluster_in_zones()
    unbound(builder, provisioner="kubernetes.io/aws-ebs")
    builder.state.volumes.set_limits("a", {"ebs.csi.aws.com": 0})

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "b c"


def test_disks_without_a_claim_count_for_the_driver_that_attaches_them() -> None:
    builder = cluster_in_zones()
    builder.state.volumes.set_limits("a", {"ebs.csi.aws.com": 2})
    builder.state.volumes.set_limits("b", {"ebs.csi.aws.com": 3})
    bound(builder, "claimed", driver="ebs.csi.aws.com")
    both = replace(attaching("ebs.csi.aws.com", "vol-1"), claims=(("ns", "claimed"),))
    for node in "ab":
        builder.pod(node=node, requirements=both, ours=False)

    shared = builder.pod(requirements=attaching("ebs.csi.aws.com", "vol-1"))
    more = builder.pod(requirements=attaching("ebs.csi.aws.com", "vol-1", "vol-2"))
    claims = builder.pod(requirements=replace(more.requirements, claims=(("ns", "claimed"),)))
    other = builder.pod(requirements=attaching("disk.csi.azure.com", "vol-2"))

    assert open_nodes(builder, shared) == "a b c"
    assert open_nodes(builder, more) == "b c"
    assert open_nodes(builder, claims) == "b c"
    assert open_nodes(builder, other) == "a b c"
    assert why(builder, more) == {"node(s) exceed max volume count"}


def test_attachments_leave_nothing_behind() -> None:
    builder = cluster_in_zones()
    state = builder.state
    before = (len(state.selectors), len(state.nodes.match_counts))
    handles = [f"vol-{number}" for number in range(256)]
    info = builder.pod(node="a", requirements=attaching("ebs.csi.aws.com", *handles))
    during = len(state.nodes.match_counts)
    state.remove_pod(info.uid)
    state.take_changes()

    assert during == before[1] + 256
    assert (len(state.selectors), len(state.nodes.match_counts)) == before
