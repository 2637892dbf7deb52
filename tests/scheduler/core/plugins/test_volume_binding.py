"""Volumes that are there already, for claims that wait for their first consumer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.assumed_volumes import AssumedVolume
from scheduler.core.explain import explain, reasons
from scheduler.core.model import (
    ClaimInfo,
    ClaimKey,
    Expression,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    StorageClassInfo,
    Term,
    VolumeInfo,
)
from scheduler.core.nominations import Nomination
from scheduler.core.place import Placement, Refusal
from scheduler.core.plugins.volume_binding import NO_VOLUME
from scheduler.queue import Queue
from scheduler.snapshot import decide_all, decode, encode, restore, take
from tests.scheduler.test_snapshot import LIMITS
from tests.scheduler.world import GIB, World, requests

HOST = "kubernetes.io/hostname"
DATA: ClaimKey = ("ns", "data")
DISK = VolumeInfo(
    "disk",
    storage_class="local",
    size=2 * GIB,
    access=("ReadWriteMany", "ReadWriteOnce"),
    labels={"tier": "gold"},
    available=True,
)
WANTS = ClaimInfo(DATA, storage_class="local", uid="u", size=2 * GIB, access=("ReadWriteOnce",))


def on(*nodes: str) -> tuple[Term, ...]:
    return (Term((Expression(HOST, "In", nodes),)),)


def cluster(nodes: str = "a b c", cpu: int = 4) -> World:
    """Nodes by name; the class `local` has no provisioner, `made` has one. Both wait."""
    world = World()
    for name in nodes.split():
        world.node(name, cpu, labels={HOST: name})
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "csi.example")):
        world.state.volumes.set_class(StorageClassInfo(name, provisioner, waits=True))
    return world


def disk(world: World, name: str, node: str = "", **fields: Any) -> None:
    """A free volume of 2 GiB on that node, or on all."""
    volume = replace(DISK, name=name, affinity=on(node) if node else None, **fields)
    world.state.volumes.set_volume(volume)


def claim(world: World, name: str = "data", **fields: Any) -> None:
    world.state.volumes.set_claim(replace(WANTS, key=("ns", name), uid=f"u-{name}", **fields))


def user(world: World, *claims: str, group: str | None = None, cpu: int = 1) -> PodInfo:
    wants = Requirements(requests(cpu), claims=tuple(("ns", name) for name in claims))
    return world.pod(group, requirements=wants)


def open_nodes(world: World, info: PodInfo) -> str:
    nodes = world.state.nodes
    slots = world.state.framework.slots(world.single(info).shape)
    return " ".join(sorted(nodes.name_of(row) for row in slots.nonzero()[0].tolist()))


def why(world: World, info: PodInfo) -> set[str]:
    found = {reason for reason, _ in reasons(world.state.framework, world.single(info).shape)}
    return found - {"Insufficient cpu"}


def run(world: World, info: PodInfo) -> str:
    """Decide the pod alone; its node, where it has one now."""
    decision = world.place_single(info)
    if isinstance(decision, Refusal):
        return ""
    world.run(decision)
    return world.where(decision)[info.name]


def promised(world: World) -> dict[str, tuple[str, str]]:
    """Volume and node by the claim's name."""
    name_of = world.state.nodes.name_of
    return {key[1]: (p.volume, name_of(p.row)) for key, p in world.state.volumes.assumed}


