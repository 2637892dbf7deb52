"""A large gang that smaller ones overtake repeatedly may close the starvation gate for them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.decide import decide, fits_empty_cluster
from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.node_table import Bools
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.batching import batchable
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.model import POD_GROUP, GroupKey, PodInfo, PreemptionInfo, Requirements
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.queue.scheduling_queue import Queue
from scheduler.snapshot.snapshot import Limits, restore, take
from scheduler.support.config import Starvation
from tests.scheduler.harness import Harness
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import StateBuilder, requests
from tests.support.clock import FakeClock
from tests.support.steps import ended

ON = Starvation(enabled=True, after_seconds=5, after_passed=5, closed_seconds=600)


def leave(builder: StateBuilder, group: str) -> None:
    """Complete and delete a gang."""
    key = (POD_GROUP, "ns", group)
    for uid in list(builder.state.forest.groups[key].members):
        builder.state.remove_pod(uid)
    builder.state.remove_group(key)


async def rounds_until_the_large_one_runs(starvation: Starvation, most: int) -> int | None:
    """Return the rounds until the large gang runs.

    Four small gangs fit, of which one ends each second and another arrives.
    """
    harness = Harness(starvation=starvation)
    builder = harness.builder
    builder.nodes(8, cpu=1)
    for number in range(4):
        builder.gang(f"small{number}", 2, created=f"0{number}")
        builder.pods(f"small{number}", 2)
    async with harness.leading():
        await harness.settle()
        builder.gang("large", 8, created="1")
        large = {pod.name for pod in builder.pods("large", 8)}
        for number in range(most):
            builder.gang(f"small{number + 4}", 2, created=f"2{number:05}")
            builder.pods(f"small{number + 4}", 2)
            await harness.settle(1)
            leave(builder, f"small{number}")
            await harness.settle()
            if large <= set(harness.api.bound):
                return number
    return None


async def test_a_large_gang_starves_behind_small_ones_and_runs_with_the_gate() -> None:
    assert await rounds_until_the_large_one_runs(Starvation(), 60) is None
    # Five pass it, it is decided again within five seconds, and the four that run then end.
    rounds = await rounds_until_the_large_one_runs(ON, 60)
    assert rounds is not None
    assert rounds <= 5 + 5 + 4


class Cluster:
    """One starving root `big`, and the starvation monitor, in virtual time."""

    def __init__(self, starvation: Starvation = ON) -> None:
        self.builder = StateBuilder()
        self.state = self.builder.state
        self.queue = Queue(self.state)
        self.clock = FakeClock()
        self.monitor = StarvationMonitor(
            self.state, self.queue, clock=self.clock, config=starvation
        )

    def decide(self, key: GroupKey) -> Placement | Refusal:
        """Decide as the cycle does, but without Bindings."""
        entity = self.queue.entity(key)
        assert entity is not None
        outcome = decide(self.state, entity, SearchBudget())
        if isinstance(outcome, Refusal):
            ended(self.monitor.refused(key, entity, outcome))
        else:
            self.monitor.on_root_placed(key, entity)
        return outcome

    def pass_by(self, count: int = 5, priority: int = 0) -> None:
        """Place others, in virtual time."""
        for _ in range(count):
            info = self.builder.pod(cpu=0, priority=priority)
            self.monitor.on_root_placed(("Pod", "ns", info.name), self.state.pods[info.uid])
            self.state.remove_pod(info.uid)
        self.clock.jump(5)

    @property
    def closed(self) -> bool:
        return self.state.starvation.closed_for is not None

    def changed(self) -> set[GroupKey]:
        """Return the changes for the next cycle."""
        changes = self.state.take_changes()
        self.monitor.forget_deleted(sorted(changes.entities))
        return {*changes.reconsider, *self.state.take_changes().reconsider}


BIG = (POD_GROUP, "ns", "big")


def starving(starvation: Starvation = ON, *, priority: int = 0) -> Cluster:
    """Create a gang of three with three slots, one of them used; the gate is closed."""
    cluster = Cluster(starvation)
    cluster.builder.nodes(3, cpu=1)
    cluster.builder.pod(node="n0", name="runs")
    cluster.builder.gang("big", 3, priority=priority)
    for _ in range(3):
        cluster.builder.pod("big", priority=priority)
    cluster.decide(BIG)
    cluster.pass_by(priority=priority)
    cluster.decide(BIG)
    return cluster


def single(cluster: Cluster, **pod: object) -> GroupKey:
    info = cluster.builder.pod(**pod)  # type: ignore[arg-type]
    return ("Pod", "ns", info.name)


def test_a_root_that_waits_at_the_gate_is_told_for_which() -> None:
    cluster = starving()

    refusal = cluster.decide(single(cluster))

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.kind == "priority"
    assert refusal.shortage.message == (
        'Waiting for PodGroup "ns/big" of priority 0, which did not fit while 5 others were'
        " scheduled and is scheduled first. Wait for it, or use a higher priority."
    )


def test_a_root_of_another_namespace_is_not_told_the_name() -> None:
    cluster = starving()
    cluster.builder.pod(namespace="other", name="p")
    refusal = cluster.decide(("Pod", "other", "p"))

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.message.startswith(
        "Waiting for a PodGroup of another namespace of priority 0,"
    )


@pytest.mark.parametrize(("cpu", "want"), [(1, True), (2, False)])
def test_places_nominated_for_others_make_no_root_impossible(cpu: int, want: bool) -> None:
    cluster = starving()
    builder = cluster.builder
    key = builder.gang("nominated", 3)
    shape = cluster.state.pods[builder.pod("nominated").uid].shape
    places = ((shape, (("n0", 1), ("n1", 1), ("n2", 1))),)
    cluster.state.nominations.set(Nomination(key, 0, places))
    other = builder.gang("other", 3)
    builder.pods("other", 3, cpu=cpu)
    root = cluster.state.forest.groups[other]

    assert fits_empty_cluster(cluster.state, root, SearchBudget()) is want


@pytest.mark.parametrize(
    ("priority", "daemon_set", "want"),
    [(0, "", True), (1, "", False), (0, "ds", False), (0, "gone", True)],
)
def test_what_the_gate_cannot_hold_back_stays_where_it_is(
    priority: int, daemon_set: str, want: bool
) -> None:
    """A pod of an existing DaemonSet is recreated at once; one of a higher priority may pass."""
    builder = PreemptionBuilder()
    builder.state.units.daemons.set(("ns", "ds"))
    builder.nodes(2, cpu=4)
    for number in range(2):
        info = PodInfo(
            f"u{number}", "ns", f"p{number}", Requirements(requests(1)), f"n{number}", None,
            priority, "0", "Running", preemption=PreemptionInfo(daemon_set=daemon_set),
        )  # fmt: skip
        builder.state.set_pod(info)
    builder.group("g", 1)
    builder.waits("g", 1, cpu=4)

    assert fits_empty_cluster(builder.state, builder.root("g"), SearchBudget()) is want


def test_nothing_closes_unless_it_is_asked_for() -> None:
    assert not starving(Starvation()).closed
    assert Starvation().enabled is False


@pytest.mark.parametrize(
    ("after", "passed"),
    [
        pytest.param(5.1, 5, id="not for long enough"),
        pytest.param(5, 6, id="too few others were placed"),
    ],
)
def test_a_root_has_to_wait_before_the_gate_closes_for_it(after: float, passed: int) -> None:
    config = Starvation(enabled=True, after_seconds=after, after_passed=passed)

    assert not starving(config).closed


def test_those_of_higher_priority_that_pass_do_not_count() -> None:
    cluster = Cluster()
    cluster.builder.nodes(1, cpu=1)
    cluster.builder.pod(node="n0")
    cluster.builder.gang("big", 1)
    cluster.builder.pod("big")
    cluster.decide(BIG)
    cluster.pass_by(priority=1)
    cluster.decide(BIG)

    assert not cluster.closed


def test_a_higher_priority_passes_the_gate() -> None:
    cluster = starving()

    assert isinstance(cluster.decide(single(cluster, priority=1)), Placement)


def in_pool(name: str) -> Requirements:
    return Requirements(requests(1), selector=(("pool", name),))


@pytest.fixture
def pools() -> Cluster:
    """The starving root waits for the pool `a`; the pool `b` has two free slots."""
    cluster = Cluster()
    cluster.builder.node("n0", cpu=1, labels={"pool": "a"})
    cluster.builder.node("n1", cpu=2, labels={"pool": "b"})
    cluster.builder.pod(node="n0")
    cluster.builder.gang("big", 1)
    cluster.builder.pod("big", requirements=in_pool("a"))
    cluster.decide(BIG)
    cluster.pass_by()
    cluster.decide(BIG)
    assert cluster.closed
    return cluster


def test_pods_for_nodes_that_the_starving_root_cannot_use_pass_the_gate(pools: Cluster) -> None:
    assert isinstance(pools.decide(single(pools)), Refusal)
    assert isinstance(pools.decide(single(pools, requirements=in_pool("b"))), Placement)


def test_a_gang_for_nodes_that_the_starving_root_cannot_use_gets_its_extras(
    pools: Cluster,
) -> None:
    pools.builder.gang("other", 1)
    for _ in range(2):
        pools.builder.pod("other", requirements=in_pool("b"))

    outcome = pools.decide((POD_GROUP, "ns", "other"))

    assert isinstance(outcome, Placement)
    assert len(outcome.pods) == 2


def test_a_root_that_passes_the_gate_compares_its_nodes_with_those_of_the_starving_root_once(
    pools: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = pools.builder.state
    pod = state.singles[single(pools, requirements=in_pool("b"))]
    asked = list[Shape]()
    permitted = Framework.permitted

    def counted(framework: Framework, shape: Shape) -> Bools:
        asked.append(shape)
        return permitted(framework, shape)

    monkeypatch.setattr(Framework, "permitted", counted)
    outcome = decide(state, pod, SearchBudget())

    assert isinstance(outcome, Placement)
    (starving,) = state.forest.groups[BIG].pending
    assert asked.count(starving) == 1


def test_single_pods_are_not_batched_while_the_gate_is_closed() -> None:
    cluster = starving()
    _, namespace, name = single(cluster)
    shape = cluster.state.singles["Pod", namespace, name].shape

    before = batchable(cluster.state, shape)
    cluster.state.open_starvation_gate()

    assert (before, batchable(cluster.state, shape)) == (False, True)


def test_a_half_running_gang_becomes_whole_but_gets_no_extras() -> None:
    cluster = starving()
    cluster.builder.gang("half", 2)
    cluster.builder.pod("half", node="n0", cpu=0)
    cluster.builder.pods("half", 2, cpu=0)

    outcome = cluster.decide((POD_GROUP, "ns", "half"))

    assert isinstance(outcome, Placement)
    assert len(outcome.pods) == 1


def test_extras_of_a_running_gang_wait_at_the_gate() -> None:
    cluster = starving()
    cluster.builder.gang("whole", 1)
    cluster.builder.pod("whole", node="n0", cpu=0)
    cluster.builder.pods("whole", 1, cpu=0)

    outcome = cluster.decide((POD_GROUP, "ns", "whole"))

    assert isinstance(outcome, Refusal)
    assert outcome.shortage.kind == "priority"


def run(cluster: Cluster) -> None:
    cluster.state.remove_pod("uid-runs")
    outcome = cluster.decide(BIG)
    assert isinstance(outcome, Placement)


def delete(cluster: Cluster) -> None:
    leave(cluster.builder, "big")


def lose_its_quorum(cluster: Cluster) -> None:
    cluster.state.remove_pod(next(iter(cluster.state.forest.groups[BIG].members)))


def become_impossible(cluster: Cluster) -> None:
    cluster.state.remove_node("n2")
    cluster.decide(BIG)


def take_too_long(cluster: Cluster) -> None:
    cluster.clock.jump(600)


@pytest.mark.parametrize("event", [run, delete, lose_its_quorum, become_impossible, take_too_long])
def test_the_gate_opens_again_and_roots_that_waited_are_decided_again(event: object) -> None:
    cluster = starving()
    waits = single(cluster)
    cluster.decide(waits)
    cluster.changed()
    assert cluster.closed
    assert callable(event)

    event(cluster)

    assert waits in cluster.changed()
    assert not cluster.closed


def test_a_new_leader_begins_with_an_open_gate() -> None:
    cluster = starving()
    cluster.monitor.reset()
    cluster.decide(BIG)

    assert not cluster.closed


def test_the_gate_is_in_a_snapshot() -> None:
    cluster = starving()
    waits = single(cluster)
    cluster.queue.review(waits)

    state, queue = restore(take(cluster.state, cluster.queue, Limits.of(SearchBudget())))

    (decision,) = take(state, queue, Limits.of(SearchBudget())).decisions
    assert decision.blocker is not None
    assert decision.blocker.kind == "priority"


@given(st.integers(0, 2**32))
def test_the_gate_closes_for_no_root_that_would_not_fit_into_an_empty_cluster(seed: int) -> None:
    chance = random.Random(seed)
    cluster, empty = Cluster(), StateBuilder()
    size, cpu, rack = chance.randint(1, 6), chance.randint(1, 3), chance.random() < 0.5
    nodes = [(f"n{i}", chance.randint(1, 4), f"r{chance.randrange(3)}") for i in range(4)]
    for builder in (cluster.builder, empty):
        for name, cores, where in nodes:
            builder.node(name, cores, labels={"rack": where})
        builder.gang("big", size, rack=rack)
        builder.pods("big", size, cpu)
    for name, cores, _ in nodes:
        for _ in range(chance.randint(0, cores)):
            cluster.builder.pod(node=name)
    possible = isinstance(empty.place("big"), Placement)

    first = cluster.decide(BIG)
    cluster.pass_by()
    second = cluster.decide(BIG)

    refused = isinstance(first, Refusal) and isinstance(second, Refusal)
    assert cluster.closed == (refused and possible)
