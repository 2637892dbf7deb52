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
from tests.scheduler.state_builder import GIB, StateBuilder, requests
from tests.scheduler.test_snapshot import LIMITS

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


def cluster(nodes: str = "a b c", cpu: int = 4) -> StateBuilder:
    """Nodes by name; the class `local` has no provisioner, `made` has one. Both wait."""
    builder = StateBuilder()
    for name in nodes.split():
        builder.node(name, cpu, labels={HOST: name})
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "csi.example")):
        builder.state.volumes.set_class(StorageClassInfo(name, provisioner, waits=True))
    return builder


def disk(builder: StateBuilder, name: str, node: str = "", **fields: Any) -> None:
    """A free volume of 2 GiB on that node, or on all."""
    volume = replace(DISK, name=name, affinity=on(node) if node else None, **fields)
    builder.state.volumes.set_volume(volume)


def claim(builder: StateBuilder, name: str = "data", **fields: Any) -> None:
    builder.state.volumes.set_claim(replace(WANTS, key=("ns", name), uid=f"u-{name}", **fields))


def user(builder: StateBuilder, *claims: str, group: str | None = None, cpu: int = 1) -> PodInfo:
    wants = Requirements(requests(cpu), claims=tuple(("ns", name) for name in claims))
    return builder.pod(group, requirements=wants)


def open_nodes(builder: StateBuilder, info: PodInfo) -> str:
    nodes = builder.state.nodes
    slots = builder.state.framework.slots(builder.single(info).shape)
    return " ".join(sorted(nodes.name_of(row) for row in slots.nonzero()[0].tolist()))


def why(builder: StateBuilder, info: PodInfo) -> set[str]:
    found = {reason for reason, _ in reasons(builder.state.framework, builder.single(info).shape)}
    return found - {"Insufficient cpu"}


def run(builder: StateBuilder, info: PodInfo) -> str:
    """Decide the pod alone; its node, where it has one now."""
    decision = builder.place_single(info)
    if isinstance(decision, Refusal):
        return ""
    builder.run(decision)
    return builder.where(decision)[info.name]


def promised(builder: StateBuilder) -> dict[str, tuple[str, str]]:
    """Volume and node by the claim's name."""
    name_of = builder.state.nodes.name_of
    return {key[1]: (p.volume, name_of(p.row)) for key, p in builder.state.volumes.assumed}


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
    builder = cluster()
    disk(builder, "disk", "b", **volume)
    claim(builder, **wants)

    info = user(builder, "data")

    assert open_nodes(builder, info) == ("b" if fits else "")
    assert run(builder, info) == ("b" if fits else "")
    assert promised(builder) == ({"data": ("disk", "b")} if fits else {})


def test_a_volume_is_found_where_it_is_once_its_node_or_label_comes() -> None:
    builder = cluster("a")
    disk(builder, "disk", "late")
    claim(builder)
    info = user(builder, "data")
    seen = [open_nodes(builder, info)]
    builder.node("late", labels={HOST: "late"})
    seen.append(open_nodes(builder, info))
    builder.node("a", labels={HOST: "late"})
    seen.append(open_nodes(builder, info))
    builder.state.remove_node("late")
    seen.append(open_nodes(builder, info))

    assert seen == ["", "late", "a late", "a"]


def test_a_volume_that_is_made_again_elsewhere_is_found_there() -> None:
    builder = cluster()
    disk(builder, "disk", "a")
    claim(builder)
    info = user(builder, "data")
    seen = [open_nodes(builder, info)]
    builder.state.volumes.remove_volume("disk")
    disk(builder, "disk", "b")

    assert [*seen, open_nodes(builder, info)] == ["a", "b"]


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
    builder = cluster()
    for name, fields in volumes.items():
        disk(builder, name, "b", **fields)
    claim(builder)

    run(builder, user(builder, "data"))

    assert promised(builder) == {"data": (want, "b")}


def test_a_volume_meant_for_the_claim_bars_all_others() -> None:
    builder = cluster()
    disk(builder, "own", "a", claim=DATA)
    disk(builder, "other", "b")
    claim(builder)

    assert open_nodes(builder, user(builder, "data")) == "a"


