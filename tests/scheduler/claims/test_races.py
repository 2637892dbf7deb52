"""Two schedulers allocate from one pool: devices, shares of devices, and shared counters."""

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kube.client.meta import Json
from kube.client.resources import RESOURCE_CLAIMS
from tests.scheduler.claims.claims_harness import ClaimsHarness
from tools.testing.effort import examples

KIND: Final = 'device.attributes["gpu.example.com"].kind == "%s"'


def two_nodes() -> ClaimsHarness:
    """Create two nodes, each with a plain device, a shared one of 4 units, and parts.

    The parts are of one device with 2 counters.
    """
    harness = ClaimsHarness()
    harness.device_class()
    for node in ("n0", "n1"):
        harness.builder.node(node, cpu=64)
        harness.slice(node, count=2, devices=[
            _device("plain", "plain"),
            _device("shared", "shared", allowMultipleAllocations=True,
                    capacity={"units": {"value": "4"}}),
            _part("half0", 1), _part("half1", 1), _part("whole", 2),
        ])  # fmt: skip
        sets = [{"name": "set", "counters": {"parts": {"value": "2"}}}]
        harness.slice(node, "sets", count=2, sharedCounters=sets)
    return harness


def _device(name: str, kind: str, **more: Any) -> Json:
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


def _part(name: str, parts: int) -> Json:
    counters = {"counterSet": "set", "counters": {"parts": {"value": str(parts)}}}
    return _device(name, name.rstrip("01"), consumesCounters=[counters])


def asked(kind: str, units: int = 0) -> Json:
    """Return the additional fields of a request for such a device."""
    found: Json = {"selectors": [{"cel": {"expression": KIND % kind}}]}
    if units:
        found["capacity"] = {"requests": {"units": str(units)}}
    return found


def share(units: int) -> Json:
    return {"shareID": "0b9f4b06-7b9a-4a3e-8ad8-3d5d4c7a2f41",
            "consumedCapacity": {"units": str(units)}}  # fmt: skip


@dataclass(frozen=True)
class Race:
    """A race: our request, and the device that they allocate on node n0."""

    ours: Json
    theirs: str
    result: Json = field(default_factory=dict)
    what: str = ""


RACES = [
    pytest.param(
        Race(asked("plain"), "plain", what="device gpu.example.com/n0/plain"), id="a device"
    ),
    pytest.param(
        Race(
            asked("shared", 2), "shared", share(3),
            what="capacity units of device gpu.example.com/n0/shared",
        ),
        id="shares that are too much together",
    ),
    pytest.param(
        Race(asked("shared", 2), "shared", what="device gpu.example.com/n0/shared"),
        id="the whole of a device of which we take a share",
    ),
    pytest.param(
        Race(asked("whole"), "half1", what="counter parts of set in pool gpu.example.com/n0"),
        id="a part of the device that we take",
    ),
    pytest.param(
        Race(asked("half"), "whole", what="counter parts of set in pool gpu.example.com/n0"),
        id="the device of which we take a part",
    ),
]  # fmt: skip

PEACE = [
    pytest.param(Race(asked("shared", 2), "shared", share(2)), id="shares for which there is room"),
    pytest.param(Race(asked("half"), "half1"), id="different parts"),
    pytest.param(Race(asked("plain"), "whole"), id="different devices"),
    pytest.param(Race(asked("half"), "half1", {"adminAccess": True}), id="access for an admin"),
]


def racing(race: Race) -> ClaimsHarness:
    harness = two_nodes()
    harness.pod("p")
    harness.claim("p-0", owner="p", **race.ours)
    harness.claim("theirs")
    return harness


def before(harness: ClaimsHarness, race: Race, subresource: str | None) -> None:
    """Let them allocate before our first write of this kind."""

    def first(name: str, written: str | None) -> None:
        if name == "p-0" and written == subresource and "theirs" not in harness.held():
            harness.foreign("theirs", "n0", race.theirs, "somebody", **race.result)

    harness.api.before_write = first


