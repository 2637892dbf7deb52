"""Preemption for reasons other than resources: labels, pod (anti-)affinity, volumes."""

from dataclasses import replace

import pytest

from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Refusal
from scheduler.core.values.model import (
    ClaimInfo,
    Disk,
    Expression,
    HostPort,
    NodeTerm,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    StorageClassInfo,
    Taint,
    VolumeInfo,
)
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import requests

HOST = "kubernetes.io/hostname"


def cluster(nodes: int = 2, cpu: int = 2) -> PreemptionBuilder:
    builder = PreemptionBuilder()
    for index in range(nodes):
        labels = {HOST: f"n{index}", "disk": "ssd" if index else "hdd"}
        builder.node(f"n{index}", cpu, labels=labels)
    builder.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    return builder


def runs(
    builder: PreemptionBuilder, node: str, requirements: Requirements, **labels: str
) -> PodInfo:
    (info,) = builder.runs(None, node)
    made = replace(info, requirements=requirements, labels=labels)
    builder.state.set_pod(made)
    return made


def asks(builder: PreemptionBuilder, requirements: Requirements, **labels: str) -> str:
    (info,) = builder.waits(None, priority=9)
    builder.state.set_pod(replace(info, requirements=requirements, labels=labels))
    return info.name


def went(builder: PreemptionBuilder, name: str) -> tuple[set[str], str]:
    """Return the victims, and the node of the pod afterwards."""
    plan = builder.preempt(name)
    assert isinstance(plan, Plan), plan
    gone = {pod.info.name for unit in plan.victims for pod in unit.pods.values()}
    (row,) = plan.placement.rows
    builder.evict(plan)
    return gone, builder.state.nodes.name_of(row)


def app(*values: str) -> PodSelector:
    return PodSelector((Expression("app", "In", values),), ("ns",))


def test_only_pods_on_nodes_that_the_affinity_admits_go() -> None:
    builder = cluster()
    runs(builder, "n0", Requirements(requests(2)))
    victim = runs(builder, "n1", Requirements(requests(2)))
    ssd = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)

    name = asks(builder, Requirements(requests(1), affinity=ssd))

    assert went(builder, name) == ({victim.name}, "n1")


def test_nobody_goes_from_a_node_whose_taint_keeps_the_pod_out() -> None:
    builder = cluster(1)
    builder.node("n0", 2, taints=(Taint("team", "a", "NoSchedule"),))
    runs(builder, "n0", Requirements(requests(2)))

    assert isinstance(builder.preempt(asks(builder, Requirements(requests(1)))), Refusal)


def test_the_pod_that_it_must_be_apart_from_goes() -> None:
    builder = cluster(1, cpu=8)
    runs(builder, "n0", Requirements(requests(1)), app="other")
    victim = runs(builder, "n0", Requirements(requests(1)), app="web")
    required_anti_affinity = Requirements(
        requests(1), required_anti_affinity=(PodTerm(app("web"), HOST),)
    )

    assert went(builder, asks(builder, required_anti_affinity)) == ({victim.name}, "n0")


def test_the_pod_that_wants_nobody_beside_it_goes() -> None:
    builder = cluster(1, cpu=8)
    lonely = Requirements(requests(1), required_anti_affinity=(PodTerm(app("web"), HOST),))
    victim = runs(builder, "n0", lonely, app="db")

    name = asks(builder, Requirements(requests(1)), app="web")

    assert went(builder, name) == ({victim.name}, "n0")


@pytest.mark.parametrize("important", [False, True])
def test_the_pod_that_it_needs_beside_it_stays(important: bool) -> None:
    """It would be the cheapest victim, but without it the pod fits no node."""
    builder = cluster(2, cpu=2)
    needed = runs(builder, "n0", Requirements(requests(1)), app="db")
    (victim,) = builder.runs(None, "n0", priority=3 if important else 0)
    runs(builder, "n1", Requirements(requests(2)))
    required_affinity = Requirements(requests(1), required_affinity=(PodTerm(app("db"), HOST),))

    gone, node = went(builder, asks(builder, required_affinity))

    assert (gone, node) == ({victim.name}, "n0")
    assert needed.name not in gone


