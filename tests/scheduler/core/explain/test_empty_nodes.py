"""Proofs that a root does not fit even on empty nodes, alone and beside an exact solver."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.search.place import Refusal
from scheduler.core.values.model import Requirements, Stage
from tests.scheduler.oracle.cluster import build, decide
from tests.scheduler.oracle.instances import Instance, preemption_instance, tight_instance
from tests.scheduler.oracle.solver import ExactSolver
from tests.scheduler.state_builder import StateBuilder, requests


def blocker(builder: StateBuilder, name: str = "root", *, composite: bool = True) -> Blocker:
    refusal = builder.place(name, composite=composite)
    assert isinstance(refusal, Refusal)
    return explain(builder.state, refusal)


def tree(
    builder: StateBuilder, sizes: dict[str, int], *, minimum: int, cpu: int = 2, rack: bool = False
) -> None:
    """Add a tree whose children have so many pods of `cpu` cores."""
    builder.gang("root", minimum, composite=True, rack=rack)
    for name, count in sizes.items():
        builder.gang(name, count, parent="root", created=name)
        builder.pods(name, count, cpu)


@pytest.mark.parametrize("running", [0, 4])
def test_a_tree_that_requests_more_than_all_nodes_have(running: int) -> None:
    """Each of its groups fits alone."""
    builder = StateBuilder()
    builder.nodes(3, cpu=4)
    for node in range(3):
        for _ in range(running):
            builder.pod(None, 1, node=f"n{node}")
    tree(builder, {"a": 4, "b": 3}, minimum=2)

    found = blocker(builder)

    assert found.impossible
    assert found.summary.endswith(
        "Waiting does not help: the 7 pods of the tree request 14 cpu, and all nodes have 12. Lower"
        " minCount or minGroupCount, request less, or add nodes."
    )


def test_a_tree_that_fits_once_others_have_ended_is_possible() -> None:
    builder = StateBuilder()
    builder.nodes(4, cpu=4)
    builder.pod(None, 2, node="n0")
    builder.pod(None, 2, node="n1")
    tree(builder, {"a": 4, "b": 3}, minimum=2)

    found = blocker(builder)

    assert not found.impossible
    assert 'With the 4 pods of PodGroup "a" placed, the group needs' in found.summary


def test_pods_of_a_tree_that_each_need_most_of_a_node() -> None:
    """Four pods of 3 cpu request 12 cpu, and three nodes of 4 have them, for three pods."""
    builder = StateBuilder()
    builder.nodes(3, cpu=4)
    tree(builder, {"a": 2, "b": 2}, minimum=2, cpu=3)

    found = blocker(builder)

    assert found.impossible
    assert "the tree needs 4 pods like this, and at most 3 such pods fit on empty" in found.summary


def test_a_tree_in_one_rack_names_the_largest() -> None:
    builder = StateBuilder()
    builder.nodes(5, cpu=4, rack_of=2)
    builder.node("n5", 6, labels={"rack": "r002"})
    tree(builder, {"a": 2, "b": 2}, minimum=2, rack=True)
    builder.gang("c", 1, parent="root", created="c")
    builder.pod("c", 4)
    builder.gang("root", 3, composite=True, rack=True)

    found = blocker(builder)

    assert found.impossible
    assert "request 12 cpu, and the largest rack, r002, has 10. Lower" in found.summary


def test_domains_that_lack_different_resources() -> None:
    builder = StateBuilder()
    builder.node("n0", 8, labels={"rack": "r0"}, gpu=2)
    builder.node("n1", 2, labels={"rack": "r1"}, gpu=8)
    builder.gang("g", 2, rack=True)
    builder.pod("g", requirements=Requirements(requests(4)))
    builder.pod("g", requirements=Requirements(requests(1, gpu=4)))

    found = blocker(builder, "g", composite=False)

    assert found.impossible
    assert "no rack has all that the 2 pods that it needs request." in found.summary


@pytest.mark.parametrize(
    ("minimum", "small", "impossible"), [(2, 2, True), (1, 2, False), (1, 8, True)]
)
def test_a_child_that_never_fits_decides_only_if_it_is_needed(
    minimum: int, small: int, impossible: bool
) -> None:
    builder = StateBuilder()
    builder.nodes(3, cpu=4)
    for node in range(3):
        builder.pod(None, 4, node=f"n{node}")
    tree(builder, {"a": 9, "b": small}, minimum=minimum)

    assert blocker(builder).impossible is impossible


@pytest.mark.parametrize("exist", [False, True])
def test_expected_pods_of_stages_use_the_same_capacity_one_after_the_other(exist: bool) -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    builder.pod(None, 1, node="n0")
    builder.composite("root", 2)
    for number, name in enumerate(("a", "b"), start=1):
        builder.gang(name, 2, parent="root", created=name)
        for _ in range(2):
            wants = Requirements(requests(2), stage=Stage(number, exists=exist))
            builder.pod(name, requirements=wants)

    assert blocker(builder).impossible is exist


def test_with_a_sibling_in_the_way_the_refusal_names_it() -> None:
    """One rack has four slots and the other three, and both want four in one."""
    builder = StateBuilder()
    builder.nodes(4, cpu=4, rack_of=2)
    builder.pod(None, 2, node="n3")
    builder.composite("root", 2)
    for name in ("a", "b"):
        builder.gang(name, 4, parent="root", rack=True, created=name)
        builder.pods(name, 4, 2)

    found = blocker(builder)

    assert (found.needed, found.free, found.impossible) == (4, 3, False)
    assert 'With the 4 pods of PodGroup "a" placed, the group needs capacity for' in found.summary


def test_a_group_that_does_not_fit_alone_is_named_without_siblings() -> None:
    """It was tried after its sibling first, and then before it."""
    builder = StateBuilder()
    builder.nodes(4, cpu=4, rack_of=2)
    for node in ("n1", "n3"):
        builder.pod(None, 2, node=node)
    builder.composite("root", 2)
    builder.gang("a", 6, parent="root", created="a")
    builder.pods("a", 6, 1)
    builder.gang("b", 4, parent="root", rack=True, created="b")
    builder.pods("b", 4, 2)

    found = blocker(builder)

    assert (found.at[2], found.needed, found.free) == ("b", 4, 3)
    assert "The group needs capacity for 4 more pods in one rack; 3 fit in r000" in found.summary


@pytest.mark.parametrize("draw", [preemption_instance, lambda seed: tight_instance(seed, 0)])
def test_what_is_said_to_be_impossible_has_no_placement_on_empty_nodes(
    draw: Callable[[int], Instance], long: bool
) -> None:
    proved = 0
    for seed in range(400 if long else 60):
        instance = draw(seed)
        builder = build(instance)
        found = decide(instance, builder)
        if isinstance(found, Refusal) and explain(builder.state, found).impossible:
            proved += 1
            assert not ExactSolver(replace(instance, running=())).feasible(), f"instance {seed}"
    assert proved > 2
