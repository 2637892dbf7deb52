"""A root starves by its waiting time and by the placements of others meanwhile."""

import pytest

from scheduler.core.state.starvation_gate import StarvationGate, StarvationLimits
from scheduler.core.values.model import POD_GROUP, GroupKey

LIMITS = StarvationLimits(seconds=60.0, passed=3, closed_seconds=600.0)
LARGE: GroupKey = (POD_GROUP, "ns", "large")


def place_others(gate: StarvationGate, count: int, priority: int = 0) -> None:
    for number in range(count):
        gate.on_root_placed((POD_GROUP, "ns", f"small{number}"), priority)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(0, 3, True, id="enough others were placed while it waited"),
        pytest.param(0, 2, False, id="too few others were placed"),
        pytest.param(3, 2, False, id="others that were placed before it waited do not count"),
    ],
)
def test_only_roots_that_are_placed_while_it_waits_make_a_root_starve(
    before: int, after: int, want: bool
) -> None:
    gate = StarvationGate()
    place_others(gate, before)
    gate.refused(LARGE, 0, now=0.0)
    place_others(gate, after)

    assert gate.starves(LARGE, 0, 60.0, LIMITS) is want


def test_roots_of_a_higher_priority_make_no_root_starve() -> None:
    gate = StarvationGate()
    gate.refused(LARGE, 0, now=0.0)
    place_others(gate, 3, priority=1)

    assert not gate.starves(LARGE, 0, 60.0, LIMITS)


def test_a_root_does_not_starve_before_its_time() -> None:
    gate = StarvationGate()
    gate.refused(LARGE, 0, now=0.0)
    place_others(gate, 3)

    assert not gate.starves(LARGE, 0, 59.0, LIMITS)


def test_a_root_that_was_placed_waits_from_the_beginning_again() -> None:
    gate = StarvationGate()
    gate.refused(LARGE, 0, now=0.0)
    place_others(gate, 3)
    gate.on_root_placed(LARGE, 0)
    gate.refused(LARGE, 0, now=100.0)

    assert not gate.starves(LARGE, 0, 200.0, LIMITS)
