"""DynamicResources: pods and gangs whose claims need devices."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.core.explain.explain import explain, reasons
from scheduler.core.search.batching import batchable, place_batch, signature
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.device_asks import exactly
from scheduler.core.values.devices import DeviceClassInfo, NodeScope
from scheduler.core.values.model import Expression, NodeTerm
from tests.scheduler.devices.builders import (
    CLASS,
    ask,
    device,
    different,
    first_of,
    gpu,
    has,
    pool,
    same,
    units,
)
from tests.scheduler.devices.cluster import DeviceCluster

SMALL, LARGE = has("size", "small"), has("size", "large")
ONE, TWO = ask(gpu()), ask(gpu(2))
RACK = NodeScope(terms=(NodeTerm((Expression("rack", "In", ("r0",)),)),))


def cluster(nodes: int = 2, count: int = 2, **more: Any) -> DeviceCluster:
    made = DeviceCluster()
    for at in range(nodes):
        made.gpu_node(f"n{at}", count=count, labels={"rack": f"r{at // 2}"}, **more)
    return made


def placed(made: DeviceCluster, name: str) -> bool:
    decision = made.place(name)
    if isinstance(decision, Refusal):
        return False
    made.write(decision)
    assert made.complaints() == []
    return True


def test_a_pod_goes_where_a_device_is_free() -> None:
    made = DeviceCluster()
    made.node("without")
    made.gpu_node("with", count=1)
    first, second = made.asks(None, ONE), made.asks(None, ONE)

    made.write(made.place_single(first))
    refused = made.place_single(second)

    assert made.devices_of(first.device_claims) == ["with:gpu-0"]
    assert isinstance(refused, Refusal)
    assert reasons(made.state.framework, made.single(second).shape) == (
        ("cannot allocate all claims", 2),
    )
    assert made.complaints() == []


@pytest.mark.parametrize(("count", "want"), [(4, True), (5, False)])
def test_a_gang_gets_all_its_devices_or_none(count: int, want: bool) -> None:
    made = cluster()
    made.gang("g", count)
    for _ in range(count):
        made.asks("g", ONE)

    assert placed(made, "g") == want
    assert len(made.table.use) == (4 if want else 0)


def test_a_gang_stays_in_the_rack_that_has_the_devices() -> None:
    made = cluster(nodes=4, count=2)
    made.write(made.place_single(made.asks(None, TWO)))
    made.gang("g", 4, rack=True)
    for _ in range(4):
        made.asks("g", ONE)

    decision = made.write(made.place("g"))

    assert {made.state.nodes.infos[row].labels["rack"] for row in decision.rows} == {"r1"}  # type: ignore[union-attr]


def test_devices_go_back_when_a_pod_is_forgotten() -> None:
    made = cluster(nodes=1, count=1)
    first, second = made.asks(None, ONE), made.asks(None, ONE)
    made.run(made.place_single(first))
    assert isinstance(made.place_single(second), Refusal)

    made.state.forget(first.uid)

    assert isinstance(made.place_single(second), Placement)


def test_an_allocation_that_was_written_stays_until_the_claim_says_otherwise() -> None:
    made = cluster(nodes=1, count=1)
    first, second = made.asks(None, ONE), made.asks(None, ONE)
    made.write(made.place_single(first))

    made.state.remove_pod(first.uid)
    assert isinstance(made.place_single(second), Refusal)

    made.table.remove_claim(first.device_claims[0])
    assert isinstance(made.place_single(second), Placement)


def test_equal_gangs_are_decided_in_one_go() -> None:
    made = cluster(nodes=4, count=4)
    for at in range(5):
        made.gang(f"g{at}", 3)
        for _ in range(3):
            made.asks(f"g{at}", ONE)
    groups = [made.state.forest.groups["PodGroup", "ns", f"g{at}"] for at in range(5)]
    shapes = {shape for group in groups for shape in group.pending}

    assert len(shapes) == 1
    assert signature(groups[0]) == signature(groups[1])
    assert batchable(made.state, shapes.pop())
    placements = place_batch(made.state, groups, SearchBudget())
    for placement in placements:
        made.write(placement)

    assert len(placements) == 5
    assert made.complaints() == []


def test_equal_roots_get_devices_where_they_go_in_whatever_order_they_are_decided() -> None:
    """The queue's order is that of the groups; that of their pods may be another."""
    made = cluster(nodes=4, count=3)
    for at in range(3):
        made.gang(f"g{at}", 2)
    for at in (2, 0, 1, 1, 2, 0):
        made.asks(f"g{at}", ONE)
    singles = [made.state.pods[made.asks(None, ONE).uid] for _ in range(4)]
    gangs = [made.state.forest.groups["PodGroup", "ns", f"g{at}"] for at in range(3)]

    for roots in (gangs, [singles[at] for at in (2, 0, 3, 1)]):
        placements = place_batch(made.state, roots, SearchBudget())
        assert len(placements) == len(roots)
        for placement in placements:
            made.write(placement)

    assert made.complaints() == []


