"""Each check finds the bad history that it is for, and no good history has a finding."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.checks import CHECKS, judge
from conformance.values.history import (
    Awaited,
    Deleted,
    Event,
    Node,
    NodeSeen,
    Pod,
    PodGone,
    PodSeen,
    Removed,
    Settled,
)
from conformance.values.scenario import Expect, Gang, Pods, Scenario, Step

GRACE = 10.0
NODES = [Node(name=f"n{rack}", allocatable={"cpu": Decimal(4)}, rack=rack) for rack in "12"]


def scenario(*groups: Gang | Pods, **expect: Any) -> Scenario:
    steps = [Step(gangs=[it]) if isinstance(it, Gang) else Step(pods=it) for it in groups]
    return Scenario(title="", outcome="", steps=steps, expect=Expect(**expect))


def seen(at: float, uid: str, node: str = "n1", **more: Any) -> PodSeen:
    """A pod of the gang that its name begins with, as in `low-1`; without a node it waits."""
    waits = {} if node else {"scheduled": "False", "reason": "Unschedulable", "message": "no room"}
    fixed: dict[str, Any] = {"requests": {"cpu": Decimal(1)}, **waits}
    pod = Pod(uid=uid, name=uid, gang=uid.partition("-")[0], node=node, **(fixed | more))
    return PodSeen(at, pod)


def placed(at: float, gang: str, count: int, node: str = "n1", **more: Any) -> list[Event]:
    return [seen(at, f"{gang}-{number}", node, **more) for number in range(count)]


def history(*parts: Event | Sequence[Event]) -> list[Event]:
    nodes = [NodeSeen(0, node) for node in NODES]
    lists = [part if isinstance(part, Sequence) else [part] for part in parts]
    return [*nodes, *(event for part in lists for event in part)]


def settled(at: float, **claims: bool | None) -> Settled:
    return Settled(at, claims)


LOW = Gang(name="low", members=4, priority=10)
HIGH = Gang(name="high", members=2, priority=20)
SINGLE = Pods(name="single", members=2)
EVICTED: dict[str, Any] = {"ending": True}

BAD: dict[str, tuple[str, float, list[str], Scenario, list[Event]]] = {
    "half for longer than the grace": (
        "half", 21, ["low"], scenario(LOW),
        history(placed(10, "low", 3), seen(21, "low-3", "")),
    ),
    "half for longer than the grace, until the last event": (
        "half", 60, ["low"], scenario(LOW), history(placed(10, "low", 3), seen(60, "low-3")),
    ),
    "half when nothing changes any more": (
        "half", 12, ["low"], scenario(LOW),
        history(placed(10, "low", 3), seen(11, "low-3", ""), settled(12)),
    ),
    "half after an eviction of a part": (
        "half", 13, ["low"], scenario(LOW, HIGH, broken=1),
        history(
            placed(10, "low", 4), seen(11, "low-0", **EVICTED), placed(12, "high", 2, "n2"),
            settled(13),
        ),
    ),
    "half although the lost pod was replaced once": (
        "half", 40, ["low"], scenario(LOW, broken=9),
        history(
            placed(10, "low", 4), Deleted(11, ["low-0"]), PodGone(11, "low-0"), seen(12, "low-9"),
            Removed(13, "other"), PodGone(20, "low-1"), settled(40),
        ),
    ),
    "more requests than the node has": (
        "capacity", 10, ["n1", "single-4"], scenario(SINGLE), history(placed(10, "single", 5)),
    ),
    "an ending pod still uses its node": (
        "capacity", 12, ["n1", "single-8"], scenario(SINGLE),
        history(
            placed(10, "single", 4), Deleted(11, ["single-0"]), seen(11, "single-0", **EVICTED),
            seen(12, "single-8"),
        ),
    ),
    "a pod of others counts": (
        "capacity", 11, ["n1", "single-0"], scenario(SINGLE),
        history(
            PodSeen(10, Pod(uid="x", name="x", node="n1", requests={"cpu": Decimal(4)})),
            seen(11, "single-0"),
        ),
    ),
    "an eviction after which nothing starts": (
        "in-vain", 11, ["single-0"], scenario(SINGLE, HIGH, broken=9),
        history(placed(10, "single", 1), seen(11, "single-0", **EVICTED), settled(30)),
    ),
    "an eviction long after what started": (
        "in-vain", 21, ["low-3"],
        scenario(LOW, Pods(name="single", members=1, priority=20), broken=9),
        history(
            placed(10, "low", 4, priority=10), *(seen(11, f"low-{n}", **EVICTED) for n in range(3)),
            PodGone(11.1, "low-0"), seen(11.2, "single-0", priority=20),
            seen(21, "low-3", **EVICTED), settled(30),
        ),
    ),
    "an eviction for an equal priority": (
        "in-vain", 11, ["high-0", "high-1"],
        scenario(HIGH, Pods(name="other", members=1, priority=20), broken=9),
        history(
            placed(10, "high", 2, priority=20), PodGone(11, "high-0"), PodGone(11, "high-1"),
            seen(12, "other-0"),
        ),
    ),
    "two units where one is enough": (
        "units", 11, ["single-0", "single-1"], scenario(SINGLE, HIGH, broken=1),
        history(
            placed(10, "single", 2), PodGone(11, "single-0"), PodGone(11, "single-1"),
            placed(12, "high", 2),
        ),
    ),
    "the same gang evicted again and again": (
        "loop", 31, ["low"], scenario(LOW, HIGH, broken=9),
        history(
            *(
                [
                    *placed(at, "low", 4, priority=10),
                    *(seen(at + 1, f"low-{n}", **EVICTED) for n in range(4)),
                    *placed(at + 2, "high", 2, "n2"),
                    *(seen(at + 3, f"high-{n}", "", scheduled="False") for n in range(2)),
                ]
                for at in (10, 20, 30)
            )
        ),
    ),
    "two racks": (
        "rack", 11, ["low"], scenario(Gang(name="low", members=4, one_rack=True)),
        history(placed(10, "low", 3), seen(11, "low-3", "n2")),
    ),
    "a status that denies what runs": (
        "status", 11, ["low"], scenario(LOW),
        history(placed(10, "low", 4), settled(11, low=False)),
    ),
    "a status that claims what does not run": (
        "status", 11, ["low"], scenario(LOW),
        history(placed(10, "low", 4, ""), settled(11, low=True)),
    ),
    "pods that do not say why they wait": (
        "status", 11, ["low-0"], scenario(LOW),
        history(seen(10, "low-0", "", message=""), settled(11, low=False)),
    ),
    "a placed pod that is reported as waiting": (
        "status", 11, ["single-0"], scenario(SINGLE),
        history(seen(10, "single-0", scheduled="False"), settled(11)),
    ),
    "a state that is not reached": (
        "progress", 60, ["low"], scenario(LOW), history(Awaited(60, "settled at low 4", False)),
    ),
    "the lower gang first": (
        "order", 10, ["low", "high"], scenario(LOW, HIGH, order=["high", "low"]),
        history(placed(10, "low", 4), placed(12, "high", 2, "n2")),
    ),
}  # fmt: skip

GOOD = {
    "a start that takes a while": (
        scenario(LOW),
        history(placed(10, "low", 3), seen(19, "low-3"), settled(30, low=True)),
    ),
    "a gang that waits": (
        scenario(LOW), history(placed(10, "low", 4, ""), settled(30, low=False)),
    ),
    "an API without a status": (
        scenario(LOW), history(placed(10, "low", 4), settled(11, low=None)),
    ),
    "a pod that the kit deleted, and its replacement": (
        scenario(LOW),
        history(
            placed(10, "low", 4), Deleted(11, ["low-0"]), seen(11, "low-0", **EVICTED),
            PodGone(12, "low-0"), seen(13, "low-9", ""), settled(30), seen(31, "low-9"),
        ),
    ),
    "a gang that the kit removed": (
        scenario(LOW), history(placed(10, "low", 4), Removed(11, "low"), PodGone(12, "low-0")),
    ),
    "a gang evicted as a whole for a higher one": (
        scenario(LOW, HIGH, broken=1),
        history(
            placed(10, "low", 4, priority=10), *(seen(11, f"low-{n}", **EVICTED) for n in range(4)),
            *(PodGone(12, f"low-{n}") for n in range(4)), placed(13, "high", 2, priority=20),
            settled(30, high=True),
        ),
    ),
    "a gang whose last pod goes when what it made room for has started": (
        scenario(LOW, Pods(name="single", members=1, priority=20), broken=1),
        history(
            placed(10, "low", 4, priority=10), *(seen(11, f"low-{n}", **EVICTED) for n in range(3)),
            PodGone(11.1, "low-0"), seen(11.2, "single-0", priority=20),
            seen(11.3, "low-3", **EVICTED), settled(30),
        ),
    ),
    "an eviction for a pod beyond the minimum": (
        scenario(LOW, Gang(name="high", members=3, minimum=2, priority=20), broken=1),
        history(
            placed(10, "low", 4, priority=10), placed(11, "high", 2, "n2", priority=20),
            *(seen(12, f"low-{n}", **EVICTED) for n in range(4)),
            seen(13, "high-2", "n2", priority=20),
        ),
    ),
    "finished pods use nothing": (
        scenario(SINGLE), history(placed(10, "single", 4, finished=True), seen(11, "single-9")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_found_with_its_moment_and_its_objects(name: str) -> None:
    check, at, objects, stage, events = BAD[name]
    found = [it for it in judge(events, stage, GRACE) if it.check == check]
    assert [(it.at, it.objects) for it in found] == [(at, objects)], found


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_has_no_finding(name: str) -> None:
    assert judge(GOOD[name][1], GOOD[name][0], GRACE) == []


def test_each_check_has_a_bad_history_that_it_alone_finds() -> None:
    used = {
        check.__name__
        for check in CHECKS
        for _, _, _, stage, events in BAD.values()
        if list(check(events, stage, GRACE))
    }
    assert used == {check.__name__ for check in CHECKS}
    assert len({row[0] for row in BAD.values()}) == len(CHECKS)


_moves = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["place", "evict", "delete", "gone"]),
        st.floats(0.1, 6),
    ),
    max_size=40,
)


def _play(moves: Sequence[tuple[int, str, float]]) -> list[Event]:
    at, events = 1.0, history()
    for number, move, pause in moves:
        at, uid = at + pause, f"low-{number}"
        match move:
            case "place":
                events.append(seen(at, uid))
            case "evict":
                events.append(seen(at, uid, **EVICTED))
            case "delete":
                events += [Deleted(at, [uid]), PodGone(at, uid)]
            case _:
                events.append(PodGone(at, uid))
    return events


@given(moves=_moves)
def test_a_gang_is_half_exactly_if_a_settled_moment_shows_it(
    moves: list[tuple[int, str, float]],
) -> None:
    """Without deletions by the kit the rule is the number of placed pods alone."""
    moves = [it for it in moves if it[1] != "delete"]
    events = _play(moves)
    up: set[int] = set()
    for number, move, _ in moves:
        up = up | {number} if move == "place" else up - {number}
    found = judge([*events, settled(999)], scenario(LOW, broken=99), grace=1000)
    halves = [it for it in found if it.check == "half"]
    assert bool(halves) == (0 < len(up) < LOW.members)


@given(moves=_moves, cut=st.integers(0, 60))
def test_findings_never_go_away_as_history_goes_on(
    moves: list[tuple[int, str, float]], cut: int
) -> None:
    """Only "in vain" depends on later events: what starts later justifies an eviction."""
    events = _play(moves)
    stage = scenario(LOW, broken=0)
    early, late = (
        {msgspec.json.encode(it) for it in judge(part, stage, 5) if it.check in {"half", "loop"}}
        for part in (events[:cut], events)
    )
    assert early <= late


@given(moves=_moves)
def test_a_history_survives_its_file(moves: list[tuple[int, str, float]]) -> None:
    events = [*_play(moves), settled(99, low=True), Awaited(99, "x", True), Removed(99, "low")]
    decoded = msgspec.json.decode(msgspec.json.encode(events), type=list[Event])
    assert decoded == events