def test_a_gang_whose_pods_are_apart_takes_one_place_on_each_node() -> None:
    builder = cluster(3, cpu=1)
    for node in ("n0", "n1", "n2"):
        runs(builder, node, Requirements(requests(1)))
    required_anti_affinity = Requirements(
        requests(1), required_anti_affinity=(PodTerm(app("web"), HOST),)
    )
    builder.group("g", 2, priority=9)
    for info in builder.waits("g", 2, priority=9):
        builder.state.set_pod(
            replace(info, requirements=required_anti_affinity, labels={"app": "web"})
        )

    plan = builder.preempt("g")

    assert isinstance(plan, Plan)
    assert len(plan.victims) == 2
    assert len(set(plan.placement.rows)) == 2


def test_who_holds_the_host_port_goes() -> None:
    builder = cluster(1, cpu=8)
    runs(builder, "n0", Requirements(requests(1)))
    port = Requirements(requests(1), ports=(HostPort("TCP", 80),))
    victim = runs(builder, "n0", port)

    assert went(builder, asks(builder, port)) == ({victim.name}, "n0")


@pytest.mark.parametrize("shared", [False, True], ids=["written", "read by two"])
def test_who_uses_the_disk_goes(*, shared: bool) -> None:
    """The writer of a disk needs it alone."""
    builder = cluster(1, cpu=8)
    runs(builder, "n0", Requirements(requests(1)))
    there = Requirements(requests(1), disks=(Disk("iscsi", "x", shared=shared),))
    victims = {runs(builder, "n0", there).name for _ in range(1 + shared)}
    here = Requirements(requests(1), disks=(Disk("iscsi", "x"),))

    assert went(builder, asks(builder, here)) == (victims, "n0")


def test_who_holds_the_last_attachment_goes() -> None:
    builder = cluster(1, cpu=8)
    builder.state.volumes.set_limits("n0", {"csi.example": 1})
    for name in ("held", "wanted"):
        builder.state.volumes.set_claim(ClaimInfo(("ns", name), f"pv-{name}", "now"))
        builder.state.volumes.set_volume(VolumeInfo(f"pv-{name}", driver="csi.example"))
    runs(builder, "n0", Requirements(requests(1)))
    victim = runs(builder, "n0", Requirements(requests(1), claims=(("ns", "held"),)))

    name = asks(builder, Requirements(requests(1), claims=(("ns", "wanted"),)))

    assert went(builder, name) == ({victim.name}, "n0")


def test_who_uses_a_claim_for_one_pod_goes_even_from_another_node() -> None:
    builder = cluster(2, cpu=8)
    claim = ClaimInfo(("ns", "single"), "pv", "now", one_pod=True)
    builder.state.volumes.set_claim(claim)
    builder.state.volumes.set_volume(VolumeInfo("pv"))
    using = Requirements(requests(1), claims=(claim.key,))
    victim = runs(builder, "n1", using)

    gone, _ = went(builder, asks(builder, using))

    assert gone == {victim.name}


def test_only_the_node_that_the_volume_admits_is_cleared() -> None:
    builder = cluster(2, cpu=1)
    runs(builder, "n0", Requirements(requests(1)))
    victim = runs(builder, "n1", Requirements(requests(1)))
    ssd = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now"))
    builder.state.volumes.set_volume(VolumeInfo("pv", affinity=ssd))

    name = asks(builder, Requirements(requests(1), claims=(("ns", "data"),)))

    assert went(builder, name) == ({victim.name}, "n1")


def test_nobody_goes_for_a_pod_whose_claim_is_not_bound() -> None:
    builder = cluster(1, cpu=1)
    runs(builder, "n0", Requirements(requests(1)))
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "", "now"))

    name = asks(builder, Requirements(requests(1), claims=(("ns", "data"),)))

    assert isinstance(builder.preempt(name), Refusal)