def test_claims_of_one_pod_take_different_volumes_the_smallest_first() -> None:
    builder = cluster()
    for node in "ab":
        disk(builder, f"{node}-small", node)
    disk(builder, "a-large", "a", size=8 * GIB)
    claim(builder, "large", size=4 * GIB)
    claim(builder, "small")
    claim(builder, "second")

    both = user(builder, "large", "small")
    two_small = user(builder, "small", "second")

    assert open_nodes(builder, both) == "a"
    assert open_nodes(builder, two_small) == "a"
    assert why(builder, both) == {
        "no ReadWriteOnce volume of class local with >= 4Gi is left",
        "no ReadWriteOnce volume of class local with >= 2Gi is left",
    }
    assert run(builder, both) == "a"
    assert promised(builder) == {"large": ("a-large", "a"), "small": ("a-small", "a")}


def test_a_pod_whose_claims_need_the_same_volume_fits_nowhere() -> None:
    builder = cluster()
    disk(builder, "only", "a")
    claim(builder, "one")
    claim(builder, "two")

    info = user(builder, "one", "two")

    assert open_nodes(builder, info) == ""
    assert why(builder, info) == {"no ReadWriteOnce volume of class local with >= 2Gi is left"}


def test_members_of_a_gang_take_different_volumes() -> None:
    builder = cluster(cpu=8)
    for node in "abc":
        disk(builder, f"disk-{node}", node)
    builder.gang("g", 3)
    for index in range(3):
        claim(builder, f"data-{index}")
        user(builder, f"data-{index}", group="g")

    decision = builder.place("g")
    builder.run(decision)

    assert set(builder.where(decision).values()) == {"a", "b", "c"}
    assert len({volume for volume, _ in promised(builder).values()}) == 3


def test_a_gang_with_too_few_volumes_is_told_how_many_and_where() -> None:
    builder = cluster(cpu=8)
    for node in "ab":
        disk(builder, f"disk-{node}", node)
    builder.gang("g", 3)
    for index in range(3):
        claim(builder, f"data-{index}")
        user(builder, f"data-{index}", group="g")

    refused = builder.place("g")

    assert isinstance(refused, Refusal)
    assert promised(builder) == {}
    assert explain(builder.state, refused).summary == (
        "needs room for 1 more pod, there is room for 0:"
        " no ReadWriteOnce volume of class local with >= 2Gi is left on 3 of 3 nodes;"
        " add volumes of that class where these pods fit, or ask for less"
    )


def test_a_volume_that_comes_wakes_who_waits_for_it() -> None:
    builder = cluster()
    claim(builder)
    info = user(builder, "data")
    refused = builder.place_single(info)
    builder.state.take_changes()

    disk(builder, "disk", "b")
    builder.state.volumes_changed()

    assert isinstance(refused, Refusal)
    assert len(builder.state.take_changes().rows) == 3
    assert run(builder, info) == "b"


def test_what_is_decided_counts_until_it_is_given_up() -> None:
    builder = cluster()
    disk(builder, "disk", "b")
    claim(builder, "first")
    claim(builder, "second")
    first, second = user(builder, "first"), user(builder, "second")
    seen = [run(builder, first), open_nodes(builder, second)]
    builder.state.forget(first.uid)
    seen.append(open_nodes(builder, second))

    assert seen == ["b", "", "b"]
    assert promised(builder) == {}


def test_a_promised_volume_that_changes_is_still_promised() -> None:
    builder = cluster()
    disk(builder, "disk", "b")
    claim(builder, "first")
    claim(builder, "second")
    run(builder, user(builder, "first"))
    second = user(builder, "second")
    disk(builder, "disk", "b", labels={"tier": "silver"})

    assert open_nodes(builder, second) == ""


def test_a_pod_that_another_begins_to_speak_of_keeps_its_volume() -> None:
    builder = cluster("a")
    disk(builder, "first", "a")
    disk(builder, "second", "a")
    claim(builder)
    wants = Requirements(requests(1), claims=(DATA,))
    info = builder.pod(requirements=wants, labels={"app": "x"})
    builder.state.assume([builder.single(info)], [0], {DATA: AssumedVolume("second", 0)})
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    builder.pod(
        requirements=Requirements(requests(1), required_anti_affinity=(PodTerm(selector, HOST),))
    )

    assert promised(builder) == {"data": ("second", "a")}


