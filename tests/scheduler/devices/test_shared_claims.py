"""Claims that pods of several shapes, groups or roots share."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from scheduler.core.explain.explain import explain
from scheduler.core.search.batching import batchable
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.devices import NodeScope
from scheduler.core.values.model import ClaimKey, Expression, NodeTerm, PodInfo, Requirements
from tests.scheduler.devices.builders import ask, device, gpu, has, pool
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.state_builder import requests

ONE = ask(gpu())


def within(label: str, value: str) -> NodeScope:
    return NodeScope(terms=(NodeTerm((Expression(label, "In", (value,)),)),))


def racks(racks: int = 2, nodes: int = 2, *, cpu: int = 4, count: int = 0) -> DeviceCluster:
    """Create racks of nodes with devices of their own, and a device for each whole rack."""
    made = DeviceCluster()
    for rack in range(racks):
        for at in range(nodes):
            own = (device(f"gpu-{number}", {"size": "small"}) for number in range(count))
            made.gpu_node(f"r{rack}n{at}", *own, cpu=cpu, labels={"rack": f"r{rack}"})
        made.slice(pool(device("switch", {"size": "large"}), pool=f"net{rack}",
                            name=f"net{rack}", scope=within("rack", f"r{rack}")))  # fmt: skip
    return made


SMALL = ask(gpu(1, has("size", "small")))
SWITCH = ask(gpu(1, has("size", "large")))


def names(made: DeviceCluster, decision: Placement | Refusal) -> list[str]:
    return sorted(made.where(decision).values())


@pytest.mark.parametrize("best", ["n0", "n1", "n2"])
def test_sharers_of_two_shapes_go_to_the_node_with_room_for_all(best: str) -> None:
    """The first shape alone would fit any node."""
    made = DeviceCluster()
    for name in ("n0", "n1", "n2"):
        made.gpu_node(name, count=1, cpu=6 if name == best else 4)
    key = made.claim("shared", ONE)
    made.gang("g", 3)
    for cpu in (3, 1, 2):
        made.asks("g", key, cpu=cpu)

    decision = made.write(made.place("g"))

    assert names(made, decision) == [best] * 3
    assert made.complaints() == []


@pytest.mark.parametrize("cpu", [1, 2])
def test_a_claim_is_given_the_device_that_all_of_its_pods_reach(cpu: int) -> None:
    """The node's own device would be preferred; it suffices if both pods fit the node."""
    made = DeviceCluster()
    for name in ("n0", "n1"):
        made.gpu_node(name, count=1, cpu=2, labels={"rack": "r"})
    made.slice(pool(device("switch"), pool="z", name="z", scope=within("rack", "r")))
    key = made.claim("shared", ONE)
    made.gang("g", 2)
    for _ in range(2):
        made.asks("g", key, cpu=cpu)

    decision = made.write(made.place("g"))

    assert len(set(names(made, decision))) == cpu
    assert made.devices_of([key]) == ["z:switch" if cpu == 2 else "n0:gpu-0"]
    assert made.complaints() == []


@pytest.mark.parametrize("seed", range(60))
def test_random_gangs_that_share_a_claim_start_if_any_device_serves_all(seed: int) -> None:
    """The test tries every device: all pods must fit the nodes that reach it."""
    drawn = random.Random(seed)
    nodes = {f"r{rack}n{at}": drawn.randint(1, 3) for rack in range(2) for at in range(2)}
    made = DeviceCluster()
    reach: list[list[str]] = []
    for name, cpu in nodes.items():
        own = [device("gpu")] * drawn.randint(0, 1)
        made.gpu_node(name, *own, cpu=cpu, labels={"rack": name[:2]})
        reach += [[name] for _ in own]
    for rack in ("r0", "r1"):
        if drawn.randint(0, 1):
            made.slice(
                pool(device("switch"), pool=f"z-{rack}", name=f"z-{rack}",
                     scope=within("rack", rack))
            )  # fmt: skip
            reach.append([name for name in nodes if name[:2] == rack])
    key, count = made.claim("shared", ONE), drawn.randint(2, 5)
    made.gang("g", count)
    for _ in range(count):
        made.asks("g", key)

    found = made.place("g")

    assert isinstance(found, Placement) == any(
        sum(nodes[name] for name in names) >= count for names in reach
    )


