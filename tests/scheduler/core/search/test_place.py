"""Placement of one root: minimums completely or not at all, then extras; trees, racks."""

import pytest

from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import Requirements
from tests.scheduler.state_builder import StateBuilder, requests


def why(builder: StateBuilder, decision: Placement | Refusal) -> Blocker:
    assert isinstance(decision, Refusal)
    return explain(builder.state, decision)


@pytest.mark.parametrize(
    ("nodes", "cpu", "minimum", "pods", "want_placed"),
    [
        pytest.param(2, 2, 4, 4, 4, id="a gang that just fits is placed whole"),
        pytest.param(2, 2, 5, 5, 0, id="a gang one pod too large is not placed at all"),
        pytest.param(2, 2, 2, 9, 4, id="extras fill what is left"),
        pytest.param(3, 1, 1, 2, 2, id="a basic group takes all its pods that fit"),
        pytest.param(0, 1, 1, 1, 0, id="an empty cluster takes nothing"),
    ],
)
def test_leaf(nodes: int, cpu: int, minimum: int, pods: int, want_placed: int) -> None:
    builder = StateBuilder()
    builder.nodes(nodes, cpu)
    builder.gang("g", minimum)
    builder.pods("g", pods)

    decision = builder.place("g")

    placed = len(decision.pods) if isinstance(decision, Placement) else 0
    assert placed == want_placed


def test_a_single_pod_is_placed_alone() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    info = builder.pod()

    assert builder.where(place(builder.state, builder.single(info), SearchBudget())) == {
        info.name: "n0"
    }


def test_packing_prefers_the_fuller_node_and_spreading_the_emptier() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    builder.pod(node="n1")
    builder.gang("g")
    pod = builder.pod("g")

    packed = builder.place("g", budget=SearchBudget(profile="pack"))
    spread = builder.place("g", budget=SearchBudget(profile="spread"))

    assert (builder.where(packed), builder.where(spread)) == ({pod.name: "n1"}, {pod.name: "n0"})


def test_spreading_levels_the_nodes() -> None:
    builder = StateBuilder()
    builder.nodes(4)
    builder.gang("g", 8)
    builder.pods("g", 8)

    nodes = list(builder.where(builder.place("g", budget=SearchBudget(profile="spread"))).values())

    assert {name: nodes.count(name) for name in nodes} == {"n0": 2, "n1": 2, "n2": 2, "n3": 2}


def test_running_members_count_for_the_floor() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    builder.gang("g", 4)
    for _ in range(3):
        builder.pod("g", node="n0")
    missing = builder.pod("g")

    assert builder.where(builder.place("g")) == {missing.name: "n0"}


def test_the_hardest_shape_goes_first_whatever_the_order_of_arrival() -> None:
    builder = StateBuilder()
    builder.node("small", cpu=2)
    builder.node("big", cpu=4)
    builder.pod(node="big", cpu=1)
    builder.gang("g", 3)
    for cpu in (1, 1, 3):
        builder.pod("g", cpu)

    assert len(builder.where(builder.place("g"))) == 3


def test_pods_that_cannot_go_are_not_chosen_for_the_floor() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("g", 2)
    builder.pod("g", cpu=100)
    builder.pods("g", 2)

    assert len(builder.where(builder.place("g"))) == 2


def test_placing_changes_nothing() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    builder.gang("g", 5)
    builder.pods("g", 7)
    before, version = builder.state.nodes.free.copy(), builder.state.nodes.version

    first, second = builder.place("g"), builder.place("g")

    assert (builder.state.nodes.free == before).all()
    assert builder.state.nodes.version == version
    assert builder.where(first) == builder.where(second)


def test_a_refusal_says_needed_free_and_why() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)
    builder.pod(node="n0")
    builder.gang("g", 4)
    builder.pods("g", 4)

    blocker = why(builder, builder.place("g"))

    assert (blocker.kind, blocker.needed, blocker.free) == ("capacity", 4, 3)
    assert not blocker.impossible
    assert "needs capacity for 4 more pods; 3 fit" in blocker.summary


def test_a_refusal_says_when_it_is_impossible_even_if_empty() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)
    builder.gang("g", 5)
    builder.pods("g", 5)

    assert why(builder, builder.place("g")).impossible


def test_an_undecided_feature_is_refused_by_name() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("g")
    builder.pod("g", requirements=Requirements(requests(1), unsupported=("host ports",)))

    blocker = why(builder, builder.place("g"))

    assert (blocker.kind, blocker.summary) == (
        "constraint",
        (
            "The pods use features that are not supported: host ports."
            " Remove these, or use another scheduler."
        ),
    )


