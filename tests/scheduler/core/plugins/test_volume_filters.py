"""Volumes: which nodes are left, one sentence each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube.resources import PVCS
from scheduler.core.explain import reasons
from scheduler.core.model import (
    ClaimInfo,
    Expression,
    PodInfo,
    Requirements,
    StorageClassInfo,
    Term,
    VolumeInfo,
)
from scheduler.core.place import Placement
from scheduler.core.plugins.volume_restrictions import REASON as ONE_POD
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import StateBuilder, requests

ZONE = "topology.kubernetes.io/zone"


def using(*claims: str) -> Requirements:
    return Requirements(requests(1), claims=tuple(("ns", name) for name in claims))


def cluster() -> StateBuilder:
    """a in zone x, b in zone y, c in none; the class `now` binds at once, `later` waits."""
    builder = StateBuilder()
    builder.node("a", labels={ZONE: "x", "disk": "ssd"})
    builder.node("b", labels={ZONE: "y"})
    builder.node("c")
    builder.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    builder.state.volumes.set_class(StorageClassInfo("later", "csi.example", waits=True))
    return builder


def bound(builder: StateBuilder, name: str, *, one_pod: bool = False, **volume: Any) -> None:
    """A claim and the volume it is bound to."""
    builder.state.volumes.set_claim(ClaimInfo(("ns", name), f"pv-{name}", "now", one_pod=one_pod))
    builder.state.volumes.set_volume(VolumeInfo(f"pv-{name}", **volume))


def open_nodes(builder: StateBuilder, info: PodInfo) -> str:
    nodes = builder.state.nodes
    slots = builder.state.framework.slots(builder.single(info).shape)
    return " ".join(sorted(nodes.name_of(row) for row in slots.nonzero()[0].tolist()))


def why(builder: StateBuilder, info: PodInfo) -> set[str]:
    found = {reason for reason, _ in reasons(builder.state.framework, builder.single(info).shape)}
    return found - {"Insufficient cpu"}


SSD = (Term((Expression("disk", "In", ("ssd",)),)),)
BY_NAME = (Term((), (Expression("metadata.name", "In", ("b",)),)),)


@pytest.mark.parametrize(
    ("volume", "want", "reason"),
    [
        pytest.param({}, "a b c", "", id="a volume for all"),
        pytest.param(
            {"affinity": SSD},
            "a",
            "node(s) didn't match PersistentVolume's node affinity",
            id="node affinity by label",
        ),
        pytest.param(
            {"affinity": BY_NAME},
            "a b c",
            "",
            id="node affinity by a field, which volumes do not see",
        ),
        pytest.param(
            {"labels": {ZONE: "x"}},
            "a c",
            "node(s) had no available volume zone",
            id="a zone, which nodes without zones are in as well",
        ),
        pytest.param({"labels": {ZONE: "x__y"}}, "a b c", "", id="two zones"),
    ],
)
def test_a_bound_claim(volume: dict[str, Any], want: str, reason: str) -> None:
    builder = cluster()
    bound(builder, "data", **volume)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == want
    assert why(builder, info) == ({reason} if reason else set())


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
def test_a_claim_that_no_node_helps(prepare: Callable[[StateBuilder], None], reason: str) -> None:
    builder = cluster()
    prepare(builder)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == ""
    assert why(builder, info) == {reason}


def test_a_claim_that_arrives_wakes_and_helps() -> None:
    builder = cluster()
    info = builder.pod(requirements=using("data"))
    before = open_nodes(builder, info)
    builder.state.take_changes()
    bound(builder, "data")
    builder.state.volumes_changed()

    assert (before, open_nodes(builder, info)) == ("", "a b c")
    assert len(builder.state.take_changes().rows) == 3


def test_a_claim_for_one_pod_is_used_once() -> None:
    builder = cluster()
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
    builder = cluster()
    bound(builder, "data", one_pod=True)
    builder.gang("g", 1)
    for _ in range(2):
        builder.pod("g", requirements=using("data"))

    decision = builder.place("g")

    assert isinstance(decision, Placement)
    assert len(decision.pods) == 1


def test_a_node_attaches_no_more_volumes_than_it_can() -> None:
    builder = cluster()
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
    builder = cluster()
    builder.gang("g", 3)
    for name in ("one", "two", "three"):
        bound(builder, name, driver="csi.example", affinity=SSD)
        builder.pod("g", requirements=using(name))
    placed = isinstance(builder.place("g"), Placement)
    builder.state.volumes.set_limits("a", {"csi.example": 2})

    assert placed
    assert not isinstance(builder.place("g"), Placement)


def unbound(
    builder: StateBuilder, selected: str = "", *, topologies: tuple[Term, ...] = ()
) -> None:
    storage = builder.state.volumes
    storage.set_class(StorageClassInfo("later", "csi.example", waits=True, topologies=topologies))
    storage.set_claim(ClaimInfo(("ns", "data"), "", "later", selected))


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
    builder = cluster()
    prepare(builder)

    info = builder.pod(requirements=using("data"))

    assert open_nodes(builder, info) == want
    assert why(builder, info) == reasons


def test_volumes_still_to_be_made_count_for_the_limit() -> None:
    builder = cluster()
    unbound(builder)
    builder.state.volumes.set_limits("a", {"csi.example": 0})

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "b c"


@pytest.mark.parametrize("comes", [True, False], ids=["the volume is made", "no volume comes"])
async def test_the_claim_is_told_its_node_and_bound_before_the_pod(comes: bool) -> None:
    harness = Harness(timeout=20)
    builder = harness.builder
    builder.node("a")
    unbound(builder)
    info = builder.pod(requirements=using("data"))

    async with harness.leading():
        await harness.settle(5)
        before = dict(harness.api.bound)
        if comes:
            bound(builder, "data")
        await harness.settle(16)

    kind, name, ops = harness.api.patches[0]
    assert (kind, name, before) == ("PersistentVolumeClaim", "data", {})
    assert ops[-1] == {
        "op": "add",
        "path": "/metadata/annotations/volume.kubernetes.io~1selected-node",
        "value": "a",
    }
    assert harness.api.bound == ({info.name: "a"} if comes else {})
    assert harness.activity.busy == (not comes)


async def test_a_node_that_a_provisioner_gives_back_is_not_waited_for() -> None:
    harness = Harness(timeout=100)
    builder = harness.builder
    builder.node("a")
    unbound(builder)
    info = builder.pod(requirements=using("data"))

    async with harness.leading():
        await harness.settle(2)
        unbound(builder, "a")
        await harness.settle(2)
        waits = harness.activity.busy
        unbound(builder)
        builder.node("a", unschedulable=True)
        builder.node("b")
        await harness.settle(4)

    assert waits
    chosen = [ops[-1]["value"] for kind, _, ops in harness.api.patches if kind == PVCS.kind]
    assert chosen == ["a", "b"]
    assert harness.api.bound == {}
    assert info.name not in harness.api.attempts


def test_what_is_removed_is_forgotten() -> None:
    builder = cluster()
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
