"""The victims of preemptors, and pods that are never victims."""

import pytest

from scheduler.core.explain.domain_capacity import domains
from scheduler.core.preemption.candidates import EvictionScopes
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Refusal, SearchBudget, place
from scheduler.core.values.model import PodInfo
from tests.scheduler.preemption_builder import PreemptionBuilder


def names(*infos: list[PodInfo]) -> set[str]:
    return {info.name for each in infos for info in each}


def test_a_pod_takes_the_place_of_one_of_lower_priority() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    low = builder.runs(None, "n0")
    (high,) = builder.waits(None, priority=1)

    assert builder.victims(high.name) == names(low)


@pytest.mark.parametrize("priority", [0, 1, -1])
def test_equal_and_higher_priority_is_never_touched(priority: int) -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.runs(None, "n0", priority=1)
    (other,) = builder.waits(None, priority=priority)

    assert isinstance(builder.preempt(other.name), Refusal)


def test_of_pods_on_one_node_those_of_lowest_priority_go() -> None:
    """One more than the search for cheaper sets tries: the order of reprieve must be correct."""
    builder = PreemptionBuilder()
    builder.node("n0", 3)
    low, first, second = (builder.runs(None, "n0", priority=priority) for priority in (0, 1, 1))
    for number in range(100):
        builder.node(f"small{number}", 1)
        builder.runs(None, f"small{number}", priority=1)
    (high,) = builder.waits(None, cpu=2, priority=5)

    victims = builder.victims(high.name)

    assert victims in (names(low, first), names(low, second))


@pytest.mark.parametrize("grouped", [False, True])
def test_whoever_may_not_preempt_waits(grouped: bool) -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.runs(None, "n0")
    if grouped:
        builder.group("g", 1, priority=5, preempts=False)
        (pod,) = builder.waits("g", priority=5)
    else:
        (pod,) = builder.waits(None, priority=5, preempts=False)

    assert isinstance(builder.preempt("g" if grouped else pod.name), Refusal)


def test_nobody_goes_if_all_of_them_would_not_be_enough() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    builder.runs(None, "n0", "n1")
    builder.runs(None, "n2", priority=9)
    builder.group("g", 3, priority=5)
    builder.waits("g", 3, priority=5)

    assert isinstance(builder.preempt("g"), Refusal)


def test_a_single_pod_takes_the_whole_of_an_all_group() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1)
    builder.group("low", 4, mode="all")
    low = builder.runs("low", "n0", "n1", "n2", "n3")
    (high,) = builder.waits(None, priority=1)

    assert builder.victims(high.name) == names(low)


def test_of_a_single_group_one_pod_is_enough() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1)
    builder.group("low", 4)
    builder.runs("low", "n0", "n1", "n2", "n3")
    (high,) = builder.waits(None, priority=1)

    assert len(builder.victims(high.name)) == 1


def test_the_highest_all_ancestor_is_the_unit() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    builder.group("tree", 1, composite=True)
    builder.group("branch", 2, composite=True, mode="all", parent="tree")
    builder.group("one", 1, mode="all", parent="branch")
    builder.group("two", 1, mode="all", parent="branch")
    builder.group("beside", 1, parent="tree")
    one, two = builder.runs("one", "n0"), builder.runs("two", "n1")
    builder.runs("beside", "n2")
    (high,) = builder.waits(None, cpu=1, priority=1)
    builder.state.remove_node("n2")

    assert builder.victims(high.name) == names(one, two)


def test_a_units_priority_is_its_roots_and_without_a_root_its_own_groups() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    builder.group("leaf", 1, priority=3, mode="all", parent="missing")
    builder.runs("leaf", "n0", priority=3)
    (same,) = builder.waits(None, priority=3)
    (higher,) = builder.waits(None, priority=4)

    assert isinstance(builder.preempt(same.name), Refusal)
    assert isinstance(builder.preempt(higher.name), Plan)


def test_without_a_root_the_pods_of_an_all_group_go_one_by_one() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.group("leaf", 2, mode="all", parent="missing")
    builder.runs("leaf", "n0", "n1")
    (high,) = builder.waits(None, priority=1)

    assert len(builder.victims(high.name)) == 1