def test_few_searches_serve_many_equal_nodes() -> None:
    made = cluster(nodes=200, count=8)
    made.gang("g", 1600)
    for _ in range(1600):
        made.asks("g", ONE)

    assert placed(made, "g")
    assert made.table.states.searches < 20


def test_pods_without_claims_ask_nothing_of_devices() -> None:
    made = cluster(nodes=4)
    made.gang("g", 3)
    made.pods("g", 3)

    made.run(made.place("g"))

    assert made.table.states.searches == 0
    assert made.table._views.stale


def test_members_that_would_take_each_others_devices_are_served() -> None:
    made = DeviceCluster()
    made.gpu_node("n", device("a", {"size": "small"}), device("b", {"size": "large"}))
    made.gang("g", 2)
    made.asks("g", ask(gpu(1, SMALL)))
    made.asks("g", ONE)

    assert placed(made, "g")


def test_copies_of_a_pod_that_pick_badly_one_by_one_are_served_together() -> None:
    """Two of one rail each: a greedy first pod takes a and b, which leaves no pair."""
    made = DeviceCluster()
    rails = {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 2, "y": 1}, "d": {"x": 2}}
    made.gpu_node("n", *(device(name, of) for name, of in rails.items()))
    pair = ask(
        first_of("p", exactly("x", CLASS, count=2), exactly("y", CLASS, count=2)),
        constraints=[same("x", "p/x"), same("y", "p/y")],
    )
    made.gang("g", 2)
    made.asks("g", pair)
    made.asks("g", pair)

    assert placed(made, "g")


def test_preferring_the_first_option_leaves_the_second_for_others() -> None:
    made = DeviceCluster()
    made.gpu_node("n", device("a", {"size": "small"}), device("b", {"size": "large"}))
    choice = ask(first_of("l", gpu(1, LARGE, name="big"), gpu(1, SMALL, name="small")))
    made.gang("g", 2)
    made.asks("g", choice)
    made.asks("g", ask(gpu(1, LARGE)))

    assert placed(made, "g")


def test_partitions_are_counted_over_all_pods() -> None:
    made = DeviceCluster()
    made.node("n", 8)
    cards = [device(f"c{at}", uses={"card": {"memory": 10}}) for at in range(4)]
    made.slice(pool(*cards, name="d", slices=2))
    made.slice(pool(name="c", slices=2, counters={"card": {"memory": 30}}))
    made.gang("g", 3)
    for _ in range(4):
        made.asks("g", ONE)

    decision = made.write(made.place("g"))

    assert len(decision.pods) == 3
    assert made.complaints() == []


def test_shares_of_a_device_are_counted_over_all_pods() -> None:
    made = DeviceCluster()
    made.gpu_node("n", device("nic", capacity={"rate": 10}, shared=True))
    made.gang("g", 3)
    for _ in range(4):
        made.asks("g", ask(exactly("nic", CLASS, capacity=units(rate=3))))

    decision = made.write(made.place("g"))

    assert len(decision.pods) == 3
    assert made.complaints() == []
    assert isinstance(made.place("g"), Refusal)


@pytest.mark.parametrize("best", ["n0", "n1"])
def test_nodes_with_the_devices_named_first_are_preferred(best: str) -> None:
    made = DeviceCluster()
    for name in ("n0", "n1"):
        made.gpu_node(name, device("d", {"size": "large" if name == best else "small"}))
    choice = ask(first_of("l", gpu(1, LARGE, name="big"), gpu(1, SMALL, name="small")))
    first, second = made.asks(None, choice), made.asks(None, choice)

    where = [made.state.nodes.name_of(made.write(made.place_single(i)).rows[0])
             for i in (first, second)]  # fmt: skip

    assert where == [best, "n1" if best == "n0" else "n0"]


# Claims that pods name