@pytest.mark.parametrize(
    ("volume", "wants", "fits"),
    [
        pytest.param({}, {}, True, id="as large as asked"),
        pytest.param({"size": 3 * GIB}, {}, True, id="larger"),
        pytest.param({"size": GIB}, {}, False, id="smaller"),
        pytest.param({"storage_class": "other"}, {}, False, id="of another class"),
        pytest.param({"access": ("ReadOnlyMany",)}, {}, False, id="without the access mode"),
        pytest.param(
            {}, {"access": ("ReadOnlyMany", "ReadWriteOnce")}, False, id="with one of two modes"
        ),
        pytest.param({"mode": "Block"}, {}, False, id="a device for who wants files"),
        pytest.param({"mode": "Block"}, {"mode": "Block"}, True, id="a device for who wants one"),
        pytest.param({"attributes": "fast"}, {}, False, id="of another attributes class"),
        pytest.param({"attributes": "fast"}, {"attributes": "fast"}, True, id="of the same"),
        pytest.param({}, {"selector": (Expression("tier", "In", ("gold",)),)}, True, id="selected"),
        pytest.param(
            {}, {"selector": (Expression("tier", "NotIn", ("gold",)),)}, False, id="not selected"
        ),
        pytest.param({"available": False}, {}, False, id="not available yet"),
        pytest.param({"terminating": True}, {}, False, id="about to go"),
        pytest.param({"claim": ("ns", "other")}, {}, False, id="meant for another claim"),
        pytest.param({"claim": DATA, "available": False}, {}, True, id="meant for the claim"),
        pytest.param({"claim": DATA, "claim_uid": "u-data"}, {}, True, id="and for no namesake"),
        pytest.param({"claim": DATA, "claim_uid": "old"}, {}, False, id="meant for a namesake"),
        pytest.param({"claim": DATA, "size": GIB}, {}, False, id="meant for it and too small"),
        pytest.param(
            {"claim": DATA, "storage_class": "other"},
            {},
            False,
            id="meant for it, of another class",
        ),
        pytest.param(
            {"claim": DATA, "access": (), "labels": {}},
            {"selector": (Expression("tier", "Exists", ()),)},
            True,
            id="meant for it, whatever its modes and labels",
        ),
        pytest.param(
            {"claim": DATA, "terminating": True}, {}, False, id="meant for it and about to go"
        ),
        pytest.param(
            {},
            {"requested_volume": "disk"},
            False,
            id="named by the claim: its controller's matter",
        ),
    ],
)
def test_which_volume_will_do(volume: dict[str, Any], wants: dict[str, Any], fits: bool) -> None:
    world = cluster()
    disk(world, "disk", "b", **volume)
    claim(world, **wants)

    info = user(world, "data")

    assert open_nodes(world, info) == ("b" if fits else "")
    assert run(world, info) == ("b" if fits else "")
    assert promised(world) == ({"data": ("disk", "b")} if fits else {})


def test_a_volume_is_found_where_it_is_once_its_node_or_label_comes() -> None:
    world = cluster("a")
    disk(world, "disk", "late")
    claim(world)
    info = user(world, "data")
    seen = [open_nodes(world, info)]
    world.node("late", labels={HOST: "late"})
    seen.append(open_nodes(world, info))
    world.node("a", labels={HOST: "late"})
    seen.append(open_nodes(world, info))
    world.state.remove_node("late")
    seen.append(open_nodes(world, info))

    assert seen == ["", "late", "a late", "a"]


def test_a_volume_that_is_made_again_elsewhere_is_found_there() -> None:
    world = cluster()
    disk(world, "disk", "a")
    claim(world)
    info = user(world, "data")
    seen = [open_nodes(world, info)]
    world.state.volumes.remove_volume("disk")
    disk(world, "disk", "b")

    assert [*seen, open_nodes(world, info)] == ["a", "b"]


@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        pytest.param({"big": {"size": 9 * GIB}, "small": {}}, "small", id="the smallest"),
        pytest.param({"z": {}, "y": {}}, "y", id="by name among equals"),
        pytest.param(
            {"small": {}, "own": {"size": 9 * GIB, "claim": DATA}}, "own", id="its own first"
        ),
    ],
)
def test_of_several_volumes(volumes: dict[str, dict[str, Any]], want: str) -> None:
    world = cluster()
    for name, fields in volumes.items():
        disk(world, name, "b", **fields)
    claim(world)

    run(world, user(world, "data"))

    assert promised(world) == {"data": (want, "b")}


def test_a_volume_meant_for_the_claim_bars_all_others() -> None:
    world = cluster()
    disk(world, "own", "a", claim=DATA)
    disk(world, "other", "b")
    claim(world)

    assert open_nodes(world, user(world, "data")) == "a"


