"""Placement compared with the exact solver: it finds nearly every fit, and no false one."""

from dataclasses import replace

import pytest

from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state import search_memory
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.values.model import Expression, NodeInfo, PodSelector, PodTerm, Requirements
from tests.scheduler.oracle.cluster import build, decide
from tests.scheduler.oracle.greedy import greedily_placed
from tests.scheduler.oracle.instances import (
    PREEMPTOR,
    ROOT,
    Instance,
    Node,
    Tree,
    one_zone_instance,
    tight_instance,
    topology_instance,
)
from tests.scheduler.oracle.solver import ExactSolver
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import GIB, requests

SEED = 6012
GROUP = ("PodGroup", "ns", "g")


@pytest.mark.timeout(900)
def test_nearly_all_that_can_be_placed_is(long: bool, record_property: object) -> None:
    assert callable(record_property)
    solvable, placed, greedy, missed = 0, 0, 0, list[int]()
    count = 150 if long else 30
    for number in range(count):
        instance = tight_instance(SEED, number)
        can = ExactSolver(instance).feasible()
        does = isinstance(decide(instance, build(instance), attempts=10), Placement)
        assert can or not does, f"instance {number}"
        solvable += can
        placed += does
        greedy += greedily_placed(instance)
        if can and not does:
            missed.append(number)

    record_property("solvable", solvable)
    record_property("muster", placed)
    record_property("greedy", greedy)
    summary = f"of {count}: {solvable} can be placed, Muster {placed}, KEP-6012's greedy {greedy}"
    assert count // 4 < solvable < count, summary
    assert placed >= 0.995 * solvable, f"{summary}; missed {missed}"
    assert greedy < placed, summary


@pytest.mark.parametrize(
    ("seed", "number", "attempts"),
    [
        pytest.param(SEED, 380, 1, id="many small pods of one size, after few large ones"),
        pytest.param(SEED, 524, 1, id="twenty equal pods and three other sizes"),
        pytest.param(3, 485, 4, id="more states than one search visits"),
        pytest.param(1, 281, 7, id="many more states"),
    ],
)
def test_a_search_that_runs_out_of_steps_continues(seed: int, number: int, attempts: int) -> None:
    instance = tight_instance(seed, number)
    builder = build(instance)

    assert isinstance(decide(instance, builder, attempts=attempts), Placement)


@pytest.mark.parametrize("number", range(8))
def test_searches_of_few_steps_find_what_one_of_many_steps_finds(number: int) -> None:
    """Each search continues where the one before it was cut off, and at last proves a refusal."""
    instance = tight_instance(SEED, number)
    few = SearchBudget(packing_steps=20)

    found = decide(instance, build(instance), budget=few, attempts=2000)

    assert isinstance(found, Placement) or not found.timed_out
    assert isinstance(found, Placement) is ExactSolver(instance).feasible()


@pytest.mark.parametrize("seed", range(20))
def test_searches_of_few_steps_lose_no_candidate(seed: int) -> None:
    """A search that is cut off in one candidate, or child, has not proved that this one fails."""
    instance = topology_instance(seed)
    few = SearchBudget(packing_steps=5)

    found = decide(instance, build(instance), budget=few, attempts=500)

    assert isinstance(found, Placement) is ExactSolver(instance).feasible()


def test_a_child_that_was_cut_off_is_continued_after_a_sibling_that_fits() -> None:
    """With more than 64 nodes, each child is packed by itself, and the third never fits."""
    sizes = (20, 16, 9, 7, 9, 10, 9, 17, 7, 8, 18, 19, 7, 19, 18, 15, 18, 19, 7, 8)
    hard = tuple((0, size) for size in sizes)
    nodes = (*(Node((60, 52)) for _ in range(5)), *(Node((8, 0)) for _ in range(70)))
    children = (
        Tree("a", len(hard), hard), Tree("b", 1, ((1, 0),)), Tree("c", 1, ((90, 0),)),
    )  # fmt: skip
    instance = Instance(nodes, Tree(ROOT, 2, children=children))

    found = decide(instance, build(instance), attempts=20)

    assert isinstance(found, Placement)


def test_states_of_a_packing_do_not_depend_on_the_indices_of_resources() -> None:
    """Device plugins restart, and their resources get each other's index."""
    x, z = "example.com/x", "example.com/z"
    pods = [(5, 5), (5, 4), (5, 5), (5, 4), (5, 5), (5, 5), (3, 5)]
    builder, memory = PreemptionBuilder(), SearchMemory()
    builder.group("g", len(pods), priority=1)
    for of_x, of_z in pods:
        builder.waits("g", cpu=1, others={x: of_x, z: of_z}, priority=1)

    def offer(*names: str) -> None:
        for index, amounts in enumerate([(8, 10), (15, 13), (10, 10)]):
            offered = dict(zip(names, amounts, strict=False))
            usual = {"cpu": 64_000, "memory": 64 * GIB, "pods": 110}
            builder.state.set_node(NodeInfo(f"n{index}", usual | offered, {}))
        list(builder.state.catch_up())

    offer(z, x)
    place(builder.state, builder.root("g"), SearchBudget(packing_steps=7), memory=memory)
    offer(z)
    offer()
    offer(x, z)

    found = place(builder.state, builder.root("g"), SearchBudget(), memory=memory)

    assert isinstance(found, Placement)


def test_other_pods_are_another_search() -> None:
    """The index of a shape that is gone is used again."""
    builder = PreemptionBuilder()
    builder.node("n", 8)
    builder.group("g", 2)
    first = builder.waits("g", 2, cpu=5)
    before = search_memory.asked_by(builder.state.forest.groups[GROUP])
    for pod in first:
        builder.state.remove_pod(pod.uid)
    list(builder.state.catch_up())
    builder.state.take_changes()

    builder.waits("g", 2, cpu=4)

    assert search_memory.asked_by(builder.state.forest.groups[GROUP]) != before


def test_a_search_without_an_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered for one root is bounded; then the root is refused until a change."""
    monkeypatch.setattr(search_memory, "_MOST_PACKINGS", 100)
    instance = tight_instance(1, 281)

    found = decide(instance, build(instance), attempts=100)

    assert isinstance(found, Refusal)
    assert not found.timed_out


def test_trees_whose_pods_need_one_zone_by_affinity(long: bool) -> None:
    """Affinity to each other has the effect of a topology constraint of the root."""
    solvable, placed = 0, 0
    for seed in range(180 if long else 60):
        instance = one_zone_instance(seed)
        builder = build_by_affinity(instance)
        found = place(builder.state, builder.root(ROOT), SearchBudget(), memory=SearchMemory())
        can = ExactSolver(instance).feasible()
        assert can or not isinstance(found, Placement), f"instance {seed}"
        solvable += can
        placed += isinstance(found, Placement)

    assert solvable > 0
    assert placed >= 0.995 * solvable, f"{placed} of {solvable}"


def build_by_affinity(instance: Instance) -> PreemptionBuilder:
    """Return a state in which the pods of the tree need each other in their zone."""
    tree = instance.tree
    builder = build(replace(instance, tree=Tree("unused", 1)))
    builder.group(ROOT, tree.minimum, priority=PREEMPTOR, composite=True)
    app = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    for leaf in tree.children:
        builder.group(leaf.name, leaf.minimum, priority=PREEMPTOR, parent=ROOT)
        for pod in leaf.pods:
            wants = Requirements(requests(pod[0]), required_affinity=(PodTerm(app, "zone"),))
            builder.pod(leaf.name, requirements=wants, labels={"app": "x"}, priority=PREEMPTOR)
    list(builder.state.catch_up())
    return builder
