"""Many equal preemptors, each with a node's victims: planned together, and bound one by one."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import scheduler.cycle.cycle
import scheduler.preemption.preemptor
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.search.attempt import Attempt
from scheduler.core.values.model import ClaimInfo, VolumeInfo
from tests.scheduler.eviction_harness import EvictionHarness

PREEMPTORS, VICTIMS = 40, 2


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of calls of these functions, by name."""
    found: Counter[str] = Counter()

    def count(where: object, name: str) -> None:
        function: Callable[..., Any] = getattr(where, name)

        def counted(*arguments: Any, **others: Any) -> Any:
            found[name] += 1
            return function(*arguments, **others)

        monkeypatch.setattr(where, name, counted)

    count(scheduler.cycle.cycle, "decide")
    count(scheduler.preemption.preemptor, "preempt")
    count(DryRun, "fits")
    count(Attempt, "fill")
    return found


def cluster(preemptors: int = PREEMPTORS, *, volumes: bool = False) -> EvictionHarness:
    """Create as many nodes as preemptors, which may have a volume each, usable on all nodes."""
    harness = EvictionHarness()
    builder = harness.builder
    builder.nodes(preemptors, cpu=VICTIMS)
    for number in range(preemptors):
        builder.runs(None, *[f"n{number}"] * VICTIMS, cpu=1)
    for info in builder.waits(None, preemptors, cpu=VICTIMS, priority=10):
        if volumes:
            claim = ClaimInfo(("ns", info.name), f"pv-{info.name}")
            builder.state.volumes.set_volume(VolumeInfo(claim.volume))
            builder.state.volumes.set_claim(claim)
            wants = replace(info.requirements, claims=(claim.key,))
            builder.state.set_pod(replace(info, requirements=wants))
    return harness


@pytest.mark.parametrize("volumes", [False, True])
async def test_two_are_planned_for_all_and_each_is_decided_to_be_bound(
    counts: Counter[str],
    volumes: bool,
) -> None:
    harness = cluster(volumes=volumes)
    async with harness.leading(unsettled="counts are compared"):
        await harness.settle(2)
        assert len(harness.evictor_api.deleted) == PREEMPTORS * VICTIMS
        # One plan serves 32 others at a time.
        assert (counts["decide"], counts["preempt"]) == (2, 2)
        assert counts["fits"] <= 6 * 2
        # One for the decision, at most three for the plan, and one for the batch that failed.
        assert counts["fill"] <= 4 * 2 + 1

        counts.clear()
        # The first victim of each node, then the second: for long no preemptor's node is free.
        for turn in range(VICTIMS):
            for name in sorted(harness.evictor_api.leaving)[turn::VICTIMS]:
                harness.builder.state.remove_pod(f"uid-{name}")
                harness.changed.set()
                await harness.clock.advance(0.01)
        await harness.settle(1)
        assert len(harness.api.bound) == PREEMPTORS
        assert (counts["decide"], counts["preempt"]) == (PREEMPTORS, 0)
        assert counts["fill"] == PREEMPTORS


@pytest.mark.parametrize("volumes", [False, True])
async def test_what_is_said_and_kept_is_what_one_after_the_other_has(
    monkeypatch: pytest.MonkeyPatch,
    volumes: bool,
) -> None:
    """These are nominations, victims, events and blockers; only the dry runs are fewer."""

    async def outcome() -> tuple[object, ...]:
        harness = cluster(volumes=volumes)
        state = harness.builder.state
        for pod in list(state.pods.values())[::5]:  # a sample of pods, to change who can evict
            state.set_pod(replace(pod.info, priority=9))
        async with harness.leading(unsettled="victims stay"):
            await harness.settle(2)
            api, state = harness.evictor_api, harness.builder.state
            nominated = sorted((it.root, it.priority, it.places[0][1]) for it in state.nominations)
            victims = sorted(api.deleted), sorted(api.marked)
            return nominated, victims, sorted(map(repr, harness.events.told))

    found = await outcome()
    with monkeypatch.context() as patch:
        patch.setattr(scheduler.preemption.preemptor, "preempt_equals", lambda *_arguments: [])
        assert await outcome() == found


async def test_where_planning_them_together_fails_each_is_planned_alone(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    def fails(*_arguments: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(scheduler.preemption.preemptor, "preempt_equals", fails)
    harness = cluster(3)
    async with harness.leading(unsettled="victims stay"):
        await harness.settle(2)
        assert len(harness.evictor_api.deleted) == 3 * VICTIMS
        assert counts["preempt"] == 3


async def test_a_plan_that_cannot_be_carried_out_ends_those_that_count_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = cluster(6)
    evict, calls = harness.evictor.evict, Counter[str]()

    def once_failing(plan: Any, priority: int) -> None:
        calls["evict"] += 1
        if calls["evict"] == 3:
            raise LookupError("a bug")
        evict(plan, priority)

    monkeypatch.setattr(harness.evictor, "evict", once_failing)
    async with harness.leading(unsettled="victims stay"):
        await harness.settle(5)
        state, deleted = harness.builder.state, harness.evictor_api.deleted
        nodes = [node for it in state.nominations for _, places in it.places for node, _ in places]
        on_them = {pod.info.name for node in nodes for pod in state.pods_on(node)}
        assert len(nodes) == len(set(nodes)) == 5
        assert sorted(deleted) == sorted(on_them)


@pytest.mark.parametrize("delay", [0.0, 30.0])
async def test_with_a_delay_before_eviction_each_waits_on_its_own(delay: float) -> None:
    harness = cluster()
    for pod in list(harness.builder.state.singles.values()):
        preemption = replace(pod.info.preemption, delay=delay)
        harness.builder.state.set_pod(replace(pod.info, preemption=preemption))
    async with harness.leading(unsettled="victims stay"):
        await harness.settle(2)
        assert len(harness.evictor_api.deleted) == (0 if delay else PREEMPTORS * VICTIMS)


async def test_of_equal_pods_those_that_must_not_evict_wait() -> None:
    """Two PriorityClasses may have one value and different policies."""
    harness = cluster(6)
    for number, pod in enumerate(list(harness.builder.state.singles.values())):
        preemption = replace(pod.info.preemption, preempts=number % 2 == 0)
        harness.builder.state.set_pod(replace(pod.info, preemption=preemption))
    async with harness.leading(unsettled="victims stay"):
        await harness.settle(5)
        assert len(harness.evictor_api.deleted) == 3 * VICTIMS
        evicting = {pod.info.preemption.preempts for pod in harness.builder.state.singles.values()
                    if pod.key in harness.builder.state.nominations}  # fmt: skip
        assert evicting == {True}
