"""Random objects of a tenant: no process ends, others' gangs are bound, and no state leaks."""

import asyncio
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, note, settings

from api.features import USUAL, Feature, FeatureGates
from e2e.faults.hostile.grammar import campaigns
from e2e.faults.hostile.steps import Step, shown
from tests.hostile.processes import Processes
from tools.testing.effort import examples

EFFORT = settings(examples(6, 150), suppress_health_check=list(HealthCheck))

FEWER = settings(examples(3, 60), suppress_health_check=list(HealthCheck))

_STACK = 950
"""Maximum frames of a process's coroutine, of the 1,000 that Python allows."""


class Stage:
    """The processes of the previous example, or new ones if that did harm."""

    def __init__(self, runner: asyncio.Runner, gates: FeatureGates = USUAL) -> None:
        self._runner = runner
        self._gates = gates
        self._processes: Processes | None = None

    def play(self, steps: Sequence[Step]) -> None:
        with _usual_stack():
            self._runner.run(self._play(steps))

    def close(self) -> None:
        if self._processes is not None:
            self._runner.run(self._processes.stop())
            self._processes = None

    async def _play(self, steps: Sequence[Step]) -> None:
        processes = self._processes
        if processes is None:
            self._processes = processes = Processes(self._gates)
            await processes.start()
        try:
            await processes.carry_out(steps)
            await processes.another_gang_runs()
            await processes.snapshot()
            await processes.all_goes()
        except BaseException:
            self._processes = None
            await processes.stop()
            raise


@contextmanager
def _usual_stack() -> Iterator[None]:
    """Limit the stack to that of a process, because Hypothesis allows far more."""
    allowed = sys.getrecursionlimit()
    sys.setrecursionlimit(_STACK + len(inspect.stack(0)))
    try:
        yield
    finally:
        sys.setrecursionlimit(allowed)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        stage = Stage(runner)
        yield stage
        stage.close()


@pytest.fixture(scope="module")
def switched_off() -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        # Without gangs, the honest tenants would have nothing to bind.
        needed = {Feature.WORKLOAD, Feature.POD_GROUP, Feature.GANG}
        stage = Stage(runner, FeatureGates(frozenset(needed)))
        yield stage
        stage.close()


@pytest.mark.timeout(1800)
@EFFORT
@given(steps=campaigns())
def test_no_campaign_does_harm(stage: Stage, steps: list[Step]) -> None:
    note(shown(steps))

    stage.play(steps)


@pytest.mark.timeout(1800)
@FEWER
@given(steps=campaigns())
def test_nor_where_every_other_feature_gate_is_off(switched_off: Stage, steps: list[Step]) -> None:
    """Everything that uses one waits, can be deleted, and delays no other tenant."""
    note(shown(steps))

    switched_off.play(steps)
