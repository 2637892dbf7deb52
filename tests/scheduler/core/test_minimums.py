"""Minimums of leaves and composites, basic or gang at every level, changed while running."""

from collections.abc import Callable

import pytest

from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder

ROOT = (COMPOSITE_POD_GROUP, "ns", "root")


def chain(builder: StateBuilder, depth: int, *, basic: tuple[int, ...] = ()) -> None:
    """Create a tree of that many levels with two leaves of two pods; `basic` levels need one."""
    parent = None
    for level in range(1, depth):
        name = "root" if level == 1 else f"level{level}"
        gang = level not in basic
        minimum = 2 if level == depth - 1 and gang else 1
        builder.gang(name, minimum, parent=parent, composite=True, gang=gang)
        parent = name
    for leaf in ("a", "b"):
        gang = depth not in basic
        builder.gang(leaf, 2 if gang else 1, parent=parent, gang=gang)
        builder.pods(leaf, 2)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_tree_of_gangs_is_whole_or_nothing(depth: int) -> None:
    placed = []
    for cpu in (3, 4):
        builder = StateBuilder()
        builder.nodes(1, cpu=cpu)
        chain(builder, depth)
        decision = builder.place("root", composite=True)
        placed.append(len(decision.pods) if isinstance(decision, Placement) else 0)

    assert placed == [0, 4]


@pytest.mark.parametrize(
    ("depth", "basic", "want"),
    [
        pytest.param(2, (1,), [0, 2, 2, 4], id="basic root of gangs: one gang will do"),
        pytest.param(2, (2,), [0, 2, 3, 4], id="gang of basic leaves: a pod of each"),
        pytest.param(2, (1, 2), [1, 2, 3, 4], id="all basic: as many as fit"),
        pytest.param(3, (2,), [0, 2, 2, 4], id="basic in the middle"),
        pytest.param(4, (1, 2), [0, 0, 0, 4], id="a gang below basic parents"),
        pytest.param(4, (4,), [0, 2, 3, 4], id="basic leaves at the fourth level"),
        pytest.param(4, (3,), [0, 2, 2, 4], id="basic at the third level"),
        pytest.param(4, (1, 2, 3, 4), [1, 2, 3, 4], id="basic at every level"),
    ],
)
def test_basic_and_gang_at_every_level(depth: int, basic: tuple[int, ...], want: list[int]) -> None:
    """`want` is the number of placed pods with capacity for one, two, three and four."""
    placed = []
    for cpu in (1, 2, 3, 4):
        builder = StateBuilder()
        builder.nodes(1, cpu=cpu)
        chain(builder, depth, basic=basic)
        decision = builder.place("root", composite=True)
        placed.append(len(decision.pods) if isinstance(decision, Placement) else 0)

    assert placed == want


@pytest.mark.parametrize(
    ("minimum", "want"),
    [
        pytest.param(1, {"b"}, id="one of three: the only one that fits"),
        pytest.param(2, {"a", "b"}, id="two of three"),
        pytest.param(3, None, id="three of three do not fit"),
    ],
)
def test_children_are_chosen_by_what_fits(minimum: int, want: set[str] | None) -> None:
    """Five pods fit: c of six never fits, b of two always, a of three with b."""
    builder = StateBuilder()
    builder.nodes(1, cpu=5 if minimum > 1 else 2)
    builder.composite("root", minimum)
    for child, size in (("c", 6), ("a", 3), ("b", 2)):
        builder.gang(child, size, parent="root")
        builder.pods(child, size)
    decision = builder.place("root", composite=True)
    groups = {pod.info.group for pod in decision.pods} if isinstance(decision, Placement) else None

    assert groups == want


@pytest.mark.parametrize(
    ("terminating", "phase", "placed"),
    [
        pytest.param(False, "Running", 1, id="a running member needs one other"),
        pytest.param(False, "Succeeded", 1, id="so does one that is done"),
        pytest.param(True, "Running", 0, id="a terminating one counts no more, two are needed"),
        pytest.param(False, "Failed", 0, id="nor does one that failed"),
    ],
)
def test_members_that_count_for_the_min_count(terminating: bool, phase: str, placed: int) -> None:
    """A gang of two with one bound member and two pending ones, of which one fits."""
    builder = StateBuilder()
    builder.node("n0", cpu=1)
    builder.node("n1", cpu=1)
    builder.gang("g", 2)
    builder.pod("g", node="n0", phase=phase, terminating=terminating)
    builder.pod(node="n0" if phase in ("Succeeded", "Failed") else "")
    builder.pods("g", 2)
    decision = builder.place("g")

    assert (len(decision.pods) if isinstance(decision, Placement) else 0) == placed


