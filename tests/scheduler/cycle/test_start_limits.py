"""A root with a start-timeout that gets no nodes in time is given up, until somebody acts."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey
from scheduler.support.metrics import START_TIMEOUTS
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.harness import Harness
from tests.scheduler.status.test_reporter import pod_reasons

KEY = (POD_GROUP, "ns", "g")
LIMIT = 60.0


def limited(harness: Harness, key: GroupKey = KEY, limit: float = LIMIT) -> None:
    """Set the limit of a group, as a change of its annotation does."""
    spec = harness.builder.state.forest.groups[key].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, start_within=limit))


def waiting(cpu: int = 1, limit: float = LIMIT) -> Harness:
    """Return a harness with a gang of two pods, and one node with so many cores."""
    harness = Harness()
    harness.builder.node("n", cpu=cpu)
    key = harness.builder.gang("g", 2)
    limited(harness, key, limit)
    harness.builder.pods("g", 2)
    harness.observe(key)
    harness.observe_pods()
    return harness


def given_up(harness: Harness, key: GroupKey = KEY) -> bool:
    return harness.builder.state.forest.groups[key].given_up


def conditions(harness: Harness, key: GroupKey = KEY) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and lastTransitionTime of each written condition, by type."""
    found = (harness.observed[key].status or {}).get("conditions", ())
    return {it["type"]: (it["status"], it["reason"], it["lastTransitionTime"]) for it in found}


async def test_a_gang_that_does_not_start_in_time_is_given_up_and_says_why() -> None:
    before = START_TIMEOUTS._value.get()
    harness = waiting()
    async with harness.leading():
        await harness.settle(59)
        assert not given_up(harness)
        assert harness.queue.waiting() == [KEY]
        status, reason, since = conditions(harness)["StartTimeout"]
        assert (status, reason, since) == ("False", "Waiting", "2026-01-01T00:00:00Z")

        await harness.settle(4)
        assert given_up(harness)
        assert harness.queue.waiting() == []

    assert START_TIMEOUTS._value.get() == before + 1
    status, reason, message = harness.condition(KEY)
    assert (status, reason) == ("False", "StartTimeout")
    assert message == (
        "The group needs nodes for 2 pods at once and got none within 60 s (annotation"
        " start-timeout). Last refusal: 0/1 nodes are available: 1 Insufficient cpu. Muster tries"
        " again when its pods are recreated, or when the annotation is changed or removed."
    )
    assert harness.summary(KEY) == message
    assert conditions(harness)["StartTimeout"][:2] == ("True", "StartTimeout")
    assert set(pod_reasons(harness).values()) == {"StartTimeout"}
    assert [what for who, what, _ in harness.events.told if who == "PodGroup/g"][-1] == (
        "StartTimeout"
    )
    assert harness.builder.state.forest.groups[KEY].state == "incomplete"


async def test_capacity_that_comes_later_does_not_start_it() -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(62)
        harness.builder.node("more", cpu=8)
        await harness.settle(120)

    assert harness.api.bound == {}


def new_pods(harness: Harness) -> None:
    for uid in list(harness.builder.state.forest.groups[KEY].members):
        harness.builder.state.remove_pod(uid)
    harness.builder.pods("g", 2)


def new_group(harness: Harness) -> None:
    spec = harness.builder.state.forest.groups[KEY].spec
    assert spec is not None
    harness.builder.state.remove_group(KEY)
    harness.builder.state.set_group(replace(spec, created="later"))


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(new_pods, id="its pods are new"),
        pytest.param(new_group, id="the group is new"),
        pytest.param(lambda it: limited(it, limit=120), id="a longer limit"),
        pytest.param(lambda it: limited(it, limit=30), id="a shorter limit"),
        pytest.param(lambda it: limited(it, limit=0), id="no limit"),
    ],
)
async def test_it_is_tried_again_when_somebody_acts(act: Callable[[Harness], None]) -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(62)
        assert given_up(harness)
        act(harness)
        await harness.settle(1)
        assert not given_up(harness)
        harness.builder.node("more", cpu=8)
        await harness.settle(1)

    assert len(harness.api.bound) == 2
    assert "StartTimeout" not in conditions(harness)


async def test_a_gang_of_which_a_pod_is_lost_gets_the_complete_limit_again() -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(40)
        # One pod is replaced before the scheduler looks: the group lacked its quorum meanwhile.
        uid = next(iter(harness.builder.state.forest.groups[KEY].members))
        harness.builder.state.remove_pod(uid)
        harness.builder.pod("g")
        await harness.settle(58)
        assert not given_up(harness)
        await harness.settle(4)
        assert given_up(harness)
        uid = next(iter(harness.builder.state.forest.groups[KEY].members))
        harness.builder.state.remove_pod(uid)
        await harness.settle(1)
        harness.builder.pod("g")
        await harness.settle(58)
        assert not given_up(harness)
        await harness.settle(4)
        assert given_up(harness)


