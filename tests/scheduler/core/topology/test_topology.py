"""KEP-6012's topology examples and similar ones, at two, three and four levels."""

import pytest

from scheduler.core.search.place import Refusal
from scheduler.core.state.shortage import BestDomain
from tests.scheduler.preemption_builder import PreemptionBuilder

LEVELS = {2: ["top"], 3: ["top", "middle"], 4: ["top", "upper", "middle"]}


def cluster(slots: dict[tuple[str, str], int]) -> PreemptionBuilder:
    """Create nodes from (block, rack) -> slots, all in one zone."""
    builder = PreemptionBuilder()
    for (block, rack), cpu in slots.items():
        labels = {"zone": "z", "block": block, "rack": rack}
        builder.node(f"{block}-{rack}", cpu, labels=labels)
    return builder


def above(builder: PreemptionBuilder, levels: int, children: int, *, key: str | None) -> str:
    """Create composites from the root down; the lowest needs `children` and has the key."""
    parent = None
    names = LEVELS[levels]
    for name in names:
        lowest = name == names[-1]
        builder.group(
            name,
            children if lowest else 1,
            composite=True,
            parent=parent,
            topology=key if lowest else "zone",
        )
        parent = name
    assert parent is not None
    return parent


def child(
    builder: PreemptionBuilder, parent: str, name: str, pods: int, *, key: str = "rack"
) -> None:
    builder.group(name, pods, parent=parent, topology=key)
    builder.waits(name, pods)


def placed(builder: PreemptionBuilder) -> dict[str, set[str]]:
    """Return the nodes of each leaf."""
    where = builder.where(builder.place("top", composite=True))
    nodes: dict[str, set[str]] = {}
    for uid, pod in builder.state.pods.items():
        if pod.group is not None and pod.info.name in where:
            nodes.setdefault(pod.group.name, set()).add(where[pod.info.name])
        assert uid
    return nodes


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("swapped", [False, True], ids=["as written", "reversed"])
def test_the_block_with_room_for_both_racks_is_chosen(levels: int, swapped: bool) -> None:
    """block-A has racks of 3 and 5 slots, block-B of 5 and 5; two children of 4 and 5 pods."""
    slots = {("a", "r1"): 3, ("a", "r2"): 5, ("b", "r1"): 5, ("b", "r2"): 5}
    builder = cluster(dict(reversed(slots.items())) if swapped else slots)
    parent = above(builder, levels, 2, key="block")
    for name, pods in (("one", 4), ("two", 5)) if not swapped else (("one", 5), ("two", 4)):
        child(builder, parent, name, pods)

    nodes = placed(builder)

    assert set.union(*nodes.values()) == {"b-r1", "b-r2"}
    assert all(len(each) == 1 for each in nodes.values())


@pytest.mark.parametrize("levels", LEVELS)
def test_a_rack_that_only_one_child_fits_is_left_to_it(levels: int) -> None:
    """Racks of 3 and 5 in one block: the child of 3 must not take the rack of 5."""
    builder = cluster({("a", "r1"): 5, ("a", "r2"): 3})
    parent = above(builder, levels, 2, key="block")
    child(builder, parent, "small", 3)
    child(builder, parent, "large", 5)

    assert placed(builder) == {"small": {"a-r2"}, "large": {"a-r1"}}


@pytest.mark.parametrize("levels", LEVELS)
def test_child_one_may_sit_in_a_or_b_and_child_two_only_in_a(levels: int) -> None:
    builder = cluster({("a", "r"): 4, ("b", "r"): 3})
    parent = above(builder, levels, 2, key="zone")
    child(builder, parent, "one", 3, key="block")
    child(builder, parent, "two", 4, key="block")

    assert placed(builder) == {"one": {"b-r"}, "two": {"a-r"}}


def test_equal_names_under_different_parents_are_different_domains() -> None:
    builder = cluster({("a", "r1"): 2, ("b", "r1"): 2})
    builder.group("top", 1, composite=True, topology="block")
    child(builder, "top", "leaf", 3)

    assert isinstance(builder.place("top", composite=True), Refusal)


def test_nodes_without_the_label_do_not_count() -> None:
    builder = cluster({("a", "r1"): 2})
    builder.node("bare", 8, labels={"block": "a"})
    builder.group("top", 1, composite=True, topology="block")
    child(builder, "top", "leaf", 3)

    assert isinstance(builder.place("top", composite=True), Refusal)


@pytest.mark.parametrize("levels", LEVELS)
def test_members_that_run_pin_every_level(levels: int) -> None:
    builder = cluster({("a", "r1"): 2, ("a", "r2"): 9, ("b", "r1"): 9})
    parent = above(builder, levels, 1, key="block")
    builder.group("leaf", 2, parent=parent, topology="rack")
    builder.runs("leaf", "a-r1")
    builder.waits("leaf", 1)

    assert placed(builder) == {"leaf": {"a-r1"}}


def test_a_relabelled_node_changes_the_answer() -> None:
    builder = cluster({("a", "r1"): 2, ("b", "r1"): 2})
    builder.group("leaf", 4, topology="block")
    builder.waits("leaf", 4)
    before = builder.place("leaf")
    builder.node("b-r1", 2, labels={"zone": "z", "block": "a", "rack": "r9"})

    assert isinstance(before, Refusal)
    assert set(builder.where(builder.place("leaf")).values()) == {"a-r1", "b-r1"}


