"""Groups of an API that other schedulers serve, too: whose they are, and what must agree."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.groups.tree_validation import check
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    GroupKey,
    GroupSpec,
    parent_kind,
    plain_kind,
)
from tests.scheduler.state_builder import StateBuilder

API = ".example.com"
LEAF = POD_GROUP + API
ROOT = COMPOSITE_POD_GROUP + API


def shared(builder: StateBuilder, kind: str, name: str, minimum: int, **more: Any) -> GroupKey:
    key = (kind, "ns", name)
    builder.state.set_group(replace(GroupSpec(key, minimum, shared=True), **more))
    return key


def member(builder: StateBuilder, group: str, **more: Any) -> None:
    info = builder.pod(None, **more)
    builder.state.remove_pod(info.uid)
    builder.state.set_pod(replace(info, group=group, group_kind=LEAF))


def flaw(builder: StateBuilder, key: GroupKey) -> str:
    found = check(builder.state.forest.groups[key].top)
    return found.message if found is not None else ""


@pytest.mark.parametrize(
    ("kind", "plain", "parent"),
    [
        (POD_GROUP, POD_GROUP, COMPOSITE_POD_GROUP),
        (COMPOSITE_POD_GROUP, COMPOSITE_POD_GROUP, COMPOSITE_POD_GROUP),
        (LEAF, POD_GROUP, ROOT),
        (ROOT, COMPOSITE_POD_GROUP, ROOT),
    ],
)
def test_a_kind_and_its_api(kind: str, plain: str, parent: str) -> None:
    assert (plain_kind(kind), parent_kind(kind)) == (plain, parent)


def test_groups_of_two_apis_with_one_name_are_two_groups() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    key = shared(builder, LEAF, "g", 2)
    builder.gang("g", 1)
    builder.pod("g")
    for _ in range(2):
        member(builder, "g")

    groups = builder.state.forest.groups
    placed = place(builder.state, groups[key], SearchBudget())

    assert (len(groups[POD_GROUP, "ns", "g"].members), len(groups[key].members)) == (1, 2)
    assert isinstance(placed, Placement)
    assert groups[key].phrase == 'PodGroup "g"'


def test_a_tree_never_mixes_two_apis() -> None:
    builder = StateBuilder()
    builder.composite("root", 1)
    shared(builder, ROOT, "root", 1)
    key = shared(builder, LEAF, "g", 1, parent="root")

    assert builder.state.forest.groups[key].top.key == (ROOT, "ns", "root")


@pytest.mark.parametrize(
    ("root", "leaf"),
    [
        pytest.param({"priority": 7}, {"priority": 0}, id="priority of the child"),
        pytest.param({"disruption": "all"}, {"disruption": "single"}, id="disruption mode"),
    ],
)
def test_a_child_may_differ_from_its_parent(root: dict[str, Any], leaf: dict[str, Any]) -> None:
    builder = StateBuilder()
    key = shared(builder, ROOT, "root", 1, **root)
    shared(builder, LEAF, "g", 1, parent="root", **leaf)
    member(builder, "g", priority=root.get("priority", 0))

    assert flaw(builder, key) == ""


def test_all_groups_of_a_tree_are_of_one_workload() -> None:
    builder = StateBuilder()
    key = shared(builder, ROOT, "root", 1, workload="a")
    shared(builder, LEAF, "g", 1, parent="root", workload="b")

    assert flaw(builder, key).startswith('The group belongs to workload "b", its root to "a".')


def test_a_workload_of_the_same_name_in_this_api_does_not_count() -> None:
    builder = StateBuilder()
    builder.state.set_templates(("ns", "w"), {})
    key = shared(builder, LEAF, "g", 1, workload="w", template="t")

    assert flaw(builder, key) == ""


@pytest.mark.parametrize("composite", [False, True])
def test_all_pods_have_the_priority_of_the_root(composite: bool) -> None:
    builder = StateBuilder()
    parent = "root" if composite else None
    top = shared(builder, ROOT, "root", 1, priority=7)
    key = shared(builder, LEAF, "g", 3, parent=parent, priority=0 if composite else 7)
    seen = []
    for priority in (7, 7, 3):
        member(builder, "g", priority=priority)
        seen.append(flaw(builder, top if composite else key))
    for pod in [*builder.state.pods.values()]:
        if pod.info.priority == 3:
            builder.state.remove_pod(pod.info.uid)
    seen.append(flaw(builder, top if composite else key))

    assert [bool(each) for each in seen] == [False, False, True, False]
    assert seen[2].startswith("The group has priority 7, one of its pods 3.")


def test_only_groups_with_pods_of_this_scheduler_are_counted() -> None:
    builder = StateBuilder()
    key = shared(builder, LEAF, "g", 2)
    states = builder.state.forest.states
    seen = [states[POD_GROUP, "incomplete"]]
    member(builder, "g", ours=False)
    seen.append(states[POD_GROUP, "incomplete"] + states[POD_GROUP, "invalid"])
    builder.state.remove_group(key)
    shared(builder, LEAF, "h", 3)
    member(builder, "h", scheduler="muster-scheduler")
    seen.append(states[POD_GROUP, "incomplete"])

    assert seen == [0, 0, 1]
