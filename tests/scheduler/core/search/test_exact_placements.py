"""Placement compared with the exact solver: it finds nearly every fit, and no false one."""

import pytest

from scheduler.core.search.place import Placement
from tests.scheduler.oracle.cluster import build, decide
from tests.scheduler.oracle.greedy import greedily_placed
from tests.scheduler.oracle.instances import tight_instance
from tests.scheduler.oracle.solver import ExactSolver

SEED = 6012


@pytest.mark.timeout(900)
def test_nearly_all_that_can_be_placed_is(long: bool, record_property: object) -> None:
    assert callable(record_property)
    solvable, placed, greedy, missed = 0, 0, 0, list[int]()
    count = 500 if long else 30
    for number in range(count):
        instance = tight_instance(SEED, number)
        can = ExactSolver(instance).feasible()
        does = isinstance(decide(instance, build(instance)), Placement)
        assert can or not does, f"instance {number}"
        solvable += can
        placed += does
        greedy += greedily_placed(instance)
        if can and not does:
            missed.append(number)

    record_property("solvable", solvable)
    record_property("muster", placed)
    record_property("greedy", greedy)
    summary = f"of {count}: {solvable} can be placed, Muster {placed}, KEP-6012's greedy {greedy}"
    assert count // 4 < solvable < count, summary
    assert placed >= 0.99 * solvable, f"{summary}; missed {missed}"
    assert greedy < placed, summary
