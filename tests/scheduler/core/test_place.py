"""Where one root goes: floors whole or not at all, extras after, trees, racks."""

from __future__ import annotations

import pytest

from scheduler.core.explain import Blocker, explain
from scheduler.core.model import Requirements
from scheduler.core.place import Placement, Refusal, SearchBudget, place
from tests.scheduler.world import World, requests


def why(world: World, decision: Placement | Refusal) -> Blocker:
    assert isinstance(decision, Refusal)
    return explain(world.state, decision)


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
    world = World()
    world.nodes(nodes, cpu)
    world.gang("g", minimum)
    world.pods("g", pods)

    decision = world.place("g")

    placed = len(decision.pods) if isinstance(decision, Placement) else 0
    assert placed == want_placed


def test_a_single_pod_is_placed_alone() -> None:
    world = World()
    world.nodes(1)
    info = world.pod()

    assert world.where(place(world.state, world.single(info), SearchBudget())) == {info.name: "n0"}


def test_packing_prefers_the_fuller_node_and_spreading_the_emptier() -> None:
    world = World()
    world.nodes(2)
    world.pod(node="n1")
    world.gang("g")
    pod = world.pod("g")

    packed = world.place("g", budget=SearchBudget(profile="pack"))
    spread = world.place("g", budget=SearchBudget(profile="spread"))

    assert (world.where(packed), world.where(spread)) == ({pod.name: "n1"}, {pod.name: "n0"})


def test_spreading_levels_the_nodes() -> None:
    world = World()
    world.nodes(4)
    world.gang("g", 8)
    world.pods("g", 8)

    nodes = list(world.where(world.place("g", budget=SearchBudget(profile="spread"))).values())

    assert {name: nodes.count(name) for name in nodes} == {"n0": 2, "n1": 2, "n2": 2, "n3": 2}


def test_running_members_count_for_the_floor() -> None:
    world = World()
    world.nodes(1, cpu=4)
    world.gang("g", 4)
    for _ in range(3):
        world.pod("g", node="n0")
    missing = world.pod("g")

    assert world.where(world.place("g")) == {missing.name: "n0"}


def test_the_hardest_shape_goes_first_whatever_the_order_of_arrival() -> None:
    world = World()
    world.node("small", cpu=2)
    world.node("big", cpu=4)
    world.pod(node="big", cpu=1)
    world.gang("g", 3)
    for cpu in (1, 1, 3):
        world.pod("g", cpu)

    assert len(world.where(world.place("g"))) == 3


def test_pods_that_cannot_go_are_not_chosen_for_the_floor() -> None:
    world = World()
    world.nodes(1)
    world.gang("g", 2)
    world.pod("g", cpu=100)
    world.pods("g", 2)

    assert len(world.where(world.place("g"))) == 2


def test_placing_changes_nothing() -> None:
    world = World()
    world.nodes(3)
    world.gang("g", 5)
    world.pods("g", 7)
    before, version = world.state.nodes.free.copy(), world.state.nodes.version

    first, second = world.place("g"), world.place("g")

    assert (world.state.nodes.free == before).all()
    assert world.state.nodes.version == version
    assert world.where(first) == world.where(second)


def test_a_refusal_says_needed_free_and_why() -> None:
    world = World()
    world.nodes(2, cpu=2)
    world.pod(node="n0")
    world.gang("g", 4)
    world.pods("g", 4)

    blocker = why(world, world.place("g"))

    assert (blocker.kind, blocker.needed, blocker.free) == ("capacity", 4, 3)
    assert not blocker.impossible
    assert blocker.pods_fit
    assert "needs room for 4 more pods, there is room for 3" in blocker.summary


def test_a_refusal_says_when_it_is_impossible_even_if_empty() -> None:
    world = World()
    world.nodes(2, cpu=2)
    world.gang("g", 5)
    world.pods("g", 5)

    assert why(world, world.place("g")).impossible


def test_an_undecided_feature_is_refused_by_name() -> None:
    world = World()
    world.nodes(1)
    world.gang("g")
    world.pod("g", requirements=Requirements(requests(1), unsupported=("host ports",)))

    blocker = why(world, world.place("g"))

    assert (blocker.kind, blocker.summary) == (
        "constraint",
        (
            "its pods use what is not supported yet: host ports;"
            " do without, or leave them to another scheduler"
        ),
    )


