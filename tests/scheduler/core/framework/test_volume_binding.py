"""VolumeBinding: the nodes that a pod's claims allow, and the volume of a pending claim."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.explain.explain import explain
from scheduler.core.framework.events import Event
from scheduler.core.framework.volume_binding import NO_VOLUME
from scheduler.core.search.place import Refusal
from scheduler.core.values.model import ClaimInfo
from tests.scheduler.core.framework.cluster import (
    DISK,
    HOST,
    SSD,
    assumed_volumes,
    bound,
    claim,
    cluster_in_zones,
    cluster_of,
    disk,
    on,
    open_nodes,
    run,
    unbound,
    user,
    using,
    why,
)
from tests.scheduler.state_builder import GIB, StateBuilder


def lost(builder: StateBuilder) -> None:
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now", lost=True))


def leaving(builder: StateBuilder) -> None:
    bound(builder, "data")
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv-data", "now", terminating=True))


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        pytest.param(lambda _: None, 'persistentvolumeclaim "data" not found', id="no such claim"),
        pytest.param(
            lambda w: w.state.volumes.set_claim(ClaimInfo(("ns", "data"), "", "now")),
            "pod has unbound immediate PersistentVolumeClaims",
            id="not bound yet",
        ),
        pytest.param(
            lambda w: w.state.volumes.set_claim(ClaimInfo(("ns", "data"), "", "none")),
            "pod has unbound immediate PersistentVolumeClaims",
            id="not bound, and of a class that does not exist",
        ),
        pytest.param(
            lambda w: w.state.volumes.set_claim(ClaimInfo(("ns", "data"), "gone", "now")),
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="its volume does not exist",
        ),
        pytest.param(
            lost, 'persistentvolumeclaim "data" bound to non-existent persistentvolume', id="lost"
        ),
        pytest.param(leaving, 'persistentvolumeclaim "data" is being deleted', id="leaving"),
    ],
)
def test_a_claim_that_keeps_its_pod_off_all_nodes(
    prepare: Callable[[StateBuilder], None], reason: str
) -> None:
    builder = cluster_in_zones()
    prepare(builder)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == ""
    assert why(builder, info) == {reason}


def test_a_claim_that_arrives_wakes_its_pod_which_fits_then() -> None:
    builder = cluster_in_zones()
    info = builder.pod(requirements=using("data"))
    before = open_nodes(builder, info)
    builder.state.take_changes()
    bound(builder, "data")
    builder.state.happened(Event.CLAIM)

    assert (before, open_nodes(builder, info)) == ("", "a b c")
    assert len(builder.state.take_changes().rows) == 3


def test_what_is_removed_is_forgotten() -> None:
    builder = cluster_in_zones()
    bound(builder, "data", driver="csi.example")
    builder.state.volumes.set_limits("a", {"csi.example": 0})
    info = builder.pod(requirements=using("data"))
    seen = [open_nodes(builder, info)]
    builder.state.volumes.remove_limits("a")
    seen.append(open_nodes(builder, info))
    builder.state.volumes.remove_volume("pv-data")
    seen.append(open_nodes(builder, info))
    builder.state.volumes.remove_claim(("ns", "data"))
    builder.state.volumes.remove_class("now")

    assert seen == ["b c", "a b c", ""]
    assert why(builder, info) == {'persistentvolumeclaim "data" not found'}


@pytest.mark.parametrize(
    ("prepare", "want", "reasons"),
    [
        pytest.param(unbound, "a b c", set(), id="made wherever it is used"),
        pytest.param(
            lambda w: unbound(w, topologies=SSD),
            "a",
            {"node(s) didn't find available persistent volumes to bind"},
            id="made where its class can",
        ),
        pytest.param(
            lambda w: unbound(w, "b"),
            "b",
            {"node(s) didn't find available persistent volumes to bind"},
            id="made on the selected node",
        ),
        pytest.param(
            lambda w: unbound(w, "b", topologies=SSD),
            "",
            {"node(s) didn't find available persistent volumes to bind"},
            id="not made on a selected node where its class cannot",
        ),
    ],
)
def test_a_claim_that_waits_for_its_first_consumer(
    prepare: Callable[[StateBuilder], None], want: str, reasons: set[str]
) -> None:
    builder = cluster_in_zones()
    prepare(builder)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == want
    assert why(builder, info) == reasons


def test_claims_of_one_pod_take_different_volumes_the_smallest_first() -> None:
    builder = cluster_of()
    for node in "ab":
        disk(builder, f"{node}-small", node)
    disk(builder, "a-large", "a", size=8 * GIB)
    claim(builder, "large", size=4 * GIB)
    claim(builder, "small")
    claim(builder, "second")

    both = user(builder, "large", "small")
    two_small = user(builder, "small", "second")

    assert open_nodes(builder, both) == "a"
    assert open_nodes(builder, two_small) == "a"
    assert why(builder, both) == {NO_VOLUME}
    assert run(builder, both) == "a"
    assert assumed_volumes(builder) == {"large": ("a-large", "a"), "small": ("a-small", "a")}


def test_a_pod_whose_claims_need_the_same_volume_fits_nowhere() -> None:
    builder = cluster_of()
    disk(builder, "only", "a")
    claim(builder, "one")
    claim(builder, "two")

    info = user(builder, "one", "two")

    assert open_nodes(builder, info) == ""
    assert why(builder, info) == {NO_VOLUME}


def test_members_of_a_gang_take_different_volumes() -> None:
    builder = cluster_of(cpu=8)
    for node in "abc":
        disk(builder, f"disk-{node}", node)
    builder.gang("g", 3)
    for index in range(3):
        claim(builder, f"data-{index}")
        user(builder, f"data-{index}", group="g")

    decision = builder.place("g")
    builder.run(decision)

    assert set(builder.where(decision).values()) == {"a", "b", "c"}
    assert len({volume for volume, _ in assumed_volumes(builder).values()}) == 3


def test_a_gang_with_too_few_volumes_is_told_how_many_and_where() -> None:
    builder = cluster_of(cpu=8)
    for node in "ab":
        disk(builder, f"disk-{node}", node)
    builder.gang("g", 3)
    for index in range(3):
        claim(builder, f"data-{index}")
        user(builder, f"data-{index}", group="g")

    refused = builder.place("g")

    assert isinstance(refused, Refusal)
    assert assumed_volumes(builder) == {}
    assert explain(builder.state, refused).summary == (
        "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind. With"
        " its other 2 pods placed, the group needs capacity for 1 more pod; 0 fit."
        ' Create for claim "data-2" a ReadWriteOnce PersistentVolume of class local with at least'
        " 2Gi that these nodes can use."
    )


def test_a_volume_that_comes_wakes_who_waits_for_it() -> None:
    builder = cluster_of()
    claim(builder)
    info = user(builder, "data")
    refused = builder.place_single(info)
    builder.state.take_changes()

    disk(builder, "disk", "b")
    builder.state.happened(Event.VOLUME)

    assert isinstance(refused, Refusal)
    assert len(builder.state.take_changes().rows) == 3
    assert run(builder, info) == "b"


def test_a_claim_that_pods_share_gets_one_volume() -> None:
    builder = cluster_of(cpu=2)
    for node in "abc":
        disk(builder, f"disk-{node}", node)
    claim(builder)
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")
    decision = builder.place("g")
    builder.run(decision)
    late = user(builder, "data")

    assert len(set(builder.where(decision).values())) == 1
    assert len(assumed_volumes(builder)) == 1
    assert open_nodes(builder, late) == ""


def test_a_claim_that_pods_share_is_made_on_one_node() -> None:
    builder = cluster_of("a b", cpu=2)
    claim(builder, storage_class="made")
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")

    assert len(set(builder.where(builder.place("g")).values())) == 1


def test_a_volume_that_all_nodes_reach_takes_pods_from_all() -> None:
    builder = cluster_of("a b", cpu=1)
    disk(builder, "shared")
    claim(builder)
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")

    assert set(builder.where(builder.place("g")).values()) == {"a", "b"}


def test_pods_that_share_a_claim_go_where_there_is_room_for_all() -> None:
    builder = cluster_of("a b")
    builder.node("a", 1, labels={HOST: "a"})
    disk(builder, "disk-a", "a")
    disk(builder, "disk-b", "b")
    claim(builder)
    builder.gang("g", 3)
    for _ in range(3):
        user(builder, "data", group="g")

    assert set(builder.where(builder.place("g")).values()) == {"b"}


def test_pods_that_share_a_claim_go_to_the_volume_that_more_nodes_reach() -> None:
    builder = cluster_of("a b c", cpu=1)
    for name, nodes in (("disk-a", "a"), ("disk-bc", "bc")):
        builder.state.volumes.set_volume(replace(DISK, name=name, affinity=on(*nodes)))
    claim(builder)
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")

    assert set(builder.where(builder.place("g")).values()) == {"b", "c"}


def test_what_has_a_provisioner_takes_volumes_first_and_makes_the_rest() -> None:
    builder = cluster_of("a", cpu=8)
    disk(builder, "disk", "a", storage_class="made")
    builder.gang("g", 2)
    for index in range(2):
        claim(builder, f"data-{index}", storage_class="made")
        user(builder, f"data-{index}", group="g")

    builder.run(builder.place("g"))

    assert sorted(assumed_volumes(builder).values()) == [("", "a"), ("disk", "a")]


def test_a_claim_with_a_selected_node_is_made_there_whatever_volumes_there_are() -> None:
    builder = cluster_of()
    for node in "ab":
        disk(builder, f"disk-{node}", node, storage_class="made")
    claim(builder, storage_class="made", selected_node="b")

    info = user(builder, "data")

    assert open_nodes(builder, info) == "b"
    assert why(builder, info) == {NO_VOLUME}
    run(builder, info)
    assert assumed_volumes(builder) == {"data": ("", "b")}
