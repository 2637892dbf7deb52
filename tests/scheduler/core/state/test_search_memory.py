"""A search that its budget ended resumes there, until it has tried everything."""

import pytest

from scheduler.core.decide import decide
from scheduler.core.explain.explain import explain
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state import search_memory
from scheduler.core.state.search_memory import SearchMemories, SearchMemory
from scheduler.core.state.shortage import Shortage
from scheduler.core.values.model import POD_GROUP, Expression, PodSelector, PodTerm, Requirements
from tests.scheduler.state_builder import StateBuilder, requests

STEPS = 4
ROOT = (POD_GROUP, "ns", "g")


def two_sizes(count: int, good: int) -> StateBuilder:
    """Create racks that fit either of two pods alone, and both only by resources."""
    builder = StateBuilder()
    for rack in range(count):
        for host, cpu in enumerate((4, 2) if rack == good else (5, 1)):
            builder.node(f"r{rack:03}h{host}", cpu, labels={"rack": f"r{rack:03}"})
    builder.gang("g", 2, rack=True)
    builder.pod("g", 4)
    builder.pod("g", 2)
    return builder


def attempts(builder: StateBuilder, most: int = 99) -> tuple[int, Placement | Refusal]:
    """Return the number of searches of few steps until success, and the last decision."""
    root = builder.state.forest.groups[ROOT]
    for number in range(1, most):
        found = decide(builder.state, root, SearchBudget(steps=STEPS))
        if isinstance(found, Placement) or not found.timed_out:
            return number, found
    return most, found


@pytest.mark.parametrize("good", [0, 7, 23])
def test_a_gang_that_fits_in_one_of_many_racks_is_placed_in_the_end(good: int) -> None:
    builder = two_sizes(24, good)

    number, found = attempts(builder)

    assert isinstance(found, Placement)
    assert number <= 24
    assert len(builder.state.searches) == 0


def test_a_search_that_has_tried_everything_ends() -> None:
    builder = two_sizes(24, good=99)

    number, found = attempts(builder)

    assert isinstance(found, Refusal)
    assert not found.timed_out
    assert 2 < number <= 25


def test_what_was_tried_is_told_while_the_search_goes_on() -> None:
    builder = two_sizes(24, good=99)
    root = builder.state.forest.groups[ROOT]

    told = []
    for _ in range(3):
        found = decide(builder.state, root, SearchBudget(steps=STEPS))
        assert isinstance(found, Refusal)
        told.append(found.tried)
        assert (
            f"The search continues: {found.tried} candidate placement"
            in explain(builder.state, found).summary
        )

    assert 0 < told[0] < told[1] < told[2]


def test_a_rack_in_which_a_pod_ends_is_tried_again() -> None:
    builder = two_sizes(24, good=99)
    blocker = builder.pod(None, 1, node="r005h1")
    builder.node("r005h1", 2, labels={"rack": "r005"})
    builder.node("r005h0", 4, labels={"rack": "r005"})
    _, found = attempts(builder, most=4)
    assert isinstance(found, Refusal)
    assert found.timed_out

    builder.state.remove_pod(blocker.uid)
    _, found = attempts(builder)

    assert isinstance(found, Placement)
    assert {builder.state.nodes.name_of(row)[:4] for row in found.rows} == {"r005"}


@pytest.mark.parametrize("change", ["label", "pod"])
def test_nothing_is_taken_for_tried_that_a_change_made_possible(change: str) -> None:
    """A node is added to a rack; a pod that others require nearby starts there."""
    together = PodTerm(PodSelector((Expression("app", "In", ("x",)),), ("ns",)), "rack")
    builder = StateBuilder()
    for rack in range(24):
        for host, cpu in enumerate((5, 1)):
            builder.node(f"r{rack:03}h{host}", cpu, labels={"rack": f"r{rack:03}"})
    builder.gang("g", 2, rack=True)
    wants = Requirements(requests(4), required_affinity=(together,) if change == "pod" else ())
    builder.pod("g", requirements=wants)
    builder.pod("g", 2 if change == "label" else 1)
    attempts(builder, most=3)

    if change == "label":
        builder.node("new", 2, labels={"rack": "r000"})
    else:
        builder.pod(None, 1, node="r000h1", labels={"app": "x"})
        list(builder.state.catch_up())
    _, found = attempts(builder)

    assert isinstance(found, Placement)


def test_no_more_is_remembered_than_memory_is_meant_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search_memory, "_MOST", 10)
    memories = SearchMemories()
    for root in "abc":
        memory = memories.take((POD_GROUP, "ns", root))
        for number in range(4):
            memory.failed(ROOT, number, Shortage("quorum", ROOT, ""), 0)
        memories.keep((POD_GROUP, "ns", root), memory)

    assert len(memories) == 10
    assert not memories.take((POD_GROUP, "ns", "a")).tried
    assert memories.take((POD_GROUP, "ns", "c")).tried == 4
    assert len(memories) == 5


def test_another_demand_begins_anew() -> None:
    memory = SearchMemory()
    memory.begin("this", 1)
    memory.failed(ROOT, 1, Shortage("quorum", ROOT, ""), 0)
    memory.begin("this", 1)
    assert memory.tried == 1

    memory.begin("that", 1)

    assert not memory.tried