def test_what_is_bound_is_taken_even_before_its_volume_says_so() -> None:
    builder = cluster()
    disk(builder, "disk", "b")
    claim(builder, "first")
    claim(builder, "second")
    first, second = user(builder, "first"), user(builder, "second")
    run(builder, first)
    claim(builder, "first", volume="disk")

    assert promised(builder) == {}
    assert open_nodes(builder, second) == ""
    builder.state.volumes.remove_claim(("ns", "first"))
    assert open_nodes(builder, second) == "b"


def test_a_claim_that_pods_share_gets_one_volume() -> None:
    builder = cluster(cpu=2)
    for node in "abc":
        disk(builder, f"disk-{node}", node)
    claim(builder)
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")
    decision = builder.place("g")
    builder.run(decision)
    late = user(builder, "data")

    assert len(set(builder.where(decision).values())) == 1
    assert len(promised(builder)) == 1
    assert open_nodes(builder, late) == ""


def test_a_claim_that_pods_share_is_made_on_one_node() -> None:
    builder = cluster("a b", cpu=2)
    claim(builder, storage_class="made")
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")

    assert len(set(builder.where(builder.place("g")).values())) == 1


def test_a_volume_that_all_nodes_reach_takes_pods_from_all() -> None:
    builder = cluster("a b", cpu=1)
    disk(builder, "shared")
    claim(builder)
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")

    assert set(builder.where(builder.place("g")).values()) == {"a", "b"}


def test_pods_that_share_a_claim_go_where_there_is_room_for_all() -> None:
    builder = cluster("a b")
    builder.node("a", 1, labels={HOST: "a"})
    disk(builder, "disk-a", "a")
    disk(builder, "disk-b", "b")
    claim(builder)
    builder.gang("g", 3)
    for _ in range(3):
        user(builder, "data", group="g")

    assert set(builder.where(builder.place("g")).values()) == {"b"}


def test_pods_that_share_a_claim_go_to_the_volume_that_more_nodes_reach() -> None:
    builder = cluster("a b c", cpu=1)
    for name, nodes in (("disk-a", "a"), ("disk-bc", "bc")):
        builder.state.volumes.set_volume(replace(DISK, name=name, affinity=on(*nodes)))
    claim(builder)
    builder.gang("g", 2)
    for _ in range(2):
        user(builder, "data", group="g")

    assert set(builder.where(builder.place("g")).values()) == {"b", "c"}


def test_what_has_a_provisioner_takes_volumes_first_and_makes_the_rest() -> None:
    builder = cluster("a", cpu=8)
    disk(builder, "disk", "a", storage_class="made")
    builder.gang("g", 2)
    for index in range(2):
        claim(builder, f"data-{index}", storage_class="made")
        user(builder, f"data-{index}", group="g")

    builder.run(builder.place("g"))

    assert sorted(promised(builder).values()) == [("", "a"), ("disk", "a")]


def test_a_claim_with_a_selected_node_is_made_there_whatever_volumes_there_are() -> None:
    builder = cluster()
    for node in "ab":
        disk(builder, f"disk-{node}", node, storage_class="made")
    claim(builder, storage_class="made", selected_node="b")

    info = user(builder, "data")

    assert open_nodes(builder, info) == "b"
    assert why(builder, info) == {NO_VOLUME}
    run(builder, info)
    assert promised(builder) == {"data": ("", "b")}


def test_a_pod_that_runs_with_an_unbound_claim_promises_nothing() -> None:
    builder = cluster()
    disk(builder, "disk", "b")
    claim(builder)
    wants = Requirements(requests(1), claims=(DATA,))
    pods = [builder.pod(node="a", requirements=wants, ours=False) for _ in range(2)]
    builder.state.remove_pod(pods[0].uid)

    assert promised(builder) == {}
    assert open_nodes(builder, user(builder, "data")) == "b"


def test_a_node_that_goes_takes_its_promises_along() -> None:
    builder = cluster()
    disk(builder, "disk")
    claim(builder)
    run(builder, user(builder, "data"))
    (node,) = {node for _, node in promised(builder).values()}
    builder.state.remove_node(node)

    assert promised(builder) == {}


