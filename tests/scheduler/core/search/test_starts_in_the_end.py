"""Gangs that fit are placed, however many domains are too small, and despite preferences."""

import random
from collections import Counter

import pytest

from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    VolumeInfo,
)
from scheduler.core.values.profiles import Profile
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import StateBuilder, requests

APP = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
OUT_OF_TIME = SearchBudget(expired=lambda: True)


def leader_and_worker(builder: StateBuilder, group: str) -> None:
    """Create pods of 3 and 2 CPUs."""
    builder.pod(group, 3)
    builder.pod(group, 2)


@pytest.mark.parametrize("budget", [SearchBudget(steps=3), OUT_OF_TIME])
def test_a_preference_keeps_nobody_from_starting(budget: SearchBudget) -> None:
    """Leader and worker prefer one host, and all hosts have 4 CPUs."""
    builder = StateBuilder()
    for number in range(30):
        builder.node(f"n{number}", 4, labels={"host": f"n{number}", "gpu": str(number % 2)})
    builder.gang("g", 2, prefer_rack=True, key="host")
    leader_and_worker(builder, "g")

    assert isinstance(builder.place("g", budget=budget), Placement)


@pytest.mark.parametrize(("racks", "hosts"), [(60, 1), (30, 4)])
def test_domains_that_are_too_small_for_all_pods_cost_no_step(racks: int, hosts: int) -> None:
    """There are as many pods of 3 CPUs as of 2; only the last rack fits them, all are empty."""
    builder = StateBuilder()
    for number in range(racks * hosts):
        last = number >= (racks - 1) * hosts
        builder.node(f"n{number}", 5 if last else 4, labels={"rack": f"r{number // hosts}"})
    builder.gang("g", 2 * hosts, rack=True)
    for _ in range(hosts):
        leader_and_worker(builder, "g")

    assert isinstance(builder.place("g", budget=OUT_OF_TIME), Placement)


@pytest.mark.parametrize("prefers", [False, True])
def test_equal_pods_with_volumes_of_their_own_in_one_rack(prefers: bool) -> None:
    """24 shapes of one pod: 20 empty racks of 16 hosts, and one of 24 where it is required."""
    builder = StateBuilder()
    for number in range(20 * 16):
        builder.node(f"n{number}", 1, labels={"rack": f"r{number // 16:02}"})
    for number in range(0 if prefers else 24):
        builder.node(f"b{number}", 1, labels={"rack": "rbig"})
    builder.gang("g", 24, rack=not prefers, prefer_rack=prefers)
    for number in range(24):
        key = ("ns", f"c{number}")
        builder.state.volumes.set_volume(VolumeInfo(f"v{number}", claim=key))
        builder.state.volumes.set_claim(ClaimInfo(key, volume=f"v{number}"))
        builder.pod("g", requirements=Requirements(requests(1), claims=(key,)))
    list(builder.state.catch_up())

    assert isinstance(builder.place("g", budget=OUT_OF_TIME), Placement)


def test_a_tree_of_leaders_and_workers() -> None:
    builder = StateBuilder()
    for number in range(24):
        builder.node(f"n{number}", 4 if number < 20 else 5, labels={"host": f"n{number}"})
    builder.composite("tree", 4)
    for child in range(4):
        builder.gang(f"g{child}", 2, parent="tree", rack=True, key="host", created=f"{child}")
        leader_and_worker(builder, f"g{child}")

    assert isinstance(
        builder.place("tree", composite=True, budget=SearchBudget(steps=9)), Placement
    )


@pytest.mark.parametrize("busy", [False, True])
def test_a_minimum_of_unequal_pods_takes_whichever_fit(busy: bool) -> None:
    """Two pods of 3 CPUs and two with a device; one of each fits, and none is evicted."""
    builder = PreemptionBuilder()
    builder.node("big", 4)
    builder.node("gpu", 1, gpu=1)
    if busy:
        builder.node("other", 3)
        builder.runs(None, "other", cpu=3, priority=1)
    builder.group("g", 2, priority=10)
    builder.waits("g", 2, cpu=3, priority=10)
    builder.waits("g", 2, cpu=1, others={"gpu": 1}, priority=10)

    assert isinstance(builder.place("g"), Placement)