@pytest.mark.parametrize("race", RACES)
async def test_what_they_wrote_first_we_give_back(race: Race) -> None:
    harness = racing(race)
    before(harness, race, "status")
    harness.api.hold_events(RESOURCE_CLAIMS)
    async with harness.leading():
        await harness.settle(2)
        assert set(harness.held()) == {"theirs", "p-0"}
        harness.api.release_events()
        await harness.settle(10)

    assert harness.api.bound == {"p": "n1"}
    assert harness.held()["theirs"][0].startswith("n0/")
    assert harness.held()["p-0"][0].startswith("n1/")


@pytest.mark.parametrize("race", RACES)
async def test_what_is_known_to_be_theirs_is_not_written(race: Race) -> None:
    harness = racing(race)
    before(harness, race, None)
    async with harness.leading():
        await harness.settle(10)

    assert harness.api.bound == {"p": "n1"}
    assert [sub for name, sub in harness.api.writes if name == "p-0"].count("status") == 1


@pytest.mark.parametrize("race", RACES)
async def test_a_list_tells_who_was_first_only_once_it_is_complete(race: Race) -> None:
    """It has no order, and later writes to a claim hide the time of its allocation."""
    harness = racing(race)
    before(harness, race, "status")
    harness.api.hold_events(RESOURCE_CLAIMS)
    async with harness.leading():
        await harness.settle(2)
        assert set(harness.held()) == {"theirs", "p-0"}
        harness.api.store(copy.deepcopy(harness.api.claims["theirs"]))
        harness.api.held_events.clear()
        harness.api.release_events()

        harness.claims.listing(True)
        harness.claim_event(harness.api.claims["p-0"])
        await harness.settle(2)
        assert harness.api.bound == {}
        harness.claim_event(harness.api.claims["theirs"])
        harness.claims.listing(False)
        await harness.settle(10)

    assert harness.api.bound == {"p": "n1"}
    assert harness.held()["p-0"][0].startswith("n1/")


async def test_what_a_list_brings_confirms_what_was_written() -> None:
    harness = racing(Race(asked("plain"), "plain"))
    harness.api.hold_events(RESOURCE_CLAIMS)
    async with harness.leading():
        await harness.settle(2)
        harness.api.held_events.clear()
        harness.api.release_events()
        harness.claims.listing(True)
        harness.claim_event(harness.api.claims["p-0"])
        harness.claims.listing(False)
        await harness.settle(1)

    assert harness.api.bound == {"p": "n0"}


@pytest.mark.parametrize("race", RACES)
async def test_pods_are_told_of_what_they_took_after_us(race: Race) -> None:
    harness = racing(race)
    async with harness.leading():
        await harness.settle(2)
        assert harness.api.bound == {"p": "n0"}
        harness.foreign("theirs", "n0", race.theirs, "somebody", **race.result)
        await harness.settle(10)

    told = [(who, text) for who, reason, text in harness.events.told if "Twice" in reason]
    assert [who for who, _ in told] == ["Pod/p"]
    assert told[0][1].startswith(f"{race.what}, which ResourceClaim p-0 has, was allocated")
    assert harness.held()["p-0"]


@pytest.mark.parametrize("race", PEACE)
async def test_what_both_can_have_both_keep(race: Race) -> None:
    harness = racing(race)
    before(harness, race, "status")
    harness.api.hold_events(RESOURCE_CLAIMS)
    async with harness.leading():
        await harness.settle(2)
        harness.api.release_events()
        await harness.settle(5)

    assert harness.api.bound == {"p": "n0"}
    assert not [reason for _, reason, _ in harness.events.told if "Twice" in reason]
    assert len(harness.api.writes) == 2


OURS = [asked("plain"), asked("shared", 1), asked("shared", 3), asked("half"), asked("whole")]
THEIRS: list[tuple[str, Json]] = [
    ("plain", {}),
    ("shared", share(1)),
    ("shared", share(3)),
    ("half0", {}),
    ("half1", {}),
    ("whole", {}),
]

PARTS: Final = {"half0": 1, "half1": 1, "whole": 2}


