"""Several schedulerNames: each root is placed by its own profile, and no gang has two."""

from dataclasses import replace

import pytest

from scheduler.core.groups.forest import Pod
from scheduler.core.search.batching import place_batch, signature
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, GroupKey
from scheduler.core.values.profiles import Scoring
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls

BUDGET = SearchBudget(
    profiles={"packs": Scoring("pack", "pack"), "spreads": Scoring("spread", "spread")}
)


def cluster() -> StateBuilder:
    """Create two nodes, n1 the fuller one."""
    builder = StateBuilder()
    builder.nodes(2)
    builder.pod(node="n1")
    return builder


def flaw(builder: StateBuilder, key: GroupKey) -> tuple[str, str]:
    """Return the invalid group and its error; empty if there is none."""
    decision = place(builder.state, builder.state.forest.groups[key], BUDGET)
    if isinstance(decision, Placement):
        return "", ""
    assert isinstance(decision, Refusal)
    assert decision.shortage.kind == "invalid"
    return decision.shortage.at[2], decision.shortage.message


@pytest.mark.parametrize(
    ("scheduler", "want"),
    [
        pytest.param("packs", "n1", id="pack takes the fuller node"),
        pytest.param("spreads", "n0", id="spread the emptier one"),
        pytest.param("", "n1", id="without a profile it packs"),
    ],
)
@pytest.mark.parametrize("group", [None, "g"])
def test_a_root_is_placed_by_the_profile_of_its_scheduler(
    scheduler: str, want: str, group: str | None
) -> None:
    builder = cluster()
    builder.gang("g")
    info = builder.pod(group, scheduler=scheduler)
    root: Pod | object = builder.state.pods[info.uid] if group is None else None
    root = root or builder.state.forest.groups[POD_GROUP, "ns", "g"]

    placed = place(builder.state, root, BUDGET)  # type: ignore[arg-type]

    assert builder.where(placed) == {info.name: want}


def test_a_tree_is_placed_by_the_profile_of_its_pods() -> None:
    builder = cluster()
    builder.composite("root", 2)
    for leaf in ("a", "b"):
        builder.gang(leaf, parent="root")
        builder.pod(leaf, scheduler="spreads")
    top = builder.state.forest.groups[COMPOSITE_POD_GROUP, "ns", "root"]

    assert sorted(builder.where(place(builder.state, top, BUDGET)).values()) == ["n0", "n0"]


def test_pods_of_different_schedulers_are_not_decided_as_one_batch() -> None:
    builder = cluster()
    pods = [
        builder.state.pods[builder.pod(scheduler=name).uid]
        for name in ("packs", "packs", "spreads", "spreads")
    ]

    signatures = [signature(pod) for pod in pods]
    placed = [place_batch(builder.state, two, BUDGET) for two in (pods[:2], pods[2:])]

    assert signatures[0] == signatures[1] != signatures[2] == signatures[3]
    assert [{row for each in batch for row in each.rows} for batch in placed] == [{1}, {0}]


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param("packs", "packs", "", id="one name"),
        pytest.param(
            "packs",
            "spreads",
            'The group has pods of schedulerName "packs" and "spreads".'
            " Give all its pods the same schedulerName.",
            id="two names",
        ),
    ],
)
def test_the_members_of_a_group_have_one_scheduler(first: str, second: str, want: str) -> None:
    builder = cluster()
    builder.gang("g", 2)
    builder.pod("g", scheduler=first, node="n0")
    builder.pod("g", scheduler=second)

    assert flaw(builder, (POD_GROUP, "ns", "g"))[1] == want


def test_the_groups_of_a_tree_have_one_scheduler_and_may_get_it_later() -> None:
    """Neither leaf is invalid by itself, and neither changes in any other way."""
    builder = cluster()
    builder.composite("root", 2)
    builder.gang("a", 1, parent="root")
    builder.gang("b", 1, parent="root")
    builder.pod("a", scheduler="packs")
    builder.pod("b", scheduler="packs")
    top: GroupKey = (COMPOSITE_POD_GROUP, "ns", "root")
    assert flaw(builder, top) == ("", "")

    stray = builder.pod("b", scheduler="spreads")
    assert flaw(builder, top)[0] == "b"
    builder.state.remove_pod(stray.uid)
    assert flaw(builder, top) == ("", "")

    builder.gang("c", 1, parent="root")
    other = builder.pod("c", scheduler="spreads")
    assert flaw(builder, top)[0] == "root"
    assert not builder.state.forest.ready(builder.state.forest.groups[top])
    builder.state.remove_pod(other.uid)
    assert flaw(builder, top) == ("", "")


@pytest.mark.parametrize("ended", ["Succeeded", "Failed"])
def test_pods_that_are_done_do_not_count(ended: str) -> None:
    builder = cluster()
    builder.gang("g", 1)
    builder.pod("g", scheduler="packs", node="n0", phase=ended)
    builder.pod("g", scheduler="spreads")

    assert flaw(builder, (POD_GROUP, "ns", "g")) == ("", "")


def test_a_tree_of_two_names_says_so_once_it_is_linked() -> None:
    builder = cluster()
    builder.gang("a", 1, parent="root")
    builder.gang("b", 1, parent="root")
    builder.pod("a", scheduler="packs")
    builder.pod("b", scheduler="spreads")

    builder.composite("root", 2)

    assert flaw(builder, (COMPOSITE_POD_GROUP, "ns", "root"))[0] == "root"


def test_a_pod_that_brings_a_second_name_costs_the_same_whatever_else_is_there() -> None:
    """A tenant may mix names repeatedly in the largest tree: its pods are not iterated."""

    def cost(size: int) -> int:
        builder = StateBuilder()
        builder.nodes(2)
        builder.composite("root", 2)
        for leaf in range(size // 100):
            builder.gang(f"leaf{leaf}", 1, parent="root")
            for _ in range(100):
                builder.pod(f"leaf{leaf}", scheduler="packs")
        stray = replace(builder.pod("leaf0"), uid="stray", name="stray", scheduler="spreads")
        queue = Queue(builder.state)
        queue.refresh(builder.state.take_changes(), 0.0)

        def come_and_go() -> None:
            builder.state.set_pod(stray)
            queue.refresh(builder.state.take_changes(), 0.0)
            builder.state.remove_pod(stray.uid)
            queue.refresh(builder.state.take_changes(), 0.0)

        return calls(come_and_go)

    assert cost(5_000) == cost(500)


def test_the_other_roots_of_a_namespace_do_not_care_about_a_mixed_one() -> None:
    builder = cluster()
    builder.gang("mixed", 2)
    builder.pod("mixed", scheduler="packs")
    builder.pod("mixed", scheduler="spreads")
    builder.gang("good", 1)
    info = builder.pod("good", scheduler="spreads")
    queue = Queue(builder.state)
    queue.refresh(builder.state.take_changes(), 0.0)

    assert queue.waiting() == [(POD_GROUP, "ns", "good")]
    good = builder.state.forest.groups[POD_GROUP, "ns", "good"]
    assert builder.where(place(builder.state, good, BUDGET)) == {info.name: "n0"}