def by_hand(builder: PreemptionBuilder, *disks: str) -> Requirements:
    """Return requirements of a claim without provisioner, with a free volume on each node."""
    storage = builder.state.volumes
    storage.set_class(StorageClassInfo("local", "kubernetes.io/no-provisioner", waits=True))
    storage.set_claim(ClaimInfo(("ns", "data"), storage_class="local"))
    for node in disks:
        terms = (NodeTerm((Expression(HOST, "In", (node,)),)),)
        volume = VolumeInfo(f"disk-{node}", terms, storage_class="local", available=True)
        storage.set_volume(volume)
    return Requirements(requests(1), claims=(("ns", "data"),))


def test_only_a_node_with_a_free_volume_is_cleared() -> None:
    builder = cluster(2, cpu=1)
    runs(builder, "n0", Requirements(requests(1)))
    victim = runs(builder, "n1", Requirements(requests(1)))
    name = asks(builder, by_hand(builder, "n1"))

    assert went(builder, name) == ({victim.name}, "n1")
    assert list(builder.state.volumes.assumed) == []


def test_nobody_goes_for_a_pod_for_which_no_volume_is_left() -> None:
    builder = cluster(2, cpu=1)
    for node in ("n0", "n1"):
        runs(builder, node, Requirements(requests(1)))
    name = asks(builder, by_hand(builder))

    assert isinstance(builder.preempt(name), Refusal)


def test_a_volume_of_its_own_does_not_hide_how_few_victims_are_enough() -> None:
    builder = PreemptionBuilder()
    builder.nodes(40, cpu=5)  # a little is free on each
    for number in range(40):
        builder.runs(None, *[f"n{number}"] * 4, cpu=1)
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now"))
    builder.state.volumes.set_volume(VolumeInfo("pv", driver="csi.example"))
    wants = Requirements(requests(4), claims=(("ns", "data"),))
    builder.pod(name="high", requirements=wants, priority=5)

    plan = builder.preempt("high")

    assert isinstance(plan, Plan)
    assert (len(plan.victims), plan.proved) == (3, True)
    assert plan.solves <= 5  # no search among all sets of three


def test_a_search_without_time_evicts_only_where_the_pod_goes() -> None:
    """Resources do not say who has to go for anti-affinity, and no dry run is left to find out."""
    builder = cluster(nodes=6)
    victim = runs(builder, "n1", Requirements(requests(1)), app="web")
    for index in (0, 2, 3, 4, 5):
        runs(builder, f"n{index}", Requirements(requests(1)))
    there = (NodeTerm((Expression(HOST, "In", ("n1",)),)),)
    apart = (PodTerm(app("web"), HOST),)
    name = asks(builder, Requirements(requests(1), affinity=there, required_anti_affinity=apart))

    plan = builder.preempt(name, effort=SearchEffort(solves=1))

    assert isinstance(plan, Plan)
    assert not plan.minimal
    assert [pod.info.name for pod in plan.pods] == [victim.name]


def test_a_search_without_time_evicts_only_what_is_in_the_way_in_a_zone() -> None:
    """The victim is on another node of the zone, so the pod's own node does not tell."""
    builder = PreemptionBuilder()
    for index in range(40):
        labels = {HOST: f"n{index}", "zone": "a" if index < 20 else "b"}
        builder.node(f"n{index}", 2, labels=labels)
    victims = [runs(builder, f"n{at}", Requirements(requests(1)), app="web") for at in (3, 17)]
    for index in set(range(40)) - {3, 17}:
        runs(builder, f"n{index}", Requirements(requests(1)))
    there = (NodeTerm((Expression("zone", "In", ("a",)),)),)
    apart = (PodTerm(app("web"), "zone"),)
    name = asks(builder, Requirements(requests(1), affinity=there, required_anti_affinity=apart))

    plan = builder.preempt(name, effort=SearchEffort(solves=1))

    assert isinstance(plan, Plan)
    assert {pod.info.name for pod in plan.pods} == {it.name for it in victims}