class TestTrees:
    def test_a_tree_is_placed_whole_or_not_at_all(self) -> None:
        builder = StateBuilder()
        builder.nodes(1, cpu=4)
        builder.composite("root", 2)
        for child in ("a", "b"):
            builder.gang(child, 2, parent="root")
            builder.pods(child, 2)

        assert len(builder.where(builder.place("root", composite=True))) == 4

        builder.gang("c", 1, parent="root")
        builder.pods("c", 1)
        builder.composite("root", 3)
        assert why(builder, builder.place("root", composite=True)).needed == 1

    def test_children_are_chosen_when_fewer_are_needed(self) -> None:
        builder = StateBuilder()
        builder.nodes(1, cpu=3)
        builder.composite("root", 1)
        builder.gang("large", 4, parent="root")
        builder.pods("large", 4)
        builder.gang("small", 3, parent="root")
        small = builder.pods("small", 3)

        placed = builder.where(builder.place("root", composite=True))

        assert sorted(placed) == sorted(pod.name for pod in small)

    def test_extra_children_come_after_all_floors(self) -> None:
        builder = StateBuilder()
        builder.nodes(1, cpu=5)
        builder.composite("root", 1)
        for child in ("a", "b"):
            builder.gang(child, 2, parent="root")
            builder.pods(child, 2)

        assert len(builder.where(builder.place("root", composite=True))) == 4

    def test_a_half_running_child_is_completed_first(self) -> None:
        builder = StateBuilder()
        builder.nodes(1, cpu=3)
        builder.composite("root", 1)
        builder.gang("a", 2, parent="root")
        builder.pods("a", 2)
        builder.gang("b", 2, parent="root")
        builder.pod("b", node="n0")
        missing = builder.pod("b")

        assert list(builder.where(builder.place("root", composite=True))) == [missing.name]

    def test_four_levels_work(self) -> None:
        builder = StateBuilder()
        builder.nodes(1)
        builder.composite("root", 1)
        builder.composite("second", 1, parent="root")
        builder.composite("third", 1, parent="second")
        builder.gang("leaf", 2, parent="third")
        builder.pods("leaf", 2)

        assert len(builder.where(builder.place("root", composite=True))) == 2


class TestRacks:
    def test_the_tightest_rack_that_fits_is_chosen(self) -> None:
        builder = StateBuilder()
        builder.node("wide", cpu=8, labels={"rack": "a"})
        builder.node("tight", cpu=3, labels={"rack": "b"})
        builder.node("loose", cpu=9)
        builder.gang("g", 3, rack=True)
        builder.pods("g", 3)

        assert set(builder.where(builder.place("g")).values()) == {"tight"}

    def test_a_rack_that_takes_more_of_the_pods_goes_before_a_tighter_one(self) -> None:
        builder = StateBuilder()
        builder.node("wide", cpu=8, labels={"rack": "a"})
        builder.node("tight", cpu=3, labels={"rack": "b"})
        builder.gang("g", 3, rack=True)
        builder.pods("g", 5)

        assert list(builder.where(builder.place("g")).values()) == ["wide"] * 5

    def test_a_gang_no_rack_holds_names_the_best_one(self) -> None:
        builder = StateBuilder()
        builder.nodes(4, cpu=2, rack_of=2)
        builder.pod(node="n0")
        builder.gang("g", 5, rack=True)
        builder.pods("g", 5)

        blocker = why(builder, builder.place("g"))

        assert blocker.best_domain is not None
        assert (blocker.best_domain.value, blocker.best_domain.missing) == ("r001", 1)
        assert blocker.impossible

    def test_running_members_pin_the_rack(self) -> None:
        builder = StateBuilder()
        builder.nodes(4, cpu=4, rack_of=2)
        builder.gang("g", 2, rack=True)
        builder.pod("g", node="n3")
        missing = builder.pod("g")

        assert builder.where(builder.place("g"))[missing.name] in ("n2", "n3")

    def test_members_in_two_racks_are_an_error(self) -> None:
        builder = StateBuilder()
        builder.nodes(4, cpu=4, rack_of=2)
        builder.gang("g", 3, rack=True)
        builder.pod("g", node="n0")
        builder.pod("g", node="n3")
        builder.pod("g")

        blocker = why(builder, builder.place("g"))

        assert (blocker.kind, blocker.summary) == (
            "invalid",
            (
                'The running pods are not in one rack, but in 2: "r000", "r001".'
                " Delete those in all but one."
            ),
        )

    def test_preferred_takes_one_rack_if_one_fits_and_several_otherwise(self) -> None:
        builder = StateBuilder()
        builder.nodes(6, cpu=2, rack_of=2)
        for name, size in (("fits", 4), ("large", 6)):
            builder.gang(name, size, prefer_rack=True)
            builder.pods(name, size)

        fits, large = builder.where(builder.place("fits")), builder.where(builder.place("large"))

        assert set(fits.values()) == {"n0", "n1"}
        assert {int(node[1:]) // 2 for node in large.values()} == {0, 1}

    @pytest.mark.parametrize("first", ["movable", "bound"])
    def test_siblings_give_way_whoever_comes_first(self, first: str) -> None:
        builder = StateBuilder()
        builder.node("a", cpu=2, labels={"rack": "a", "fast": "yes"})
        builder.node("b", cpu=2, labels={"rack": "b"})
        builder.composite("root", 2)
        only_fast = Requirements(requests(1), selector=(("fast", "yes"),))
        for name in sorted(("movable", "bound"), key=lambda n: n != first):
            builder.gang(name, 2, parent="root", rack=True, created="0" if name == first else "1")
            for _ in range(2):
                builder.pod(name, requirements=only_fast if name == "bound" else None)

        assert len(builder.where(builder.place("root", composite=True))) == 4

    def test_block_and_rack_as_in_kep_6012(self) -> None:
        builder = StateBuilder()
        for block, sizes in (("A", (3, 5)), ("B", (5, 5))):
            for index, cpu in enumerate(sizes):
                labels = {"block": block, "rack": f"{block}{index}"}
                builder.node(f"{block}{index}", cpu=cpu, labels=labels)
        builder.gang("root", 2, composite=True, rack=True, key="block")
        for child in ("pg-1", "pg-2"):
            builder.gang(child, 5, parent="root", rack=True)
            builder.pods(child, 5)

        nodes = builder.where(builder.place("root", composite=True))

        assert set(nodes.values()) == {"B0", "B1"}


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(
            lambda w: w.gang("leaf", 1, parent="root", priority=5),
            "The group has priority 5, its root none. Give all groups of a tree the same"
            " priorityClassName.",
            id="priorities differ",
        ),
        pytest.param(
            lambda w: w.gang("leaf", 1, parent="root", workload="other"),
            'The group belongs to workload "other", its root to none.'
            " Give all groups of a tree the same workloadRef.workloadName.",
            id="two workloads",
        ),
        pytest.param(
            lambda w: w.pod("leaf", ours=False, node="n0"),
            "The group has 1 pod of another scheduler. Give all its pods the same schedulerName.",
            id="a member of another scheduler",
        ),
        pytest.param(
            lambda w: (
                w.gang("leaf", 1, parent="root", priority=5),
                w.gang("root", 1, composite=True, priority=5),
            ),
            "The group has priority 5, one of its pods 0. Use the same priorityClassName for the"
            " group and its pods.",
            id="a member of another priority",
        ),
        pytest.param(
            lambda w: w.gang("root", 1, composite=True, disruption="all"),
            'The group has disruptionMode single, its parent "root" has all. Use the same'
            " disruptionMode for both.",
            id="a single child under an all parent",
        ),
    ],
)
def test_flawed_trees_are_refused(spoil: object, want: str) -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.composite("root", 1)
    builder.gang("leaf", 1, parent="root")
    builder.pods("leaf", 1)
    assert callable(spoil)
    spoil(builder)

    blocker = why(builder, builder.place("root", composite=True))

    assert (blocker.kind, blocker.summary) == ("invalid", want)


