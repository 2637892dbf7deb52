"""Topology together with the filters, for gangs and for basic groups, floors and extras."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model import (
    ClaimInfo,
    Expression,
    HostPort,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    StorageClassInfo,
    Taint,
    Term,
    VolumeInfo,
)
from scheduler.core.place import Placement, Refusal, SearchBudget, place
from tests.scheduler.contest import Contest
from tests.scheduler.world import requests

HOST = "kubernetes.io/hostname"
WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))


def racks(*sizes: int, cpu: int = 4) -> Contest:
    """Rack r0, r1, ... with so many nodes each, named by rack and number."""
    world = Contest()
    for rack, size in enumerate(sizes):
        for node in range(size):
            name = f"r{rack}n{node}"
            labels = {"rack": f"r{rack}", HOST: name, "disk": "ssd" if rack else "hdd"}
            world.node(name, cpu, labels=labels)
    return world


def asks(world: Contest, pods: int, requirements: Requirements, *, minimum: int = 0,
         gang: bool = True) -> None:  # fmt: skip
    world.group("leaf", minimum or pods, topology="rack", gang=gang)
    for info in world.waits("leaf", pods):
        world.state.set_pod(replace(info, requirements=requirements, labels={"app": "web"}))


def nodes(world: Contest) -> list[str]:
    return sorted(world.where(world.place("leaf")).values())


SSD = (Term((Expression("disk", "In", ("ssd",)),)),)
FILTERS = [
    pytest.param(Requirements(requests(1), selector=(("disk", "ssd"),)), id="node selector"),
    pytest.param(Requirements(requests(1), affinity=SSD), id="node affinity"),
    pytest.param(
        Requirements(requests(1), required_anti_affinity=(PodTerm(WEB, HOST),)), id="pods apart"
    ),
    pytest.param(Requirements(requests(1), ports=(HostPort("TCP", 80),)), id="host port"),
    pytest.param(Requirements(requests(1), spread=(Spread(WEB, HOST),)), id="spread"),
]


@pytest.mark.parametrize("requirements", FILTERS)
def test_the_rack_is_one_in_which_the_filters_leave_room(requirements: Requirements) -> None:
    """r0 is as large as r1 in cpu, but has one node only, and of the wrong kind."""
    world = racks(1, 3, cpu=8)
    world.runs(None, "r0n0", "r1n0")

    asks(world, 3, requirements)

    assert {node[:2] for node in nodes(world)} == {"r1"}


@pytest.mark.parametrize("requirements", FILTERS)
def test_what_the_filters_leave_of_a_rack_may_not_be_enough(requirements: Requirements) -> None:
    """Two racks, neither of them with room for all; without the constraint there would be."""
    world = racks(2, 2, 2, cpu=1)

    asks(world, 3, requirements)

    assert isinstance(world.place("leaf"), Refusal)


def test_a_rack_behind_a_taint_is_for_those_who_tolerate_it() -> None:
    world = racks(2)
    taint = Taint("team", "a", "NoSchedule")
    for node in ("x", "y"):
        world.node(node, 4, labels={"rack": "tainted"}, taints=(taint,))
    world.runs(None, "r0n0", cpu=3)

    asks(world, 6, Requirements(requests(1)))

    assert isinstance(world.place("leaf"), Refusal)


def test_the_rack_is_the_one_that_the_volume_is_in() -> None:
    world = racks(1, 1)
    world.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    world.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now"))
    world.state.volumes.set_volume(VolumeInfo("pv", affinity=SSD))
    world.group("leaf", 2, topology="rack")
    first, _ = world.waits("leaf", 2)
    using = Requirements(requests(1), claims=(("ns", "data"),))
    world.state.set_pod(replace(first, requirements=using))

    assert nodes(world) == ["r1n0", "r1n0"]


def test_a_basic_group_is_in_one_domain_that_takes_most_of_what_is_known() -> None:
    world = racks(1, 1, cpu=4)
    world.runs(None, "r0n0", cpu=2)

    asks(world, 3, Requirements(requests(1)), minimum=1, gang=False)

    assert nodes(world) == ["r1n0"] * 3


def test_the_first_bound_pod_of_a_basic_group_pins_the_rest() -> None:
    world = racks(1, 1, cpu=2)
    world.group("leaf", 1, topology="rack", gang=False)
    world.runs("leaf", "r0n0")
    world.waits("leaf", 3)

    decision = world.place("leaf")

    assert isinstance(decision, Placement)
    assert list(world.where(decision).values()) == ["r0n0"]


def test_extras_stay_in_the_domain_of_the_floor() -> None:
    world = racks(1, 2, cpu=2)

    asks(world, 6, Requirements(requests(1)), minimum=2)

    assert nodes(world) == ["r1n0", "r1n0", "r1n1", "r1n1"]


def test_members_in_two_racks_are_an_error_that_says_so() -> None:
    world = racks(1, 1)
    world.group("leaf", 3, topology="rack")
    world.runs("leaf", "r0n0", "r1n0")
    world.waits("leaf", 1)

    refusal = world.place("leaf")

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.kind == "invalid"
    assert refusal.shortage.message == (
        'its running members are not in one rack, but in 2: "r0", "r1"; delete those in all but one'
    )


@pytest.mark.parametrize("count", [10, 100, 1000])
def test_what_is_tried_does_not_grow_with_domains_that_are_full(count: int) -> None:
    world = racks(*[1] * count, cpu=2)
    full = [f"r{rack}n0" for rack in range(count) if rack != count // 2]
    world.runs(None, *full)

    asks(world, 2, Requirements(requests(1)))
    decision = world.place("leaf")

    assert isinstance(decision, Placement)
    assert decision.steps == 1


def test_the_search_between_levels_ends_with_its_budget() -> None:
    """Every block looks good, in none there is a rack for both children."""
    world = Contest()
    for block in range(30):
        for rack in range(2):
            world.node(f"b{block}r{rack}", 3, labels={"block": f"b{block}", "rack": f"r{rack}"})
    world.group("top", 3, composite=True, topology="block")
    for name in ("one", "two", "three"):
        world.group(name, 2, parent="top", topology="rack")
        world.waits(name, 2)
    root = world.root("top")

    unlimited, limited = (
        place(world.state, root, SearchBudget()),
        place(world.state, root, SearchBudget(20)),
    )

    assert isinstance(unlimited, Refusal)
    assert isinstance(limited, Refusal)
    assert limited.steps < 40 < unlimited.steps
