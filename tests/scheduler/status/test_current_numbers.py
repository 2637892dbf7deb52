"""The numbers in an unschedulable root's message stay current after some seconds."""

import pytest

from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.values.model import GroupKey
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import StateBuilder
from tests.scheduler.status.test_reporter import told_to_pods


def waits_for(harness: Harness, pods: int) -> None:
    """Create a gang of 64 in a cluster of three nodes with two slots each, and running pods."""
    builder = harness.builder
    builder.nodes(3, cpu=2)
    harness.observe(builder.gang("g", 64))
    builder.pods("g", 64)
    for index in range(pods):
        builder.pod(None, node=f"n{index % 3}")


async def test_nodes_that_come_are_counted() -> None:
    harness = Harness()
    waits_for(harness, 0)
    key = ("PodGroup", "ns", "g")
    async with harness.leading():
        await harness.settle(2)
        assert "3 Insufficient cpu. The group" in harness.summary(key)
        assert "64 more pods; 6 fit." in harness.summary(key)
        harness.builder.node("more", cpu=2)
        await harness.settle(25)
        assert "4 Insufficient cpu. The group" in harness.summary(key)
        assert "64 more pods; 8 fit." in harness.summary(key)


async def test_room_that_others_take_is_counted() -> None:
    harness = Harness()
    waits_for(harness, 0)
    key = ("PodGroup", "ns", "g")
    async with harness.leading():
        await harness.settle(2)
        for index in range(3):
            harness.builder.pod(None, node=f"n{index}")
        await harness.settle(25)
        assert "3 Insufficient cpu. The group" in harness.summary(key)
        assert "64 more pods; 3 fit." in harness.summary(key)


async def test_a_pod_without_a_group_is_told_too() -> None:
    harness = Harness()
    harness.builder.nodes(3, cpu=1)
    pod = harness.builder.pod(None, cpu=9)
    harness.observe_pods()
    async with harness.leading():
        await harness.settle(2)
        ((_, _, before),) = told_to_pods(harness)
        for index in range(5):
            harness.builder.node(f"more{index}", cpu=1)
            await harness.settle(3)
        await harness.settle(25)
        *_, (name, _, now) = told_to_pods(harness)

    assert name == pod.name
    assert "0/3 nodes are available: 3 Insufficient cpu." in before
    assert "0/8 nodes are available: 8 Insufficient cpu." in now
    assert len(told_to_pods(harness)) <= 6
    assert len([it for it in harness.events.told if it[1] == "FailedScheduling"]) == 1


class Rounds:
    """A queue whose roots are unschedulable, each decision taking `seconds`; virtual time."""

    def __init__(self, builder: StateBuilder, seconds: float) -> None:
        self.builder = builder
        self.seconds = seconds
        self.queue = Queue(builder.state, retry=1e9)
        self.now = 0.0
        self.decided: list[float] = []
        self.keys: list[GroupKey] = []

    def drain(self) -> None:
        queue, state = self.queue, self.builder.state
        queue.refresh(state.take_changes(), self.now)
        while queue:
            key = queue.pop()
            entity = queue.entity(key) if key is not None else None
            if key is None or entity is None:
                continue
            refusal = place(state, entity, SearchBudget())
            assert isinstance(refusal, Refusal)
            self.now += self.seconds
            self.decided.append(self.now)
            self.keys.append(key)
            queue.refuse(key, refusal, self.now)
            queue.refresh(StateChanges(), self.now)

    def run(self, seconds: float, change: bool) -> int:
        """Advance the time, with a change of the nodes in each step; return the decided roots."""
        before, until, step = len(self.decided), self.now + seconds, 0
        while self.now < until:
            self.now += 0.05
            step += 1
            if change:
                self.builder.node("changes", cpu=1, labels={"step": str(step)})
            self.drain()
        return len(self.decided) - before