def test_claims_of_one_pod_take_different_volumes_the_smallest_first() -> None:
    world = cluster()
    for node in "ab":
        disk(world, f"{node}-small", node)
    disk(world, "a-large", "a", size=8 * GIB)
    claim(world, "large", size=4 * GIB)
    claim(world, "small")
    claim(world, "second")

    both = user(world, "large", "small")
    two_small = user(world, "small", "second")

    assert open_nodes(world, both) == "a"
    assert open_nodes(world, two_small) == "a"
    assert why(world, both) == {
        "no ReadWriteOnce volume of class local with >= 4Gi is left",
        "no ReadWriteOnce volume of class local with >= 2Gi is left",
    }
    assert run(world, both) == "a"
    assert promised(world) == {"large": ("a-large", "a"), "small": ("a-small", "a")}


def test_a_pod_whose_claims_need_the_same_volume_fits_nowhere() -> None:
    world = cluster()
    disk(world, "only", "a")
    claim(world, "one")
    claim(world, "two")

    info = user(world, "one", "two")

    assert open_nodes(world, info) == ""
    assert why(world, info) == {"no ReadWriteOnce volume of class local with >= 2Gi is left"}


def test_members_of_a_gang_take_different_volumes() -> None:
    world = cluster(cpu=8)
    for node in "abc":
        disk(world, f"disk-{node}", node)
    world.gang("g", 3)
    for index in range(3):
        claim(world, f"data-{index}")
        user(world, f"data-{index}", group="g")

    decision = world.place("g")
    world.run(decision)

    assert set(world.where(decision).values()) == {"a", "b", "c"}
    assert len({volume for volume, _ in promised(world).values()}) == 3


def test_a_gang_with_too_few_volumes_is_told_how_many_and_where() -> None:
    world = cluster(cpu=8)
    for node in "ab":
        disk(world, f"disk-{node}", node)
    world.gang("g", 3)
    for index in range(3):
        claim(world, f"data-{index}")
        user(world, f"data-{index}", group="g")

    refused = world.place("g")

    assert isinstance(refused, Refusal)
    assert promised(world) == {}
    assert explain(world.state, refused).summary == (
        "needs room for 1 more pod, there is room for 0:"
        " no ReadWriteOnce volume of class local with >= 2Gi is left on 3 of 3 nodes;"
        " add volumes of that class where these pods fit, or ask for less"
    )


def test_a_volume_that_comes_wakes_who_waits_for_it() -> None:
    world = cluster()
    claim(world)
    info = user(world, "data")
    refused = world.place_single(info)
    world.state.take_changes()

    disk(world, "disk", "b")
    world.state.volumes_changed()

    assert isinstance(refused, Refusal)
    assert len(world.state.take_changes().rows) == 3
    assert run(world, info) == "b"


def test_what_is_decided_counts_until_it_is_given_up() -> None:
    world = cluster()
    disk(world, "disk", "b")
    claim(world, "first")
    claim(world, "second")
    first, second = user(world, "first"), user(world, "second")
    seen = [run(world, first), open_nodes(world, second)]
    world.state.forget(first.uid)
    seen.append(open_nodes(world, second))

    assert seen == ["b", "", "b"]
    assert promised(world) == {}


def test_a_promised_volume_that_changes_is_still_promised() -> None:
    world = cluster()
    disk(world, "disk", "b")
    claim(world, "first")
    claim(world, "second")
    run(world, user(world, "first"))
    second = user(world, "second")
    disk(world, "disk", "b", labels={"tier": "silver"})

    assert open_nodes(world, second) == ""


def test_a_pod_that_another_begins_to_speak_of_keeps_its_volume() -> None:
    world = cluster("a")
    disk(world, "first", "a")
    disk(world, "second", "a")
    claim(world)
    wants = Requirements(requests(1), claims=(DATA,))
    info = world.pod(requirements=wants, labels={"app": "x"})
    world.state.assume([world.single(info)], [0], {DATA: AssumedVolume("second", 0)})
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    world.pod(
        requirements=Requirements(requests(1), required_anti_affinity=(PodTerm(selector, HOST),))
    )

    assert promised(world) == {"data": ("second", "a")}


def test_what_is_bound_is_taken_even_before_its_volume_says_so() -> None:
    world = cluster()
    disk(world, "disk", "b")
    claim(world, "first")
    claim(world, "second")
    first, second = user(world, "first"), user(world, "second")
    run(world, first)
    claim(world, "first", volume="disk")

    assert promised(world) == {}
    assert open_nodes(world, second) == ""
    world.state.volumes.remove_claim(("ns", "first"))
    assert open_nodes(world, second) == "b"