@dataclass(frozen=True)
class Act:
    """Their action before one of our writes: they allocate, and the watch may deliver it."""

    write: int
    node: str
    theirs: int
    watch: bool


ACTS = st.lists(
    st.builds(
        Act,
        write=st.integers(0, 12),
        node=st.sampled_from(("n0", "n1")),
        theirs=st.integers(0, len(THEIRS) - 1),
        watch=st.booleans(),
    ),
    max_size=6,
)


LATE: Final = [
    Act(write=0, node="n0", theirs=2, watch=False),
    Act(write=4, node="n1", theirs=1, watch=True),
    Act(write=5, node="n0", theirs=3, watch=False),
    Act(write=9, node="n1", theirs=2, watch=False),
]
"""Acts of which the last one occurs when unconfirmed claims are written again."""


class Story:
    """Our pods and their claims; they check nothing, and write at any moment."""

    def __init__(self, ours: list[int], gang: int, acts: list[Act]) -> None:
        self.harness = harness = two_nodes()
        if gang:
            harness.observe(harness.builder.gang("g", gang))
        for at, each in enumerate(ours):
            harness.pod(f"p{at}", "g" if at < gang else "")
            harness.claim(f"p{at}-0", owner=f"p{at}", **OURS[each])
        for at in range(len(acts)):
            harness.claim(f"theirs{at}")
        self.acts = acts
        self.writes = 0
        harness.api.before_write = self.act

    def act(self, _name: str, _subresource: str | None) -> None:
        api = self.harness.api
        for at, act in enumerate(self.acts):
            if act.write == self.writes:
                device, result = THEIRS[act.theirs]
                self.harness.foreign(f"theirs{at}", act.node, device, f"they{at}", **result)
                if act.watch:
                    api.release_events()
                else:
                    api.hold_events(RESOURCE_CLAIMS)
        self.writes += 1

    def too_much(self) -> list[str]:
        """Return the claims that got earlier ones' devices, or more than the rest."""
        units: Counter[str] = Counter()
        devices: set[tuple[str, str]] = set()
        found: list[str] = []
        for _, name in sorted((version, name) for name, version in self.allocated().items()):
            (result,) = self.harness.api.claims[name]["status"]["allocation"]["devices"]["results"]
            node, device = result["pool"], result["device"]
            twice = (node, device) in devices and device != "shared"
            devices.add((node, device))
            units[node] += int(result.get("consumedCapacity", {}).get("units", 0))
            parts = sum(PARTS.get(each, 0) for at, each in devices if at == node)
            if twice or (device == "shared" and units[node] > 4) or (device in PARTS and parts > 2):
                found.append(name)
        return found

    def allocated(self) -> dict[str, int]:
        """Return the version at which each claim was allocated; no later writes follow."""
        claims = self.harness.api.claims
        return {
            name: int(claims[name]["metadata"]["resourceVersion"]) for name in self.harness.held()
        }


@examples(10, 75)
@example(ours=[0, 3, 0], gang=2, acts=LATE)
@given(
    ours=st.lists(st.integers(0, len(OURS) - 1), min_size=1, max_size=6),
    gang=st.sampled_from((0, 2, 3)),
    acts=ACTS,
)
async def test_in_whatever_order_two_schedulers_write_ours_takes_nothing_twice(
    ours: list[int], gang: int, acts: list[Act]
) -> None:
    story = Story(ours, min(gang, len(ours)), acts)
    harness = story.harness
    async with harness.leading():
        await harness.settle(20)
        for _ in range(len(acts) + 1):  # one of theirs may delay the watch once more
            harness.api.release_events()
            await harness.settle(40)
        await harness.settle(60)
        writes = list(harness.api.writes)
        await harness.settle(70)

    # They may be second, and take our devices; we never do.
    assert [name for name in story.too_much() if name.startswith("p")] == []
    assert harness.api.writes == writes
    for name in harness.held():
        if name.startswith("p"):
            assert name.removesuffix("-0") in harness.api.bound
    in_gang = [f"p{at}" for at in range(min(gang, len(ours)))]
    assert len({pod in harness.api.bound for pod in in_gang}) <= 1