def test_the_rack_with_the_least_important_victims_is_chosen() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1, rack_of=2)
    builder.runs(None, "n0", "n1", priority=2)
    low = builder.runs(None, "n2", "n3", priority=1)
    builder.group("g", 2, priority=5, topology="rack")
    builder.waits("g", 2, priority=5)

    assert builder.victims("g") == names(low)


def test_fewer_units_rather_than_lower_ones_of_the_same_highest() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=1, rack_of=2)
    builder.runs(None, "n0", "n1", priority=1)
    builder.group("gang", 2, mode="all", priority=1)
    gang = builder.runs("gang", "n2", "n3", priority=1)
    builder.group("g", 2, priority=5, topology="rack")
    builder.waits("g", 2, priority=5)

    assert builder.victims("g") == names(gang)


@pytest.mark.parametrize("racks", [("a", "b"), ("b", "a")])
def test_of_racks_that_cost_the_same_the_one_with_the_fewest_slots_is_used(
    racks: tuple[str, str],
) -> None:
    builder = PreemptionBuilder()
    tight, wide = racks
    for number, rack in enumerate((tight, tight, wide, wide, wide)):
        builder.node(f"n{number}", cpu=2, labels={"rack": rack})
    (low, *_) = builder.runs(None, "n0", "n2", "n3", cpu=2)
    builder.group("g", 3, priority=5, topology="rack")
    builder.waits("g", 3, priority=5)

    assert builder.victims("g") == {low.name}


def test_exactly_one_rack_is_cleared() -> None:
    builder = PreemptionBuilder()
    builder.nodes(9, cpu=2, rack_of=3)
    by_rack = [builder.runs(None, *(f"n{3 * r + i}" for i in range(3)), cpu=2) for r in range(3)]
    builder.group("g", 6, priority=5, topology="rack")
    builder.waits("g", 6, priority=5)

    assert builder.victims("g") in [names(pods) for pods in by_rack]


def test_a_budget_is_kept_if_anybody_else_will_do() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.runs(None, "n0", app="guarded")
    other = builder.runs(None, "n1", priority=3)
    builder.budget("guard", 0, app="guarded")
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(other)


def test_a_budget_gives_way_if_nothing_else_works() -> None:
    builder = PreemptionBuilder()
    builder.nodes(1, cpu=1)
    guarded = builder.runs(None, "n0", app="guarded")
    builder.budget("guard", 0, app="guarded")
    (high,) = builder.waits(None, priority=5)

    plan = builder.preempt(high.name)

    assert builder.victims(high.name) == names(guarded)
    assert isinstance(plan, Plan)
    assert plan.cost is not None
    assert plan.cost.violations == 1


def test_what_a_budget_allows_may_go() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    guarded = builder.runs(None, "n0", app="guarded")
    builder.runs(None, "n1", priority=3)
    builder.budget("guard", 1, app="guarded")
    (high,) = builder.waits(None, priority=5)

    assert builder.victims(high.name) == names(guarded)


def test_while_victims_leave_nobody_else_is_asked_to() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    (leaving,) = builder.runs(None, "n0")
    builder.runs(None, "n1")
    (high,) = builder.waits(None, priority=1)
    builder.leave(leaving)

    plan = builder.preempt(high.name)

    assert isinstance(plan, Plan)
    assert plan.victims == ()


def test_members_that_leave_do_not_make_more_of_their_unit_go() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    leaving = builder.runs(None, "n0")
    builder.runs(None, "n1", "n2")
    builder.group("g", 2, priority=1)
    builder.waits("g", 2, priority=1)
    builder.leave(leaving[0])

    assert len(builder.victims("g")) == 1


def test_extras_of_a_running_gang_may_take_room_too() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3, cpu=1)
    builder.group("g", 1, priority=5)
    builder.runs("g", "n0", priority=5)
    low = builder.runs(None, "n1", "n2")
    builder.waits("g", 2, priority=5)

    assert builder.victims("g") == names(low)


