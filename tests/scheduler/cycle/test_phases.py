"""Each phase of a cycle is timed, excluding the time of other tasks."""

from collections.abc import Generator

import pytest

from scheduler.cycle.phases import FILTER, Phases
from scheduler.support.metrics import PHASE_SECONDS
from tests.scheduler.harness import Harness
from tests.support.clock import FakeClock

PHASES = ("QueueSort", "PreFilter", "Filter", "PostFilter", "Reserve")


def observed(what: str = "_count") -> dict[str, float]:
    (metric,) = PHASE_SECONDS.collect()
    samples = [sample for sample in metric.samples if sample.name.endswith(what)]
    return {sample.labels["phase"]: sample.value for sample in samples}


async def test_a_root_that_fits_and_one_that_does_not_pass_all_phases() -> None:
    harness = Harness()
    harness.builder.nodes(1, cpu=1)
    before = observed()
    assert before.keys() == set(PHASES)

    harness.builder.gang("fits", 1, created="0")
    harness.builder.pods("fits", 1)
    harness.builder.gang("waits", 2, created="1")
    harness.builder.pods("waits", 2)
    async with harness.leading():
        await harness.settle()

    passed = {phase: count - before[phase] for phase, count in observed().items()}
    refused = passed["PostFilter"]
    assert refused > 0  # it is decided again when there is no other work
    assert passed["Reserve"] == 1
    assert passed["QueueSort"] == passed["PreFilter"] == passed["Filter"] == 1 + refused


class RunningClock(FakeClock):
    def run(self, seconds: float) -> None:
        self._monotonic += seconds


def test_the_time_of_other_tasks_does_not_count() -> None:
    clock = RunningClock()
    phases = Phases(clock)

    def cycle() -> Generator[str, None, str]:
        clock.run(0.25)
        yield "gives way"
        clock.run(0.5)
        phases.end(FILTER)
        return "decided"

    before = observed("_sum")["Filter"]
    steps = phases.of(cycle())
    assert next(steps) == "gives way"
    clock.run(60)
    with pytest.raises(StopIteration, match="decided"):
        next(steps)
    assert observed("_sum")["Filter"] - before == pytest.approx(0.75)
