"""Branches of the search in a tree, each with the smallest tree that needs it."""

from scheduler.core.explain.explain import explain
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import (
    POD_GROUP,
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
)
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder, requests


def required_affinity(app: str) -> Requirements:
    """Return a required affinity to pods with that label in the same rack."""
    selector = PodSelector((Expression("app", "In", (app,)),), ("ns",))
    return Requirements(requests(1), required_affinity=(PodTerm(selector, "rack"),))


def test_children_that_lean_on_each_other_go_in_the_order_of_that() -> None:
    """a needs b, b needs c, and all three are needed."""
    builder = StateBuilder()
    builder.nodes(2, cpu=4, rack_of=1)
    builder.composite("root", 3)
    for name, leans_on in (("a", "b"), ("b", "c"), ("c", "")):
        builder.gang(name, 1, parent="root", created=name)
        wants = required_affinity(leans_on) if leans_on else None
        builder.pod(name, requirements=wants, labels={"app": name})

    assert len(builder.where(builder.place("root", composite=True))) == 3


def test_where_more_children_run_than_are_needed_another_one_is_an_extra() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    builder.composite("root", 1)
    for name in ("one", "other"):
        builder.gang(name, 1, parent="root", created=name)
        builder.pod(name, node="n0")
    builder.gang("third", 1, parent="root", created="third")
    third = builder.pod("third")

    outcome = builder.place("root", composite=True)

    assert builder.where(outcome) == {third.name: "n0"}
    assert isinstance(outcome, Placement)
    assert outcome.minimums == 0


def test_where_one_child_is_enough_the_half_running_one_becomes_whole() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    builder.composite("root", 1)
    builder.gang("fresh", 1, parent="root", created="0")
    fresh = builder.pod("fresh")
    builder.gang("half", 2, parent="root", created="1")
    builder.pod("half", node="n0")
    rest = builder.pod("half")

    assert builder.where(builder.place("root", composite=True)) == {rest.name: "n0"}
    assert fresh.name != rest.name


def test_a_tree_that_cannot_stand_any_more_is_given_up_at_once() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=20)
    builder.composite("root", 12)
    for index in range(12):
        builder.gang(f"g{index}", 1, parent="root")
        # The tightest is tried first.
        builder.pod(f"g{index}", cpu=2 if index else 30)

    refusal = builder.place("root", composite=True)

    assert isinstance(refusal, Refusal)
    assert refusal.steps <= 3


def test_a_member_that_the_floor_can_do_without_is_not_why_a_group_waits() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    builder.gang("g", 2)
    builder.pod("g", cpu=9)
    builder.pods("g", 2)

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    blocker = explain(builder.state, refusal)
    assert (blocker.needed, blocker.free) == (2, 1)
    assert "ask for less" not in blocker.summary


def test_where_the_first_pods_do_not_fit_the_minimum_is_met_by_the_easiest() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    builder.gang("g", 2)
    builder.pod("g", cpu=9, priority=1)
    small = builder.pods("g", 2)

    assert builder.where(builder.place("g")) == dict.fromkeys((pod.name for pod in small), "n0")


def test_what_is_short_is_counted_in_all_of_a_region_that_was_only_preferred() -> None:
    """Each kind alone would fit the first rack, both do not."""
    builder = StateBuilder()
    builder.node("n0", cpu=4, labels={"rack": "r0"})
    builder.node("n1", cpu=1, labels={"rack": "r1"})
    builder.gang("g", 4, prefer_rack=True)
    builder.pod("g", cpu=3)
    builder.pods("g", 3)

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.needed, refusal.shortage.free) == (3, 2)


def test_of_equal_pods_the_oldest_go_first_whatever_they_are_called() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    builder.gang("g", 1)
    names = ["c", "b", "a"]
    for name in names:
        builder.pod("g", name=name)

    assert sorted(builder.where(builder.place("g"))) == ["b", "c"]


def test_two_spreads_at_once_are_both_kept() -> None:
    """Level in the zones is not level on the hosts: one zone has two, the other one."""
    builder = StateBuilder()
    for host, zone in (("h0", "z0"), ("h1", "z0"), ("h2", "z1")):
        builder.node(host, cpu=5, labels={"host": host, "zone": zone})
    selector = PodSelector((Expression("app", "In", ("web",)),), ("ns",))
    spread = (Spread(selector, "zone"), Spread(selector, "host"))
    builder.gang("g", 4)
    for _ in range(4):
        wants = Requirements(requests(1), spread=spread)
        builder.pod("g", requirements=wants, labels={"app": "web"})

    placement = builder.place("g")

    assert isinstance(placement, Placement)
    where = list(builder.where(placement).values())
    on = {host: where.count(host) for host in ("h0", "h1", "h2")}
    assert max(on.values()) - min(on.values()) <= 1, on
    assert abs(on["h0"] + on["h1"] - on["h2"]) <= 1, on


def test_domains_without_room_cost_no_step() -> None:
    builder = StateBuilder()
    builder.nodes(40, cpu=2, rack_of=1)
    builder.gang("g", 3, rack=True)
    builder.pods("g", 3)

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.steps, refusal.shortage.free) == (0, 2)


def test_a_member_on_a_node_without_the_label_is_in_no_domain() -> None:
    builder = StateBuilder()
    builder.nodes(1, rack_of=1)
    builder.node("bare")
    builder.gang("g", 2, rack=True)
    builder.pod("g", node="bare")
    builder.pod("g")

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.kind == "invalid"
    assert "not in one rack, but in 1: none" in refusal.shortage.message


def test_a_member_that_leaves_pins_no_domain() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2, rack_of=1)
    builder.gang("g", 2, rack=True)
    builder.pod("g", node="n0", terminating=True)
    builder.pod("g", node="n1")
    rest = builder.pod("g")

    assert builder.where(builder.place("g")) == {rest.name: "n1"}


def test_of_several_kinds_the_one_that_lacks_most_is_told() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=4, rack_of=1)
    builder.gang("g", 11, rack=True)
    builder.pods("g", 5)
    for _ in range(6):
        builder.pod("g", cpu=4)

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.needed, refusal.shortage.free) == (6, 1)


def test_room_is_counted_anew_when_a_node_comes_to_many() -> None:
    builder = StateBuilder()
    builder.nodes(20, cpu=1)
    pod = builder.single(builder.pod())
    before = int(builder.state.framework.slots(pod.shape).sum())
    builder.node("one more", cpu=4)

    assert (before, int(builder.state.framework.slots(pod.shape).sum())) == (20, 24)


def test_a_turn_that_was_given_up_for_a_later_one_is_not_taken() -> None:
    builder = StateBuilder()
    queue = Queue(builder.state)
    for name, priority in (("first", 5), ("second", 3)):
        key = builder.gang(name, 1)
        builder.pod(name, priority=priority)
        queue.review(key)
    builder.pod("first", priority=0)
    queue.review((POD_GROUP, "ns", "first"))

    assert [queue.pop(), queue.pop(), queue.pop()] == [
        (POD_GROUP, "ns", "second"),
        (POD_GROUP, "ns", "first"),
        None,
    ]
