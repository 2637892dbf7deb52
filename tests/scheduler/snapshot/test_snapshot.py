"""A restored snapshot decides exactly like the original state."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from api.priority import PriorityClass
from kube.base.errors import ConfigError
from scheduler.core.groups.workload_templates import GroupTemplate
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.disruption_budgets import DisruptionBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.model import (
    Expression,
    GroupSpec,
    GroupTerm,
    PodSelector,
    PodTerm,
    PreemptionInfo,
    Requirements,
    StorageCapacityInfo,
    Taint,
)
from scheduler.core.values.run_protection import RunProtection
from scheduler.core.volumes.assumed_volumes import AssumedVolume
from scheduler.queue.scheduling_queue import Queue
from scheduler.snapshot.snapshot import (
    Limits,
    decide_all,
    decode,
    encode,
    encode_in_parts,
    queue_of,
    restore,
    take,
)
from tests.scheduler.core.framework.cluster import claim, cluster_of, disk, run, user
from tests.scheduler.reported_costs import NOW, Gang, cluster
from tests.scheduler.state_builder import StateBuilder, requests
from tools.testing.effort import seeds

LIMITS = Limits.of(SearchBudget())


def churned(seed: int) -> tuple[StateBuilder, Queue]:
    """Create a cluster with a history: added and deleted nodes and pods, some pods in flight."""
    chance, builder = random.Random(seed), StateBuilder()
    builder.nodes(12, cpu=8, rack_of=3)
    for name in chance.sample(range(12), 4):
        builder.state.remove_node(f"n{name}")
    for name in range(2):
        labels = {"rack": f"r00{chance.randrange(4)}", "disk": "ssd"}
        taints = (Taint("team", "a", "NoSchedule"),) if chance.random() < 0.3 else ()
        builder.node(f"new{name}", chance.randint(2, 9), labels=labels, taints=taints, gpu=2)
    shapes = [
        Requirements(requests(1)),
        Requirements(requests(2)),
        Requirements(requests(1, gpu=1)),
        Requirements(requests(1), selector=(("disk", "ssd"),)),
    ]
    for index in range(12):
        size = chance.randint(1, 6)
        builder.gang(f"g{index}", chance.randint(1, size), rack=chance.random() < 0.4)
        # For some gangs the constraint implies the term, for others it is an ordinary term.
        members = PodSelector((Expression("group", "In", (f"g{index}",)),), ("ns",))
        terms = (GroupTerm(PodTerm(members, "rack")),) if chance.random() < 0.5 else ()
        for _ in range(size):
            builder.pod(
                f"g{index}",
                requirements=chance.choice(shapes),
                labels={"group": f"g{index}"},
                group_affinity=terms,
            )
        if chance.random() < 0.5:
            builder.pod(requirements=chance.choice(shapes))
    for uid in chance.sample(sorted(builder.state.pods), 5):
        builder.state.remove_pod(uid)
    for index in range(4):
        group = builder.state.forest.groups["PodGroup", "ns", f"g{index}"]
        if group.quorate and group.pending_total:
            outcome = place(builder.state, group, SearchBudget())
            if isinstance(outcome, Placement):
                builder.run(outcome)
    queue = Queue(builder.state)
    builder.state.reconsider_all()
    queue.refresh(builder.state.take_changes(), 0)
    return builder, queue


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_every_decision_is_the_same_after_writing_and_reading(seed: int) -> None:
    builder, queue = churned(seed)
    snapshot = take(builder.state, queue, LIMITS, decisions=100)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert snapshot.queue == restored.waiting()
    assert len(snapshot.decisions) == len(snapshot.queue)
    assert list(decide_all(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, LIMITS, decisions=100)) == encode(snapshot)


def contested(seed: int) -> tuple[StateBuilder, Queue]:
    """Create a full cluster with a history, in which pending roots fit only by preemption."""
    chance, builder = random.Random(seed), StateBuilder()
    builder.nodes(9, cpu=4, rack_of=3)
    for index in range(8):
        builder.gang(f"low{index}", 1, disruption=chance.choice(("single", "all")), priority=0)
    for turn in range(60):
        if turn % 4 == 3:
            builder.state.remove_pod(chance.choice(sorted(builder.state.pods)))
            builder.state.units.refresh()
        elif free := with_room(builder):
            labels = {"app": chance.choice("ab")}
            group = f"low{chance.randrange(8)}"
            builder.pod(group, node=chance.choice(free), labels=labels)
    while free := with_room(builder):
        builder.pod(node=free[0], labels={"app": "b"})
    for index, app in enumerate("ab"):
        selected = (Expression("app", "In", (app,)),)
        budget = DisruptionBudget(("ns", f"pdb{index}"), selected, chance.randint(0, 3))
        builder.state.disruption_budgets.set(budget)
    leaving = chance.sample(sorted(builder.state.pods), 2)
    builder.state.units.mark_evicting(builder.state.pods[uid] for uid in leaving)
    stays = chance.choice(sorted(builder.state.pods))
    builder.state.units.spare([builder.state.pods[stays]])
    for index in range(4):
        size = chance.randint(1, 4)
        rack, priority = chance.random() < 0.5, chance.choice((0, 5))
        builder.gang(f"high{index}", size, rack=rack, priority=priority)
        cpu = chance.randint(1, 3)
        for _ in range(size):
            builder.pod(f"high{index}", cpu, priority=priority)
    return builder, queue_of(builder.state)


def with_room(builder: StateBuilder) -> list[str]:
    used = Counter(pod.node for pod in builder.state.pods.values())
    return [node for node in sorted(builder.state.nodes.row_of) if used[node] < 4]


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_victims_are_the_same_after_writing_and_reading(seed: int) -> None:
    builder, queue = contested(seed)
    limits = Limits.of(SearchBudget(), SearchEffort(overdue=5.0))
    snapshot = take(builder.state, queue, limits, decisions=100)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert list(decide_all(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, limits, decisions=100)) == encode(snapshot)


def test_decisions_of_contested_clusters_evict_wait_and_refuse() -> None:
    decisions = [
        decision
        for builder, queue in map(contested, range(3))
        for decision in take(builder.state, queue, LIMITS).decisions
    ]

    assert any(decision.evicts for decision in decisions)
    assert any(decision.nominated and not decision.evicts for decision in decisions)
    assert any(decision.blocker and not decision.nominated for decision in decisions)


def test_no_pod_is_evicted_without_preemption() -> None:
    builder, queue = contested(0)

    taken = take(builder.state, queue, Limits.of(SearchBudget(), preempts=False))

    assert not any(decision.evicts or decision.nominated for decision in taken.decisions)


def test_a_root_with_a_nomination_is_placed_there() -> None:
    builder = StateBuilder()
    builder.nodes(3, cpu=2)
    key = builder.gang("first", 1)
    pod = builder.pod("first")
    shape = builder.state.pods[pod.uid].shape
    builder.state.nominations.set(Nomination(key, 5, ((shape, (("n2", 1),)),)))

    (decision,) = take(builder.state, queue_of(builder.state), LIMITS).decisions

    assert decision.placed == {pod.name: "n2"}


def test_nominations_of_a_preemptor_are_restored() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=1)
    pod = builder.pod(priority=0)
    shape = builder.state.pods[pod.uid].shape
    builder.state.nominations.set(
        Nomination(("PodGroup", "ns", "first"), 5, ((shape, (("n0", 1),)),))
    )

    state, queue = restore(take(builder.state, queue_of(builder.state), LIMITS))

    (decision,) = decide_all(state, queue.waiting(), LIMITS)
    assert decision.placed == {pod.name: "n1"}


def test_carrying_the_decisions_out_stays_the_same() -> None:
    builder, queue = churned(3)
    state, restored = restore(take(builder.state, queue, LIMITS))

    for root in queue.waiting():
        outcomes = []
        for each in (builder.state, state):
            entity = each.singles.get(root) or each.forest.groups[root]
            outcome = place(each, entity, SearchBudget())
            if isinstance(outcome, Placement):
                each.assume(outcome.pods, outcome.rows)
                outcomes.append((tuple(p.info.uid for p in outcome.pods), outcome.rows))
        assert outcomes[:1] == outcomes[1:]
    assert restored.waiting() != []


def test_taking_a_snapshot_changes_nothing() -> None:
    builder, queue = churned(1)
    nodes = builder.state.nodes
    before = (nodes.free.tobytes(), nodes.version, queue.waiting())

    take(builder.state, queue, LIMITS)

    assert (nodes.free.tobytes(), nodes.version, queue.waiting()) == before


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"{", "broken is no snapshot: ", id="not JSON"),
        pytest.param(b'{"format": 1}', "broken is no snapshot: ", id="something else"),
        pytest.param(None, "broken has format 99, this version of muster reads 8", id="newer"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_by_name(data: bytes | None, want: str) -> None:
    builder, queue = churned(0)
    if data is None:
        data = encode(take(builder.state, queue, LIMITS)).replace(b'"format":8', b'"format":99')

    with pytest.raises(ConfigError, match=want):
        decode(data, "broken")


def test_assumed_volumes_are_the_same_after_writing_and_reading() -> None:
    builder = cluster_of(cpu=8)
    for node in "abc":
        disk(builder, f"disk-{node}", node)
    disk(builder, "more", "a")
    for index in range(4):
        claim(builder, f"data-{index}")
        info = user(builder, f"data-{index}")
        if index == 0:
            # A node that it would not choose.
            row = builder.state.nodes.row_of["a"]
            more = {("ns", "data-0"): AssumedVolume("more", row)}
            builder.state.assume([builder.single(info)], [row], more)
        if index == 1:
            run(builder, info)
    queue = Queue(builder.state)
    builder.state.reconsider_all()
    queue.refresh(builder.state.take_changes(), 0)
    snapshot = take(builder.state, queue, LIMITS)

    state, restored = restore(decode(encode(snapshot), "a test"))

    assert list(state.volumes.assumed) == list(builder.state.volumes.assumed)
    assert len(snapshot.assumed_volumes) == 2
    assert list(decide_all(state, snapshot.queue, snapshot.limits)) == snapshot.decisions
    assert encode(take(state, restored, LIMITS)) == encode(snapshot)


def test_drivers_and_their_capacities_are_the_same_after_writing_and_reading() -> None:
    builder = StateBuilder()
    builder.node("a", labels={"zone": "x"})
    builder.node("b")
    volumes = builder.state.volumes
    volumes.set_driver("needed.example", required=True)
    volumes.set_driver("both.example", required=True, measured=True)
    volumes.set_driver("measured.example", measured=True)
    topology = (Expression("zone", "In", ("x",)),)
    volumes.capacities.set(StorageCapacityInfo(("ns", "c"), "fast", 7, topology))

    snapshot = decode(encode(take(builder.state, Queue(builder.state), LIMITS)), "a test")
    state, _ = restore(snapshot)

    assert state.volumes.required_drivers == {"needed.example", "both.example"}
    assert state.volumes.measured_drivers == {"measured.example", "both.example"}
    assert state.volumes.capacities.largest("fast").tolist() == [7, -1]


def test_who_may_be_evicted_is_the_same_after_writing_and_reading() -> None:
    """These are daemons, classes that never preempt, and pods that others deleted."""
    builder = StateBuilder()
    builder.node("n0", cpu=9)
    daemon = builder.pod(node="n0")
    builder.state.set_pod(replace(daemon, preemption=PreemptionInfo(daemon_set="uid-ds")))
    builder.state.units.daemons.set(("ns", "uid-ds"))
    leaving = builder.pod(node="n0")
    builder.state.set_pod(
        replace(leaving, terminating=True, preemption=PreemptionInfo(leaves_by=999.0))
    )
    victim = builder.pod(node="n0")
    builder.state.units.mark_evicting([builder.single(victim)], 7.0)
    foreign = builder.pod(ours=False, priority=9)
    builder.state.set_pod(replace(foreign, nominated="n0"))
    young = builder.pod(node="n0")
    builder.state.set_pod(replace(young, started=90.0, preemption=PreemptionInfo(min_run=20.0)))
    builder.state.units.protection = RunProtection(100.0, most=60.0)
    limits = Limits.of(SearchBudget(), SearchEffort(overdue=5.0, soon=60.0))
    never = PriorityClass("modest", 5, preemption_policy="Never")

    taken = take(builder.state, queue_of(builder.state), limits, [never])
    state, _ = restore(decode(encode(taken), "a test"))

    before, after = builder.state.units, state.units
    after.refresh()
    assert after.below(5, 60.0).tolist() == before.below(5, 60.0).tolist()
    assert after.protected(5).tolist() == before.protected(5).tolist() == [110.0]
    assert len(after.departing(5.0, 60.0)) == 1
    assert (dict(after.evicting), list(after.daemons)) == ({victim.uid: 7.0}, [("ns", "uid-ds")])
    assert state.modest_classes == {"modest"}
    assert [each.root for each in state.nominations] == [builder.single(foreign).key]
    assert limits.effort() == SearchEffort(overdue=5.0, soon=60.0)


@pytest.mark.parametrize(
    "gangs",
    [
        pytest.param([Gang(preempted=(1, NOW)), Gang()], id="preempted before"),
        pytest.param([Gang(cost=1), Gang()], id="a cost"),
        pytest.param([Gang(), Gang(checkpoint=NOW)], id="a checkpoint"),
        pytest.param([Gang(started=2), Gang(checkpoint=NOW + 100)], id="a checkpoint to come"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_victims_are_the_same_after_a_restore(gangs: list[Gang], turned: bool) -> None:
    builder = cluster(gangs[::-1] if turned else gangs)
    builder.waits(None, priority=5)
    limits = Limits.of(SearchBudget())

    taken = take(builder.state, queue_of(builder.state), limits)
    state, queue = restore(decode(encode(taken), "a test"))

    assert taken.decisions[0].evicts
    assert list(decide_all(state, queue.waiting(), limits)) == taken.decisions


def test_flaws_of_trees_are_the_same_after_a_restore() -> None:
    builder = StateBuilder()
    state = builder.state
    parent = None
    for number in range(6):
        builder.composite(f"c{number}", 1, parent=parent)
        parent = f"c{number}"
    builder.composite("a", 1, parent="b")
    builder.composite("b", 1, parent="a")
    state.set_templates(
        ("ns", "w"), {("PodGroup", "t"): GroupTemplate(gang=True, priority_class="x")}
    )
    for name, template in (("like", "t"), ("unlike", "none")):
        state.set_group(GroupSpec(("PodGroup", "ns", name), 1, workload="w", template=template))
    state.take_changes()
    queue = Queue(state)
    again, _ = restore(decode(encode(take(state, queue, LIMITS)), "here"))

    for key, group in state.forest.groups.items():
        assert again.forest.groups[key].top.faulty == group.top.faulty, key
    assert again.forest.templates == state.forest.templates


def test_a_large_state_is_collected_and_encoded_in_short_steps() -> None:
    builder = StateBuilder()
    builder.nodes(600, cpu=4)
    for number in range(6000):
        builder.pod(node=f"n{number % 600}", cpu=1 + number % 3)
    builder.pod(cpu=99)
    for _ in builder.state.catch_up():
        pass
    builder.state.units.refresh()
    queue = queue_of(builder.state)
    between: list[int] = []
    snapshot = take(builder.state, queue, LIMITS, pause=lambda: between.append(1))
    collected = len(between)
    parts = encode_in_parts(snapshot, pause=lambda: between.append(2))

    assert collected >= 3 * 6000 / 256
    assert len(between) - collected >= 2 * 6000 / 256
    assert max(map(len, parts)) <= len(b"".join(parts)) / 20
    assert b"".join(parts) == encode(snapshot)
    assert snapshot == take(builder.state, queue, LIMITS)


def test_services_and_images_decide_alike_after_a_restore() -> None:
    builder = StateBuilder()
    for name in ("a", "b", "c"):
        builder.node(name, labels={"kubernetes.io/hostname": name})
    builder.state.set_images("b", [("web:1", 2 << 30), ("unused:1", 1 << 30)])
    builder.state.set_images("c", [("web:1", 2 << 30)])
    builder.state.replicas.set_service(("ns", "web"), {"app": "web"})
    builder.pod(node="b", cpu=0, labels={"app": "web"})
    info = replace(builder.pod(labels={"app": "web"}), images=("web:1",))
    builder.state.set_pod(info)
    queue = queue_of(builder.state)
    limits = Limits.of(SearchBudget(by_score=True))

    taken = take(builder.state, queue, limits)
    (decision,) = taken.decisions
    restored, again = restore(decode(encode(taken), "test"))

    # "b" has a replica, "a" has no image.
    assert decision.placed == {info.name: "c"}
    assert set(taken.images) == {"web:1"}
    assert take(restored, again, limits).decisions == [decision]