def test_a_named_claim_brings_its_pods_to_one_node() -> None:
    made = DeviceCluster()
    made.gpu_node("small", count=1, cpu=2)
    made.gpu_node("large", count=1, cpu=8)
    key = made.claim("shared", ONE)
    made.gang("g", 4)
    for _ in range(4):
        made.asks("g", key)

    decision = made.write(made.place("g"))

    assert {made.state.nodes.name_of(row) for row in decision.rows} == {"large"}
    assert made.devices_of([key]) == ["large:gpu-0"]
    assert len(made.table.claims[key].reserved) == 4
    assert made.complaints() == []


def test_later_pods_follow_a_named_claim() -> None:
    made = cluster(nodes=3, count=1)
    key = made.claim("shared", ONE)
    first = made.write(made.place_single(made.asks(None, key)))
    second = made.write(made.place_single(made.asks(None, key)))

    assert first.rows == second.rows
    assert second.devices == {}


def test_a_named_claim_of_a_rack_brings_its_pods_to_the_rack() -> None:
    made = DeviceCluster()
    for at in range(4):
        made.node(f"n{at}", 2, labels={"rack": f"r{at // 2}"})
    made.slice(pool(device("switch"), pool="net", scope=RACK))
    key = made.claim("shared", ONE)
    made.gang("g", 4)
    for _ in range(4):
        made.asks("g", key)

    decision = made.write(made.place("g"))

    assert {made.state.nodes.name_of(row) for row in decision.rows} == {"n0", "n1"}
    assert made.complaints() == []


def test_own_claims_on_devices_of_several_nodes_do_not_get_one_twice() -> None:
    made = DeviceCluster()
    for at in range(3):
        made.node(f"n{at}", 2)
    everywhere = NodeScope(everywhere=True)
    made.slice(pool(*(device(f"d{at}") for at in range(4)), pool="net", scope=everywhere))
    made.gang("g", 4)
    for _ in range(5):
        made.asks("g", ONE)

    decision = made.write(made.place("g"))

    assert len(decision.pods) == 4
    assert made.complaints() == []
    assert isinstance(made.place("g"), Refusal)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, "", id="fine"),
        pytest.param({"terminating": True}, 'resourceclaim "c" is being deleted', id="deleted"),
        pytest.param(
            {"reserved": frozenset(map(str, range(256)))},
            'resourceclaim "c" has 256 consumers, which are the most',
            id="256 consumers",
        ),
        pytest.param({"reserved": frozenset(map(str, range(255)))}, "", id="255 consumers"),
    ],
)
def test_claims_that_cannot_be_used(change: dict[str, Any], want: str) -> None:
    made = cluster(nodes=1)
    key = made.claim("c", ONE)
    made.table.set_claim(replace(made.table.claims[key], **change))
    info = made.asks(None, key)

    decision = made.place_single(info)

    assert isinstance(decision, Refusal) == bool(want)
    if want:
        assert reasons(made.state.framework, made.single(info).shape) == ((want, 1),)


def test_a_claim_that_is_missing_and_then_comes() -> None:
    made = cluster(nodes=1)
    info = made.asks(None, ("ns", "none"))
    assert isinstance(made.place_single(info), Refusal)
    assert reasons(made.state.framework, made.single(info).shape) == (
        ('could not find ResourceClaim "ns/none"', 1),
    )

    made.claim("none", ONE)

    assert isinstance(made.place_single(info), Placement)


def test_an_allocated_claim_says_where_its_pods_can_go() -> None:
    made = cluster(nodes=2)
    key = made.claim("c", ONE)
    made.write(made.place_single(made.asks(None, key, cpu=64)))
    info = made.asks(None, key)

    assert isinstance(made.place_single(info), Refusal)
    assert reasons(made.state.framework, made.single(info).shape) == (
        ("Insufficient cpu", 1),
        ("resourceclaim not available on the node", 1),
    )


def test_that_an_allocated_claim_is_elsewhere_is_said_last() -> None:
    """kube-scheduler first reports the problems of the other claims' devices."""
    made = cluster(nodes=3, count=1)
    key = made.claim("c", ONE)
    made.write(made.place_single(made.asks(None, key)))
    made.write(made.place_single(made.asks(None, ONE)))
    info = made.asks(None, key, ONE)

    assert isinstance(made.place_single(info), Refusal)
    assert reasons(made.state.framework, made.single(info).shape) == (
        ("cannot allocate all claims", 2),
        ("resourceclaim not available on the node", 1),
    )


# News