def test_a_claim_that_pods_share_gets_one_volume() -> None:
    world = cluster(cpu=2)
    for node in "abc":
        disk(world, f"disk-{node}", node)
    claim(world)
    world.gang("g", 2)
    for _ in range(2):
        user(world, "data", group="g")
    decision = world.place("g")
    world.run(decision)
    late = user(world, "data")

    assert len(set(world.where(decision).values())) == 1
    assert len(promised(world)) == 1
    assert open_nodes(world, late) == ""


def test_a_claim_that_pods_share_is_made_on_one_node() -> None:
    world = cluster("a b", cpu=2)
    claim(world, storage_class="made")
    world.gang("g", 2)
    for _ in range(2):
        user(world, "data", group="g")

    assert len(set(world.where(world.place("g")).values())) == 1


def test_a_volume_that_all_nodes_reach_takes_pods_from_all() -> None:
    world = cluster("a b", cpu=1)
    disk(world, "shared")
    claim(world)
    world.gang("g", 2)
    for _ in range(2):
        user(world, "data", group="g")

    assert set(world.where(world.place("g")).values()) == {"a", "b"}


def test_pods_that_share_a_claim_go_where_there_is_room_for_all() -> None:
    world = cluster("a b")
    world.node("a", 1, labels={HOST: "a"})
    disk(world, "disk-a", "a")
    disk(world, "disk-b", "b")
    claim(world)
    world.gang("g", 3)
    for _ in range(3):
        user(world, "data", group="g")

    assert set(world.where(world.place("g")).values()) == {"b"}


def test_pods_that_share_a_claim_go_to_the_volume_that_more_nodes_reach() -> None:
    world = cluster("a b c", cpu=1)
    for name, nodes in (("disk-a", "a"), ("disk-bc", "bc")):
        world.state.volumes.set_volume(replace(DISK, name=name, affinity=on(*nodes)))
    claim(world)
    world.gang("g", 2)
    for _ in range(2):
        user(world, "data", group="g")

    assert set(world.where(world.place("g")).values()) == {"b", "c"}


def test_what_has_a_provisioner_takes_volumes_first_and_makes_the_rest() -> None:
    world = cluster("a", cpu=8)
    disk(world, "disk", "a", storage_class="made")
    world.gang("g", 2)
    for index in range(2):
        claim(world, f"data-{index}", storage_class="made")
        user(world, f"data-{index}", group="g")

    world.run(world.place("g"))

    assert sorted(promised(world).values()) == [("", "a"), ("disk", "a")]


def test_a_claim_with_a_selected_node_is_made_there_whatever_volumes_there_are() -> None:
    world = cluster()
    for node in "ab":
        disk(world, f"disk-{node}", node, storage_class="made")
    claim(world, storage_class="made", selected_node="b")

    info = user(world, "data")

    assert open_nodes(world, info) == "b"
    assert why(world, info) == {NO_VOLUME}
    run(world, info)
    assert promised(world) == {"data": ("", "b")}


def test_a_pod_that_runs_with_an_unbound_claim_promises_nothing() -> None:
    world = cluster()
    disk(world, "disk", "b")
    claim(world)
    wants = Requirements(requests(1), claims=(DATA,))
    pods = [world.pod(node="a", requirements=wants, ours=False) for _ in range(2)]
    world.state.remove_pod(pods[0].uid)

    assert promised(world) == {}
    assert open_nodes(world, user(world, "data")) == "b"


def test_a_node_that_goes_takes_its_promises_along() -> None:
    world = cluster()
    disk(world, "disk")
    claim(world)
    run(world, user(world, "data"))
    (node,) = {node for _, node in promised(world).values()}
    world.state.remove_node(node)

    assert promised(world) == {}


def test_held_places_keep_their_volumes() -> None:
    world = cluster("a", cpu=8)
    disk(world, "disk", "a")
    claim(world, "held")
    claim(world, "other")
    shape = world.single(user(world, "held")).shape
    world.state.nominations.set(Nomination(("Pod", "ns", "x"), 0, ((shape, (("a", 1),)),)))

    assert isinstance(world.place_single(user(world, "other")), Refusal)
    assert promised(world) == {}


