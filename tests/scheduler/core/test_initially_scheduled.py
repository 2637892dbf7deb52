"""The fact that a group was once scheduled is kept for as long as its object exists."""

from dataclasses import replace

import pytest

from scheduler.core.groups.groups import Group
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, MembershipInfo
from tests.scheduler.state_builder import StateBuilder

BEFORE, SINCE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
KEY = (POD_GROUP, "ns", "g")


def created(builder: StateBuilder, name: str = "g", minimum: int = 2) -> Group:
    """Create a gang whose object exists since SINCE."""
    builder.gang(name, minimum)
    spec = builder.state.forest.groups[POD_GROUP, "ns", name].spec
    assert spec is not None
    builder.state.remove_group(spec.key)
    builder.state.set_group(replace(spec, created=SINCE))
    return builder.state.forest.groups[spec.key]


def failed(builder: StateBuilder, bound_at: str) -> None:
    info = builder.pod("g", node="n0")
    builder.state.set_pod(
        replace(info, phase="Failed", membership=MembershipInfo(bound_at=bound_at))
    )


def test_a_pod_that_fails_before_the_last_one_is_seen_bound_counts() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    group = created(builder)
    failed(builder, SINCE)
    before = group.initially_scheduled

    builder.pod("g", node="n0")

    assert (before, group.initially_scheduled, group.bound) == (False, True, False)


@pytest.mark.parametrize(("bound_at", "counts"), [(BEFORE, False), (SINCE, True)])
@pytest.mark.parametrize("pods_first", [False, True])
def test_a_new_leader_counts_the_pods_that_failed_since_the_object_exists(
    bound_at: str, *, counts: bool, pods_first: bool
) -> None:
    """Failed pods of an earlier object of this name may remain, as of a suspended Job."""
    builder = StateBuilder()
    builder.nodes(1)
    if pods_first:
        failed(builder, bound_at)
        failed(builder, bound_at)
        group = created(builder)
    else:
        group = created(builder)
        failed(builder, bound_at)
        failed(builder, bound_at)

    assert group.initially_scheduled is counts


@pytest.mark.parametrize("below", [2, 1])
def test_a_composite_was_scheduled_once_enough_of_its_children_were(below: int) -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)
    builder.gang("root", below, composite=True)
    for name in ("a", "b"):
        builder.gang(name, 1, parent="root")
    root = builder.state.forest.groups[COMPOSITE_POD_GROUP, "ns", "root"]

    pod = builder.pod("a", node="n0")
    assert root.initially_scheduled is (below == 1)
    builder.state.remove_pod(pod.uid)
    builder.pod("b", node="n0")

    assert root.initially_scheduled
    assert root.bound is (below == 1)


def test_another_object_of_the_name_was_not_scheduled() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("root", 1, composite=True)
    builder.gang("g", 1, parent="root")
    builder.pod("g", node="n0")
    state = builder.state
    group = state.forest.groups[KEY]
    assert group.initially_scheduled
    spec = group.spec
    assert spec is not None

    state.remove_group(KEY)
    builder.state.remove_pod(next(iter(group.members)))
    state.set_group(spec)

    assert not state.forest.groups[KEY].initially_scheduled
    root = state.forest.groups[COMPOSITE_POD_GROUP, "ns", "root"]
    assert root.initially_scheduled
    assert root.initially_scheduled_children == 0


def test_what_a_status_says_counts_for_the_parents_too() -> None:
    builder = StateBuilder()
    builder.gang("root", 1, composite=True)
    builder.gang("g", 1, parent="root")

    for _ in range(2):
        builder.state.forest.was_scheduled(KEY)

    root = builder.state.forest.groups[COMPOSITE_POD_GROUP, "ns", "root"]
    assert root.initially_scheduled
    assert root.initially_scheduled_children == 1
    builder.state.forest.was_scheduled((POD_GROUP, "ns", "none"))
    assert (POD_GROUP, "ns", "none") not in builder.state.forest.groups


def test_counting_anew_gives_the_same() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    group = created(builder, minimum=3)
    failed(builder, SINCE)
    pod = builder.pod("g", node="n0")

    builder.state.discard_pod(pod.uid)
    builder.pod("g", node="n0")

    assert (group.failed, group.settled, group.initially_scheduled) == (1, 1, False)