def test_sharers_of_a_network_device_are_placed_though_the_time_is_over() -> None:
    """The first pod allocates the claim, which is slow if many nodes can access the devices."""
    made = racks(count=1)
    key = made.claim("shared", SWITCH)
    made.gang("g", 6)
    for _ in range(6):
        made.asks("g", key)

    decision = made.place("g", budget=SearchBudget(expired=lambda: True))

    assert len(made.where(made.write(decision))) == 6
    assert made.complaints() == []


def test_pods_beside_the_sharers_go_elsewhere() -> None:
    made = DeviceCluster()
    for name in ("n0", "n1"):
        made.gpu_node(name, count=1, cpu=3)
    key = made.claim("shared", ONE)
    made.gang("g", 4)
    made.asks("g", key, cpu=2)
    made.asks("g", key, cpu=1)
    made.pods("g", 2, cpu=1)

    decision = made.write(made.place("g"))

    where = made.where(decision)
    sharers = {where[pod.info.name] for pod in decision.pods if pod.info.device_claims}
    others = {where[pod.info.name] for pod in decision.pods if not pod.info.device_claims}
    assert len(sharers) == len(others) == 1
    assert sharers != others


def test_a_claim_of_a_rack_brings_both_shapes_to_a_rack_with_room() -> None:
    made = racks(3, 2, cpu=4)
    for at in range(2):
        made.pod(None, 1, node=f"r0n{at}")
        made.pod(None, 4, node=f"r2n{at}")
    key = made.claim("switch", SWITCH)
    made.gang("g", 4)
    for cpu in (3, 3, 1, 1):
        made.asks("g", key, cpu=cpu)

    decision = made.write(made.place("g"))

    assert {name[:2] for name in names(made, decision)} == {"r1"}
    assert made.complaints() == []


def test_racks_that_are_alike_are_told_apart_by_their_devices() -> None:
    """Their nodes have equal devices in equal use, but other nodes reach the same ones."""
    made = racks(3, 2, cpu=4)
    made.pod(None, 3, node="r0n0")
    made.pod(None, 3, node="r1n1")
    key = made.claim("switch", SWITCH)
    made.gang("g", 8)
    for _ in range(8):
        made.asks("g", key)

    decision = made.write(made.place("g"))

    assert {name[:2] for name in names(made, decision)} == {"r2"}


def test_the_place_of_the_claim_is_found_for_children_that_share_it() -> None:
    made = racks(3, 2, cpu=4)
    for at in range(2):
        made.pod(None, 2, node=f"r0n{at}")
        made.pod(None, 3, node=f"r1n{at}")
    key = made.claim("switch", SWITCH)
    made.composite("tree", 2)
    for name, cpu in (("a", 1), ("b", 3)):
        made.gang(name, 2, parent="tree")
        for _ in range(2):
            made.asks(name, key, cpu=cpu)

    decision = made.write(made.place("tree", composite=True))

    assert {name[:2] for name in names(made, decision)} == {"r2"}
    assert made.complaints() == []


def test_two_shared_claims_that_meet_in_one_shape() -> None:
    """One of a node and one of a rack: the second shape needs both."""
    made = racks(3, 2, cpu=4, count=1)
    made.pod(None, 2, node="r0n0")
    made.pod(None, 2, node="r0n1")
    made.pod(None, 3, node="r1n0")
    made.pod(None, 3, node="r1n1")
    local, wide = made.claim("local", SMALL), made.claim("wide", SWITCH)
    made.gang("g", 4)
    made.asks("g", wide, cpu=2)
    made.asks("g", wide, local, cpu=2)
    made.asks("g", local, wide, cpu=1)
    made.asks("g", local, cpu=1)

    decision = made.write(made.place("g"))

    assert {name[:2] for name in names(made, decision)} == {"r2"}
    assert made.complaints() == []


def test_sharers_with_devices_of_their_own() -> None:
    made = racks(2, 2, cpu=8, count=2)
    made.write(
        made.place_single(
            made.asks(None, ask(gpu(2, has("size", "small"))), selector=(("rack", "r0"),))
        )
    )
    key = made.claim("switch", SWITCH)
    made.gang("g", 5)
    for _ in range(4):
        made.asks("g", key, SMALL, cpu=1)
    made.asks("g", key, cpu=2)

    decision = made.write(made.place("g"))

    assert {name[:2] for name in names(made, decision)} == {"r1"}
    assert len(made.table.claims[key].reserved) == 5
    assert made.complaints() == []


