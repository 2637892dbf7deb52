"""Resources have a row while a node offers them; totals never overflow and revert exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.client.quantity import MAX_INT64
from scheduler.core.explain.explain import explain
from scheduler.core.nodes.resource_table import LARGEST, ResourceTable, total
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Refusal, SearchBudget
from scheduler.core.values.model import NodeInfo, Requirements
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder

GADGET = "example.com/gadget"


def asking(**amounts: int) -> Requirements:
    return Requirements(tuple(sorted(amounts.items())))


def gadgets(count: int) -> Requirements:
    return Requirements((("cpu", 1000), (GADGET, count)))


def offering(builder: StateBuilder, node: str, more: dict[str, int]) -> None:
    builder.state.set_node(NodeInfo(node, {"cpu": 4000, "memory": 1, "pods": 110, **more}))


def free(builder: StateBuilder, name: str, node: str = "n") -> int:
    nodes = builder.state.nodes
    return int(nodes.free[nodes.resources.indices[name], nodes.row_of[node]])


def refused(builder: StateBuilder, requirements: Requirements) -> Refusal:
    decision = builder.place_single(builder.pod(requirements=requirements))
    assert isinstance(decision, Refusal)
    return decision


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("amount", [MAX_INT64, 1 << 62, LARGEST, (1 << 42) + 1, 1 << 42])
def test_a_thousand_pods_set_on_a_node_overflow_nothing(amount: int, *, ours: bool) -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.node("other")
    before = builder.state.nodes.free.copy()
    huge = asking(cpu=amount, memory=amount)
    pods = [builder.pod(node="n", requirements=huge, ours=ours) for _ in range(1000)]
    full = (free(builder, "cpu"), free(builder, "memory"))
    slots = builder.state.framework.slots(builder.single(builder.pod()).shape)
    for number, info in enumerate(pods):
        assert free(builder, "cpu") < 0, number
        builder.state.remove_pod(info.uid)

    assert max(full) < 0
    assert slots.tolist() == [0, 4]
    assert (builder.state.nodes.free == before).all()


def test_a_pod_that_asks_for_too_much_to_count_is_refused_by_name() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    refusal = refused(builder, asking(cpu=MAX_INT64))

    assert "2 Insufficient cpu." in explain(builder.state, refusal).summary


def test_a_gang_of_such_pods_and_preemption_overflow_nothing() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=LARGEST, pods=MAX_INT64)
    for _ in range(4):
        builder.pod(node="n", requirements=asking(cpu=MAX_INT64))
    builder.gang("g", 3, priority=9)
    for amount in (MAX_INT64, 1 << 53, 1):
        builder.pod("g", requirements=asking(cpu=amount))
    group = builder.state.forest.groups["PodGroup", "ns", "g"]
    builder.place("g", budget=SearchBudget(profile="spread"))
    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert preempt(builder.state, group, refusal, SearchBudget()) is refusal


def test_the_victims_of_a_large_pod_are_found_and_their_room_comes_back() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=1 << 45)
    victims = [builder.pod(node="n", requirements=asking(cpu=MAX_INT64)) for _ in range(2)]
    before = builder.state.nodes.free.copy()
    important = builder.pod(requirements=asking(cpu=1 << 45), priority=5)
    refusal = builder.place_single(important)
    assert isinstance(refusal, Refusal)
    plan = preempt(builder.state, builder.single(important), refusal, SearchBudget())

    assert isinstance(plan, Plan)
    assert len(plan.victims) == len(victims)
    assert (builder.state.nodes.free == before).all()


@pytest.mark.parametrize("profile", ["pack", "spread"])
def test_nodes_that_offer_any_amount_are_counted_and_scored(profile: str) -> None:
    builder = StateBuilder()
    for index in range(300):
        labels = {"rack": f"r{index % 2}"}
        builder.node(f"n{index}", cpu=MAX_INT64, pods=MAX_INT64, labels=labels, memory=MAX_INT64)
    builder.gang("g", 8, rack=True)
    builder.pods("g", 4)
    for _ in range(4):
        builder.pod("g", requirements=asking(cpu=LARGEST, memory=LARGEST))

    budget = SearchBudget(profile="spread" if profile == "spread" else "pack")
    builder.run(builder.place("g", budget=budget))

    assert (builder.state.nodes.free >= 0).all()


def test_what_no_node_offers_is_refused_by_name_and_has_no_row() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    rows = len(builder.state.nodes.resources)
    many = Requirements(tuple((f"example.com/r{n:03}", 1) for n in range(500)))
    refusal = refused(builder, many)
    text = explain(builder.state, refusal).summary

    assert len(builder.state.nodes.resources) == rows
    counts = ", ".join(f"2 Insufficient example.com/r{n:03}" for n in range(10))
    assert text == (
        f"0/2 nodes are available: {counts}."
        " No node offers example.com/r000, example.com/r001, example.com/r002 and 497 more"
        " resources. Request other resources, or add such nodes."
    )
    assert not refusal.shortage.resolvable


def test_a_gang_in_a_rack_is_refused_by_the_same_words() -> None:
    builder = StateBuilder()
    builder.nodes(2, rack_of=1)
    builder.gang("g", 1, rack=True)
    builder.pod("g", requirements=gadgets(1))
    refusal = builder.place("g")
    assert isinstance(refusal, Refusal)

    assert refusal.shortage.message.startswith(f"No node offers {GADGET}.")


def test_pods_known_before_count_once_a_node_offers_the_resource() -> None:
    builder = StateBuilder()
    builder.node("n")
    builder.node("other")
    there = builder.pod(node="n", requirements=gadgets(3), ours=False)
    huge = builder.pod(node="n", requirements=gadgets(MAX_INT64), ours=False)
    queue = Queue(builder.state)
    waiting = builder.pod(requirements=gadgets(2))
    queue.refresh(builder.state.take_changes(), 0.0)
    key = queue.pop()
    assert key is not None
    refusal = builder.place_single(waiting)
    assert isinstance(refusal, Refusal)
    queue.refuse(key, refusal, 0.0)

    offering(builder, "n", {GADGET: 4})
    builder.state.remove_pod(huge.uid)
    taken = free(builder, GADGET)
    builder.state.remove_pod(there.uid)
    queue.refresh(builder.state.take_changes(), 0.0)

    assert taken == 1
    assert queue.pop() == key
    assert builder.where(builder.place_single(waiting)) == {waiting.name: "n"}


def test_the_row_goes_with_the_last_node_and_what_was_used_is_not_forgotten() -> None:
    builder = StateBuilder()
    builder.node("other")
    offering(builder, "n", {GADGET: 4})
    there = builder.pod(node="n", requirements=gadgets(3))
    on_other = builder.pod(node="other", requirements=gadgets(2))
    rows = len(builder.state.nodes.resources.indices)
    builder.node("n")
    without = len(builder.state.nodes.resources.indices)
    offering(builder, "n", {"example.com/new": 1})
    again = len(builder.state.nodes.resources.indices)
    offering(builder, "n", {GADGET: 8})

    assert (rows, without, again) == (4, 3, 4)
    assert (free(builder, GADGET), free(builder, GADGET, "other")) == (5, -2)
    builder.state.remove_pod(there.uid)
    builder.state.remove_pod(on_other.uid)
    assert (free(builder, GADGET), free(builder, GADGET, "other")) == (8, 0)
    builder.state.remove_node("n")
    assert GADGET not in builder.state.nodes.resources.indices


def test_a_node_that_goes_takes_all_that_was_noted_for_it() -> None:
    builder = StateBuilder()
    builder.node("n")
    before = len(builder.state.nodes.resources)
    pods = [builder.pod(node="n", requirements=gadgets(n)) for n in (1, 2, MAX_INT64)]
    with_pods = len(builder.state.nodes.resources)
    builder.state.remove_node("n")
    gone = len(builder.state.nodes.resources)
    builder.node("n")
    for info in pods:
        builder.state.remove_pod(info.uid)

    assert with_pods == before + 2
    assert gone == 1
    assert len(builder.state.nodes.resources) == before
    assert free(builder, "cpu") == 4000


def test_thousands_of_resources_are_added_in_few_copies() -> None:
    table = ResourceTable(4)
    copies = set()
    for number in range(4000):
        table.set_node(0, {}, {f"example.com/r{number}": 1})
        copies.add(len(table.free))

    assert len(copies) == 10
    assert len(table.indices) == 4001


def test_a_name_that_comes_and_goes_uses_one_row() -> None:
    table = ResourceTable(4)
    for number in range(100):
        name = f"example.com/r{number}"
        table.set_node(0, {}, {name: 1})
        table.set_node(0, {name: 1}, {})

    assert (len(table.free), len(table.indices)) == (8, 1)


NAMES = ("cpu", "a", "b")
amount = st.sampled_from([0, 1, 5, (1 << 42) - 1, 1 << 42, (1 << 42) + 1, LARGEST, MAX_INT64])
offers = st.dictionaries(st.sampled_from(NAMES), amount)
step: st.SearchStrategy[tuple[str, int, dict[str, int]]] = st.one_of(
    st.tuples(st.just("node"), st.integers(0, 2), offers),
    st.tuples(st.just("gone"), st.integers(0, 2), st.just({})),
    st.tuples(st.just("pod"), st.integers(0, 2), offers),
    st.tuples(st.just("end"), st.integers(0, 20), st.just({})),
)


@given(st.lists(step, max_size=40))
def test_the_table_is_what_counting_all_pods_gives(
    steps: list[tuple[str, int, dict[str, int]]],
) -> None:
    builder = StateBuilder()
    state = builder.state
    pods: list[tuple[str, int, dict[str, int]]] = []
    offered: dict[int, dict[str, int]] = {}
    for what, number, amounts in steps:
        if what == "node":
            offered[number] = amounts
            state.set_node(NodeInfo(f"n{number}", {"pods": 110, **amounts}))
        elif what == "gone":
            offered.pop(number, None)
            state.remove_node(f"n{number}")
        elif what == "pod":
            info = builder.pod(node=f"n{number}", requirements=asking(**amounts))
            pods.append((info.uid, number, amounts))
        elif pods:
            state.remove_pod(pods.pop(number % len(pods))[0])
    indices = state.nodes.resources.indices
    assert indices.keys() - {"pods"} == {
        name for of_node in offered.values() for name, amount in of_node.items() if amount
    }
    for number, of_node in offered.items():
        row = state.nodes.row_of[f"n{number}"]
        for name in indices.keys() & set(NAMES):
            used = [min(a.get(name, 0), LARGEST + 1) for _, at, a in pods if at == number]
            small = sum(amount for amount in used if amount <= 1 << 42)
            large = sum(amount for amount in used if amount > 1 << 42)
            want = min(of_node.get(name, 0), LARGEST) - small - min(large, 1 << 61)
            assert int(state.nodes.free[indices[name], row]) == want


def test_sums_over_all_nodes_are_exact() -> None:
    amounts = np.full(5000, LARGEST - 1)

    assert total(amounts) == 5000 * (LARGEST - 1)


def test_equal_requests_are_one_object_while_anybody_has_it() -> None:
    builder = StateBuilder()
    builder.node("n")
    resources = builder.state.nodes.resources
    first = builder.single(builder.pod(requirements=asking(cpu=3), name="first"))
    other = builder.single(builder.pod(requirements=asking(cpu=3), labels={"app": "other"}))
    one_more = resources.request(other.info.requirements.requests, pods=2)

    assert first.shape.request is resources.request(other.info.requirements.requests)
    assert one_more is not first.shape.request
    assert dict(one_more.amounts)["pods"] == 2