class TestTrees:
    def test_a_tree_is_placed_whole_or_not_at_all(self) -> None:
        world = World()
        world.nodes(1, cpu=4)
        world.composite("root", 2)
        for child in ("a", "b"):
            world.gang(child, 2, parent="root")
            world.pods(child, 2)

        assert len(world.where(world.place("root", composite=True))) == 4

        world.gang("c", 1, parent="root")
        world.pods("c", 1)
        world.composite("root", 3)
        assert why(world, world.place("root", composite=True)).needed == 1

    def test_children_are_chosen_when_fewer_are_needed(self) -> None:
        world = World()
        world.nodes(1, cpu=3)
        world.composite("root", 1)
        world.gang("large", 4, parent="root")
        world.pods("large", 4)
        world.gang("small", 3, parent="root")
        small = world.pods("small", 3)

        placed = world.where(world.place("root", composite=True))

        assert sorted(placed) == sorted(pod.name for pod in small)

    def test_extra_children_come_after_all_floors(self) -> None:
        world = World()
        world.nodes(1, cpu=5)
        world.composite("root", 1)
        for child in ("a", "b"):
            world.gang(child, 2, parent="root")
            world.pods(child, 2)

        assert len(world.where(world.place("root", composite=True))) == 4

    def test_a_half_running_child_is_completed_first(self) -> None:
        world = World()
        world.nodes(1, cpu=3)
        world.composite("root", 1)
        world.gang("a", 2, parent="root")
        world.pods("a", 2)
        world.gang("b", 2, parent="root")
        world.pod("b", node="n0")
        missing = world.pod("b")

        assert list(world.where(world.place("root", composite=True))) == [missing.name]

    def test_four_levels_work(self) -> None:
        world = World()
        world.nodes(1)
        world.composite("root", 1)
        world.composite("second", 1, parent="root")
        world.composite("third", 1, parent="second")
        world.gang("leaf", 2, parent="third")
        world.pods("leaf", 2)

        assert len(world.where(world.place("root", composite=True))) == 2


class TestRacks:
    def test_the_tightest_rack_that_fits_is_chosen(self) -> None:
        world = World()
        world.node("wide", cpu=8, labels={"rack": "a"})
        world.node("tight", cpu=3, labels={"rack": "b"})
        world.node("loose", cpu=9)
        world.gang("g", 3, rack=True)
        world.pods("g", 3)

        assert set(world.where(world.place("g")).values()) == {"tight"}

    def test_a_rack_that_takes_more_of_the_pods_goes_before_a_tighter_one(self) -> None:
        world = World()
        world.node("wide", cpu=8, labels={"rack": "a"})
        world.node("tight", cpu=3, labels={"rack": "b"})
        world.gang("g", 3, rack=True)
        world.pods("g", 5)

        assert list(world.where(world.place("g")).values()) == ["wide"] * 5

    def test_a_gang_no_rack_holds_names_the_best_one(self) -> None:
        world = World()
        world.nodes(4, cpu=2, rack_of=2)
        world.pod(node="n0")
        world.gang("g", 5, rack=True)
        world.pods("g", 5)

        blocker = why(world, world.place("g"))

        assert blocker.best_domain is not None
        assert (blocker.best_domain.value, blocker.best_domain.missing) == ("r001", 1)
        assert blocker.impossible

    def test_running_members_pin_the_rack(self) -> None:
        world = World()
        world.nodes(4, cpu=4, rack_of=2)
        world.gang("g", 2, rack=True)
        world.pod("g", node="n3")
        missing = world.pod("g")

        assert world.where(world.place("g"))[missing.name] in ("n2", "n3")

    def test_members_in_two_racks_are_an_error(self) -> None:
        world = World()
        world.nodes(4, cpu=4, rack_of=2)
        world.gang("g", 3, rack=True)
        world.pod("g", node="n0")
        world.pod("g", node="n3")
        world.pod("g")

        blocker = why(world, world.place("g"))

        assert (blocker.kind, blocker.summary) == (
            "invalid",
            (
                'its running members are not in one rack, but in 2: "r000", "r001";'
                " delete those in all but one"
            ),
        )

    def test_preferred_takes_one_rack_if_one_fits_and_several_otherwise(self) -> None:
        world = World()
        world.nodes(6, cpu=2, rack_of=2)
        for name, size in (("fits", 4), ("large", 6)):
            world.gang(name, size, prefer_rack=True)
            world.pods(name, size)

        fits, large = world.where(world.place("fits")), world.where(world.place("large"))

        assert set(fits.values()) == {"n0", "n1"}
        assert {int(node[1:]) // 2 for node in large.values()} == {0, 1}

    @pytest.mark.parametrize("first", ["movable", "bound"])
    def test_siblings_give_way_whoever_comes_first(self, first: str) -> None:
        world = World()
        world.node("a", cpu=2, labels={"rack": "a", "fast": "yes"})
        world.node("b", cpu=2, labels={"rack": "b"})
        world.composite("root", 2)
        only_fast = Requirements(requests(1), selector=(("fast", "yes"),))
        for name in sorted(("movable", "bound"), key=lambda n: n != first):
            world.gang(name, 2, parent="root", rack=True, created="0" if name == first else "1")
            for _ in range(2):
                world.pod(name, requirements=only_fast if name == "bound" else None)

        assert len(world.where(world.place("root", composite=True))) == 4

    def test_block_and_rack_as_in_kep_6012(self) -> None:
        world = World()
        for block, sizes in (("A", (3, 5)), ("B", (5, 5))):
            for index, cpu in enumerate(sizes):
                labels = {"block": block, "rack": f"{block}{index}"}
                world.node(f"{block}{index}", cpu=cpu, labels=labels)
        world.gang("root", 2, composite=True, rack=True, key="block")
        for child in ("pg-1", "pg-2"):
            world.gang(child, 5, parent="root", rack=True)
            world.pods(child, 5)

        nodes = world.where(world.place("root", composite=True))

        assert set(nodes.values()) == {"B0", "B1"}


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(
            lambda w: w.gang("leaf", 1, parent="root", priority=5),
            "has priority 5, its root none: give all groups of a tree the same priorityClassName",
            id="priorities differ",
        ),
        pytest.param(
            lambda w: w.gang("leaf", 1, parent="root", workload="other"),
            'belongs to workload "other", its root to none:'
            " give all groups of a tree the same workloadRef.workloadName",
            id="two workloads",
        ),
        pytest.param(
            lambda w: w.pod("leaf", ours=False, node="n0"),
            "has 1 pod of another scheduler: give all its pods the same schedulerName",
            id="a member of another scheduler",
        ),
        pytest.param(
            lambda w: (
                w.gang("leaf", 1, parent="root", priority=5),
                w.gang("root", 1, composite=True, priority=5),
            ),
            "has priority 5, one of its pods 0: give the group and its pods the same"
            " priorityClassName",
            id="a member of another priority",
        ),
        pytest.param(
            lambda w: w.gang("root", 1, composite=True, disruption="all"),
            'has disruption mode single under the all of "root": give both the same disruptionMode',
            id="a single child under an all parent",
        ),
    ],
)
def test_flawed_trees_are_refused(spoil: object, want: str) -> None:
    world = World()
    world.nodes(1)
    world.composite("root", 1)
    world.gang("leaf", 1, parent="root")
    world.pods("leaf", 1)
    assert callable(spoil)
    spoil(world)

    blocker = why(world, world.place("root", composite=True))

    assert (blocker.kind, blocker.summary) == ("invalid", want)


