"""The wait limit of the other tenant's gang in the hostile suites, and a tenant's cleanup."""

import asyncio
from typing import Any, cast

import pytest

from e2e.faults.hostile.stage import BOUND_WITHIN, BUSY, TIMES_SLOWER, HarmError, Stage
from e2e.faults.hostile.steps import GROUPS
from e2e.faults.hostile.tenants import Tenant


class _Calm:
    """A tenant with these durations of its gang, and of a ConfigMap write meanwhile; in seconds."""

    def __init__(self, took: float, slowest_write: float) -> None:
        self._took = took
        self.slowest_write = slowest_write

    async def gang(self) -> float:
        return self._took


class _Vitals:
    """Processes that have used this CPU time at each check, in seconds."""

    def __init__(self, *used: float) -> None:
        self._used = iter(used)

    def cpu_seconds(self) -> float:
        return next(self._used, 0.0)


def _stage(calm: _Calm, usual: float) -> Stage:
    nothing = cast("Any", None)
    return Stage(nothing, nothing, nothing, [], cast("Any", calm), usual=usual)


@pytest.mark.parametrize(
    ("took", "usual", "slowest_write", "stalled", "harm"),
    [
        (BOUND_WITHIN, 0.1, 0.01, 0.0, False),
        (BOUND_WITHIN + 0.1, 0.1, 0.01, 0.0, True),
        (TIMES_SLOWER * 0.8, 0.8, 0.01, 0.0, False),
        (TIMES_SLOWER * 0.8 + 0.1, 0.8, 0.01, 0.0, True),
        (TIMES_SLOWER * 0.9, 0.1, 0.9, 0.0, False),
        (TIMES_SLOWER * 0.9 + 0.1, 0.1, 0.9, 0.0, True),
        (BOUND_WITHIN + 2.9, 0.1, 0.01, 3.0, False),
        (BOUND_WITHIN + 3.1, 0.1, 0.01, 3.0, True),
        (3 * BOUND_WITHIN + 0.1, 0.1, 0.01, 1000.0, True),
    ],
)
async def test_a_gang_may_wait_as_long_as_the_cluster_itself_explains(
    monkeypatch: pytest.MonkeyPatch,
    took: float,
    usual: float,
    slowest_write: float,
    stalled: float,
    harm: bool,
) -> None:
    waited = iter([100.0, 100.0 + stalled])
    monkeypatch.setattr("e2e.faults.hostile.stage.stalled_seconds", lambda: next(waited))
    stage = _stage(_Calm(took, slowest_write), usual)

    if harm:
        with pytest.raises(HarmError, match="a gang of another tenant waited"):
            await stage.gang_runs(cast("Any", _Vitals()))
    else:
        assert await stage.gang_runs(cast("Any", _Vitals())) == took


async def test_a_gang_may_not_cost_more_cpu_than_usual_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited = iter([0.0, 1000.0])
    monkeypatch.setattr("e2e.faults.hostile.stage.stalled_seconds", lambda: next(waited))

    with pytest.raises(HarmError, match=r"Muster used 5\.1 s of CPU"):
        await _stage(_Calm(14, 0.1), 0.1).gang_runs(cast("Any", _Vitals(7.0, 7.0 + BUSY + 0.1)))


class _Leaving(Tenant):
    """A tenant that loses one group per check of 40 s, until `stuck` are left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, groups: int, stuck: int = 0) -> None:
        super().__init__("mallory", cast("Any", None))
        self.left, self.stuck, self.passed = groups, stuck, 0.0
        loop = asyncio.get_running_loop()
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + self.passed)

    async def _delete_all(self) -> dict[str, int]:
        self.passed += 40.0
        self.left = max(self.left - 1, self.stuck)
        return {GROUPS.full_name: self.left} if self.left else {}


async def test_a_tenant_may_take_its_time_to_leave_while_more_and_more_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaving = _Leaving(monkeypatch, groups=30)

    await leaving.leave(patience=60)

    assert leaving.passed == 30 * 40


async def test_what_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    leaving = _Leaving(monkeypatch, groups=5, stuck=3)

    with pytest.raises(TimeoutError, match=r"podgroups\.scheduling\.muster\.dev': 3"):
        await leaving.leave(patience=60)

    assert leaving.passed == (2 + 2) * 40