def test_what_was_chosen_on_trial_is_what_is_promised() -> None:
    world = cluster("a", cpu=8)
    disk(world, "first", "a")
    disk(world, "second", "a")
    claim(world, "held")
    claim(world, "other")
    shape = world.single(user(world, "held")).shape
    world.state.nominations.set(Nomination(("Pod", "ns", "x"), 0, ((shape, (("a", 1),)),)))

    decision = world.place_single(user(world, "other"))
    assert isinstance(decision, Placement)
    assert decision.volumes == {("ns", "other"): AssumedVolume("second", 0)}
    world.run(decision)

    assert promised(world) == {"other": ("second", "a")}


def test_promises_are_the_same_after_writing_and_reading() -> None:
    world = cluster(cpu=8)
    for node in "abc":
        disk(world, f"disk-{node}", node)
    disk(world, "more", "a")
    for index in range(4):
        claim(world, f"data-{index}")
        info = user(world, f"data-{index}")
        if index == 0:
            # Not what it would choose.
            row = world.state.nodes.row_of["a"]
            more = {("ns", "data-0"): AssumedVolume("more", row)}
            world.state.assume([world.single(info)], [row], more)
        if index == 1:
            run(world, info)
    queue = Queue(world.state)
    world.state.reconsider_all()
    queue.refresh(world.state.take_changes(), 0)
    snapshot = take(world.state, queue, LIMITS)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert list(state.volumes.assumed) == list(world.state.volumes.assumed)
    assert len(snapshot.assumed_volumes) == 2
    assert list(decide_all(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, LIMITS)) == encode(snapshot)


SIZES = st.integers(1, 3)
VOLUMES = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), SIZES), max_size=5)
GANGS = st.lists(st.lists(st.tuples(st.integers(0, 5), SIZES), min_size=1, max_size=3), max_size=4)


@given(VOLUMES, GANGS, st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=6))
def test_no_volume_is_promised_twice(
    volumes: list[tuple[str, int]],
    gangs: list[list[tuple[int, int]]],
    turns: list[tuple[int, bool]],
) -> None:
    world = cluster(cpu=2)
    for index, (node, size) in enumerate(volumes):
        disk(world, f"disk-{index}", node, size=size * GIB)
    sizes = {number: size for gang in gangs for number, size in gang}
    for number, size in sizes.items():
        claim(world, f"data-{number}", size=size * GIB)
    for index, gang in enumerate(gangs):
        world.gang(f"g{index}", len(gang))
        for number, _ in gang:
            user(world, f"data-{number}", group=f"g{index}")
    for index in range(len(gangs)):
        before = promised(world)
        decision = world.place(f"g{index}")
        assert promised(world) == before
        if isinstance(decision, Placement):
            world.run(decision)
            check(world)
    for at, bound in turns:
        assumed = [pod for pod in world.state.pods.values() if pod.assumed]
        if assumed:
            step(world, assumed[at % len(assumed)].info, bound=bound)
            check(world)


def step(world: World, info: PodInfo, *, bound: bool) -> None:
    """The pod is given up, or its claims are bound as promised."""
    if not bound:
        world.state.forget(info.uid)
        return
    storage = world.state.volumes
    for key, promise in storage.assumed.of(info.requirements.claims).items():
        storage.set_claim(replace(storage.claims[key], volume=promise.volume))
        volume = storage.volumes[promise.volume]
        storage.set_volume(replace(volume, claim=key, available=False))


def check(world: World) -> None:
    """Each claim of a placed pod has one volume that reaches its node, and nobody else has it."""
    storage = world.state.volumes
    given = {key: promise.volume for key, promise in storage.assumed}
    given |= {key: known.volume for key, known in storage.claims.items() if known.volume}
    assert len(set(given.values())) == len(given)
    for pod in world.state.pods.values():
        for key in pod.info.requirements.claims:
            if pod.assumed:
                assert storage.reaches(given[key], pod.row)
                assert storage.volumes[given[key]].size >= storage.claims[key].size
    users = {
        key for pod in world.state.pods.values() if pod.assumed
        for key in pod.info.requirements.claims
    }  # fmt: skip
    assert {key for key, _ in storage.assumed} <= users
