"""A restored snapshot decides exactly as the state that it was taken from."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kube.errors import ConfigError
from scheduler.core.model import Expression, Requirements, Taint
from scheduler.core.nominations import Nomination
from scheduler.core.place import Placement, SearchBudget, place
from scheduler.core.preemption.disruption_budgets import DisruptionBudget
from scheduler.queue import Queue
from scheduler.snapshot import Limits, decide_all, decode, encode, queue_of, restore, take
from tests.scheduler.world import World, requests

LIMITS = Limits.of(SearchBudget())


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
            outcome = place(world.state, group, SearchBudget())
            if isinstance(outcome, Placement):
                world.run(outcome)
    queue = Queue(world.state)
    world.state.reconsider_all()
    queue.refresh(world.state.take_changes(), 0)
    return world, queue


@pytest.mark.parametrize("seed", range(25))
def test_every_decision_is_the_same_after_writing_and_reading(seed: int) -> None:
    world, queue = churned(seed)
    snapshot = take(world.state, queue, LIMITS, decisions=100)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert snapshot.queue == restored.waiting()
    assert len(snapshot.decisions) == len(snapshot.queue)
    assert list(decide_all(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, LIMITS, decisions=100)) == encode(snapshot)


def contested(seed: int) -> tuple[World, Queue]:
    """A full cluster with a history; who waits can only come in by preemption."""
    chance, world = random.Random(seed), World()
    world.nodes(9, cpu=4, rack_of=3)
    for index in range(8):
        world.gang(f"low{index}", 1, disruption=chance.choice(("single", "all")), priority=0)
    for turn in range(60):
        if turn % 4 == 3:
            world.state.remove_pod(chance.choice(sorted(world.state.pods)))
            world.state.units.refresh()
        elif free := with_room(world):
            labels = {"app": chance.choice("ab")}
            group = f"low{chance.randrange(8)}"
            world.pod(group, node=chance.choice(free), labels=labels)
    while free := with_room(world):
        world.pod(node=free[0], labels={"app": "b"})
    for index, app in enumerate("ab"):
        selected = (Expression("app", "In", (app,)),)
        budget = DisruptionBudget(("ns", f"pdb{index}"), selected, chance.randint(0, 3))
        world.state.disruption_budgets.set(budget)
    leaving = chance.sample(sorted(world.state.pods), 2)
    world.state.units.mark_evicting(world.state.pods[uid] for uid in leaving)
    stays = chance.choice(sorted(world.state.pods))
    world.state.units.spare([world.state.pods[stays]])
    for index in range(4):
        size = chance.randint(1, 4)
        rack, priority = chance.random() < 0.5, chance.choice((0, 5))
        world.gang(f"high{index}", size, rack=rack, priority=priority)
        cpu = chance.randint(1, 3)
        for _ in range(size):
            world.pod(f"high{index}", cpu, priority=priority)
    return world, queue_of(world.state)


def with_room(world: World) -> list[str]:
    used = Counter(pod.node for pod in world.state.pods.values())
    return [node for node in sorted(world.state.nodes.row_of) if used[node] < 4]


@pytest.mark.parametrize("seed", range(25))
def test_victims_are_the_same_after_writing_and_reading(seed: int) -> None:
    world, queue = contested(seed)
    limits = Limits.of(SearchBudget(), overdue=5.0)
    snapshot = take(world.state, queue, limits, decisions=100)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert list(decide_all(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, limits, decisions=100)) == encode(snapshot)


def test_decisions_of_contested_clusters_evict_wait_and_refuse() -> None:
    decisions = [
        decision
        for world, queue in map(contested, range(25))
        for decision in take(world.state, queue, LIMITS).decisions
    ]

    assert any(decision.evicts for decision in decisions)
    assert any(decision.nominated and not decision.evicts for decision in decisions)
    assert any(decision.blocker and not decision.nominated for decision in decisions)


def test_no_pod_is_evicted_without_preemption() -> None:
    world, queue = contested(0)

    taken = take(world.state, queue, Limits.of(SearchBudget(), preempts=False))

    assert not any(decision.evicts or decision.nominated for decision in taken.decisions)


def test_a_root_with_a_nomination_is_placed_there() -> None:
    world = World()
    world.nodes(3, cpu=2)
    key = world.gang("first", 1)
    pod = world.pod("first")
    shape = world.state.pods[pod.uid].shape
    world.state.nominations.set(Nomination(key, 5, ((shape, (("n2", 1),)),)))

    (decision,) = take(world.state, queue_of(world.state), LIMITS).decisions

    assert decision.placed == {pod.name: "n2"}


def test_nominations_of_a_preemptor_are_restored() -> None:
    world = World()
    world.nodes(2, cpu=1)
    pod = world.pod(priority=0)
    shape = world.state.pods[pod.uid].shape
    world.state.nominations.set(
        Nomination(("PodGroup", "ns", "first"), 5, ((shape, (("n0", 1),)),))
    )

    state, queue = restore(take(world.state, queue_of(world.state), LIMITS))

    (decision,) = decide_all(state, queue.waiting(), LIMITS)
    assert decision.placed == {pod.name: "n1"}


def test_carrying_the_decisions_out_stays_the_same() -> None:
    world, queue = churned(3)
    state, restored = restore(take(world.state, queue, LIMITS))

    for root in queue.waiting():
        outcomes = []
        for each in (world.state, state):
            entity = each.singles.get(root) or each.forest.groups[root]
            outcome = place(each, entity, SearchBudget())
            if isinstance(outcome, Placement):
                each.assume(outcome.pods, outcome.rows)
                outcomes.append((tuple(p.info.uid for p in outcome.pods), outcome.rows))
        assert outcomes[:1] == outcomes[1:]
    assert restored.waiting() != []


def test_taking_a_snapshot_changes_nothing() -> None:
    world, queue = churned(1)
    nodes = world.state.nodes
    before = (nodes.free.tobytes(), nodes.version, queue.waiting())

    take(world.state, queue, LIMITS)

    assert (nodes.free.tobytes(), nodes.version, queue.waiting()) == before


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"{", "broken is no snapshot: ", id="not JSON"),
        pytest.param(b'{"format": 1}', "broken is no snapshot: ", id="something else"),
        pytest.param(None, "broken has format 99, this version of muster reads 4", id="newer"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_by_name(data: bytes | None, want: str) -> None:
    world, queue = churned(0)
    if data is None:
        data = encode(take(world.state, queue, LIMITS)).replace(b'"format":4', b'"format":99')

    with pytest.raises(ConfigError, match=want):
        decode(data, "broken")