def test_the_youngest_goes_where_all_else_is_equal() -> None:
    builder = PreemptionBuilder()
    builder.nodes(2, cpu=1)
    builder.runs(None, "n0")
    young = builder.runs(None, "n1")
    (high,) = builder.waits(None, priority=1)

    assert builder.victims(high.name) == names(young)


def test_children_in_racks_of_their_own_take_the_cheap_racks() -> None:
    builder = PreemptionBuilder()
    builder.nodes(6, cpu=1, rack_of=2)
    builder.runs(None, "n0", "n1", priority=3)
    low = builder.runs(None, "n2", "n3", "n4", "n5")
    builder.group("tree", 2, composite=True, priority=5)
    for child in ("a", "b"):
        builder.group(child, 2, parent="tree", priority=5, topology="rack")
        builder.waits(child, 2, priority=5)

    assert builder.victims("tree") == names(low)


def test_a_plan_comes_true_once_its_victims_are_gone() -> None:
    builder = PreemptionBuilder()
    builder.nodes(6, cpu=4, rack_of=2)
    for node in range(6):
        builder.runs(None, f"n{node}", cpu=3)
    builder.group("g", 4, priority=1, topology="rack")
    builder.waits("g", 4, cpu=2, priority=1)

    plan = builder.preempt("g")
    assert isinstance(plan, Plan)
    builder.evict(plan)

    assert len(builder.where(builder.place("g"))) == 4


def test_the_table_says_what_each_domain_has_and_lacks() -> None:
    builder = PreemptionBuilder()
    builder.nodes(4, cpu=2, rack_of=2)
    builder.runs(None, "n0", "n0")
    builder.runs(None, "n2", "n2", "n3", priority=9)
    builder.group("g", 4, priority=5, topology="rack")
    builder.waits("g", 4, priority=5)
    refusal = place(builder.state, builder.root("g"), SearchBudget())
    assert isinstance(refusal, Refusal)

    rooms = domains(builder.state, builder.root("g"), refusal)

    assert [(r.value, r.free, r.reclaimable, r.missing) for r in rooms] == [
        ("r000", 2, 2, 0),
        ("r001", 1, 0, 3),
    ]


def test_of_many_the_most_important_are_put_back_first() -> None:
    """They are too many to try their subsets: the order alone decides."""
    builder = PreemptionBuilder()
    builder.node("n0", cpu=40)
    old = builder.runs(None, *["n0"] * 5, priority=2)
    low = builder.runs(None, *["n0"] * 30, priority=1)
    young = builder.runs(None, *["n0"] * 5, priority=2)
    (high,) = builder.waits(None, cpu=35, priority=9)

    assert builder.victims(high.name) == names(low, young)
    assert names(old).isdisjoint(builder.victims(high.name))


def test_of_many_those_that_a_budget_protects_are_put_back_first() -> None:
    builder = PreemptionBuilder()
    builder.node("n0", cpu=40)
    protected = builder.runs(None, *["n0"] * 20, app="web")
    others = builder.runs(None, *["n0"] * 20, app="batch", priority=1)
    builder.budget("web", 5, app="web")
    (high,) = builder.waits(None, cpu=30, priority=9)

    victims = builder.victims(high.name)

    assert names(others) <= victims
    assert len(victims & names(protected)) == 10


def test_parts_that_hold_the_root_are_tried_before_cheaper_ones_that_do_not() -> None:
    builder = PreemptionBuilder()
    builder.node("small", cpu=1, labels={"rack": "a"})
    builder.node("large", cpu=2, labels={"rack": "b"})
    builder.runs(None, "small", "large", "large")
    key = builder.group("g", 2, priority=5, topology="rack", preferred=True)
    builder.waits("g", 2, priority=5)
    root = builder.state.forest.groups[key]
    refusal = place(builder.state, root, SearchBudget())
    assert isinstance(refusal, Refusal)
    builder.state.units.refresh()
    dry_run = DryRun(builder.state, root, refusal, SearchBudget(), SearchEffort())

    parts = EvictionScopes(dry_run, builder.state.units.below(5))._places()

    small, large = (builder.state.nodes.row_of[name] for name in ("small", "large"))
    assert [rows.tolist() for rows in parts] == [[large], [small], [small, large]]
