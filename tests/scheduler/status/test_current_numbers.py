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
    assert len(told_to_pods(harness)) <= 4
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

    assert rounds.run(8, change=True) == 30


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
