"""The times of reports on groups and pending pods: after Bindings, in order, with small delay."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from scheduler.core.explain.explain import Blocker
from scheduler.core.values.model import SINGLE_POD
from tests.scheduler.harness import Harness


async def test_a_gang_is_not_reported_while_it_is_being_bound() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    slow, quick = builder.gang("slow", 2), builder.gang("quick", 2)
    builder.pods("quick", 2)
    last = builder.pods("slow", 2)[-1]
    harness.observe(slow, quick)
    answered = harness.api.delayed[last.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle(6)
        patched = {name for _, name, _ in harness.api.patches}
        assert patched == {"quick"}, "others are not kept waiting by it"

        answered.set()
        await harness.settle(6)
        assert harness.condition(slow)[0] == "True"
    writes = [name for _, name, _ in harness.api.patches]
    assert writes.count("slow") == 1


@pytest.mark.parametrize(
    ("waits", "told"),
    [
        pytest.param(6, [], id="soon"),
        pytest.param(70, ["g"], id="for a minute at most"),
    ],
)
async def test_a_gang_is_reported_once_the_watch_confirms_its_bindings(
    waits: int, told: list[str]
) -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    group = builder.gang("g", 2)
    pods = builder.pods("g", 2)
    harness.observe(group)
    harness.api.deliver = False

    async with harness.leading():
        await harness.settle(waits)
        early = [name for _, name, _ in harness.api.patches]
        for pod in pods:
            harness.api.deliver_binding(pod.name)
        await harness.settle(2)
        assert harness.condition(group)[0] == "True"

    assert early == told


async def test_gangs_are_reported_in_the_order_in_which_they_are_bound() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    names = [f"g{number}" for number in (3, 0, 2, 1)]
    for priority, name in enumerate(reversed(names)):
        harness.observe(builder.gang(name, 1, priority=priority))
        builder.pod(name, priority=priority)

    async with harness.leading():
        await harness.settle(6)

    assert [name for _, name, _ in harness.api.patches] == names


async def test_gangs_that_lack_members_are_reported_later_while_others_are_bound() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(4)
    few = builder.gang("few", 3)
    builder.pods("few", 2)
    last = builder.pod()
    harness.observe(few)
    answered = harness.api.delayed[last.name] = asyncio.Event()

    async with harness.leading():
        await harness.settle(3)
        early = [name for _, name, _ in harness.api.patches]
        await harness.settle(2)
        late = [name for _, name, _ in harness.api.patches]
        answered.set()
        await harness.settle(1)

    assert (early, late) == ([], ["few"])


async def test_many_gangs_are_reported_in_rounds_without_a_pause_the_oldest_first() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    for number in range(250):
        group = builder.gang(f"g{number:03}", 2)
        builder.pod(f"g{number:03}")
        harness.observe(group)

    async with harness.leading():
        await harness.settle(0.75)

    names = [name for _, name, _ in harness.api.patches]
    assert names == sorted(names)
    assert len(names) == 250


async def test_being_refused_again_and_again_puts_nothing_off() -> None:
    """Autoscalers read the conditions of pods, and nodes change all the time."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    huge = builder.pod(cpu=9)
    key = (SINGLE_POD, "ns", huge.name)
    harness.observe_pods()

    async with harness.leading(unsettled="these refusals are not the scheduler's own"):
        for _ in range(20):
            harness.reporter.refused(key, Blocker("no room", "capacity", key, 1, 0))
            await harness.settle(0.25)
        told = [name for kind, name, _ in harness.api.patches if kind == "Pod"]

    assert told == [huge.name]


@pytest.mark.parametrize(
    ("members", "early", "late"),
    [
        pytest.param(2, ["p", "q"], ["p", "q"], id="room is lacking: autoscalers look for it"),
        pytest.param(3, [], ["p", "q"], id="members are lacking: they may come"),
    ],
)
async def test_waiting_pods_are_reported_later_while_others_are_bound(
    members: int, early: list[str], late: list[str]
) -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(2)
    last = builder.pod()
    builder.gang("g", members)
    builder.pod("g", name="p", cpu=9)
    builder.pod("g", name="q", cpu=9)
    harness.observe_pods()
    answered = harness.api.delayed[last.name] = asyncio.Event()

    def told() -> list[str]:
        return [name for kind, name, _ in harness.api.patches if kind == "Pod"]

    async with harness.leading():
        await harness.settle(3)
        told_early = told()
        await harness.settle(2)
        told_late = told()
        answered.set()
        await harness.settle(1)

    assert (told_early, told_late) == (early, late)


async def test_groups_that_change_do_not_wait_for_thousands_of_pods() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=2)
    builder.gang("large", 700)
    builder.pods("large", 700, cpu=9)
    harness.observe_pods()
    group = builder.gang("late", 1)
    harness.observe(group)
    harness.api.before_patch = lambda: harness.clock.sleep(0.1)  # 80 writes per second

    async with harness.leading():
        await harness.settle(3)
        builder.pod("late", cpu=1)
        await harness.settle(2.5)
        said, written = harness.condition(group)[0], len(harness.api.patches)
        await harness.settle(10)

    assert said == "True"
    assert written < 500, "long before the last pod"
    assert len(harness.api.patches) == 702


@pytest.mark.parametrize(
    ("children", "wait"), [pytest.param(3, 1, id="small"), pytest.param(64, 65, id="large")]
)
def test_groups_of_a_small_tree_are_reported_with_its_root(children: int, wait: int) -> None:
    harness = Harness()
    root = harness.builder.composite("root", 1)
    leaves = [harness.builder.gang(f"g{at}", 1, parent="root") for at in range(children)]

    harness.reporter.touched([*leaves, root])

    assert REGISTRY.get_sample_value("muster_scheduler_reports_due") == wait
