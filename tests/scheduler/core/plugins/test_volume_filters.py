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
from tests.scheduler.world import World, requests

ZONE = "topology.kubernetes.io/zone"


def using(*claims: str) -> Requirements:
    return Requirements(requests(1), claims=tuple(("ns", name) for name in claims))


def cluster() -> World:
    """a in zone x, b in zone y, c in none; the class `now` binds at once, `later` waits."""
    world = World()
    world.node("a", labels={ZONE: "x", "disk": "ssd"})
    world.node("b", labels={ZONE: "y"})
    world.node("c")
    world.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    world.state.volumes.set_class(StorageClassInfo("later", "csi.example", waits=True))
    return world


def bound(world: World, name: str, *, one_pod: bool = False, **volume: Any) -> None:
    """A claim and the volume it is bound to."""
    world.state.volumes.set_claim(ClaimInfo(("ns", name), f"pv-{name}", "now", one_pod=one_pod))
    world.state.volumes.set_volume(VolumeInfo(f"pv-{name}", **volume))


def open_nodes(world: World, info: PodInfo) -> str:
    nodes = world.state.nodes
    slots = world.state.framework.slots(world.single(info).shape)
    return " ".join(sorted(nodes.name_of(row) for row in slots.nonzero()[0].tolist()))


def why(world: World, info: PodInfo) -> set[str]:
    found = {reason for reason, _ in reasons(world.state.framework, world.single(info).shape)}
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
    world = cluster()
    bound(world, "data", **volume)

    info = world.pod(requirements=using("data"))

    assert open_nodes(world, info) == want
    assert why(world, info) == ({reason} if reason else set())


def lost(world: World) -> None:
    world.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now", lost=True))


def leaving(world: World) -> None:
    bound(world, "data")
    world.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv-data", "now", terminating=True))


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
def test_a_claim_that_no_node_helps(prepare: Callable[[World], None], reason: str) -> None:
    world = cluster()
    prepare(world)

    info = world.pod(requirements=using("data"))

    assert open_nodes(world, info) == ""
    assert why(world, info) == {reason}


def test_a_claim_that_arrives_wakes_and_helps() -> None:
    world = cluster()
    info = world.pod(requirements=using("data"))
    before = open_nodes(world, info)
    world.state.take_changes()
    bound(world, "data")
    world.state.volumes_changed()

    assert (before, open_nodes(world, info)) == ("", "a b c")
    assert len(world.state.take_changes().rows) == 3


def test_a_claim_for_one_pod_is_used_once() -> None:
    world = cluster()
    bound(world, "data", one_pod=True)
    user = world.pod(node="c", requirements=using("data"), ours=False)
    info = world.pod(requirements=using("data"))
    before = (open_nodes(world, info), why(world, info))
    world.state.remove_pod(user.uid)

    assert before == (
        "",
        {ONE_POD},
    )
    assert open_nodes(world, info) == "a b c"


def test_two_members_do_not_share_a_claim_for_one_pod() -> None:
    world = cluster()
    bound(world, "data", one_pod=True)
    world.gang("g", 1)
    for _ in range(2):
        world.pod("g", requirements=using("data"))

    decision = world.place("g")

    assert isinstance(decision, Placement)
    assert len(decision.pods) == 1


def test_a_node_attaches_no_more_volumes_than_it_can() -> None:
    world = cluster()
    for name in ("one", "two", "three"):
        bound(world, name, driver="csi.example")
    world.state.volumes.set_limits("a", {"csi.example": 2})
    world.pod(node="a", requirements=using("one"))
    world.pod(node="a", requirements=using("one", "two"))

    shared = world.pod(requirements=using("two"))
    more = world.pod(requirements=using("three"))

    assert open_nodes(world, shared) == "a b c"
    assert open_nodes(world, more) == "b c"
    assert why(world, more) == {"node(s) exceed max volume count"}


def test_members_of_a_gang_count_each_others_volumes() -> None:
    world = cluster()
    world.gang("g", 3)
    for name in ("one", "two", "three"):
        bound(world, name, driver="csi.example", affinity=SSD)
        world.pod("g", requirements=using(name))
    placed = isinstance(world.place("g"), Placement)
    world.state.volumes.set_limits("a", {"csi.example": 2})

    assert placed
    assert not isinstance(world.place("g"), Placement)


def unbound(world: World, selected: str = "", *, topologies: tuple[Term, ...] = ()) -> None:
    storage = world.state.volumes
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
    prepare: Callable[[World], None], want: str, reasons: set[str]
) -> None:
    world = cluster()
    prepare(world)

    info = world.pod(requirements=using("data"))

    assert open_nodes(world, info) == want
    assert why(world, info) == reasons


def test_volumes_still_to_be_made_count_for_the_limit() -> None:
    world = cluster()
    unbound(world)
    world.state.volumes.set_limits("a", {"csi.example": 0})

    assert open_nodes(world, world.pod(requirements=using("data"))) == "b c"


@pytest.mark.parametrize("comes", [True, False], ids=["the volume is made", "no volume comes"])
async def test_the_claim_is_told_its_node_and_bound_before_the_pod(comes: bool) -> None:
    harness = Harness(timeout=20)
    world = harness.world
    world.node("a")
    unbound(world)
    info = world.pod(requirements=using("data"))

    async with harness.leading():
        await harness.settle(5)
        before = dict(harness.api.bound)
        if comes:
            bound(world, "data")
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
    world = harness.world
    world.node("a")
    unbound(world)
    info = world.pod(requirements=using("data"))

    async with harness.leading():
        await harness.settle(2)
        unbound(world, "a")
        await harness.settle(2)
        waits = harness.activity.busy
        unbound(world)
        world.node("a", unschedulable=True)
        world.node("b")
        await harness.settle(4)

    assert waits
    chosen = [ops[-1]["value"] for kind, _, ops in harness.api.patches if kind == PVCS.kind]
    assert chosen == ["a", "b"]
    assert harness.api.bound == {}
    assert info.name not in harness.api.attempts


def test_what_is_removed_is_forgotten() -> None:
    world = cluster()
    bound(world, "data", driver="csi.example")
    world.state.volumes.set_limits("a", {"csi.example": 0})
    info = world.pod(requirements=using("data"))
    seen = [open_nodes(world, info)]
    world.state.volumes.remove_limits("a")
    seen.append(open_nodes(world, info))
    world.state.volumes.remove_volume("pv-data")
    seen.append(open_nodes(world, info))
    world.state.volumes.remove_claim(("ns", "data"))
    world.state.volumes.remove_class("now")

    assert seen == ["b c", "a b c", ""]
    assert why(world, info) == {'persistentvolumeclaim "data" not found'}
