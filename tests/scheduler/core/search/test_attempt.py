"""The placements that one attempt tries for the pods of one leaf."""

from typing import Any

import pytest

from scheduler.core.search.attempt import Attempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import GroupKey, Requirements
from tests.scheduler.state_builder import StateBuilder


def unequal_pods() -> StateBuilder:
    """Create 7 and 10 free cores for pods of 5, 2, 4 and 6: only 5 + 2 and 4 + 6 fit."""
    builder = StateBuilder()
    builder.node("n0", cpu=7)
    builder.node("n1", cpu=10)
    builder.gang("g", 4)
    for cpu in (5, 2, 4, 6):
        builder.pod("g", cpu=cpu)
    return builder


def test_unequal_pods_are_packed_exhaustively_where_no_order_of_them_fits() -> None:
    builder = unequal_pods()

    without = builder.place("g", budget=SearchBudget(packing_steps=0))
    decision = builder.place("g")

    assert isinstance(without, Refusal)
    assert isinstance(decision, Placement)
    assert sorted(builder.where(decision).values()) == ["n0", "n0", "n1", "n1"]


def many_unequal(cpu: int, pods: int) -> tuple[StateBuilder, GroupKey]:
    builder = StateBuilder()
    builder.nodes(1, cpu=cpu)
    key = builder.gang("g", pods)
    for number in range(pods):
        builder.pod("g", requirements=Requirements((("cpu", 1000 + number),)))
    return builder, key


@pytest.mark.parametrize(("late", "tried"), [(False, 4), (True, 1)])
def test_when_the_time_is_over_only_the_first_order_of_unequal_pods_is_tried(
    late: bool, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[int] = []
    place_all = Attempt._place_all

    def counted(self: Attempt, *args: Any) -> Any:
        orders.append(1)
        return place_all(self, *args)

    monkeypatch.setattr(Attempt, "_place_all", counted)
    builder, key = many_unequal(9, 10)
    attempt = Attempt(builder.state, SearchBudget(expired=lambda: late))
    group = builder.state.forest.groups[key]

    with builder.state.nodes.trial():
        shortage = attempt.fill(group, attempt.remaining_demand(group), None)

    assert shortage is not None
    assert len(orders) == tried


def test_a_large_gang_of_unequal_pods_is_placed_though_the_time_is_over() -> None:
    builder, _ = many_unequal(200, 100)

    placed = builder.place("g", budget=SearchBudget(expired=lambda: True))

    assert len(builder.where(placed)) == 100


def test_extras_that_the_time_does_not_allow_come_next() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=200)
    builder.gang("g", 1)
    for number in range(20):
        builder.pod("g", requirements=Requirements((("cpu", 1000 + number),)))
    rounds = []
    while builder.state.forest.groups["PodGroup", "ns", "g"].pending_total:
        placed = builder.place("g", budget=SearchBudget(expired=lambda: True))
        rounds.append(len(builder.where(placed)))
        builder.run(placed)

    assert sum(rounds) == 20
    assert len(rounds) > 1