@pytest.mark.parametrize("limit", [0.0, 1.0, 3.6e9])
async def test_a_gang_that_fits_starts_whatever_its_limit_is(limit: float) -> None:
    harness = waiting(cpu=2, limit=limit)
    async with harness.leading():
        await harness.settle(5)

    assert len(harness.api.bound) == 2
    # A gang that is placed at once gets no condition about its wait.
    assert set(conditions(harness)) == {"PodGroupInitiallyScheduled"}


async def test_gated_pods_and_missing_ones_do_not_count() -> None:
    harness = Harness()
    harness.builder.node("n", cpu=1)
    limited(harness, harness.builder.gang("g", 2))
    gated = harness.builder.pod("g", gated=True)
    harness.builder.pod("g")
    async with harness.leading():
        await harness.settle(600)
        assert harness.builder.state.forest.groups[KEY].start_wait is None
        harness.builder.state.set_pod(replace(gated, gated=False))
        await harness.settle(58)
        assert not given_up(harness)
        await harness.settle(4)
        assert given_up(harness)


async def test_a_gang_that_started_once_is_not_given_up() -> None:
    harness = waiting(cpu=2)
    async with harness.leading():
        await harness.settle(5)
        uid = next(iter(harness.builder.state.forest.groups[KEY].members))
        harness.builder.state.remove_pod(uid)
        harness.builder.node("n", cpu=1)
        harness.builder.pod("g")
        await harness.settle(600)
        assert not given_up(harness)
        assert harness.queue.waiting() == [KEY]


async def test_a_gang_that_is_being_bound_is_not_given_up_until_it_waits_again() -> None:
    harness = waiting(cpu=1)
    async with harness.leading():
        await harness.settle(50)
        names = [pod.info.name for pod in harness.builder.state.pods.values()]
        harness.api.delayed = {name: asyncio.Event() for name in names}
        harness.builder.node("n", cpu=2)
        await harness.settle(30)
        assert not given_up(harness)
        assert harness.builder.state.forest.groups[KEY].running_total == 2
        for event in harness.api.delayed.values():
            event.set()
        await harness.settle(1)

    assert set(harness.api.bound) == set(names)
    assert "StartTimeout" not in conditions(harness)


async def test_a_binding_that_fails_after_the_limit_ends_the_wait() -> None:
    harness = waiting(cpu=1)
    async with harness.leading():
        await harness.settle(50)
        names = [pod.info.name for pod in harness.builder.state.pods.values()]
        harness.api.delayed = {name: asyncio.Event() for name in names}
        harness.api.fail_bind = lambda _name: OSError("the connection was lost")
        harness.builder.node("n", cpu=2)
        await harness.settle(30)
        harness.builder.node("n", cpu=1)
        for event in harness.api.delayed.values():
            event.set()
        await harness.settle(130)
        assert given_up(harness)

    assert harness.api.bound == {}


async def test_a_new_leader_continues_the_wait() -> None:
    harness = waiting()
    async with harness.leading(unsettled="the term goes on"):
        await harness.settle(40)
    await harness.new_term()
    async with harness.leading(unsettled="the term goes on"):
        await harness.settle(15)
        assert not given_up(harness)
        await harness.settle(8)
        assert given_up(harness)
    told = list(harness.events.told)
    patches = list(harness.api.patches)
    await harness.new_term()
    async with harness.leading():
        await harness.settle(5)
        assert given_up(harness)
    # The next leader has nothing new to say.
    assert harness.events.told == told
    assert [it for it in harness.api.patches[len(patches) :] if it[0] == "PodGroup"] == []


async def test_a_new_leader_tries_before_it_gives_up() -> None:
    harness = waiting()
    async with harness.leading(unsettled="the term goes on"):
        await harness.settle(40)
    # Nobody leads for an hour, in which capacity came.
    await harness.clock.advance(3600)
    harness.builder.node("n", cpu=2)
    await harness.new_term()
    async with harness.leading():
        await harness.settle(1)

    assert len(harness.api.bound) == 2


async def test_a_step_of_the_time_of_day_gives_up_nothing() -> None:
    harness = waiting()
    async with harness.leading(unsettled="the limit is not over"):
        await harness.settle(5)
        harness.server_clock.heard("Thu, 01 Jan 2032 00:00:00 GMT")
        await harness.settle(50)
        assert not given_up(harness)


