"""Groups that use a disabled feature: their tree waits, wherever in it they are."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.groups.forest import Group
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey, GroupSpec
from tests.scheduler.state_builder import StateBuilder

TOPOLOGY, TREE, JOB = "TopologyAwareWorkloadScheduling", "CompositePodGroup", "WorkloadWithJob"


def switched(builder: StateBuilder, key: GroupKey, *, gate: str = "", maker: str = "") -> Group:
    """Set these disabled gates of the group; empty for none."""
    spec = builder.state.forest.groups[key].spec
    assert spec is not None
    builder.state.set_group(replace(spec, gate_off=gate, maker_off=maker))
    return builder.state.forest.groups[key]


def said(builder: StateBuilder, group: Group) -> tuple[str, str]:
    """Return the group of the tree at which it waits, and the message."""
    found = builder.state.forest.not_ready(group)
    return (found.at.name, found.message) if found is not None else ("", "")


def test_a_group_waits_while_its_gate_is_off_and_is_ready_when_it_is_on() -> None:
    builder = StateBuilder()
    key = builder.gang("g", 1)
    builder.pod("g")
    group = switched(builder, key, gate=TOPOLOGY)

    assert not builder.state.forest.ready(group)
    text = "its running pods continue, new pods are not scheduled until it is on"
    assert said(builder, group) == ("g", f"Feature gate {TOPOLOGY} is off: {text}")
    assert builder.state.forest.states[POD_GROUP, "incomplete"] == 1

    switched(builder, key)

    assert builder.state.forest.ready(group)
    assert builder.state.forest.states[POD_GROUP, "pending"] == 1


def test_a_tree_waits_for_the_one_group_in_it_that_uses_what_is_off() -> None:
    builder = StateBuilder()
    top = builder.composite("top", 1)
    builder.composite("middle", 1, parent="top")
    key = builder.gang("leaf", 1, parent="middle")
    builder.pod("leaf")
    root = builder.state.forest.groups[top]
    assert builder.state.forest.ready(root)

    switched(builder, key, gate=TOPOLOGY)

    assert not builder.state.forest.ready(root)
    assert said(builder, root)[0] == "leaf"

    builder.state.remove_group(key)

    assert not root.off


def test_a_parent_that_is_not_there_is_not_asked_for_while_trees_are_off() -> None:
    """The webhook would reject it: the message names the gate instead."""
    builder = StateBuilder()
    key = builder.gang("leaf", 1, parent="top")
    builder.pod("leaf")
    switched(builder, key, gate=TREE)
    top = builder.state.forest.groups[COMPOSITE_POD_GROUP, "ns", "top"]

    assert said(builder, top)[1].startswith(f"Feature gate {TREE} is off: ")


def test_what_was_made_for_a_job_waits_unless_it_was_scheduled_once() -> None:
    """Its running pods may be replaced: it is an ordinary gang to the scheduler."""
    builder = StateBuilder()
    builder.nodes(1)
    fresh, known = builder.gang("fresh", 1), builder.gang("known", 1)
    for name in ("fresh", "known"):
        builder.pod(name)
    builder.state.forest.was_scheduled(known)

    new = switched(builder, fresh, maker=JOB)
    old = switched(builder, known, maker=JOB)

    assert said(builder, new) == (
        "fresh",
        f"Feature gate {JOB} is off: a group that was never scheduled waits until it is on",
    )
    assert not builder.state.forest.ready(new)
    assert builder.state.forest.ready(old)


def test_what_runs_keeps_its_state() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    key = builder.gang("g", 1)
    builder.pod("g", node="n0")

    group = switched(builder, key, gate=TOPOLOGY)

    assert (group.state, group.bound, group.standing) == ("scheduled", True, True)


NAMES = ("a", "b", "c", "d")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from((None, *NAMES)),
        st.sampled_from(("", TOPOLOGY)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=25,
)


@given(steps=STEPS)
def test_a_root_knows_of_every_use_below_it_whatever_happens(
    steps: list[tuple[str, str | None, str, bool, bool]],
) -> None:
    """Groups are added, deleted, moved and changed, and close cycles; the flag stays correct."""
    builder = StateBuilder()
    forest = builder.state.forest
    for name, parent, gate, composite, goes in steps:
        key = (COMPOSITE_POD_GROUP if composite else POD_GROUP, "ns", name)
        if goes:
            builder.state.remove_group(key)
        else:
            builder.state.set_group(GroupSpec(key, 1, parent=parent, gate_off=gate))
        forest.catch_up(1000)

        for group in forest.groups.values():
            below = [each for each in group.subtree() if each.spec and each.spec.gate_off]
            assert group.off == bool(below)
            found = forest.not_ready(group) if below else None
            assert not below or (found is not None and found.at in below)