def test_preferred_is_one_domain_if_possible_and_else_the_fewest() -> None:
    for pods, want in ((4, 1), (6, 2), (9, 3)):
        builder = cluster({("a", "r1"): 4, ("a", "r2"): 3, ("a", "r3"): 2})
        builder.group("leaf", pods, topology="rack", preferred=True)
        builder.waits("leaf", pods)

        assert len(set(builder.where(builder.place("leaf")).values())) == want, pods


def test_preferred_below_required_and_required_below_preferred() -> None:
    builder = cluster({("a", "r1"): 2, ("a", "r2"): 2, ("b", "r1"): 3})
    builder.group("top", 1, composite=True, topology="block")
    builder.group("leaf", 4, parent="top", topology="rack", preferred=True)
    builder.waits("leaf", 4)
    assert placed(builder) == {"leaf": {"a-r1", "a-r2"}}

    builder = cluster({("a", "r1"): 2, ("b", "r2"): 3})
    builder.group("top", 2, composite=True, topology="block", preferred=True)
    child(builder, "top", "one", 2)
    child(builder, "top", "two", 3)
    assert placed(builder) == {"one": {"a-r1"}, "two": {"b-r2"}}


def test_equal_names_under_different_preferred_parents_are_different_domains() -> None:
    builder = cluster({("a", "r1"): 2, ("b", "r1"): 2})
    builder.group("top", 2, composite=True, topology="block", preferred=True)
    child(builder, "top", "one", 3)
    child(builder, "top", "two", 1)
    assert isinstance(builder.place("top", composite=True), Refusal)

    builder.node("b-r1", 3, labels={"zone": "z", "block": "b", "rack": "r1"})
    assert placed(builder)["one"] == {"b-r1"}


def test_running_members_pin_a_rack_of_one_parent_and_not_its_namesake() -> None:
    builder = cluster({("a", "r1"): 2, ("b", "r1"): 9})
    builder.group("top", 1, composite=True, topology="block", preferred=True)
    builder.group("leaf", 3, parent="top", topology="rack")
    builder.runs("leaf", "a-r1")
    builder.waits("leaf", 2)

    refusal = builder.place("top", composite=True)

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.best == BestDomain("rack", "r1", 1)


def test_pods_beyond_the_floor_leave_a_preferred_domain_for_the_fewest_others() -> None:
    builder = cluster({("a", "r1"): 4, ("a", "r2"): 1, ("a", "r3"): 3})
    builder.group("leaf", 4, topology="rack", preferred=True)
    builder.waits("leaf", 6)

    where = builder.where(builder.place("leaf"))

    assert sorted(where.values()) == ["a-r1"] * 4 + ["a-r3"] * 2


def test_a_group_that_fills_its_preferred_domain_can_still_grow() -> None:
    builder = cluster({("a", "r1"): 2, ("a", "r2"): 5})
    builder.group("leaf", 2, topology="rack", preferred=True)
    builder.runs("leaf", "a-r1", "a-r1")
    builder.waits("leaf", 2)

    assert set(builder.where(builder.place("leaf")).values()) == {"a-r2"}


def test_children_beyond_the_floor_leave_a_preferred_domain() -> None:
    builder = cluster({("a", "r1"): 2, ("b", "r1"): 2})
    builder.group("top", 1, composite=True, topology="block", preferred=True)
    child(builder, "top", "one", 2)
    child(builder, "top", "two", 2)

    assert set.union(*placed(builder).values()) == {"a-r1", "b-r1"}


def test_extras_do_not_leave_a_domain_that_is_required() -> None:
    builder = cluster({("a", "r1"): 3, ("a", "r2"): 2, ("b", "r1"): 3})
    builder.group("top", 1, composite=True, topology="block")
    builder.group("leaf", 2, parent="top", topology="rack", preferred=True)
    builder.waits("leaf", 7)

    where = builder.where(builder.place("top", composite=True))

    assert sorted(where.values()) == ["a-r1"] * 3 + ["a-r2"] * 2


def test_what_is_short_is_counted_over_all_domains_that_are_only_preferred() -> None:
    builder = cluster({("a", "r1"): 4, ("a", "r2"): 3})
    builder.group("leaf", 8, topology="rack", preferred=True)
    builder.waits("leaf", 8)

    refusal = builder.place("leaf")

    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.free, refusal.shortage.best) == (7, None)


def test_the_domain_that_places_more_wins_then_the_tightest() -> None:
    builder = cluster({("a", "r1"): 9, ("b", "r1"): 5, ("c", "r1"): 3})
    builder.group("leaf", 2, topology="block")
    builder.waits("leaf", 5)

    assert set(builder.where(builder.place("leaf")).values()) == {"b-r1"}


def test_of_equally_tight_domains_the_one_with_less_to_spare_is_taken() -> None:
    """Two pods of 2 cpu fill block b; in a they would leave fragments of 1."""
    builder = cluster({("a", "r1"): 3, ("a", "r2"): 3, ("b", "r1"): 2, ("b", "r2"): 2})
    builder.group("leaf", 2, topology="block")
    builder.waits("leaf", 2, cpu=2)

    assert set(builder.where(builder.place("leaf")).values()) == {"b-r1", "b-r2"}
