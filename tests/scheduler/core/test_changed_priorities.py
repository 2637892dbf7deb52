"""A changed PriorityClass: Kubernetes gives only new pods the new value.

A tree has one priority when it is first scheduled. A running tree continues later, whatever its new
pods have, and counts with one number that no user can raise above his pods'.
"""

from dataclasses import replace

import pytest

from scheduler.core.groups import tree_validation
from scheduler.core.groups.groups import Group
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.values.model import GroupKey
from tests.scheduler.state_builder import StateBuilder


def of(builder: StateBuilder, key: GroupKey) -> Group:
    return builder.state.forest.groups[key]


def flaw(builder: StateBuilder, key: GroupKey) -> str:
    found = tree_validation.check(of(builder, key))
    return found.message if found is not None else ""


def made(builder: StateBuilder, key: GroupKey) -> None:
    """Mark the group as created by Muster for a Job."""
    spec = of(builder, key).spec
    assert spec is not None
    builder.state.set_group(replace(spec, owner=("Job", "train")))


def running(priority: int, *, by_muster: bool, pods: int = 2) -> tuple[StateBuilder, GroupKey]:
    """Create a running gang of two, in a cluster with capacity for four."""
    builder = StateBuilder()
    builder.nodes(4, cpu=1)
    key = builder.gang("g", 2, priority=priority)
    if by_muster:
        made(builder, key)
    for index in range(pods):
        builder.pod("g", node=f"n{index}", priority=priority)
    return builder, key


@pytest.mark.parametrize("by_muster", [True, False])
@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0)])
def test_a_pod_that_replaces_a_lost_one_is_placed(before: int, after: int, by_muster: bool) -> None:
    builder, key = running(before, by_muster=by_muster)
    lost = next(iter(of(builder, key).members))
    builder.state.remove_pod(lost)
    builder.pod("g", priority=after)

    assert flaw(builder, key) == ""
    assert isinstance(place(builder.state, of(builder, key), SearchBudget()), Placement)
    assert of(builder, key).priority == 0


@pytest.mark.parametrize(("by_muster", "counts"), [(True, 9), (False, 5)])
def test_pods_that_are_all_new_bring_their_priority_to_a_group_of_muster(
    by_muster: bool, counts: int
) -> None:
    builder, key = running(5, by_muster=by_muster)
    for uid in list(of(builder, key).members):
        builder.state.remove_pod(uid)
    for _ in range(2):
        builder.pod("g", priority=9)

    assert flaw(builder, key) == ""
    assert isinstance(place(builder.state, of(builder, key), SearchBudget()), Placement)
    assert of(builder, key).priority == counts


def test_a_class_that_changed_before_the_first_pods_came_stops_no_group_of_muster() -> None:
    builder, key = running(5, by_muster=True, pods=0)
    for _ in range(2):
        builder.pod("g", priority=9)

    assert flaw(builder, key) == ""
    assert of(builder, key).priority == 9


def test_pods_that_differ_start_nothing() -> None:
    builder, key = running(5, by_muster=True, pods=0)
    builder.pod("g", priority=9)
    builder.pod("g", priority=5)

    assert flaw(builder, key) == (
        "The group has pods of priorities 5, 9. Give all its pods the same priorityClassName."
    )


def test_nobody_has_the_priority_of_a_group_whose_pods_have_less() -> None:
    """After the first scheduling, a user may add any pod to it."""
    builder, key = running(1000, by_muster=False)
    group = of(builder, key)
    assert group.priority == 1000
    builder.pod("g", priority=0)

    assert group.priority == 0


def test_a_group_that_runs_already_when_its_status_says_so() -> None:
    builder = StateBuilder()
    key = builder.gang("g", 2, priority=5)
    builder.pod("g", priority=0)
    assert flaw(builder, key)

    builder.state.forest.was_scheduled(key)

    assert flaw(builder, key) == ""
    assert not of(builder, key).faulty


def test_a_new_group_of_a_tree_that_runs_may_have_another_priority() -> None:
    builder = StateBuilder()
    builder.nodes(4, cpu=1)
    root = builder.gang("root", 1, priority=5, composite=True)
    builder.gang("old", 1, priority=5, parent="root")
    builder.pod("old", node="n0", priority=5)
    assert flaw(builder, root) == ""

    builder.gang("new", 1, priority=7, parent="root")
    builder.pod("new", priority=7)

    assert flaw(builder, root) == ""
    assert of(builder, root).priority == 5
    assert isinstance(place(builder.state, of(builder, root), SearchBudget()), Placement)


def test_other_flaws_stop_a_tree_that_runs() -> None:
    builder = StateBuilder()
    builder.nodes(4, cpu=1)
    root = builder.gang("root", 1, priority=5, composite=True)
    builder.gang("old", 1, priority=5, parent="root")
    builder.pod("old", node="n0", priority=5)

    builder.gang("new", 1, priority=7, parent="root", workload="x")

    assert flaw(builder, root).startswith("The group belongs to workload")


@pytest.mark.parametrize("by_muster", [True, False])
def test_its_pods_are_victims_with_the_least(by_muster: bool) -> None:
    builder, key = running(5, by_muster=by_muster)
    spec = of(builder, key).spec
    assert spec is not None
    builder.state.set_group(replace(spec, disruption="all"))
    builder.pod("g", node="n2", priority=9)
    builder.state.units.refresh()
    assert len(builder.state.units.below(6)) == 1
    assert len(builder.state.units.below(5)) == 0

    builder.pod("g", node="n3", priority=1)
    builder.state.units.refresh()
    assert len(builder.state.units.below(2)) == 1
