"""Chains, rings and wide trees: every event has the same cost, and all groups end up correct."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.groups.forest import MAX_DEPTH, Group
from scheduler.core.groups.tree_validation import check
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls

MOST = 150
"""Maximum number of groups visited for one event, including postponed steps."""


def key_of(name: str) -> GroupKey:
    return (COMPOSITE_POD_GROUP, "ns", name)


def name_of(number: int) -> str:
    return f"c{number:05}"


def link(builder: StateBuilder, number: int) -> None:
    """Add one composite of the chain, below the previous one."""
    builder.composite(name_of(number), 1, parent=name_of(number - 1) if number else None)


def build_chain(builder: StateBuilder, order: list[int]) -> int:
    """Build the chain, and return the number of groups that the most expensive event visited."""
    dearest, forest = 0, builder.state.forest
    for number in order:
        before = forest.visited
        link(builder, number)
        dearest = max(dearest, forest.visited - before)
    return dearest


def settle(builder: StateBuilder) -> None:
    while builder.state.take_changes().more:
        pass


def depth_of(group: Group) -> int:
    return max(below.level for below in group.walk())


@pytest.mark.parametrize("order", ["root first", "leaf first", "any order"])
def test_an_event_on_a_long_chain_costs_what_it_costs_on_a_short_one(order: str) -> None:
    def dearest(length: int) -> int:
        numbers = list(range(length))
        if order == "leaf first":
            numbers.reverse()
        if order == "any order":
            random.Random(length).shuffle(numbers)
        builder = StateBuilder()
        found = build_chain(builder, numbers)
        settle(builder)
        groups = builder.state.forest.groups.values()
        assert all(check(group.top) is not None for group in groups)
        assert max(map(depth_of, groups)) <= MAX_DEPTH
        for number in (length // 2, 0, length - 1):
            before = builder.state.forest.visited
            builder.state.remove_group(key_of(name_of(number)))
            link(builder, number)
            found = max(found, builder.state.forest.visited - before)
        return found

    assert dearest(3_000) <= MOST
    assert dearest(100) <= MOST


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_that_is_taken_down_to_a_legal_tree_is_whole_again(seed: int) -> None:
    chance, length = random.Random(seed), 60
    builder = StateBuilder()
    numbers = list(range(length))
    chance.shuffle(numbers)
    build_chain(builder, numbers)
    first = chance.randrange(length - 3)
    kept = range(first, first + 4)
    gone = [number for number in numbers if number not in kept]
    for number in gone:
        builder.state.remove_group(key_of(name_of(number)))
    builder.composite(name_of(first), 1)
    builder.gang("leaf", 1, parent=name_of(first + 2))
    builder.pod("leaf")
    settle(builder)
    forest = builder.state.forest
    root = forest.groups[key_of(name_of(first))]

    assert [group.name for group in root.walk()][:3] == [name_of(n) for n in kept][:3]
    assert check(root) is None
    assert forest.ready(root)
    assert {group.top for group in forest.groups.values()} == {root}


def test_a_ring_of_any_length_costs_nothing_for_the_groups_that_come_later() -> None:
    def cost(rings: int) -> int:
        builder = StateBuilder()
        for ring in range(rings):
            for number in range(3):
                builder.composite(f"r{ring}-{number}", 1, parent=f"r{ring}-{(number + 1) % 3}")
        settle(builder)
        before = builder.state.forest.visited
        found = calls(lambda: builder.gang("late", 1))
        assert builder.state.forest.visited - before <= MAX_DEPTH
        return found

    assert cost(500) == cost(5)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 8])
def test_every_group_of_a_ring_and_below_it_has_the_cycle_as_its_flaw(length: int) -> None:
    builder = StateBuilder()
    for number in range(length):
        builder.composite(f"r{number}", 1, parent=f"r{(number + 1) % length}")
    builder.composite("below", 1, parent="r0")
    builder.gang("leaf", 1, parent="below")
    flaws = [check(group.top) for group in builder.state.forest.groups.values()]

    assert len(flaws) == length + 2
    assert all(flaw is not None and "cycle" in flaw.message for flaw in flaws)


def test_groups_far_below_a_ring_say_that_it_is_above_them() -> None:
    builder = StateBuilder()
    builder.composite("a", 1, parent="b")
    builder.composite("b", 1, parent="a")
    parent = "a"
    for number in range(4):
        builder.composite(f"low{number}", 1, parent=parent)
        parent = f"low{number}"
    flaw = check(builder.state.forest.groups[key_of("low3")].top)

    assert flaw is not None
    assert "below a cycle of parents" in flaw.message


def test_a_group_that_moves_with_many_cut_links_below_it_costs_one_slice() -> None:
    def dearest(width: int) -> int:
        builder = StateBuilder()
        parent = None
        for number in range(MAX_DEPTH):
            builder.composite(f"c{number}", 1, parent=parent)
            parent = f"c{number}"
        for number in range(width):
            builder.gang(f"leaf{number}", 1, parent=parent)
        settle(builder)
        forest, found = builder.state.forest, 0
        for above in (None, "c0", None):
            before = forest.visited
            builder.composite("c1", 1, parent=above)
            found = max(found, forest.visited - before)
        settle(builder)
        assert len(forest.groups[key_of("c3")].children) == width
        assert not forest.groups[key_of("c1")].faulty
        return found

    assert dearest(2_000) == dearest(50) <= MOST


def test_an_event_in_a_wide_tree_costs_what_it_costs_in_a_narrow_one() -> None:
    def cost(width: int) -> int:
        builder = StateBuilder()
        builder.composite("root", 1)
        for number in range(width):
            builder.gang(f"leaf{number}", 2, parent="root")
        settle(builder)

        def events() -> None:
            builder.gang("one-more", 2, parent="root")
            builder.pod("one-more", name="p")
            builder.gang("one-more", 1, parent="root")
            builder.composite("root", 2)
            builder.state.remove_pod("uid-p")
            builder.state.remove_group((POD_GROUP, "ns", "one-more"))
            builder.state.remove_group(key_of("root"))
            builder.composite("root", 1)
            builder.state.take_changes()

        return calls(events)

    assert cost(5_000) == cost(500)


def levels(parents: dict[str, str | None], name: str) -> int:
    """Return the number of named ancestors, including the group; above 20 in a cycle."""
    level, at = 1, parents.get(name)
    while at is not None and level <= 20:
        level, at = level + 1, parents.get(at)
    return level


def component(parents: dict[str, str | None], name: str) -> set[str]:
    linked: dict[str, set[str]] = {}
    for child, parent in parents.items():
        if parent is not None:
            linked.setdefault(child, set()).add(parent)
            linked.setdefault(parent, set()).add(child)
    found, stack = {name}, [name]
    while stack:
        for other in linked.get(stack.pop(), set()) - found:
            found.add(other)
            stack.append(other)
    return found


@given(st.integers(0, 2**32), st.integers(1, 80))
def test_exactly_the_groups_of_impossible_trees_are_faulty_after_any_history(
    seed: int, steps: int
) -> None:
    chance, builder = random.Random(seed), StateBuilder()
    names = [f"c{number}" for number in range(9)]
    parents: dict[str, str | None] = {}
    for _ in range(steps):
        name = chance.choice(names)
        if chance.random() < 0.25:
            parents.pop(name, None)
            builder.state.remove_group(key_of(name))
        else:
            parents[name] = chance.choice([None, *names])
            builder.composite(name, 1, parent=parents[name])
        if chance.random() < 0.3:
            builder.state.take_changes()
    settle(builder)

    for group in builder.state.forest.groups.values():
        whole = component(parents, group.name)
        impossible = max(levels(parents, name) for name in whole) > MAX_DEPTH
        assert group.top.faulty == impossible, group
        assert (check(group.top) is not None) == impossible
        assert group.level <= MAX_DEPTH
        if not impossible:
            parent = parents.get(group.name)
            assert (group.parent.name if group.parent else None) == parent
