"""What one attempt tries for the pods of one leaf."""

from __future__ import annotations

from scheduler.core.place import Placement, Refusal, SearchBudget
from tests.scheduler.state_builder import StateBuilder


def unequal_pods() -> StateBuilder:
    """7 and 10 cores free for pods of 5, 2, 4 and 6: only 5 + 2 and 4 + 6 fit."""
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