def test_a_shared_claim_that_fits_nowhere_leaves_nothing_behind() -> None:
    made = racks(2, 2, cpu=2)
    key = made.claim("switch", SWITCH)
    made.gang("g", 5)
    for cpu in (1, 1, 1, 1, 2):
        made.asks("g", key, cpu=cpu)

    assert isinstance(made.place("g"), Refusal)
    assert made.table.assumed == {}
    assert not made.state.framework.plugins.dynamic_resources.quotas._placed


def test_two_roots_that_share_a_claim() -> None:
    made = racks(2, 2, cpu=2)
    key = made.claim("switch", SWITCH)
    for name in ("first", "second"):
        made.gang(name, 2)
        for _ in range(2):
            made.asks(name, key)

    first = made.place("first")
    made.run(first)
    second = made.place("second")
    made.run(second)

    assert {name[:2] for name in (*names(made, first), *names(made, second))} == {"r0"}
    third = made.asks(None, key)
    assert isinstance(made.place_single(third), Refusal)


def test_one_wave_serves_all_once_the_claim_is_decided() -> None:
    made = racks(1, 50, cpu=4)
    key = made.claim("switch", SWITCH)
    made.gang("g", 200)
    for _ in range(200):
        made.asks("g", key)

    decision = made.write(made.place("g"))

    assert len(decision.pods) == 200
    assert decision.steps < 5


# Consumers


def crowd(
    present: int, wanted: int, *, minimum: int | None = None
) -> tuple[DeviceCluster, ClaimKey]:
    made = racks(1, 8, cpu=100)
    key = made.claim("switch", SWITCH)
    claim = made.table.claims[key]
    made.table.set_claim(replace(claim, reserved=frozenset(map(str, range(present)))))
    made.gang("g", minimum or wanted)
    for at in range(wanted):
        made.asks("g", key, cpu=1 + at % 2)
    return made, key


@pytest.mark.parametrize(("present", "wanted"), [(0, 256), (100, 156)])
def test_as_many_consumers_as_a_claim_can_have(present: int, wanted: int) -> None:
    made, _ = crowd(present, wanted)

    decision = made.place("g")

    assert isinstance(decision, Placement)
    assert len(decision.pods) == wanted


@pytest.mark.parametrize(("present", "wanted"), [(0, 257), (100, 157)])
def test_more_consumers_are_refused_with_numbers(present: int, wanted: int) -> None:
    made, _ = crowd(present, wanted)

    refusal = made.place("g")

    assert isinstance(refusal, Refusal)
    blocker = explain(made.state, refusal)
    assert 'ResourceClaim "switch"' in blocker.summary
    assert "256 consumers" in blocker.summary
    assert f"{present} use it already" in blocker.summary or not present
    assert blocker.kind == "constraint"
    assert refusal.shortage.resolvable == bool(present)


def test_extras_take_what_is_left_of_the_consumers() -> None:
    made, key = crowd(250, 10, minimum=2)

    decision = made.write(made.place("g"))

    assert len(decision.pods) == 6
    assert len(made.table.claims[key].reserved) == 256


def reserve(made: DeviceCluster, key: ClaimKey, own: Iterable[PodInfo], others: int) -> None:
    """Reserve the claim for these pods, and for that many others."""
    uids = {*(each.uid for each in own), *map(str, range(others))}
    made.table.set_claim(replace(made.table.claims[key], reserved=frozenset(uids)))


def test_a_pod_that_stands_in_a_full_claim_has_its_place_and_no_other_pod() -> None:
    made, key = racks(1, 8, cpu=100), ("ns", "switch")
    assert made.claim("switch", SWITCH) == key
    own, other = made.asks(None, key), made.asks(None, key)
    reserve(made, key, [own], 255)

    assert isinstance(made.place_single(other), Refusal)
    placed = made.place_single(own)
    assert isinstance(placed, Placement)
    assert isinstance(made.place_single(other), Refusal)

    made.run(placed)
    assert isinstance(made.place_single(other), Refusal)