def test_five_levels_are_refused() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    parent = None
    for level in range(4):
        builder.composite(f"c{level}", 1, parent=parent)
        parent = f"c{level}"
    builder.gang("leaf", 1, parent=parent)
    builder.pods("leaf", 1)

    summary = why(builder, builder.place("c0", composite=True)).summary
    assert (
        summary == "The group is on level 5 of its tree. A tree can have 4 levels. Remove a level."
    )


def test_a_child_without_a_policy_yet_does_not_spoil_its_tree() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("root", 1, composite=True, priority=7, disruption="all")
    builder.gang("ready", 1, parent="root", priority=7, disruption="all")
    pod = builder.pod("ready", priority=7)
    builder.gang("unfilled", None, parent="root")

    assert list(builder.where(builder.place("root", composite=True))) == [pod.name]


def test_extras_go_round_by_round() -> None:
    builder = StateBuilder()
    builder.node("n", 8)
    builder.composite("tree", 2)
    for name in ("a", "b"):
        builder.gang(name, 1, parent="tree", created=name)
        builder.pods(name, 6)

    placed = builder.where(builder.place("tree", composite=True))

    groups = [pod.info.group for pod in builder.state.pods.values() if pod.info.name in placed]
    assert (groups.count("a"), groups.count("b")) == (4, 4)


def test_extras_of_a_higher_priority_come_first() -> None:
    builder = StateBuilder()
    builder.node("n", 4)
    builder.composite("tree", 2)
    for name, priority in (("a", 0), ("b", 5)):
        builder.gang(name, 1, parent="tree", created=name)
        for _ in range(4):
            builder.pod(name, priority=priority)

    placed = builder.where(builder.place("tree", composite=True))

    groups = [pod.info.group for pod in builder.state.pods.values() if pod.info.name in placed]
    assert (groups.count("a"), groups.count("b")) == (1, 3)


def test_children_that_stand_in_each_others_way_are_packed_as_one() -> None:
    builder = StateBuilder()
    for name, cpu in (("m", 7), ("n", 7)):
        builder.node(name, cpu)
    builder.composite("tree", 3)
    for name, sizes in (("a", (3, 3)), ("b", (4, 1)), ("c", (2, 1))):
        builder.gang(name, 2, parent="tree", created=name)
        for cpu in sizes:
            builder.pod(name, cpu)

    assert len(builder.where(builder.place("tree", composite=True))) == 6