def test_held_places_keep_their_volumes() -> None:
    builder = cluster("a", cpu=8)
    disk(builder, "disk", "a")
    claim(builder, "held")
    claim(builder, "other")
    shape = builder.single(user(builder, "held")).shape
    builder.state.nominations.set(Nomination(("Pod", "ns", "x"), 0, ((shape, (("a", 1),)),)))

    assert isinstance(builder.place_single(user(builder, "other")), Refusal)
    assert promised(builder) == {}


def test_what_was_chosen_on_trial_is_what_is_promised() -> None:
    builder = cluster("a", cpu=8)
    disk(builder, "first", "a")
    disk(builder, "second", "a")
    claim(builder, "held")
    claim(builder, "other")
    shape = builder.single(user(builder, "held")).shape
    builder.state.nominations.set(Nomination(("Pod", "ns", "x"), 0, ((shape, (("a", 1),)),)))

    decision = builder.place_single(user(builder, "other"))
    assert isinstance(decision, Placement)
    assert decision.volumes == {("ns", "other"): AssumedVolume("second", 0)}
    builder.run(decision)

    assert promised(builder) == {"other": ("second", "a")}


def test_promises_are_the_same_after_writing_and_reading() -> None:
    builder = cluster(cpu=8)
    for node in "abc":
        disk(builder, f"disk-{node}", node)
    disk(builder, "more", "a")
    for index in range(4):
        claim(builder, f"data-{index}")
        info = user(builder, f"data-{index}")
        if index == 0:
            # Not what it would choose.
            row = builder.state.nodes.row_of["a"]
            more = {("ns", "data-0"): AssumedVolume("more", row)}
            builder.state.assume([builder.single(info)], [row], more)
        if index == 1:
            run(builder, info)
    queue = Queue(builder.state)
    builder.state.reconsider_all()
    queue.refresh(builder.state.take_changes(), 0)
    snapshot = take(builder.state, queue, LIMITS)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert list(state.volumes.assumed) == list(builder.state.volumes.assumed)
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
    builder = cluster(cpu=2)
    for index, (node, size) in enumerate(volumes):
        disk(builder, f"disk-{index}", node, size=size * GIB)
    sizes = {number: size for gang in gangs for number, size in gang}
    for number, size in sizes.items():
        claim(builder, f"data-{number}", size=size * GIB)
    for index, gang in enumerate(gangs):
        builder.gang(f"g{index}", len(gang))
        for number, _ in gang:
            user(builder, f"data-{number}", group=f"g{index}")
    for index in range(len(gangs)):
        before = promised(builder)
        decision = builder.place(f"g{index}")
        assert promised(builder) == before
        if isinstance(decision, Placement):
            builder.run(decision)
            check(builder)
    for at, bound in turns:
        assumed = [pod for pod in builder.state.pods.values() if pod.assumed]
        if assumed:
            step(builder, assumed[at % len(assumed)].info, bound=bound)
            check(builder)


def step(builder: StateBuilder, info: PodInfo, *, bound: bool) -> None:
    """The pod is given up, or its claims are bound as promised."""
    if not bound:
        builder.state.forget(info.uid)
        return
    storage = builder.state.volumes
    for key, promise in storage.assumed.of(info.requirements.claims).items():
        storage.set_claim(replace(storage.claims[key], volume=promise.volume))
        volume = storage.volumes[promise.volume]
        storage.set_volume(replace(volume, claim=key, available=False))


def check(builder: StateBuilder) -> None:
    """Each claim of a placed pod has one volume that reaches its node, and nobody else has it."""
    storage = builder.state.volumes
    given = {key: promise.volume for key, promise in storage.assumed}
    given |= {key: known.volume for key, known in storage.claims.items() if known.volume}
    assert len(set(given.values())) == len(given)
    for pod in builder.state.pods.values():
        for key in pod.info.requirements.claims:
            if pod.assumed:
                assert storage.reaches(given[key], pod.row)
                assert storage.volumes[given[key]].size >= storage.claims[key].size
    users = {
        key for pod in builder.state.pods.values() if pod.assumed
        for key in pod.info.requirements.claims
    }  # fmt: skip
    assert {key for key, _ in storage.assumed} <= users