def test_members_that_a_full_claim_is_reserved_for_are_placed_with_those_it_has_room_for() -> None:
    made, key = crowd(0, 256)
    pods = [pod.info for pod in made.state.pods.values()]

    reserve(made, key, pods[:250], 0)
    assert isinstance(made.place("g"), Placement)
    reserve(made, key, pods, 0)
    assert isinstance(made.place("g"), Placement)
    reserve(made, key, pods[:255], 1)
    assert isinstance(made.place("g"), Refusal)


def test_members_beyond_a_claims_room_do_not_take_the_places_of_those_that_have_them() -> None:
    """Any of them may be chosen, and one without a reservation would be consumer 257."""
    made, key = crowd(0, 257, minimum=2)
    pods = [pod.info for pod in made.state.pods.values()]
    reserve(made, key, pods[1:], 0)

    assert isinstance(made.place("g"), Refusal)


def test_roots_that_share_a_claim_are_not_batched_beyond_its_consumers() -> None:
    made, key = crowd(255, 1)
    pods = [made.asks(None, key) for _ in range(2)]
    made.table.set_claim(made.table.claims[key])

    assert not batchable(made.state, made.single(pods[0]).shape)
    made.run(made.place_single(pods[0]))
    assert isinstance(made.place_single(pods[1]), Refusal)


def test_what_many_shared_claims_cost_is_bounded() -> None:
    """A tenant shares a hundred claims, none of which fits: the search ends by its budget."""
    made = racks(4, 4, cpu=3)
    keys = [made.claim(f"c{at}", SWITCH) for at in range(32)]
    made.gang("g", 64)
    for at in range(64):
        wants = Requirements(requests(1), asks=tuple(keys[at % 32 :][:2]))
        made.pod("g", requirements=wants, device_claims=tuple(keys[at % 32 :][:2]))
    budget = SearchBudget(steps=200)
    group = made.state.forest.groups["PodGroup", "ns", "g"]

    decision = place(made.state, group, budget)

    assert isinstance(decision, Refusal)
    assert decision.steps <= budget.steps + 64


def two_crowds(present: int, first: int, second: int) -> tuple[DeviceCluster, ClaimKey]:
    """Create two gangs that share an allocated claim with that many existing consumers."""
    made = racks(1, 8, cpu=100)
    key = made.claim("switch", SWITCH)
    made.write(made.place_single(made.asks(None, key)))
    claim = made.table.claims[key]
    reserved = claim.reserved | frozenset(map(str, range(present - 1)))
    made.table.set_claim(replace(claim, reserved=reserved))
    for name, wanted in (("a", first), ("b", second)):
        made.gang(name, wanted)
        for _ in range(wanted):
            made.asks(name, key)
    return made, key


def test_assumed_consumers_count_before_the_claim_names_them() -> None:
    made, _ = two_crowds(250, 4, 4)

    made.run(made.place("a"))

    refusal = made.place("b")
    assert isinstance(refusal, Refusal)
    assert "254 use it already" in explain(made.state, refusal).summary


def test_what_one_root_wrote_leaves_the_assumed_consumers_of_others() -> None:
    made, key = two_crowds(250, 3, 4)
    made.gang("c", 1)
    third = made.asks("c", key)
    made.run(made.place("a"))
    made.run(made.place("c"))

    claim = made.table.claims[key]
    made.table.set_claim(replace(claim, reserved=claim.reserved | {third.uid}))

    assert isinstance(made.place("b"), Refusal)


@pytest.mark.parametrize("how", ["forgotten", "removed"])
def test_assumed_consumers_that_are_given_up_leave_their_places(how: str) -> None:
    made, _ = two_crowds(252, 4, 4)
    decision = made.place("a")
    made.run(decision)
    assert isinstance(decision, Placement)
    assert isinstance(made.place("b"), Refusal)

    for pod in decision.pods:
        if how == "forgotten":
            made.state.forget(pod.info.uid)
        else:
            made.state.remove_pod(pod.info.uid)

    assert isinstance(made.place("b"), Placement)


def test_a_device_is_given_to_one_claim_where_another_pod_has_an_equal_one_of_its_own() -> None:
    cluster = DeviceCluster()
    cluster.gpu_node("n", count=2)
    cluster.gang("g", 2)
    cluster.asks("g", ONE)
    cluster.asks("g", cluster.claim("s", ONE))

    cluster.write(cluster.place("g"))

    assert cluster.complaints() == []
    assert len(set(cluster.devices_of(cluster.table.claims))) == 2
