"""The table of units is brought up to date in time proportional to what changed."""

from __future__ import annotations

import time

from scheduler.core.forest import Pod
from tests.scheduler.preemption_builder import PreemptionBuilder

FEW = 10_000
MORE = 40_000


def test_a_start_with_many_pods_takes_time_proportional_to_them() -> None:
    """Twice as long for each would be as if the rest were looked at for each."""

    def seconds(pods: int) -> float:
        builder = PreemptionBuilder()
        waiting: list[Pod] = [builder.single(info) for info in builder.waits(None, pods)]
        builder.state.units.refresh()
        for pod in waiting:
            builder.state.units.stale(pod)
        begun = time.process_time()
        builder.state.units.refresh()
        return time.process_time() - begun

    few, more = min(seconds(FEW) for _ in range(3)), seconds(MORE)

    assert more / few < 2 * MORE / FEW


def test_pods_that_change_while_it_is_brought_up_to_date_are_taken_in_too() -> None:
    builder = PreemptionBuilder()
    builder.nodes(3)
    first, second = builder.runs(None, "n0", "n1")
    steps = builder.state.units.refresh_in_steps()
    next(steps)
    builder.state.remove_pod(second.uid)
    (third,) = builder.runs(None, "n2")
    for _ in steps:
        pass

    assert builder.state.units.order() == [first.uid, third.uid]
