"""A process forgets an earlier term completely, because another may have led since."""

import asyncio
import math
from collections import deque
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kube.base.errors import Forbidden
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.resources import PODS
from kube.credentials.rest_config import RestConfig
from kube.leader.election import Fence
from scheduler import app
from scheduler.app import Scheduler
from scheduler.support.config import Config
from scheduler.support.fair_keys import FairKeys
from tests.scheduler.harness import Harness
from tests.scheduler.holding_harness import HoldingHarness, kind
from tests.scheduler.move_harness import MoveHarness
from tests.scheduler.status.test_reporter import pod_reasons

LASTING = {
    "PodEvents._allowances": "limits the events of a namespace, whoever leads",
    "DeviceWork._rest_until": "limits the work for a namespace, whoever leads",
    "Reporter._observed": "what the watch has delivered",
    "PodConditions._pending": "what the watch has delivered",
    "StartLimits._observed": "what the watch has delivered",
    "HeldPlaces._observed": "what the watch has delivered",
}


async def none() -> None:
    return None


@pytest.fixture
async def scheduler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A scheduler whose API server does not respond."""

    async def caught_up(*_: object) -> None:
        return None

    monkeypatch.setattr(app, "catch_up", caught_up)
    async with Client(RestConfig(server="http://127.0.0.1:9", authorization=none)) as client:
        yield Scheduler(client, Config(), LeaderElection())


async def begun(scheduler: Scheduler) -> asyncio.Task[None]:
    """Begin a term whose Reservations are never read."""
    clock = scheduler._client.server_clock
    term = asyncio.ensure_future(scheduler._lead(Fence(clock, 1, clock.monotonic() + 1000)))
    for _ in range(50):
        await asyncio.sleep(0)
    assert scheduler._leading
    return term


async def end(term: asyncio.Task[None]) -> None:
    term.cancel()
    with pytest.raises(asyncio.CancelledError):
        await term


async def test_a_term_that_ends_before_anything_is_decided_leads_no_more(
    scheduler: Scheduler,
) -> None:
    await end(await begun(scheduler))

    assert scheduler._leading is False
    assert scheduler._allocations._leads is False
    assert scheduler._claim_releases._leads is False
    assert await scheduler._decide_all() == b'{"leads":false}'


async def test_a_term_begins_in_this_order(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is decided before the caches are synced, and earlier leaders' work is completed."""
    done: list[object] = []

    async def caught_up(watched: object, since: float, _clock: object) -> None:
        done.append((watched, since))

    async def recover(_fence: Fence) -> None:
        done.append("recovers")

    async def decide() -> None:
        done.append("decides")
        await asyncio.Event().wait()

    monkeypatch.setattr(app, "catch_up", caught_up)
    part = SimpleNamespace(reset=lambda: done.append("forgets"))
    monkeypatch.setattr(scheduler, "_parts_of_a_term", (part, part))
    monkeypatch.setattr(scheduler._binder, "recover", recover)
    monkeypatch.setattr(scheduler._evictor, "resume", lambda: done.append("resumes"))
    monkeypatch.setattr(scheduler._preemptor, "restore", lambda: done.append("restores"))
    monkeypatch.setattr(scheduler.state, "reconsider_all", lambda: done.append("reconsiders"))
    monkeypatch.setattr(scheduler._loop, "run", decide)
    term = await begun(scheduler)
    await end(term)

    steps = ["forgets", "forgets", "recovers", "resumes", "restores", "reconsiders", "decides"]
    assert done == [(scheduler._informers.watched, -math.inf), *steps]


async def test_who_waits_for_decisions_does_not_wait_for_a_term_that_ended(
    scheduler: Scheduler,
) -> None:
    term = await begun(scheduler)
    asked = asyncio.ensure_future(scheduler._decide_all())
    await asyncio.sleep(0)
    await end(term)

    assert await asyncio.wait_for(asked, 10) == b'{"leads":false}'


def memory(part: object, seen: set[int] | None = None) -> dict[str, int]:
    """Return the non-empty containers of a part and its components, by name and size."""
    seen = set() if seen is None else seen
    found: dict[str, int] = {}
    if id(part) in seen:
        return found
    seen.add(id(part))
    for name, value in attributes(part):
        at = f"{type(part).__name__}.{name}"
        if at in LASTING:
            continue
        if isinstance(value, CONTAINERS):
            if size := held(value):
                found[at] = size
        elif of_the_scheduler(value):
            found |= memory(value, seen)
    return found


CONTAINERS = (dict, set, list, deque, FairKeys, asyncio.Queue)


def held(value: Any) -> int:
    """Return the number of entries in a container, including containers in it."""
    if isinstance(value, asyncio.Queue):
        return value.qsize()
    if isinstance(value, FairKeys):
        return value.size
    inner = value.values() if isinstance(value, dict) else ()
    nested = [each for each in inner if isinstance(each, CONTAINERS)]
    return sum(map(held, nested)) if nested else len(value)