async def test_many_limits_that_end_at_once_take_several_refreshes() -> None:
    harness = Harness()
    harness.builder.node("n", cpu=1)
    keys = [harness.builder.gang(f"g{at}", 2, created=f"{at:03}") for at in range(200)]
    for at, key in enumerate(keys):
        limited(harness, key)
        harness.builder.pods(f"g{at}", 2)
    for _ in harness.cycle.refresh():
        pass
    await harness.clock.advance(LIMIT)
    most = []
    while not all(given_up(harness, key) for key in keys):
        before = sum(given_up(harness, key) for key in keys)
        for _ in harness.cycle.refresh():
            pass
        most.append(sum(given_up(harness, key) for key in keys) - before)

    assert max(most) <= 128
    assert harness.start_limits.next_time() is None


@pytest.mark.parametrize("inner", [False, True])
async def test_only_the_limit_of_the_root_of_a_tree_counts(inner: bool) -> None:
    harness = Harness()
    harness.builder.node("n", cpu=3)
    root = harness.builder.composite("root", 2)
    leaves = [harness.builder.gang(f"leaf{at}", 2, parent="root") for at in range(2)]
    for at in range(2):
        harness.builder.pods(f"leaf{at}", 2)
    limited(harness, leaves[0] if inner else root)
    harness.observe(root, *leaves)
    harness.observe_pods()
    async with harness.leading():
        await harness.settle(64)
        assert given_up(harness, root) is not inner

    reasons = {harness.condition(key)[1] for key in (root, *leaves)}
    assert reasons == ({"Unschedulable"} if inner else {"StartTimeout"})
    if not inner:
        assert "needs nodes for 2 child groups at once" in harness.condition(root)[2]
        assert harness.condition(leaves[0])[2].startswith('Waiting for CompositePodGroup "root"')
        assert root[0] == COMPOSITE_POD_GROUP


async def test_a_root_that_gets_a_parent_has_no_limit_of_its_own() -> None:
    harness = waiting()
    async with harness.leading():
        await harness.settle(62)
        assert given_up(harness)
        harness.builder.composite("root", 1)
        spec = harness.builder.state.forest.groups[KEY].spec
        assert spec is not None
        harness.builder.state.set_group(replace(spec, parent="root"))
        harness.builder.node("more", cpu=2)
        await harness.settle(1)

    assert len(harness.api.bound) == 2


async def test_a_root_that_is_given_up_holds_no_nomination_and_evicts_nobody() -> None:
    harness = EvictionHarness()
    builder = harness.builder
    builder.node("n", cpu=2)
    limited(harness, builder.gang("g", 2, priority=5))
    members = [builder.pod("g", priority=5) for _ in range(2)]
    harness.owns(KEY)
    # Its victims terminate for longer than its limit.
    harness.evictor_api.quick = False
    builder.run(builder.place_single(builder.pod(cpu=2, name="low")))
    for pod in list(builder.state.pods.values()):
        if pod.assumed:
            builder.state.set_pod(replace(pod.info, node="n", phase="Running"))
    async with harness.leading():
        await harness.settle(5)
        assert KEY in builder.state.nominations
        await harness.settle(60)
        assert given_up(harness)
        assert KEY not in builder.state.nominations
        victims = list(harness.evictor_api.leaving)
        await harness.settle(120)

    assert victims == ["low"]
    assert {pod.name for pod in members}.isdisjoint(harness.api.bound)


async def test_updates_of_pods_do_not_begin_the_limit_again() -> None:
    harness = waiting()
    async with harness.leading():
        for number in range(6):
            await harness.settle(10)
            for pod in list(harness.builder.state.pods.values()):
                harness.builder.state.set_pod(replace(pod.info, labels={"n": str(number)}))
        await harness.settle(3)
        assert given_up(harness)


async def test_pods_beyond_the_minimum_may_come_and_leave() -> None:
    harness = waiting()
    async with harness.leading():
        for _ in range(6):
            await harness.settle(10)
            extra = harness.builder.pod("g")
            harness.builder.state.remove_pod(extra.uid)
        await harness.settle(3)
        assert given_up(harness)


async def test_an_unusable_time_in_the_status_counts_as_none() -> None:
    harness = waiting()
    condition = {"type": "StartTimeout", "status": "True", "message": "x", "lastTransitionTime": 5}
    harness.observed[KEY].status = {"conditions": [condition, "none"]}
    await harness.new_term()
    async with harness.leading():
        await harness.settle(58)
        assert not given_up(harness)
        await harness.settle(4)
        assert given_up(harness)