def waiting(builder: StateBuilder) -> Queue:
    """Return the queue after all possible decisions."""
    queue = Queue(builder.state)
    settle(builder, queue)
    return queue


def settle(builder: StateBuilder, queue: Queue) -> list[str]:
    """Decide until nothing is ready; return the names of the placed pods, in order."""
    placed: list[str] = []
    for _ in range(20):
        queue.refresh(builder.state.take_changes(), 0.0)
        key = queue.pop()
        if key is None:
            return placed
        decision = builder.place(key[2], composite=key[0] == COMPOSITE_POD_GROUP)
        if isinstance(decision, Refusal):
            queue.refuse(key, decision, 0.0)
        else:
            builder.run(decision)
            queue.review(key)
            placed += [pod.info.name for pod in decision.pods]
    raise AssertionError("it goes round in circles")


def test_a_lowered_min_count_lets_a_refused_gang_run_at_once() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    builder.gang("g", 3)
    pods = builder.pods("g", 3)
    queue = waiting(builder)
    builder.gang("g", 2)

    assert settle(builder, queue) == [pod.name for pod in pods[:2]]


def test_a_raised_min_count_needs_the_difference_and_no_more() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=5)
    builder.gang("g", 2)
    builder.pods("g", 2)
    queue = waiting(builder)
    builder.pod(cpu=1, node="n0")
    builder.gang("g", 4)
    builder.pods("g", 2)
    group = builder.state.forest.groups[POD_GROUP, "ns", "g"]
    before = (group.running, group.standing)

    assert len(settle(builder, queue)) == 2
    assert (before, group.running, group.standing) == ((2, False), 4, True)


def test_a_raised_min_count_that_does_not_fit_leaves_what_runs_alone() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=3)
    builder.gang("g", 2)
    builder.pods("g", 2)
    queue = waiting(builder)
    builder.gang("g", 4)
    builder.pods("g", 2)
    settle(builder, queue)
    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.needed, refusal.shortage.free) == (2, 1)
    assert builder.state.forest.groups[POD_GROUP, "ns", "g"].running == 2


def tree_of_three(builder: StateBuilder, minimum: int) -> None:
    builder.composite("root", minimum)
    for child in ("a", "b", "c"):
        builder.gang(child, 2, parent="root")
        builder.pods(child, 2)


def test_a_lowered_min_group_count_lets_a_refused_tree_run_at_once() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    tree_of_three(builder, 3)
    queue = waiting(builder)
    builder.composite("root", 2)

    assert len(settle(builder, queue)) == 4


@pytest.mark.parametrize(
    ("cpu", "want"), [(6, True), (5, False)], ids=["and it fits", "and it does not fit"]
)
def test_a_raised_min_group_count_needs_one_child_more(cpu: int, *, want: bool) -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    tree_of_three(builder, 2)
    queue = waiting(builder)
    builder.composite("root", 3)
    root = builder.state.forest.groups[ROOT]
    before = (root.running_total, root.standing)
    settle(builder, queue)
    builder.node("n0", cpu)
    settle(builder, queue)

    assert before == (4, False)
    assert (root.running_total, root.standing) == ((6, True) if want else (4, False))


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda w: w.gang("g", 3), "The group has 2 of 3 pods", id="minCount"),
        pytest.param(
            lambda w: w.composite("root", 4),
            "The group has 3 of 4 child groups",
            id="minGroupCount",
        ),
    ],
)
def test_a_floor_raised_above_what_is_there_is_waited_for(
    change: Callable[[StateBuilder], object], want: str
) -> None:
    builder = StateBuilder()
    builder.nodes(4)
    builder.gang("g", 2)
    builder.pods("g", 2)
    tree_of_three(builder, 3)
    change(builder)
    forest = builder.state.forest
    held = [forest.not_ready(forest.groups[key]) for key in (ROOT, (POD_GROUP, "ns", "g"))]

    assert [entry.message for entry in held if entry is not None] == [want]


def test_a_flawed_tree_is_left_alone_and_others_go_on() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=6)
    builder.composite("root", 2)
    builder.gang("a", 2, parent="root", workload="w")
    builder.gang("b", 2, parent="root", workload="v")
    builder.pods("a", 2)
    builder.pods("b", 2)
    builder.gang("g", 2)
    good = builder.pods("g", 2)
    queue = Queue(builder.state)
    placed = settle(builder, queue)
    refusal = builder.place("root", composite=True)

    assert placed == [pod.name for pod in good]
    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.kind, refusal.shortage.resolvable) == ("invalid", False)
