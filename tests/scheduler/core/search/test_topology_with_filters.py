"""Topology together with the filters, for gangs and for basic groups, minimums and extras."""

from dataclasses import replace

import pytest

from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    HostPort,
    NodeTerm,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    StorageClassInfo,
    Taint,
    VolumeInfo,
)
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import requests

HOST = "kubernetes.io/hostname"
WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))


def racks(*sizes: int, cpu: int = 4) -> PreemptionBuilder:
    """Create racks r0, r1, ... with that many nodes each, named by rack and number."""
    builder = PreemptionBuilder()
    for rack, size in enumerate(sizes):
        for node in range(size):
            name = f"r{rack}n{node}"
            labels = {"rack": f"r{rack}", HOST: name, "disk": "ssd" if rack else "hdd"}
            builder.node(name, cpu, labels=labels)
    return builder


def asks(builder: PreemptionBuilder, pods: int, requirements: Requirements, *, minimum: int = 0,
         gang: bool = True) -> None:  # fmt: skip
    builder.group("leaf", minimum or pods, topology="rack", gang=gang)
    for info in builder.waits("leaf", pods):
        builder.state.set_pod(replace(info, requirements=requirements, labels={"app": "web"}))


def nodes(builder: PreemptionBuilder) -> list[str]:
    return sorted(builder.where(builder.place("leaf")).values())


SSD = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)
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
    """r0 is as large as r1 in cpu, but has only one node, of the wrong kind."""
    builder = racks(1, 3, cpu=8)
    builder.runs(None, "r0n0", "r1n0")

    asks(builder, 3, requirements)

    assert {node[:2] for node in nodes(builder)} == {"r1"}


@pytest.mark.parametrize("requirements", FILTERS)
def test_what_the_filters_leave_of_a_rack_may_not_be_enough(requirements: Requirements) -> None:
    """Neither of two racks fits all; without the constraint they would fit."""
    builder = racks(2, 2, 2, cpu=1)

    asks(builder, 3, requirements)

    assert isinstance(builder.place("leaf"), Refusal)


def test_a_rack_behind_a_taint_is_for_those_who_tolerate_it() -> None:
    builder = racks(2)
    taint = Taint("team", "a", "NoSchedule")
    for node in ("x", "y"):
        builder.node(node, 4, labels={"rack": "tainted"}, taints=(taint,))
    builder.runs(None, "r0n0", cpu=3)

    asks(builder, 6, Requirements(requests(1)))

    assert isinstance(builder.place("leaf"), Refusal)


def test_the_rack_is_the_one_that_the_volume_is_in() -> None:
    builder = racks(1, 1)
    builder.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "pv", "now"))
    builder.state.volumes.set_volume(VolumeInfo("pv", affinity=SSD))
    builder.group("leaf", 2, topology="rack")
    first, _ = builder.waits("leaf", 2)
    using = Requirements(requests(1), claims=(("ns", "data"),))
    builder.state.set_pod(replace(first, requirements=using))

    assert nodes(builder) == ["r1n0", "r1n0"]


def test_a_basic_group_is_in_one_domain_that_takes_most_of_what_is_known() -> None:
    builder = racks(1, 1, cpu=4)
    builder.runs(None, "r0n0", cpu=2)

    asks(builder, 3, Requirements(requests(1)), minimum=1, gang=False)

    assert nodes(builder) == ["r1n0"] * 3


def test_the_first_bound_pod_of_a_basic_group_pins_the_rest() -> None:
    builder = racks(1, 1, cpu=2)
    builder.group("leaf", 1, topology="rack", gang=False)
    builder.runs("leaf", "r0n0")
    builder.waits("leaf", 3)

    decision = builder.place("leaf")

    assert isinstance(decision, Placement)
    assert list(builder.where(decision).values()) == ["r0n0"]


def test_extras_stay_in_the_domain_of_the_floor() -> None:
    builder = racks(1, 2, cpu=2)

    asks(builder, 6, Requirements(requests(1)), minimum=2)

    assert nodes(builder) == ["r1n0", "r1n0", "r1n1", "r1n1"]


def test_members_in_two_racks_are_an_error_that_says_so() -> None:
    builder = racks(1, 1)
    builder.group("leaf", 3, topology="rack")
    builder.runs("leaf", "r0n0", "r1n0")
    builder.waits("leaf", 1)

    refusal = builder.place("leaf")

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.kind == "invalid"
    assert refusal.shortage.message == (
        'The running pods are not in one rack, but in 2: "r0", "r1". Delete those in all but one.'
    )


@pytest.mark.parametrize("count", [10, 100, 1000])
def test_what_is_tried_does_not_grow_with_domains_that_are_full(count: int) -> None:
    builder = racks(*[1] * count, cpu=2)
    full = [f"r{rack}n0" for rack in range(count) if rack != count // 2]
    builder.runs(None, *full)

    asks(builder, 2, Requirements(requests(1)))
    decision = builder.place("leaf")

    assert isinstance(decision, Placement)
    assert decision.steps == 1


def test_the_search_between_levels_ends_with_its_budget() -> None:
    """Every block looks good, but none has a rack for both children."""
    builder = PreemptionBuilder()
    for block in range(30):
        for rack in range(2):
            builder.node(f"b{block}r{rack}", 3, labels={"block": f"b{block}", "rack": f"r{rack}"})
    builder.group("top", 3, composite=True, topology="block")
    for name in ("one", "two", "three"):
        builder.group(name, 2, parent="top", topology="rack")
        builder.waits(name, 2)
    root = builder.root("top")

    unlimited, limited = (
        place(builder.state, root, SearchBudget()),
        place(builder.state, root, SearchBudget(20)),
    )

    assert isinstance(unlimited, Refusal)
    assert isinstance(limited, Refusal)
    assert limited.steps < 40 < unlimited.steps
