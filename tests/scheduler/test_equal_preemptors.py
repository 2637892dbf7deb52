"""Many equal preemptors, each with a node's victims: decided twice each, and planned once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import scheduler.cycle
import scheduler.preemptor
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.search.attempt import Attempt
from tests.scheduler.eviction_harness import EvictionHarness

PREEMPTORS, VICTIMS = 40, 4


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often these functions were called, by name."""
    found: Counter[str] = Counter()

    def count(where: object, name: str) -> None:
        function: Callable[..., Any] = getattr(where, name)

        def counted(*arguments: Any, **others: Any) -> Any:
            found[name] += 1
            return function(*arguments, **others)

        monkeypatch.setattr(where, name, counted)

    count(scheduler.cycle, "decide")
    count(scheduler.preemptor, "preempt")
    count(DryRun, "fits")
    count(Attempt, "fill")
    return found


def cluster() -> EvictionHarness:
    harness = EvictionHarness()
    builder = harness.builder
    builder.nodes(PREEMPTORS, cpu=VICTIMS)
    for number in range(PREEMPTORS):
        builder.runs(None, *[f"n{number}"] * VICTIMS, cpu=1)
    builder.waits(None, PREEMPTORS, cpu=VICTIMS, priority=10)
    return harness


async def test_each_is_decided_once_to_evict_and_once_to_be_bound(counts: Counter[str]) -> None:
    harness = cluster()
    async with harness.leading(unsettled="counts are compared"):
        await harness.settle(2)
        assert len(harness.evictor_api.deleted) == PREEMPTORS * VICTIMS
        assert (counts["decide"], counts["preempt"]) == (PREEMPTORS, PREEMPTORS)
        assert counts["fits"] <= 6 * PREEMPTORS
        # One for the decision, at most three for the plan, and one for the batch that failed.
        assert counts["fill"] <= 4 * PREEMPTORS + 1

        counts.clear()
        # The first victim of each node, then the second: for long nobody's place is free.
        for turn in range(VICTIMS):
            for name in sorted(harness.evictor_api.leaving)[turn::VICTIMS]:
                harness.builder.state.remove_pod(f"uid-{name}")
                harness.changed.set()
                await harness.clock.advance(0.01)
        await harness.settle(1)
        assert len(harness.api.bound) == PREEMPTORS
        assert (counts["decide"], counts["preempt"]) == (PREEMPTORS, 0)
        assert counts["fill"] == PREEMPTORS
