"""The search for devices may take long, but delays only the requester."""

from contextlib import suppress
from typing import Any

import pytest

from localcluster.testing.clock import FakeClock, settle
from scheduler.cel.selectors import Selectors
from scheduler.core.devices.allowance import AllowanceExhaustedError, DeviceAllowance
from scheduler.state_metrics import StateMetrics
from scheduler.support import device_budget
from scheduler.support.device_budget import DeviceWork
from scheduler.support.metrics import DEVICE_WORK_POSTPONED
from tests.scheduler.claims.claims_harness import ClaimsHarness

NODES, EACH = 20, 8


def cluster() -> ClaimsHarness:
    """Create nodes whose devices differ from each other, so that each has to be evaluated."""
    harness = ClaimsHarness()
    harness.device_class()
    for at in range(NODES):
        harness.builder.node(f"n{at}", cpu=64)
        listed = [
            {"name": f"d{each}", "attributes": {"uuid": {"string": f"{at}-{each}"}}}
            for each in range(EACH)
        ]
        harness.devices(f"n{at}", listed)
    return harness


def selector(text: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": text}}]}


def slow(number: int) -> str:
    """Return a selector that costs some 900 units for each device, and matches none."""
    numbers = ", ".join(str(each) for each in range(200))
    return (
        f"[{numbers}].exists(n, n == {1000 + number}) "
        '&& device.attributes["gpu.example.com"].uuid == ""'
    )


async def test_a_decision_that_takes_long_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_budget, "_TRIED", 30)
    harness = cluster()
    harness.pod("p")
    uuid = selector('device.attributes["gpu.example.com"].uuid == "19-7"')
    harness.claim("p-0", owner="p", **uuid)
    before = DEVICE_WORK_POSTPONED._value.get()

    async with harness.leading():
        await harness.settle(10)

    assert harness.held() == {"p-0": ["n19/d7"]}
    assert harness.api.bound == {"p": "n19"}
    assert DEVICE_WORK_POSTPONED._value.get() > before


async def test_slow_selectors_of_one_namespace_hold_up_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new root waits only for the allowance of a namespace that is alone."""
    harness = cluster()
    charge = DeviceWork._charge

    def work_takes_time(work: DeviceWork, namespace: str, seconds: float, *, alone: bool) -> None:
        harness.clock.jump(seconds)
        charge(work, namespace, seconds, alone=alone)

    monkeypatch.setattr(DeviceWork, "_charge", work_takes_time)
    for number in range(30):
        name = f"evil{number}"
        harness.pod(name, namespace="evil")
        harness.claim(f"{name}-0", owner=name, namespace="evil", **selector(slow(number)))
    async with harness.leading(unsettled="what is left of the slow ones goes on"):
        for at in range(5):
            before = harness.selectors.cost
            harness.pod(f"good{at}")
            harness.claim(f"good{at}-0", owner=f"good{at}")
            while len(harness.api.bound) == at:
                assert harness.selectors.cost - before < 2 * device_budget._COST
                await settle()
                await harness.clock.advance(0.002)
                harness.changed.set()
        whole = 30 * NODES * EACH * 800
        assert harness.selectors.cost < whole / 2


@pytest.mark.parametrize(("alone", "least", "most"), [(False, 0.1, 0.25), (True, 0.8, 1.0)])
def test_a_namespace_with_much_work_gets_a_fifth_unless_it_is_alone(
    alone: bool, least: float, most: float
) -> None:
    """Its roots are decided as often as possible, each up to its allowance."""
    # Near zero: sums of microseconds are exact enough for the bound there.
    clock, allowance = FakeClock(start=0.0), DeviceAllowance()
    work = DeviceWork(allowance, Selectors(), clock)
    begun = clock.monotonic()
    for _ in range(300):
        spent = allowance.spent
        with suppress(AllowanceExhaustedError), work.allowed("evil", alone=alone):
            while True:
                allowance.check()
                allowance.charge(100)
        clock.jump((allowance.spent - spent) * 10e-6)
        clock.jump(max(work.postponed("evil", alone=alone) - clock.monotonic(), 0.0))

    share = allowance.spent * 10e-6 / (clock.monotonic() - begun)
    assert least < share < most


def test_what_was_done_alone_is_not_paid_for_when_others_come() -> None:
    clock, allowance = FakeClock(), DeviceAllowance()
    work = DeviceWork(allowance, Selectors(), clock)
    for _ in range(1000):
        with work.allowed("busy", alone=True):
            allowance.charge(5_000)
        clock.jump(0.05)

    assert work.postponed("busy", alone=False) - clock.monotonic() < 1.0


async def test_slow_selectors_are_answered_in_the_end() -> None:
    harness = cluster()
    harness.pod("p")
    harness.claim("p-0", owner="p", **selector(slow(1)))

    async with harness.leading():
        await harness.settle(30)

    assert harness.api.bound == {}
    assert harness.selectors.cost >= NODES * EACH * 800
    assert harness.queue.sizes()["unschedulable"] == 1


async def test_metrics_of_devices() -> None:
    harness = ClaimsHarness()
    harness.device_class()
    harness.builder.node("n0")
    harness.builder.node("n1")
    harness.devices("n0", 2)
    twice = [{"name": "d0"}, {"name": "d0"}]
    harness.devices("n1", twice)
    for name, text in (("p", "true"), ("q", 'device.attributes["x"].y == 1')):
        harness.pod(name)
        harness.claim(f"{name}-0", owner=name, **selector(text))
    async with harness.leading():
        await harness.settle(2)
    state, selectors = harness.builder.state, harness.selectors
    metrics = StateMetrics(state, harness.times, harness.freeze, [], selectors).metrics()
    told = {
        (sample.name.removeprefix("muster_scheduler_"), *sample.labels.values()): sample.value
        for metric in metrics
        for sample in metric.samples
    }

    assert told["resource_pools", "complete"] == 1
    assert told["resource_pools", "incomplete"] == 0
    assert told["resource_pools", "invalid"] == 1
    assert told["device_contents",] == 1
    assert told["device_states",] >= 2
    assert told["device_steps_total",] > 0
    assert told["selector_evaluations_total", "judged"] == 1
    assert told["selector_evaluations_total", "error"] == 1
