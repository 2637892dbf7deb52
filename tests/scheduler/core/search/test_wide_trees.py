"""Composites with thousands of children: equal ones are placed together, and the search ends."""

from collections import Counter

import pytest

from scheduler.core.decide import decide
from scheduler.core.explain.explain import explain
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import COMPOSITE_POD_GROUP
from tests.scheduler.state_builder import StateBuilder


def wide(
    width: int, minimum: int, *, size: int = 1, cpu: int = 1, distinct: bool = False
) -> StateBuilder:
    """Create a root with that many children of `size` pods; distinct ones grow by a core."""
    builder = StateBuilder()
    builder.composite("root", minimum)
    for number in range(width):
        name = f"g{number:05}"
        builder.gang(name, size, parent="root", created=f"{number:05}")
        builder.pods(name, size, cpu + number * distinct)
    return builder


def decided(builder: StateBuilder, budget: SearchBudget | None = None) -> Placement | Refusal:
    root = builder.state.forest.groups[COMPOSITE_POD_GROUP, "ns", "root"]
    return decide(builder.state, root, budget or SearchBudget())


@pytest.mark.parametrize("size", [1, 3])
def test_equal_children_cost_one_step_however_many_they_are(size: int) -> None:
    def steps(width: int) -> int:
        builder = wide(width, width, size=size)
        builder.nodes(width, cpu=size)
        outcome = decided(builder)
        assert isinstance(outcome, Placement)
        assert len(outcome.pods) == width * size
        assert set(Counter(outcome.rows).values()) == {size}
        return outcome.steps

    assert steps(300) == steps(10) <= 2


def test_each_child_gets_its_own_pods_placed() -> None:
    builder = wide(20, 12, size=3)
    builder.nodes(14, cpu=3)
    outcome = decided(builder)

    assert isinstance(outcome, Placement)
    of_group = Counter(pod.group.name for pod in outcome.pods if pod.group is not None)
    assert sorted(of_group.values()) == [3] * 14
    assert outcome.minimums == 36


def test_a_wide_tree_without_room_for_all_is_refused_without_a_try() -> None:
    builder = wide(200, 200)
    builder.nodes(10, cpu=10)
    outcome = decided(builder)

    assert isinstance(outcome, Refusal)
    assert outcome.steps == 0
    assert explain(builder.state, outcome).summary.startswith(
        "0/10 nodes are available: 10 Insufficient cpu. The group needs capacity for 200"
        " more pods; 100 fit."
    )


def test_children_that_differ_are_not_all_tried_once_the_budget_is_used_up() -> None:
    builder = wide(400, 1, cpu=9, distinct=True)
    builder.nodes(4, cpu=8)
    outcome = decided(builder, SearchBudget(steps=50, expired=lambda: True))

    assert isinstance(outcome, Refusal)
    assert outcome.steps <= 51


def test_a_child_beyond_the_minimum_that_fits_is_found_among_equal_ones_that_do_not() -> None:
    builder = wide(30, 1, size=2)
    builder.gang("large", 1, parent="root", created="x")
    builder.pod("large", cpu=5)
    builder.nodes(3, cpu=1)
    builder.node("big", cpu=5)
    outcome = decided(builder)

    assert isinstance(outcome, Placement)
    assert len(outcome.pods) >= 4


def test_few_children_are_tried_however_little_time_there_is() -> None:
    builder = wide(3, 3, cpu=2, distinct=True)
    builder.nodes(3, cpu=4)

    assert isinstance(decided(builder, SearchBudget(expired=lambda: True)), Placement)