def test_a_child_of_unequal_pods_leaves_out_the_one_that_must_go_elsewhere() -> None:
    """The minimum is one of three pods; the smallest fits only outside the tree's rack."""
    builder = PreemptionBuilder()
    builder.node("a", 8, labels={"rack": "a"})
    builder.node("b", 8, labels={"rack": "b"})
    builder.group("tree", 2, composite=True, topology="rack")
    builder.group("one", 1, parent="tree")
    builder.pod("one", requirements=Requirements(requests(1), selector=(("rack", "b"),)))
    builder.pods("one", 2, 3)
    builder.group("two", 1, parent="tree")
    builder.pod("two", requirements=Requirements(requests(4), selector=(("rack", "a"),)))

    assert isinstance(builder.place("tree", composite=True), Placement)


@pytest.mark.parametrize("zones", ["aaab", "aaaaabbbbccc"])
def test_two_spread_constraints(zones: str) -> None:
    """Zone maxSkew 1 and host maxSkew 2: the profile spread places it, and pack tries that, too."""
    builder = StateBuilder()
    for number, zone in enumerate(zones):
        builder.node(f"n{number}", 6, labels={"zone": zone, "host": f"n{number}"})
    count = 6 if zones == "aaab" else 24
    wants = Requirements(requests(1), spread=(Spread(APP, "zone", 1), Spread(APP, "host", 2)))
    builder.gang("g", count)
    for _ in range(count):
        builder.pod("g", requirements=wants, labels={"app": "x"})
    list(builder.state.catch_up())

    assert isinstance(builder.place("g"), Placement)


@pytest.mark.parametrize("profile", ["pack", "spread"])
def test_a_large_gang_that_is_spread_is_not_refused_for_its_size(profile: Profile) -> None:
    """More waves are needed than there are steps: two zones are larger than the third."""
    builder = StateBuilder()
    for number in range(100):
        builder.node(f"n{number:03}", 8, labels={"zone": f"z{0 if number < 50 else number % 3}"})
    wants = Requirements(requests(1), spread=(Spread(APP, "zone", 1),))
    builder.gang("g", 300)
    for _ in range(300):
        builder.pod("g", requirements=wants, labels={"app": "x"})
    list(builder.state.catch_up())

    budget = SearchBudget(profile=profile, steps=5)

    assert isinstance(builder.place("g", budget=budget), Placement)


def test_a_pod_whose_peer_runs_is_placed_before_those_that_may_go_anywhere() -> None:
    builder = StateBuilder()
    builder.node("n0", 2, labels={"zone": "b"})
    builder.node("n1", 2, labels={"zone": "a"})
    builder.pod(None, node="n0", labels={"app": "x"})
    builder.pod(None, node="n1")
    builder.gang("g", 2)
    together = Requirements(requests(1), required_affinity=(PodTerm(APP, "zone"),))
    builder.pod("g", requirements=together)
    builder.pod("g", requirements=Requirements(requests(1)))
    list(builder.state.catch_up())

    assert isinstance(builder.place("g"), Placement)


@pytest.mark.parametrize("constraint", [False, True])
def test_siblings_are_packed_together_in_the_one_domain_that_there_is(constraint: bool) -> None:
    """5 + 9 + 3 CPUs in one block: four pods of 2 CPUs, and three of 3."""
    builder = StateBuilder()
    for number, cpu in enumerate((5, 9, 3)):
        builder.node(f"n{number}", cpu, labels={"block": "b0"})
    builder.composite("tree", 2)
    builder.gang("g1", 4, parent="tree", created="1")
    builder.gang("g2", 3, parent="tree", rack=constraint, key="block", created="2")
    builder.pods("g1", 4, 2)
    builder.pods("g2", 3, 3)

    assert isinstance(builder.place("tree", composite=True), Placement)


@pytest.mark.parametrize("seed", range(30))
def test_children_whose_pods_must_all_be_in_one_zone(seed: int) -> None:
    """The first pod decides for all: the tree starts if it fits one zone completely."""
    drawn = random.Random(seed)
    builder = StateBuilder()
    capacity = Counter[str]()
    for number in range(drawn.randint(4, 9)):
        zone, cpu = f"z{number % 3}", drawn.randint(1, 4)
        capacity[zone] += cpu
        builder.node(f"n{number}", cpu, labels={"zone": zone})
    together = Requirements(requests(1), required_affinity=(PodTerm(APP, "zone"),))
    sizes = [drawn.randint(1, 4) for _ in range(drawn.randint(2, 3))]
    builder.composite("tree", len(sizes))
    for child, size in enumerate(sizes):
        builder.gang(f"g{child}", size, parent="tree", created=f"{child}")
        for _ in range(size):
            builder.pod(f"g{child}", requirements=together, labels={"app": "x"})
    list(builder.state.catch_up())

    found = builder.place("tree", composite=True)

    assert isinstance(found, Placement) == (sum(sizes) <= max(capacity.values()))
