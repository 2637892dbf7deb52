"""Finding devices may take long, for whoever asks for them; it costs others nothing."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import device_work
from scheduler.metrics import DEVICE_WORK_POSTPONED
from scheduler.state_metrics import StateMetrics
from tests.scheduler.claims.claims_harness import ClaimsHarness

NODES, EACH = 20, 8


def cluster() -> ClaimsHarness:
    """Nodes whose devices differ from each other, so that each has to be judged."""
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
    """Costs some 900 units for each device, and selects none."""
    numbers = ", ".join(str(each) for each in range(200))
    return (
        f"[{numbers}].exists(n, n == {1000 + number}) "
        '&& device.attributes["gpu.example.com"].uuid == ""'
    )


async def test_a_decision_that_takes_long_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_work, "_TRIED", 30)
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


async def test_slow_selectors_of_one_namespace_hold_up_nobody_else() -> None:
    harness = cluster()
    for number in range(60):
        name = f"evil{number}"
        harness.pod(name, namespace="evil")
        harness.claim(f"{name}-0", owner=name, namespace="evil", **selector(slow(number)))
    async with harness.leading(unsettled="what is left of the slow ones goes on"):
        await harness.settle(0.25)
        spent = harness.selectors.cost
        for at in range(5):
            harness.pod(f"good{at}")
            harness.claim(f"good{at}-0", owner=f"good{at}")
        await harness.settle(1)

        assert len(harness.api.bound) == 5
        # One allowance, and then a fifth of the time.
        whole = 60 * NODES * EACH * 800
        assert spent < harness.selectors.cost < whole
        assert spent <= 2 * device_work._COST
        work = (harness.selectors.cost - spent) * device_work._OF_A_UNIT
        assert work <= 1.5 / (1 + device_work._REST) + device_work._COST * device_work._OF_A_UNIT


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
