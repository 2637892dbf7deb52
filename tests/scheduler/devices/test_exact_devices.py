"""The allocator compared with an exact solver: it finds nearly every fit, and no false one."""

import pytest

from scheduler.core.search.place import Placement
from tests.scheduler.devices.instances import ExactSolver, build, instance

SEED = 4381


@pytest.mark.timeout(900)
def test_nearly_all_gangs_that_can_be_served_are(long: bool) -> None:
    solvable, served, missed = 0, 0, list[int]()
    count = 100 if long else 30
    for number in range(count):
        of = instance(SEED, number)
        can = ExactSolver(of).feasible()
        made = build(of)
        decision = made.place("g")
        does = isinstance(decision, Placement)
        assert can or not does, f"instance {number}"
        if isinstance(decision, Placement):
            made.write(decision)
            assert len(decision.pods) == len(of.pods)
            assert made.complaints() == [], f"instance {number}"
        solvable += can
        served += does
        if can and not does:
            missed.append(number)

    summary = f"of {count}: {solvable} can be served, {served} are, missed {missed}"
    assert count // 4 < solvable < count, summary
    assert served >= 0.99 * solvable, summary
