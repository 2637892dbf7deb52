"""Errors of a tree: found as soon as its groups are known; the first of them is named."""

from collections.abc import Callable

import pytest

from scheduler.core.groups.tree_validation import TreeFlaw, check
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls


def flaw(
    builder: StateBuilder, name: str = "root", kind: str = COMPOSITE_POD_GROUP
) -> TreeFlaw | None:
    return check(builder.state.forest.groups[kind, "ns", name].top)


def message(builder: StateBuilder) -> str:
    found = flaw(builder)
    return found.message if found is not None else ""


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(
            lambda w: w.gang("leaf", 3, parent="root", workload="x"),
            'The group belongs to workload "x", its root to none',
            id="another workload",
        ),
        pytest.param(
            lambda w: w.gang("leaf", 3, parent="root", priority=5),
            "The group has priority 5, its root none",
            id="another priority",
        ),
        pytest.param(
            lambda w: w.gang("root", 2, composite=True, disruption="all"),
            'The group has disruptionMode single, its parent "root" has all',
            id="a single child under an all parent",
        ),
        pytest.param(
            lambda w: w.pod("leaf", ours=False),
            "The group has 1 pod of another scheduler",
            id="a pod of another scheduler",
        ),
    ],
)
def test_a_flaw_is_there_before_the_quorum_and_goes_with_its_cause(
    spoil: Callable[[StateBuilder], object], want: str
) -> None:
    builder = StateBuilder()
    builder.composite("root", 2)
    builder.gang("leaf", 3, parent="root")
    said = [message(builder)]
    spoil(builder)
    said.append(message(builder))
    for uid in list(builder.state.pods):
        builder.state.remove_pod(uid)
    builder.composite("root", 2)
    builder.gang("leaf", 3, parent="root")
    said.append(message(builder))

    assert said[0] == said[2] == ""
    assert said[1].startswith(want)


def test_a_leaf_with_a_pod_of_another_priority_is_faulty_while_the_pod_lives() -> None:
    builder = StateBuilder()
    builder.gang("g", 9, priority=5)
    pod = builder.pod("g", priority=1)
    before = flaw(builder, "g", POD_GROUP)
    builder.state.remove_pod(pod.uid)

    assert before is not None
    assert before.message.startswith("The group has priority 5, one of its pods 1")
    assert flaw(builder, "g", POD_GROUP) is None


def test_the_first_of_several_faulty_siblings_is_named() -> None:
    builder = StateBuilder()
    builder.composite("root", 1)
    for name, created in (("young", "3"), ("old", "1"), ("middle", "2")):
        builder.gang(name, 1, parent="root", workload="x", created=created)
    found = flaw(builder)

    assert found is not None
    assert found.at.name == "old"


def test_a_parent_is_named_before_its_children_and_an_older_branch_before_a_younger() -> None:
    builder = StateBuilder()
    builder.composite("root", 1)
    for name, created in (("b", "2"), ("a", "1")):
        builder.gang(name, 1, parent="root", composite=True, created=created)
        builder.gang(f"{name}-leaf", 1, parent=name, workload="x")
    in_the_older_branch = flaw(builder)
    builder.gang("a", 1, parent="root", composite=True, created="1", priority=3)
    in_the_parent = flaw(builder)

    assert in_the_older_branch is not None
    assert in_the_older_branch.at.name == "a-leaf"
    assert in_the_parent is not None
    assert in_the_parent.at.name == "a"


def test_a_faulty_tree_is_not_in_the_queue_and_is_once_it_is_put_right() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    queue = Queue(builder.state)
    root = builder.composite("root", 1)
    builder.gang("leaf", 1, parent="root", workload="x")
    builder.pod("leaf")
    queue.refresh(builder.state.take_changes(), 0)
    before = queue.pop()
    builder.gang("leaf", 1, parent="root")
    queue.refresh(builder.state.take_changes(), 0)

    assert (before, queue.pop()) == (None, root)


def test_to_spoil_and_mend_a_tree_costs_the_same_however_many_children_it_has() -> None:
    def cost(width: int) -> int:
        builder = StateBuilder()
        builder.gang("root", 1, composite=True, workload="w")
        for number in range(width):
            builder.gang(f"leaf{number}", 1, parent="root", workload="w")

        def spoil() -> None:
            for workload in ("x", "w"):
                builder.gang("root", 1, composite=True, workload=workload)
                builder.gang("leaf0", 1, parent="root", workload=workload)
            builder.state.take_changes()

        found = calls(spoil)
        assert flaw(builder) is None
        return found

    assert cost(3_000) == cost(300)