@pytest.mark.parametrize("roots", [1, 20, 100])
@pytest.mark.parametrize("seconds", [0.001, 0.05])
def test_a_twentieth_of_the_time_goes_into_it_however_many_wait(roots: int, seconds: float) -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    for index in range(roots):
        builder.pod(None, cpu=2 + index)
    rounds = Rounds(builder, seconds)
    rounds.drain()
    assert len(rounds.decided) == roots

    decided = rounds.run(60, change=True)

    assert decided >= min(10, roots)
    assert decided * seconds <= 60 / 15


def test_each_has_its_turn() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    for index in range(30):
        builder.pod(None, cpu=2 + index)
    rounds = Rounds(builder, 0.001)
    rounds.drain()

    assert rounds.run(3.75, change=True) == 30


def test_nobody_waits_behind_the_many_of_another_namespace() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    for index in range(150):
        builder.pod(None, cpu=2 + index, namespace="flood")
    rounds = Rounds(builder, 0.02)
    rounds.drain()
    alone = builder.pod(None, cpu=2, namespace="alone")
    rounds.drain()
    rounds.keys.clear()

    rounds.run(8, change=True)

    assert alone.name in {name for _, _, name in rounds.keys}
    assert len(rounds.keys) < 40


def test_nothing_is_decided_where_nothing_changes() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    for index in range(30):
        builder.pod(None, cpu=2 + index)
    rounds = Rounds(builder, 0.001)
    rounds.drain()
    rounds.run(20, change=False)
    rounds.decided.clear()

    assert rounds.run(60, change=False) == 0


async def test_a_root_refused_like_its_equal_gets_current_numbers() -> None:
    """The refusal that equals share may be older than the last change of the nodes."""
    harness = Harness()
    builder = harness.builder
    builder.nodes(3, cpu=2)
    first, second = builder.gang("a", 64), builder.gang("b", 64)
    harness.observe(first, second)
    builder.pods("a", 64)
    async with harness.leading():
        await harness.settle(1)
        builder.node("more", cpu=1, unschedulable=True)
        builder.pods("b", 64)
        await harness.settle(5)
        assert "0/4 nodes" in harness.summary(second)
        assert "0/4 nodes" in harness.summary(first)


async def test_new_capacity_that_others_take_again_and_again_puts_nothing_off() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=2)
    running = [builder.pod(None, node="n0") for _ in range(2)]
    key = builder.gang("g", 2)
    builder.pods("g", 2)
    harness.observe(key)
    async with harness.leading(unsettled="the last pods were bound a moment ago"):
        await harness.settle(2)
        builder.node("useless", cpu=1, unschedulable=True)
        for _ in range(10):
            for each in running:
                builder.state.remove_pod(each.uid)
            running = [builder.pod(None, priority=5) for _ in range(2)]
            await harness.settle(0.5)
        assert {builder.state.pods[each.uid].node for each in running} == {"n0"}
        assert "0/2 nodes" in harness.summary(key)


async def test_pods_of_a_gang_follow_the_cluster_too() -> None:
    harness = Harness()
    waits_for(harness, 0)
    harness.observe_pods()
    async with harness.leading():
        await harness.settle(2)
        harness.builder.node("fourth", cpu=2)
        await harness.settle(5)
        told = {name: message for name, _, message in told_to_pods(harness)}

    assert len(told) == 64
    assert {message[:9] for message in told.values()} == {"0/4 nodes"}


async def test_a_flood_of_another_namespace_does_not_delay_corrections() -> None:
    harness = Harness()
    builder = harness.builder
    builder.nodes(1, cpu=1)
    for _ in range(1000):
        builder.pod(None, cpu=9, namespace="flood")
    calm = builder.pod(None, cpu=9)
    harness.observe_pods()
    async with harness.leading(unsettled="the pods of the flood wait for their turn"):
        await harness.settle(10)
        builder.node("second", cpu=1)
        await harness.settle(1)
        builder.node("third", cpu=1)
        before = len(harness.api.patches)
        await harness.settle(5)
        written = len(harness.api.patches) - before
        told = {name: message for name, _, message in told_to_pods(harness)}

    assert told[calm.name].startswith("0/3 nodes")
    # The first correction of each may come at once, the second one follows at a bounded rate.
    assert written <= 1000 + 20 * 5
