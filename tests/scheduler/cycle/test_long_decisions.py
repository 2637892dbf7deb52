"""A long decision yields to other tasks, and the state does not change until it has ended."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import kube.concurrency.stepwise
import scheduler.cycle.loop
from kube.base.errors import Forbidden
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
)
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import requests
from tests.support.clock import settle
from tests.support.steps import ended

WIDTH = 40


@pytest.fixture(autouse=True)
def each_pause_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step use its slice, because virtual time does not advance during a decision."""
    monkeypatch.setattr(kube.concurrency.stepwise, "SHORT", 0.0)
    monkeypatch.setattr(kube.concurrency.stepwise, "SLICE", 0.0)
    monkeypatch.setattr(scheduler.cycle.loop, "_SLICE", 0.0)


@pytest.fixture
def harness() -> Harness:
    """A tree whose children all differ, with enough capacity."""
    harness = Harness()
    _wide_tree(harness)
    harness.builder.nodes(WIDTH, cpu=WIDTH)
    return harness


def _wide_tree(harness: Harness, priority: int | None = None) -> None:
    builder = harness.builder
    key = builder.gang("root", WIDTH, composite=True, priority=priority)
    assert key[0] == COMPOSITE_POD_GROUP
    for number in range(WIDTH):
        builder.gang(f"g{number}", parent="root", priority=priority)
        builder.pod(f"g{number}", cpu=1 + number, priority=priority or 0)


async def until_frozen(harness: Harness) -> None:
    for _ in range(10_000):
        await asyncio.sleep(0)
        if harness.freeze.is_active:
            return
    raise AssertionError("no decision gave way")


def assumed(harness: Harness) -> int:
    return sum(pod.assumed for pod in harness.builder.state.pods.values())


async def test_others_run_in_the_middle_of_a_decision(harness: Harness) -> None:
    draining = asyncio.ensure_future(harness.loop.drain())
    turns = 0
    while not draining.done():
        await asyncio.sleep(0)
        turns += harness.freeze.is_active and not assumed(harness)

    assert turns >= WIDTH
    assert assumed(harness) == WIDTH
    assert not harness.freeze.is_active


async def test_who_changes_the_state_waits_for_the_end_of_the_decision(harness: Harness) -> None:
    draining = asyncio.ensure_future(harness.loop.drain())
    await until_frozen(harness)
    await harness.freeze.over()

    assert assumed(harness) == WIDTH
    await draining


async def test_a_decision_that_is_cancelled_leaves_the_state_as_it_was(harness: Harness) -> None:
    nodes = harness.builder.state.nodes
    threads = threading.active_count()
    for _ in harness.cycle.refresh():
        pass
    before = nodes.free.copy()
    draining = asyncio.ensure_future(harness.loop.drain())
    await until_frozen(harness)
    for _ in range(WIDTH):
        await asyncio.sleep(0)
    draining.cancel()
    await asyncio.wait([draining])

    assert draining.cancelled()
    assert not harness.freeze.is_active
    assert threading.active_count() == threads
    assert (nodes.free == before).all()
    assert assumed(harness) == 0
    harness.builder.state.reconsider_all()
    await harness.loop.drain()
    assert assumed(harness) == WIDTH


def steps_to(harness: Harness, count: int) -> Iterator[None]:
    """Run the cycle's steps until that many pods are assumed."""
    steps = harness.cycle.step()
    while assumed(harness) < count:
        next(steps)
        yield
    steps.close()


def test_a_gang_that_is_half_assumed_when_the_process_stops_deciding_waits_again() -> None:
    harness = Harness()
    harness.builder.nodes(10, cpu=100)
    harness.builder.gang("large", 500)
    harness.builder.pods("large", 500)
    for _ in harness.cycle.refresh():
        pass
    before = harness.builder.state.nodes.free.copy()

    steps = sum(1 for _ in steps_to(harness, 200))

    assert steps > 0
    assert assumed(harness) == 0
    assert (harness.builder.state.nodes.free == before).all()
    assert harness.builder.state.forest.groups[POD_GROUP, "ns", "large"].pending_total == 500


async def test_a_binding_that_fails_meanwhile_gives_its_place_back_afterwards() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=4)
    pod = harness.builder.pod(cpu=1)
    harness.api.delayed[pod.name] = asyncio.Event()
    harness.api.fail_bind = lambda _name: Forbidden(403, "Forbidden", "no")
    async with harness.leading(unsettled="it never can be bound"):
        await harness.settle()
        with harness.freeze:
            harness.api.delayed[pod.name].set()
            await settle()
            during = assumed(harness), harness.queue.sizes()["backoff"]
        await settle()
        after = assumed(harness), harness.queue.sizes()["backoff"]

    assert harness.api.attempts == [pod.name]
    assert during == (1, 0)
    assert after == (0, 1)


async def test_a_gang_is_not_given_up_while_something_is_decided() -> None:
    harness = Harness(timeout=5)
    harness.builder.nodes(4)
    key = harness.builder.gang("gang", 2)
    bound, refused = harness.builder.pods("gang", 2)
    harness.api.fail_bind = lambda name: (
        Forbidden(403, "Forbidden", "no") if name == refused.name else None
    )
    async with harness.leading(unsettled="it never can be bound"):
        await harness.settle()
        with harness.freeze:
            await harness.clock.advance(60)
            assert not harness.api.deleted
            assert key not in harness.queue._blocked
        await harness.settle(2)

    assert harness.api.deleted == [bound.name]


async def test_the_search_for_victims_gives_way_too() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(WIDTH, cpu=1)
    harness.builder.runs(None, *(f"n{index}" for index in range(WIDTH)))
    for number in range(WIDTH):
        harness.builder.waits(None, priority=5, cpu=1 + number // WIDTH)
    draining = asyncio.ensure_future(harness.loop.drain())
    turns = 0
    while not draining.done():
        await asyncio.sleep(0)
        turns += harness.freeze.is_active

    assert turns >= WIDTH
    assert len(harness.builder.state.units.evicting) == WIDTH


def test_a_decision_counts_all_that_a_new_term_selects() -> None:
    """It is decided before the last of thousands have their new shapes."""
    harness = Harness()
    builder = harness.builder
    for index in range(3):
        builder.node(f"n{index}", cpu=10_000, labels={"host": f"n{index}"})
    for number in range(600):
        builder.pod(node=f"n{number // 300}", cpu=1, labels={"app": "a"})
    others = PodSelector((Expression("app", "Exists", ()),), ("ns",))
    wants = Requirements(requests(1), required_anti_affinity=(PodTerm(others, "host"),))
    alone = builder.pod(requirements=wants)
    assert builder.state.behind
    for _ in harness.cycle.refresh():
        pass
    ended(harness.cycle.step())

    assert builder.state.pods[alone.uid].node == "n2"
