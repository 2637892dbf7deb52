"""Turns that the search takes in a tree, each with the smallest tree that needs it."""

from __future__ import annotations

from scheduler.core.explain import explain
from scheduler.core.model import (
    POD_GROUP,
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
)
from scheduler.core.place import Placement, Refusal
from scheduler.queue import Queue
from tests.scheduler.world import World, requests


def required_affinity(app: str) -> Requirements:
    """Pods that need others of that label in their rack."""
    selector = PodSelector((Expression("app", "In", (app,)),), ("ns",))
    return Requirements(requests(1), required_affinity=(PodTerm(selector, "rack"),))


def test_children_that_lean_on_each_other_go_in_the_order_of_that() -> None:
    """a needs b, b needs c, and all three are needed."""
    world = World()
    world.nodes(2, cpu=4, rack_of=1)
    world.composite("root", 3)
    for name, leans_on in (("a", "b"), ("b", "c"), ("c", "")):
        world.gang(name, 1, parent="root", created=name)
        wants = required_affinity(leans_on) if leans_on else None
        world.pod(name, requirements=wants, labels={"app": name})

    assert len(world.where(world.place("root", composite=True))) == 3


def test_where_one_child_is_enough_the_half_running_one_becomes_whole() -> None:
    world = World()
    world.nodes(1, cpu=2)
    world.composite("root", 1)
    world.gang("fresh", 1, parent="root", created="0")
    fresh = world.pod("fresh")
    world.gang("half", 2, parent="root", created="1")
    world.pod("half", node="n0")
    rest = world.pod("half")

    assert world.where(world.place("root", composite=True)) == {rest.name: "n0"}
    assert fresh.name != rest.name


def test_a_tree_that_cannot_stand_any_more_is_given_up_at_once() -> None:
    world = World()
    world.nodes(1, cpu=20)
    world.composite("root", 12)
    for index in range(12):
        world.gang(f"g{index}", 1, parent="root")
        # The first to be tried is the tightest.
        world.pod(f"g{index}", cpu=2 if index else 30)

    refusal = world.place("root", composite=True)

    assert isinstance(refusal, Refusal)
    assert refusal.steps <= 3


def test_a_member_that_the_floor_can_do_without_is_not_why_a_group_waits() -> None:
    world = World()
    world.nodes(1, cpu=1)
    world.gang("g", 2)
    world.pod("g", cpu=9)
    world.pods("g", 2)

    refusal = world.place("g")

    assert isinstance(refusal, Refusal)
    blocker = explain(world.state, refusal)
    assert (blocker.needed, blocker.free) == (2, 1)
    assert "ask for less" not in blocker.summary


def test_what_is_short_is_counted_in_all_of_a_region_that_was_only_preferred() -> None:
    """Each kind alone would fit into the first rack, both do not."""
    world = World()
    world.node("n0", cpu=4, labels={"rack": "r0"})
    world.node("n1", cpu=1, labels={"rack": "r1"})
    world.gang("g", 4, prefer_rack=True)
    world.pod("g", cpu=3)
    world.pods("g", 3)

    refusal = world.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.needed, refusal.shortage.free) == (3, 2)


def test_of_equal_pods_the_oldest_go_first_whatever_they_are_called() -> None:
    world = World()
    world.nodes(1, cpu=2)
    world.gang("g", 1)
    names = ["c", "b", "a"]
    for name in names:
        world.pod("g", name=name)

    assert sorted(world.where(world.place("g"))) == ["b", "c"]


def test_two_spreads_at_once_are_both_kept() -> None:
    """Level in the zones is not level on the hosts: one zone has two, the other one."""
    world = World()
    for host, zone in (("h0", "z0"), ("h1", "z0"), ("h2", "z1")):
        world.node(host, cpu=5, labels={"host": host, "zone": zone})
    selector = PodSelector((Expression("app", "In", ("web",)),), ("ns",))
    spread = (Spread(selector, "zone"), Spread(selector, "host"))
    world.gang("g", 4)
    for _ in range(4):
        wants = Requirements(requests(1), spread=spread)
        world.pod("g", requirements=wants, labels={"app": "web"})

    placement = world.place("g")

    assert isinstance(placement, Placement)
    where = list(world.where(placement).values())
    on = {host: where.count(host) for host in ("h0", "h1", "h2")}
    assert max(on.values()) - min(on.values()) <= 1, on
    assert abs(on["h0"] + on["h1"] - on["h2"]) <= 1, on


def test_domains_without_room_cost_no_step() -> None:
    world = World()
    world.nodes(40, cpu=2, rack_of=1)
    world.gang("g", 3, rack=True)
    world.pods("g", 3)

    refusal = world.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.steps, refusal.shortage.free) == (0, 2)


def test_a_member_on_a_node_without_the_label_is_in_no_domain() -> None:
    world = World()
    world.nodes(1, rack_of=1)
    world.node("bare")
    world.gang("g", 2, rack=True)
    world.pod("g", node="bare")
    world.pod("g")

    refusal = world.place("g")

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.kind == "invalid"
    assert "not in one rack, but in 1: none" in refusal.shortage.message


def test_a_member_that_leaves_pins_no_domain() -> None:
    world = World()
    world.nodes(2, cpu=2, rack_of=1)
    world.gang("g", 2, rack=True)
    world.pod("g", node="n0", terminating=True)
    world.pod("g", node="n1")
    rest = world.pod("g")

    assert world.where(world.place("g")) == {rest.name: "n1"}


def test_of_several_kinds_the_one_that_lacks_most_is_told() -> None:
    world = World()
    world.nodes(2, cpu=4, rack_of=1)
    world.gang("g", 11, rack=True)
    world.pods("g", 5)
    for _ in range(6):
        world.pod("g", cpu=4)

    refusal = world.place("g")

    assert isinstance(refusal, Refusal)
    assert (refusal.shortage.needed, refusal.shortage.free) == (6, 1)


def test_room_is_counted_anew_when_a_node_comes_to_many() -> None:
    world = World()
    world.nodes(20, cpu=1)
    pod = world.single(world.pod())
    before = int(world.state.framework.slots(pod.shape).sum())
    world.node("one more", cpu=4)

    assert (before, int(world.state.framework.slots(pod.shape).sum())) == (20, 24)


def test_a_turn_that_was_given_up_for_a_later_one_is_not_taken() -> None:
    world = World()
    queue = Queue(world.state)
    for name, priority in (("first", 5), ("second", 3)):
        key = world.gang(name, 1, priority=priority)
        world.pod(name)
        queue.review(key)
    queue.review(world.gang("first", 1, priority=0))

    assert [queue.pop(), queue.pop(), queue.pop()] == [
        (POD_GROUP, "ns", "second"),
        (POD_GROUP, "ns", "first"),
        None,
    ]
