"""VolumeRestrictions: claims for one pod, and disks that pods name without a claim."""

import pytest

from scheduler.core.explain.explain import explain
from scheduler.core.framework.volume_restrictions import REASON as ONE_POD
from scheduler.core.search.exhaustive_packing import pack_exhaustively
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import Disk, Requirements
from tests.scheduler.core.framework.cluster import (
    TWO_EACH,
    bound,
    cluster_in_zones,
    cluster_of,
    mounting,
    open_nodes,
    racks_of_gang,
    using,
    wants,
    why,
)
from tests.scheduler.state_builder import StateBuilder


def test_a_claim_for_one_pod_is_used_once() -> None:
    builder = cluster_in_zones()
    bound(builder, "data", one_pod=True)
    user = builder.pod(node="c", requirements=using("data"), ours=False)
    info = builder.pod(requirements=using("data"))
    before = (open_nodes(builder, info), why(builder, info))
    builder.state.remove_pod(user.uid)

    assert before == (
        "",
        {ONE_POD},
    )
    assert open_nodes(builder, info) == "a b c"


def test_two_members_do_not_share_a_claim_for_one_pod() -> None:
    builder = cluster_in_zones()
    bound(builder, "data", one_pod=True)
    builder.gang("g", 1)
    for _ in range(2):
        builder.pod("g", requirements=using("data"))

    decision = builder.place("g")

    assert isinstance(decision, Placement)
    assert len(decision.pods) == 1


READ = mounting("x", shared=True)
"""A pod that only reads the disk."""


@pytest.mark.parametrize(
    ("there", "here", "want"),
    [
        pytest.param(mounting("x"), mounting("x"), "n", id="one disk, one node"),
        pytest.param(mounting("x"), mounting("y"), "m n", id="another disk"),
        pytest.param(mounting("x"), mounting("x", "gcePersistentDisk"), "m n", id="another kind"),
        pytest.param(mounting("x"), READ, "n", id="there it is written"),
        pytest.param(READ, mounting("x"), "n", id="here it is written"),
        pytest.param(READ, READ, "m n", id="all only read"),
        pytest.param(mounting("x"), wants(), "m n", id="no disk"),
        pytest.param(
            mounting("x", "rbd", "pool", "a"), mounting("x", "rbd", "pool", "a"), "n",
            id="an image with the same monitor",
        ),
        pytest.param(
            mounting("x", "rbd", "pool", "a"), mounting("x", "rbd", "pool", "b"), "m n",
            id="an image with another monitor",
        ),
        pytest.param(
            mounting("x", "rbd", "pool", "a"), mounting("x", "rbd", "other", "a"), "m n",
            id="an image in another pool",
        ),
    ],
)  # fmt: skip
def test_disks(there: Requirements, here: Requirements, want: str) -> None:
    """kube-scheduler compares them, whatever their namespaces and schedulers are."""
    builder = StateBuilder()
    builder.node("m")
    user = builder.pod(node="m", requirements=there, ours=False)
    builder.node("n")
    info = builder.pod(requirements=here)
    before = open_nodes(builder, info)
    builder.state.remove_pod(user.uid)

    assert before == want
    assert open_nodes(builder, info) == "m n"


def test_one_common_monitor_is_enough() -> None:
    builder = cluster_of("m n")
    image = [Disk("rbd", "image", ("pool", monitor)) for monitor in "abc"]
    builder.pod(node="m", requirements=wants(disks=tuple(image[:2])))

    assert open_nodes(builder, builder.pod(requirements=wants(disks=tuple(image[1:])))) == "n"
    assert open_nodes(builder, builder.pod(requirements=wants(disks=tuple(image[2:])))) == "m n"


@pytest.mark.parametrize(
    ("requirements", "count", "want"),
    [
        pytest.param(mounting("x"), 6, TWO_EACH, id="written: one a node"),
        pytest.param(mounting("x"), 7, None, id="written: more than nodes"),
        pytest.param(READ, 8, ["r000"] * 8, id="only read: as many as fit"),
    ],
)
def test_members_of_a_gang_count_for_each_other(
    requirements: Requirements, count: int, want: list[str] | None
) -> None:
    assert racks_of_gang(requirements, count) == want


@pytest.mark.parametrize(
    ("readers", "fit"), [(3, True), (4, True), (5, False)], ids=["fewer", "all", "too many"]
)
def test_packing_exhaustively_lets_readers_share_and_keeps_the_writer_apart(
    readers: int, *, fit: bool
) -> None:
    """Two nodes for four pods each: one has the writer, and the other all readers."""
    builder = StateBuilder()
    builder.nodes(2, cpu=4)
    intern, framework = builder.state.shapes.intern, builder.state.framework
    demand = {intern(mounting("x")): 1, intern(READ): readers}

    runs = pack_exhaustively(framework, demand, None, 1000)

    assert (runs is not None) == fit
    if runs is not None:
        rows = [set(rows.tolist()) for _, rows, _ in runs]
        assert not rows[0] & rows[1]


def test_the_refusal_names_the_disk_and_nobody_who_uses_it() -> None:
    builder = cluster_of("a b")
    for node in "ab":
        builder.pod(node=node, requirements=mounting("x"), name=f"secret-{node}")
    info = builder.pod(requirements=mounting("x"))

    refusal = builder.place_single(info)
    assert isinstance(refusal, Refusal)

    assert why(builder, info) == {"node(s) had no available disk"}
    assert explain(builder.state, refusal).summary == (
        "0/2 nodes are available: 2 node(s) had no available disk. Delete the pods that use disk"
        ' "x" (iscsi), give each pod its own disk, or add nodes.'
    )


def test_only_the_disk_in_use_is_named_and_briefly() -> None:
    """The length and the characters of such a name are unlimited."""
    builder = cluster_of("a")
    long = "x\n" * 100_000
    builder.pod(node="a", requirements=mounting(long))
    free, taken = mounting("free").disks, mounting(long).disks
    info = builder.pod(requirements=wants(disks=(*free, *taken)))

    refusal = builder.place_single(info)

    assert isinstance(refusal, Refusal)
    shown = r"x\n" * 32
    assert f'the pods that use disk "{shown}..." (iscsi)' in explain(builder.state, refusal).summary


def test_a_gang_that_writes_one_disk_never_fits_on_fewer_nodes() -> None:
    builder = cluster_of("a b", cpu=8)
    builder.gang("g", 3)
    for _ in range(3):
        builder.pod("g", requirements=mounting("x"))

    refusal = builder.place("g")
    assert isinstance(refusal, Refusal)
    blocker = explain(builder.state, refusal)

    assert blocker.impossible
    assert blocker.counts == (("node(s) had no available disk", 2),)
