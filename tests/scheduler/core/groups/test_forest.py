"""Quorum and running counters: correct in any order of arrival, and cheap."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.groups import GROUP_STATES
from scheduler.core.groups.tree_validation import check
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, PodInfo
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls


def held(builder: StateBuilder, name: str, *, composite: bool = False) -> str:
    kind = COMPOSITE_POD_GROUP if composite else POD_GROUP
    group = builder.state.forest.groups[kind, "ns", name]
    reason = check(group) or builder.state.forest.not_ready(group)
    return reason.message if reason else ""


def test_a_leaf_waits_for_its_quorum() -> None:
    builder = StateBuilder()
    builder.gang("g", 2)
    builder.pod("g")
    before = held(builder, "g")
    builder.pod("g")

    assert (before, held(builder, "g")) == ("The group has 1 of 2 pods", "")


@pytest.mark.parametrize(
    ("facts", "want"),
    [
        pytest.param({"gated": True}, "The group has 1 of 2 pods", id="a gated pod does not count"),
        pytest.param(
            {"terminating": True}, "The group has 1 of 2 pods", id="nor does a terminating one"
        ),
        pytest.param({"phase": "Failed"}, "The group has 1 of 2 pods", id="nor a failed one"),
        pytest.param({"phase": "Succeeded"}, "", id="a succeeded one does"),
        pytest.param({"node": "n0"}, "", id="a running one does"),
    ],
)
def test_what_counts_for_the_quorum(facts: dict[str, object], want: str) -> None:
    builder = StateBuilder()
    builder.gang("g", 2)
    builder.pod("g")
    builder.pod("g", **facts)  # type: ignore[arg-type]

    assert held(builder, "g") == want


def test_pods_wait_for_a_group_and_groups_for_a_parent() -> None:
    builder = StateBuilder()
    builder.pod("g")
    messages = [held(builder, "g")]
    builder.gang("g", 1, parent="root")
    messages.append(held(builder, "root", composite=True))
    builder.gang("root", None, composite=True)
    messages.append(held(builder, "root", composite=True))
    builder.composite("root", 1)
    messages.append(held(builder, "root", composite=True))

    assert messages == [
        'PodGroup "g" does not exist',
        'CompositePodGroup "root" does not exist',
        (
            'CompositePodGroup "root" has no scheduling policy yet. Create the template that it'
            " names, or set its schedulingPolicy"
        ),
        "",
    ]


def test_a_cycle_is_held_and_said_and_ends_with_one_of_its_groups() -> None:
    builder = StateBuilder()
    builder.composite("a", 1, parent="b")
    key = builder.composite("b", 1, parent="a")
    builder.gang("leaf", 1, parent="a")
    builder.pod("leaf")
    forest = builder.state.forest
    ring = forest.groups[POD_GROUP, "ns", "leaf"].top

    assert held(builder, ring.name, composite=True) == (
        "The parents of the group form a cycle. Remove parentCompositePodGroupName"
        " from one of them."
    )

    builder.state.remove_group(key)
    builder.gang("b", 1, composite=True)
    assert held(builder, "b", composite=True) == ""


def test_an_arriving_pod_costs_the_depth_of_the_tree_whatever_its_size() -> None:
    def cost(size: int) -> int:
        builder = StateBuilder()
        builder.composite("root", 1)
        builder.composite("middle", 1, parent="root")
        builder.gang("leaf", size + 10, parent="middle")
        builder.pods("leaf", size)
        before = builder.state.forest.visited
        builder.pod("leaf")
        return builder.state.forest.visited - before

    assert cost(1_000) == cost(10) <= 4


@pytest.mark.parametrize("way", ["deleted", "deleted and made anew", "turned"])
def test_a_cycle_ends_with_any_of_its_groups(way: str) -> None:
    builder = StateBuilder()
    key = builder.composite("a", 1, parent="b")
    builder.composite("b", 1, parent="a")
    builder.gang("leaf", 1, parent="b")
    builder.pod("leaf")

    if way == "turned":
        builder.composite("a", 1)
    else:
        builder.state.remove_group(key)
        before = held(builder, "a", composite=True)
        if way == "deleted":
            assert before == 'CompositePodGroup "a" does not exist'
            return
        builder.composite("a", 1)

    assert held(builder, "a", composite=True) == ""


@pytest.mark.parametrize("priority", [None, 0], ids=["priority of the pods", "resolved priority"])
@pytest.mark.parametrize("short", [0, 10], ids=["ready", "held"])
def test_the_work_for_an_arriving_pod_is_the_same_whatever_else_is_there(
    short: int, priority: int | None
) -> None:
    """From the event to the queue, neither the gang, its siblings nor the nodes are iterated."""

    def cost(size: int) -> int:
        builder = StateBuilder()
        builder.nodes(size // 100)
        builder.gang("root", 1 + bool(short), composite=True, priority=priority)
        builder.gang("leaf", size + short, parent="root", priority=priority)
        builder.pods("leaf", size)
        for index in range(size // 100):
            builder.gang(f"other{index}", 5, parent="root", priority=priority)
            builder.pods(f"other{index}", 2)
        queue = Queue(builder.state)
        queue.refresh(builder.state.take_changes(), 0.0)
        info = replace(builder.pod("leaf"), uid="one-more", name="one-more")

        def arrive() -> None:
            builder.state.set_pod(info)
            queue.refresh(builder.state.take_changes(), 0.0)

        return calls(arrive)

    assert cost(10_000) == cost(1_000)


def test_lowering_the_floor_makes_a_held_group_ready() -> None:
    builder = StateBuilder()
    builder.gang("g", 3)
    builder.pods("g", 2)
    builder.gang("g", 2)

    assert held(builder, "g") == ""


def recount(group: Group) -> tuple[int, int, int, int, bool, bool]:
    """Return the counters, computed from scratch."""
    leaves = list(group.leaves())
    waiting = {leaf: sum(p.waiting for p in leaf.members.values()) for leaf in leaves}
    running = {leaf: sum(p.running for p in leaf.members.values()) for leaf in leaves}
    minimum = group.minimum
    if group.composite:
        children = list(group.children.values())
        quorate = minimum is not None and sum(recount(c)[4] for c in children) >= minimum
        standing = minimum is not None and sum(recount(c)[5] for c in children) >= minimum
        own = (0, 0)
    else:
        own = (waiting[group] + running[group], running[group])
        quorate = minimum is not None and own[0] >= minimum
        standing = minimum is not None and own[1] >= minimum
    return (*own, sum(waiting.values()), sum(running.values()), quorate, standing)


@given(st.integers(0, 2**32), st.integers(5, 60))
def test_counters_equal_a_recount_after_any_history(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    builder = StateBuilder()
    builder.nodes(3, cpu=50)
    pods: list[PodInfo] = []
    composites, leaves = ["c0", "c1", "c2", "c3"], ["g0", "g1", "g2"]
    for _ in range(steps):
        act = chance.choice(["leaf", "composite", "pod", "pod", "change", "remove", "drop", "node"])
        if act == "leaf":
            parent = chance.choice([None, *composites])
            builder.gang(chance.choice(leaves), chance.randint(1, 3), parent=parent)
        elif act == "composite":
            parent = chance.choice([None, *composites])
            builder.composite(chance.choice(composites), chance.randint(1, 2), parent=parent)
        elif act == "pod" or (act in ("change", "remove") and not pods):
            gated, held = chance.random() < 0.2, chance.random() < 0.2
            priority, name = chance.choice((0, 0, 1, 5)), chance.choice(("", "", "spreads"))
            leaf = chance.choice(leaves)
            pods.append(
                builder.pod(leaf, gated=gated, held=held, priority=priority, scheduler=name)
            )
        elif act == "change":
            old = chance.choice(pods)
            phase = chance.choice(["Running", "Succeeded", "Failed"])
            node, leaving = chance.choice(["n0", "n9"]), chance.random() < 0.2
            builder.pod(old.group, name=old.name, node=node, phase=phase, terminating=leaving)
        elif act == "remove":
            builder.state.remove_pod(pods.pop(chance.randrange(len(pods))).uid)
        elif act == "drop":
            name = chance.choice([*composites, *leaves])
            kind = POD_GROUP if name in leaves else COMPOSITE_POD_GROUP
            builder.state.remove_group((kind, "ns", name))
        else:
            builder.state.remove_node("n0") if chance.random() < 0.5 else builder.node("n0")

    for group in builder.state.forest.groups.values():
        kept = (
            group.available, group.running, group.pending_total, group.running_total,
            group.quorate, group.standing,
        )  # fmt: skip
        members = [pod for leaf in group.leaves() for pod in leaf.members.values()]
        assert group.assumed_total == sum(pod.assumed for pod in members)
        assert group.size == sum(1 for _ in group.walk())
        assert kept == recount(group), group
        named = group.spec.parent if group.spec is not None else None
        linked = group.parent.name if group.parent is not None else None
        assert linked == named or builder.state.forest.cyclic(group), group
        assert group.priorities == Counter(priorities(group)), group
        assert group.priority == min(priorities(group), default=0)
        assert group.schedulers == Counter(p.info.scheduler for p in alive(group)), group
        assert len(group.schedulers) < 2 or group.faulty or not group.known, group
        assert group.state == state_of(group), group
        waiting = {uid: pod.hold for uid, pod in group.members.items() if pod.hold is not None}
        assert {uid: kind for kind, held in group.held.items() for uid in held} == waiting, group
        assert all(group.held.values()), group
    forest = builder.state.forest
    groups = forest.groups.values()
    states = Counter((g.key[0], g.state) for g in groups if g.state)
    assert +Counter(forest.states) == states
    counts = [
        sum(p.info.hold == "owner" and p in alive(g) for p in g.members.values()) for g in groups
    ]
    assert forest.held == (sum(counts), sum(1 for each in counts if each))


def state_of(group: Group) -> str:
    """Return the state, computed from the other counters."""
    holds = {
        "scheduled": group.bound,
        "binding": group.standing,
        "invalid": group.faulty,
        "disrupted": group.initially_scheduled,
        "pending": group.quorate,
        "incomplete": True,
    }
    return next(name for name in GROUP_STATES if holds[name]) if group.spec is not None else ""


def test_the_states_of_a_groups_life() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    states = []

    def note() -> None:
        counted = builder.state.forest.states.items()
        [(_, state)] = [each for each, count in counted if count]
        states.append(state)

    key = builder.gang("g", 2)
    note()
    first, second = builder.pods("g", 2)
    note()
    pods = [builder.state.pods[info.uid] for info in (first, second)]
    builder.state.assume(pods, [0, 1])
    note()
    for info in (first, second):
        builder.pod("g", name=info.name, node="n0")
    note()
    builder.state.remove_pod(first.uid)
    note()
    builder.pod("g", scheduler="another")
    note()
    builder.state.remove_group(key)

    assert states == ["incomplete", "pending", "binding", "scheduled", "disrupted", "invalid"]
    assert not +Counter(builder.state.forest.states)


def test_a_group_that_was_scheduled_before_is_disrupted_without_its_pods() -> None:
    builder = StateBuilder()
    key = builder.gang("g", 1)
    builder.state.forest.was_scheduled(key)

    assert builder.state.forest.states == {
        (POD_GROUP, "incomplete"): 0,
        (POD_GROUP, "disrupted"): 1,
    }


def priorities(group: Group) -> list[int]:
    """Return the priorities of all pods below that run or will run."""
    return [pod.info.priority for pod in alive(group)]


def alive(group: Group) -> list[Pod]:
    """Return the pods below that run or will run."""
    members = [pod for leaf in group.leaves() for pod in leaf.members.values()]
    return [pod for pod in members if not pod.ended and not pod.info.terminating]


def test_only_the_group_itself_assigns_its_spec() -> None:
    """`minimum` and `topology` follow from it."""
    folder = Path(__file__).parents[4] / "scheduler"
    found = [path for path in folder.rglob("*.py") if "group.spec = " in path.read_text()]

    assert found == []
