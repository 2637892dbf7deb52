"""Status writes about pending gangs, on a small cluster."""

import pytest

from tools.bench.decisions import targets, waiting
from tools.bench.report import waiting_results

pytestmark = pytest.mark.long


async def test_gangs_that_wait_are_written_about_only_when_they_change() -> None:
    phases = await waiting.play(20, 5)
    shown = waiting_results.table(phases, phases)

    assert targets.waiting(phases).count("\n") == 2 + 7
    assert phases[0].each <= targets.WAITING_WRITES
    assert max(phase.each_second for phase in phases[2:4]) <= targets.WAITING_RENEWED
    # At most one write in three seconds for a gang and each of its pods.
    assert max(phase.each for phase in phases[2:4]) <= 60 / 3 * (1 + waiting.GANG)
    assert (phases[4].told or 99.0) <= targets.WAITING_TOLD_BUSY
    assert [phase.kind for phase in phases] == ["come", "quiet", "churn", "churn", "busy"]
    assert phases[1].writes == {}
    assert phases[3].writes["create pods/binding"] == waiting.GANG
    assert shown.count("\n") == len(phases) + 2