FOLLOWING = tuple(f"scheduler.{it}." for it in ("core", "watch", "expected", "decoding", "cel"))
"""Packages whose state the watches maintain."""


def of_the_scheduler(value: object) -> bool:
    where, name = type(value).__module__, type(value).__name__
    if where.startswith(FOLLOWING):
        return False
    return (where.startswith("scheduler.") or name == "Failures") and name != "GroupEvents"


def attributes(part: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(part, "__dict__", {}).items()
    for kind_ in type(part).__mro__:
        for name in getattr(kind_, "__slots__", ()):
            if hasattr(part, name):
                yield name, getattr(part, name)


async def busy_term() -> tuple[HoldingHarness, dict[str, int]]:
    """Run a term in which each part has some state."""
    harness = HoldingHarness()
    builder = harness.builder
    builder.nodes(3, cpu=1)
    harness.group("train", 2, kind("driver", 1), kind("worker", 1), priority=9)
    harness.pod("driver", "train", priority=9)
    harness.observe(builder.group("low", 1))
    builder.runs("low", "n2")
    harness.evictor_api.fail_delete = lambda _name: Forbidden(403, "Forbidden", "no")
    found: dict[str, int] = {}
    async with harness.leading(unsettled="it is cut short"):
        for name, pods in (("high", 1), ("large", 9), ("larger", 9)):
            harness.observe(builder.group(name, pods, priority=5))
            builder.waits(name, pods, priority=5)
        harness.observe_pods()
        for _ in range(60):
            await harness.settle(0.5)
            for part in harness.parts_of_a_term():
                found |= memory(part)
    return harness, found


async def test_a_new_term_begins_without_any_memory() -> None:
    harness, remembered = await busy_term()
    for part in harness.parts_of_a_term():
        part.reset()

    left = {at: size for part in harness.parts_of_a_term() for at, size in memory(part).items()}
    assert left == {}
    # The previous term had state to forget.
    assert len(remembered) >= 12, sorted(remembered)


async def test_all_parts_of_a_scheduler_that_remember_anything_forget_it(
    scheduler: Scheduler,
) -> None:
    """The parts of the harness, above, are those of the process."""
    found = {type(part) for part in scheduler._parts_of_a_term}
    played = [*HoldingHarness().parts_of_a_term(), *MoveHarness().parts_of_a_term()]
    assert {type(part) for part in played} - {type(HoldingHarness().held_places)} == found - {
        type(scheduler._held_places)
    }


async def test_what_another_leader_wrote_to_pods_is_corrected() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    key = builder.gang("g", 2)
    one, two = builder.pods("g", 2)
    harness.observe(key)
    harness.observe_pods()
    async with harness.leading():
        await harness.settle(3)
    assert set(pod_reasons(harness).values()) == {"Unschedulable"}
    harness.api.patches.clear()

    # Another process led, while a pod was deleted for a moment.
    for info in (one, two):
        condition(harness, info.name, "CoschedulingNotMeetMinMember")
    await harness.new_term()
    async with harness.leading():
        await harness.settle(120)

    assert pod_reasons(harness) == dict.fromkeys((one.name, two.name), "Unschedulable")


async def test_what_is_right_is_not_written_again() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    harness.observe(harness.builder.gang("g", 2))
    harness.builder.pods("g", 2)
    harness.observe_pods()
    async with harness.leading():
        await harness.settle(3)
    assert harness.api.patches
    harness.api.patches.clear()

    await harness.new_term()
    async with harness.leading():
        await harness.settle(120)

    assert harness.api.patches == []


async def test_all_groups_of_a_large_tree_are_corrected() -> None:
    """In a tree of more than 64 groups, as a rule only the root and the faulty one are reported."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=2)
    root = builder.composite("root", 70)
    children = [builder.gang(f"c{i:02}", 1, parent="root") for i in range(70)]
    for i in range(70):
        builder.pods(f"c{i:02}", 1)
    harness.observe(root, *children)
    async with harness.leading():
        await harness.settle(40)
    before = {key: harness.condition(key) for key in children}

    for key in children:
        harness.observed[key].status = {"conditions": [INCOMPLETE]}
    await harness.new_term()
    async with harness.leading():
        await harness.settle(120)

    assert {key: harness.condition(key) for key in children} == before


INCOMPLETE: Mapping[str, Any] = {
    "type": "PodGroupInitiallyScheduled",
    "status": "False",
    "reason": "Incomplete",
    "message": "The group has 0 of 1 pods",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def condition(harness: Harness, name: str, reason: str) -> None:
    """Write the condition as another process would."""
    stored = harness.api.stored(PODS, name, "ns")
    assert stored is not None
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": ""}
    harness.api.put(PODS, stored | {"status": {"conditions": [said]}})