def test_five_levels_are_refused() -> None:
    world = World()
    world.nodes(1)
    parent = None
    for level in range(4):
        world.composite(f"c{level}", 1, parent=parent)
        parent = f"c{level}"
    world.gang("leaf", 1, parent=parent)
    world.pods("leaf", 1)

    summary = why(world, world.place("c0", composite=True)).summary
    assert summary == "is on level 5 of its tree, 4 are the most: take out one above it"


def test_a_child_without_a_policy_yet_does_not_spoil_its_tree() -> None:
    world = World()
    world.nodes(1)
    world.gang("root", 1, composite=True, priority=7, disruption="all")
    world.gang("ready", 1, parent="root", priority=7, disruption="all")
    pod = world.pod("ready", priority=7)
    world.gang("unfilled", None, parent="root")

    assert list(world.where(world.place("root", composite=True))) == [pod.name]


def test_extras_go_round_by_round() -> None:
    world = World()
    world.node("n", 8)
    world.composite("tree", 2)
    for name in ("a", "b"):
        world.gang(name, 1, parent="tree", created=name)
        world.pods(name, 6)

    placed = world.where(world.place("tree", composite=True))

    groups = [pod.info.group for pod in world.state.pods.values() if pod.info.name in placed]
    assert (groups.count("a"), groups.count("b")) == (4, 4)


def test_extras_of_a_higher_priority_come_first() -> None:
    world = World()
    world.node("n", 4)
    world.composite("tree", 2)
    for name, priority in (("a", 0), ("b", 5)):
        world.gang(name, 1, parent="tree", created=name)
        for _ in range(4):
            world.pod(name, priority=priority)

    placed = world.where(world.place("tree", composite=True))

    groups = [pod.info.group for pod in world.state.pods.values() if pod.info.name in placed]
    assert (groups.count("a"), groups.count("b")) == (1, 3)


def test_children_that_stand_in_each_others_way_are_packed_as_one() -> None:
    world = World()
    for name, cpu in (("m", 7), ("n", 7)):
        world.node(name, cpu)
    world.composite("tree", 3)
    for name, sizes in (("a", (3, 3)), ("b", (4, 1)), ("c", (2, 1))):
        world.gang(name, 2, parent="tree", created=name)
        for cpu in sizes:
            world.pod(name, cpu)

    assert len(world.where(world.place("tree", composite=True))) == 6