def test_a_class_that_comes_late() -> None:
    made = cluster(nodes=1)
    info = made.asks(None, ask(exactly("gpu", "late")))
    assert isinstance(made.place_single(info), Refusal)
    assert reasons(made.state.framework, made.single(info).shape) == (
        ("request gpu: device class late does not exist", 1),
    )

    made.table.set_class(DeviceClassInfo("late"))
    assert isinstance(made.place_single(info), Placement)

    made.table.set_class(DeviceClassInfo("late", ("false",)))
    assert isinstance(made.place_single(info), Refusal)

    made.table.remove_class("late")
    assert isinstance(made.place_single(info), Refusal)


def test_slices_that_come_change_and_go() -> None:
    made = DeviceCluster()
    made.node("n")
    info = made.asks(None, TWO)

    def fits() -> bool:
        return isinstance(made.place_single(info), Placement)

    assert not fits()
    made.slice(pool(device("a"), device("b")))
    assert fits()
    made.slice(pool(device("a")))
    assert not fits()
    made.slice(pool(device("b"), device("c"), name="newer", generation=2))
    assert fits()
    made.table.slices.remove("newer")
    assert not fits()


def test_a_node_that_comes_after_its_slice_and_one_that_goes() -> None:
    made = DeviceCluster()
    made.slice(pool(device("a")))
    info = made.asks(None, ONE)
    assert isinstance(made.place_single(info), Refusal)

    made.node("n")
    assert isinstance(made.place_single(info), Placement)

    made.state.remove_node("n")
    assert isinstance(made.place_single(info), Refusal)
    made.node("other")
    assert isinstance(made.place_single(info), Refusal)


def test_a_label_that_lets_a_node_see_a_pool() -> None:
    made = DeviceCluster()
    made.slice(pool(device("a"), pool="net", scope=RACK))
    made.node("n")
    info = made.asks(None, ONE)
    assert isinstance(made.place_single(info), Refusal)

    made.node("n", labels={"rack": "r0"})
    assert isinstance(made.place_single(info), Placement)


def test_a_claim_allocated_by_others_holds_its_devices() -> None:
    made = cluster(nodes=1, count=1)
    theirs = made.claim("theirs", ONE)
    mine = made.asks(None, ONE)
    decision = made.place_single(mine)
    assert isinstance(decision, Placement)
    assert decision.devices is not None
    allocation = decision.devices[mine.device_claims[0]]

    made.table.set_claim(replace(made.table.claims[theirs], allocation=allocation))
    assert isinstance(made.place_single(mine), Refusal)

    made.table.set_claim(replace(made.table.claims[theirs], allocation=None))
    assert isinstance(made.place_single(mine), Placement)


def test_it_says_what_would_be_impossible_in_an_empty_cluster() -> None:
    made = cluster(nodes=2, count=2)
    made.write(made.place_single(made.asks(None, TWO)))
    made.gang("busy", 3)
    made.gang("never", 5)
    for name, count in (("busy", 3), ("never", 5)):
        for _ in range(count):
            made.asks(name, ONE)

    answers = {}
    for name in ("busy", "never"):
        decision = made.place(name)
        assert isinstance(decision, Refusal)
        answers[name] = explain(made.state, decision)

    assert not answers["busy"].impossible
    assert answers["never"].impossible
    assert answers["busy"].counts == (("cannot allocate all claims", 2),)


def test_states_that_are_not_needed_any_more_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.core.devices.table._MOST_STATES", 8)
    made = cluster(nodes=4, count=8)
    for _ in range(30):
        made.write(made.place_single(made.asks(None, ONE)))
        made.state.take_changes()

    assert made.complaints() == []
    assert len(made.table.states) < 40
    assert isinstance(made.place_single(made.asks(None, ask(gpu(3)))), Refusal)


def test_distinct_values_of_each_pod() -> None:
    made = DeviceCluster()
    made.gpu_node("n", *(device(f"d{at}", {"rail": at % 2}) for at in range(4)))
    made.gang("g", 2)
    for _ in range(2):
        made.asks("g", ask(gpu(2), constraints=[different("rail")]))

    assert placed(made, "g")


def test_what_is_taken_in_a_trial_is_given_back() -> None:
    made = cluster(nodes=3, count=4)
    made.gang("g", 5)
    for _ in range(6):
        made.asks("g", TWO)
    before = made.table.states_of(np.arange(3)).tolist()

    decision = made.place("g")

    assert isinstance(decision, Placement)
    assert made.table.states_of(np.arange(3)).tolist() == before
    assert made.table.assumed == {}
