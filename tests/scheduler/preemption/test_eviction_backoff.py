"""A root whose slot others repeatedly take evicts less and less often."""

from dataclasses import replace

from kube.client.resources import PODS
from scheduler.core.preemption.plan import Plan
from scheduler.core.values.model import PodInfo
from scheduler.preemption.eviction_backoff import FIRST_PAUSE, LONGEST_PAUSE, EvictionBackoff
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.preemption_builder import PreemptionBuilder

ROOT = ("PodGroup", "ns", "root")


class Returning:
    """A controller with another scheduler: its pod returns as soon as it is deleted."""

    def __init__(self, harness: EvictionHarness, node: str) -> None:
        self.harness = harness
        self.node = node
        self.evicted_at: list[float] = []
        self.pod = self.start()

    def start(self) -> PodInfo:
        (info,) = self.harness.builder.runs(None, self.node)
        self.harness.builder.state.set_pod(replace(info, ours=False))
        return info

    async def run(self, seconds: float) -> None:
        api = self.harness.evictor_api
        for _ in range(int(seconds)):
            await self.harness.settle(1)
            if self.pod.name in api.leaving:
                self.evicted_at.append(self.harness.clock.monotonic())
                # The slot is taken before the scheduler observes that it is free.
                state = self.harness.builder.state
                before, self.pod = self.pod, self.start()
                api.leaving.remove(before.name)
                state.remove_pod(before.uid)

    @property
    def pauses(self) -> list[float]:
        return [b - a for a, b in zip(self.evicted_at, self.evicted_at[1:], strict=False)]


def lost_again(backoff: EvictionBackoff, builder: PreemptionBuilder, at: float) -> float:
    """Return the backoff of a root after an eviction whose slot others took."""
    (low,) = builder.runs(None, "n0")
    (high,) = builder.waits(None, priority=5)
    plan = builder.preempt(high.name)
    assert isinstance(plan, Plan)
    backoff.evicted(replace(plan, root=ROOT), builder.state, at)
    builder.evict(plan)
    builder.state.remove_pod(high.uid)
    assert low.uid not in builder.state.pods
    shapes = [pod.shape for pod in plan.placement.pods]
    paused = backoff.pause(ROOT, shapes, builder.state, at)
    assert paused is not None
    assert paused[0] == at + paused[1]
    return paused[1]


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    builder, backoff = PreemptionBuilder(), EvictionBackoff()
    builder.nodes(1, cpu=1)

    pauses = [lost_again(backoff, builder, 700.0 * number) for number in range(9)]

    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_roots_that_evicted_long_ago_are_forgotten() -> None:
    builder, backoff = PreemptionBuilder(), EvictionBackoff()
    builder.nodes(1, cpu=1)
    builder.runs(None, "n0")
    for number in range(50):
        (high,) = builder.waits(None, priority=5)
        plan = builder.preempt(high.name)
        assert isinstance(plan, Plan)
        backoff.evicted(plan, builder.state, LONGEST_PAUSE * number)

    assert len(backoff) <= 3


async def test_evictions_for_a_pod_that_comes_back_become_rare() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    returning = Returning(harness, "n0")
    harness.builder.waits(None, priority=5)

    async with harness.leading(unsettled="the controller comes back"):
        await returning.run(80)

    assert len(returning.pauses) == 3
    for pause, least in zip(returning.pauses, (10, 20, 40), strict=True):
        assert abs(pause - least) <= 3  # the controller checks once per second


async def test_the_blocker_says_that_others_took_the_place() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    returning = Returning(harness, "n0")
    key = harness.builder.group("high", 1, priority=5)
    harness.observe(key)
    harness.builder.waits("high", 1, priority=5)

    async with harness.leading(unsettled="the controller comes back"):
        await returning.run(8)

    assert "Other pods took the capacity that preemption made for it" in harness.summary(key)
    assert "again after 10 s" in harness.summary(key)
    assert list(harness.builder.state.nominations) == []


async def test_the_pause_is_each_roots_own() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    returning = Returning(harness, "n0")
    harness.builder.waits(None, priority=5)

    async with harness.leading(unsettled="the controller comes back"):
        await returning.run(3)
        harness.builder.node("n1", cpu=2)
        harness.builder.runs(None, "n1", cpu=2, priority=1)
        (other,) = harness.builder.waits(None, cpu=2, priority=9)
        await harness.settle(1)
        harness.evictor_api.end()
        await harness.settle(1)

    assert other.name in harness.api.bound


async def test_a_root_that_got_its_place_evicts_without_a_pause_later() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    returning = Returning(harness, "n0")
    (high,) = harness.builder.waits(None, priority=5)

    async with harness.leading():
        await returning.run(3)
        state = harness.builder.state
        state.remove_pod(returning.pod.uid)
        await harness.settle(1)
        assert high.name in harness.api.bound
        state.remove_pod(high.uid)
        harness.api.drop(PODS, high.name, "ns")
        harness.api.bound.clear()
        harness.builder.runs(None, "n0")
        state.set_pod(high)
        await harness.settle(1)
        assert len(harness.evictor_api.leaving) == 1
        harness.evictor_api.end()
        await harness.settle(1)

    assert high.name in harness.api.bound


async def test_no_others_are_evicted_while_a_victim_is_about_to_end() -> None:
    """Others take a part of the slot, while a victim still uses the rest of it."""
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=2)
    first, second = harness.builder.runs(None, "n0", "n0")
    harness.builder.waits(None, cpu=2, priority=5)

    async with harness.leading(unsettled="a victim still ends"):
        await harness.settle(1)
        harness.evictor_api.leaving.remove(first.name)
        harness.builder.state.remove_pod(first.uid)
        (taker,) = harness.builder.runs(None, "n0")
        harness.builder.state.reconsider_all()
        await harness.settle(5)
        while_it_ends = list(harness.evictor_api.deleted)
        harness.evictor_api.end()
        await harness.settle(FIRST_PAUSE + 5)

    assert set(while_it_ends) == {first.name, second.name}
    assert taker.name in harness.evictor_api.deleted


def test_which_roots_have_no_victims_left_is_known_and_forgotten() -> None:
    builder, backoff = PreemptionBuilder(), EvictionBackoff()
    builder.nodes(2, cpu=1)
    one, other = builder.runs(None, "n0", "n1")
    key = builder.group("g", 2, priority=5)
    builder.waits("g", 2, priority=5)
    plan = builder.preempt("g")
    assert isinstance(plan, Plan)

    backoff.evicted(plan, builder.state, 0.0)
    ready = [backoff.on_pods_deleted([uid]) for uid in (one.uid, "unknown", other.uid, other.uid)]
    backoff.evicted(plan, builder.state, 1.0)
    backoff.forget(key)

    assert ready == [[], [], [key], []]
    assert backoff._root_of == {}
