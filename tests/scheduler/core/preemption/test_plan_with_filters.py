"""Eviction where more than room is in the way: labels, pods that must be apart or near, volumes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model import (
    ClaimInfo,
    Expression,
    HostPort,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    StorageClassInfo,
    Taint,
    Term,
    VolumeInfo,
)
from scheduler.core.place import Refusal
from scheduler.core.preemption.plan import Plan
from tests.scheduler.contest import Contest
from tests.scheduler.world import requests

HOST = "kubernetes.io/hostname"


def cluster(nodes: int = 2, cpu: int = 2) -> Contest:
    world = Contest()
    for index in range(nodes):
        labels = {HOST: f"n{index}", "disk": "ssd" if index else "hdd"}
        world.node(f"n{index}", cpu, labels=labels)
    world.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    return world


def runs(world: Contest, node: str, requirements: Requirements, **labels: str) -> PodInfo:
    (info,) = world.runs(None, node)
    made = replace(info, requirements=requirements, labels=labels)
    world.state.set_pod(made)
    return made


def asks(world: Contest, requirements: Requirements, **labels: str) -> str:
    (info,) = world.waits(None, priority=9)
    world.state.set_pod(replace(info, requirements=requirements, labels=labels))
    return info.name


def went(world: Contest, name: str) -> tuple[set[str], str]:
    """Who goes, and where the pod then runs."""
    plan = world.preempt(name)
    assert isinstance(plan, Plan), plan
    gone = {pod.info.name for unit in plan.victims for pod in unit.pods.values()}
    (row,) = plan.placement.rows
    world.evict(plan)
    return gone, world.state.nodes.name_of(row)


def app(*values: str) -> PodSelector:
    return PodSelector((Expression("app", "In", values),), ("ns",))


def test_only_pods_on_nodes_that_the_affinity_admits_go() -> None:
    world = cluster()
    runs(world, "n0", Requirements(requests(2)))
    victim = runs(world, "n1", Requirements(requests(2)))
    ssd = (Term((Expression("disk", "In", ("ssd",)),)),)

    name = asks(world, Requirements(requests(1), affinity=ssd))

    assert went(world, name) == ({victim.name}, "n1")


def test_nobody_goes_from_a_node_whose_taint_keeps_the_pod_out() -> None:
    world = cluster(1)
    world.node("n0", 2, taints=(Taint("team", "a", "NoSchedule"),))
    runs(world, "n0", Requirements(requests(2)))

    assert isinstance(world.preempt(asks(world, Requirements(requests(1)))), Refusal)


def test_the_pod_that_it_must_be_apart_from_goes() -> None:
    world = cluster(1, cpu=8)
    runs(world, "n0", Requirements(requests(1)), app="other")
    victim = runs(world, "n0", Requirements(requests(1)), app="web")
    required_anti_affinity = Requirements(
        requests(1), required_anti_affinity=(PodTerm(app("web"), HOST),)
    )

    assert went(world, asks(world, required_anti_affinity)) == ({victim.name}, "n0")


def test_the_pod_that_wants_nobody_beside_it_goes() -> None:
    world = cluster(1, cpu=8)
    lonely = Requirements(requests(1), required_anti_affinity=(PodTerm(app("web"), HOST),))
    victim = runs(world, "n0", lonely, app="db")

    name = asks(world, Requirements(requests(1)), app="web")

    assert went(world, name) == ({victim.name}, "n0")


@pytest.mark.parametrize("important", [False, True])
def test_the_pod_that_it_needs_beside_it_stays(important: bool) -> None:
    """However cheap it would be: without it there is no place at all."""
    world = cluster(2, cpu=2)
    needed = runs(world, "n0", Requirements(requests(1)), app="db")
    (victim,) = world.runs(None, "n0", priority=3 if important else 0)
    runs(world, "n1", Requirements(requests(2)))
    required_affinity = Requirements(requests(1), required_affinity=(PodTerm(app("db"), HOST),))

    gone, node = went(world, asks(world, required_affinity))

    assert (gone, node) == ({victim.name}, "n0")
    assert needed.name not in gone


def test_a_gang_whose_pods_are_apart_takes_one_place_on_each_node() -> None:
    world = cluster(3, cpu=1)
    for node in ("n0", "n1", "n2"):
        runs(world, node, Requirements(requests(1)))
    required_anti_affinity = Requirements(
        requests(1), required_anti_affinity=(PodTerm(app("web"), HOST),)
    )
    world.group("g", 2, priority=9)
    for info in world.waits("g", 2, priority=9):
        world.state.set_pod(
            replace(info, requirements=required_anti_affinity, labels={"app": "web"})
        )

    plan = world.preempt("g")

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 2
    assert len(set(plan.placement.rows)) == 2


def test_who_holds_the_host_port_goes() -> None:
    world = cluster(1, cpu=8)
    runs(world, "n0", Requirements(requests(1)))
    port = Requirements(requests(1), ports=(HostPort("TCP", 80),))
    victim = runs(world, "n0", port)

    assert went(world, asks(world, port)) == ({victim.name}, "n0")


def test_who_holds_the_last_attachment_goes() -> None:
    world = cluster(1, cpu=8)
    world.state.volumes.set_limits("n0", {"csi.example": 1})
    for name in ("held", "wanted"):
        world.state.volumes.set_claim(ClaimInfo(("ns", name), f"pv-{name}", "now"))
        world.state.volumes.set_volume(VolumeInfo(f"pv-{name}", driver="csi.example"))
    runs(world, "n0", Requirements(requests(1)))
    victim = runs(world, "n0", Requirements(requests(1), claims=(("ns", "held"),)))

    name = asks(world, Requirements(requests(1), claims=(("ns", "wanted"),)))

    assert went(world, name) == ({victim.name}, "n0")


def test_who_uses_a_claim_for_one_pod_goes_even_from_another_node() -> None:
    world = cluster(2, cpu=8)
    claim = ClaimInfo(("ns", "single"), "pv", "now", one_pod=True)
    world.state.volumes.set_claim(claim)
    world.state.volumes.set_volume(VolumeInfo("pv"))
    using = Requirements(requests(1), claims=(claim.key,))
    victim = runs(world, "n1", using)

    gone, _ = went(world, asks(world, using))

    assert gone == {victim.name}


def test_only_the_node_that_the_volume_admits_is_cleared() -> None:
    world = cluster(2, cpu=1)
    runs(world, "n0", Requirements(requests(1)))
    victim = runs(world, "n1", Requirements(requests(1)))
    ssd = (Term((Expression("disk", "In", ("ssd",)),)),)
    world.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now"))
    world.state.volumes.set_volume(VolumeInfo("pv", affinity=ssd))

    name = asks(world, Requirements(requests(1), claims=(("ns", "data"),)))

    assert went(world, name) == ({victim.name}, "n1")


def test_nobody_goes_for_a_pod_whose_claim_is_not_bound() -> None:
    world = cluster(1, cpu=1)
    runs(world, "n0", Requirements(requests(1)))
    world.state.volumes.set_claim(ClaimInfo(("ns", "data"), "", "now"))

    name = asks(world, Requirements(requests(1), claims=(("ns", "data"),)))

    assert isinstance(world.preempt(name), Refusal)


def by_hand(world: Contest, *disks: str) -> Requirements:
    """What uses a claim of a class without provisioner, and a free volume on each of the nodes."""
    storage = world.state.volumes
    storage.set_class(StorageClassInfo("local", "kubernetes.io/no-provisioner", waits=True))
    storage.set_claim(ClaimInfo(("ns", "data"), storage_class="local"))
    for node in disks:
        terms = (Term((Expression(HOST, "In", (node,)),)),)
        volume = VolumeInfo(f"disk-{node}", terms, storage_class="local", available=True)
        storage.set_volume(volume)
    return Requirements(requests(1), claims=(("ns", "data"),))


def test_only_a_node_with_a_free_volume_is_cleared() -> None:
    world = cluster(2, cpu=1)
    runs(world, "n0", Requirements(requests(1)))
    victim = runs(world, "n1", Requirements(requests(1)))
    name = asks(world, by_hand(world, "n1"))

    assert went(world, name) == ({victim.name}, "n1")
    assert list(world.state.volumes.assumed) == []


def test_nobody_goes_for_a_pod_for_which_no_volume_is_left() -> None:
    world = cluster(2, cpu=1)
    for node in ("n0", "n1"):
        runs(world, node, Requirements(requests(1)))
    name = asks(world, by_hand(world))

    assert isinstance(world.preempt(name), Refusal)
