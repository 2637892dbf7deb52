"""A snapshot put back decides bit for bit as the state it was taken of."""

from __future__ import annotations

import random

import pytest

from kube.errors import ConfigError
from scheduler.core.holds import Hold
from scheduler.core.placement import Budget, Placement, place
from scheduler.core.values import Requirements, Taint
from scheduler.queue import Queue
from scheduler.snapshot import Limits, decide, decode, encode, queue_of, restore, take
from tests.scheduler.world import World, requests


def churned(seed: int) -> tuple[World, Queue]:
    """A cluster with a history: nodes and pods came and went, some pods are on their way."""
    chance, world = random.Random(seed), World()
    world.nodes(12, cpu=8, rack_of=3)
    for name in chance.sample(range(12), 4):
        world.state.remove_node(f"n{name}")
    for name in range(2):
        labels = {"rack": f"r00{chance.randrange(4)}", "disk": "ssd"}
        taints = (Taint("team", "a", "NoSchedule"),) if chance.random() < 0.3 else ()
        world.node(f"new{name}", chance.randint(2, 9), labels=labels, taints=taints, gpu=2)
    shapes = [
        Requirements(requests(1)),
        Requirements(requests(2)),
        Requirements(requests(1, gpu=1)),
        Requirements(requests(1), selector=(("disk", "ssd"),)),
    ]
    for index in range(12):
        size = chance.randint(1, 6)
        world.gang(f"g{index}", chance.randint(1, size), rack=chance.random() < 0.4)
        for _ in range(size):
            world.pod(f"g{index}", requirements=chance.choice(shapes))
        if chance.random() < 0.5:
            world.pod(requirements=chance.choice(shapes))
    for uid in chance.sample(sorted(world.state.pods), 5):
        world.state.remove_pod(uid)
    for index in range(4):
        group = world.state.forest.groups["PodGroup", "ns", f"g{index}"]
        if group.quorate and group.pending_total:
            outcome = place(world.state, group, Budget())
            if isinstance(outcome, Placement):
                world.run(outcome)
    queue = Queue(world.state)
    world.state.stir_all()
    queue.refresh(world.state.take_changes(), 0)
    return world, queue


@pytest.mark.parametrize("seed", range(25))
def test_every_decision_is_the_same_after_writing_and_reading(seed: int) -> None:
    world, queue = churned(seed)
    snapshot = take(world.state, queue, Budget(), decisions=100)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert snapshot.queue == restored.waiting()
    assert len(snapshot.decisions) == len(snapshot.queue)
    assert list(decide(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, Budget(), decisions=100)) == encode(snapshot)


def test_places_held_for_a_preemptor_stay_held() -> None:
    world = World()
    world.nodes(2, cpu=1)
    pod = world.pod(priority=0)
    shape = world.state.pods[pod.uid].shape
    world.state.holds.set(Hold(("PodGroup", "ns", "first"), 5, ((shape, (("n0", 1),)),)))

    state, queue = restore(take(world.state, queue_of(world.state), Budget()))

    (decision,) = decide(state, queue.waiting(), Limits.of(Budget()))
    assert decision.placed == {pod.name: "n1"}


def test_carrying_the_decisions_out_stays_the_same() -> None:
    world, queue = churned(3)
    state, restored = restore(take(world.state, queue, Budget()))

    for root in queue.waiting():
        outcomes = []
        for each in (world.state, state):
            entity = each.singles.get(root) or each.forest.groups[root]
            outcome = place(each, entity, Budget())
            if isinstance(outcome, Placement):
                each.assume(outcome.pods, outcome.rows)
                outcomes.append((tuple(p.info.uid for p in outcome.pods), outcome.rows))
        assert outcomes[:1] == outcomes[1:]
    assert restored.waiting() != []


def test_taking_a_snapshot_changes_nothing() -> None:
    world, queue = churned(1)
    columns = world.state.columns
    before = (columns.free.tobytes(), columns.version, queue.waiting())

    take(world.state, queue, Budget())

    assert (columns.free.tobytes(), columns.version, queue.waiting()) == before


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"{", "broken is no snapshot: ", id="not JSON"),
        pytest.param(b'{"format": 1}', "broken is no snapshot: ", id="something else"),
        pytest.param(None, "broken has format 99, this version of muster reads 1", id="newer"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_by_name(data: bytes | None, want: str) -> None:
    world, queue = churned(0)
    if data is None:
        data = encode(take(world.state, queue, Budget())).replace(b'"format":1', b'"format":99')

    with pytest.raises(ConfigError, match=want):
        decode(data, "broken")
