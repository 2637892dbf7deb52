"""Devices that are never allocated, because they have an unknown field, and their messages."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from kube.client.meta import Json
from scheduler.support.metrics import DEVICES_HIDDEN
from tests.scheduler.claims.claims_harness import ClaimsHarness

MAPPING = {"cpu": {"capacityKey": "cores"}}


def hidden(**more: Any) -> list[Json]:
    """Return two devices, the first with an additional field."""
    return [{"name": "d0", **more}, {"name": "d1"}]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        pytest.param(
            {"attributes": {"links": {"strings": ["a", "b"]}}},
            "spec.devices[0].attributes[...].strings",
            id="a list attribute",
        ),
        pytest.param(
            {"nodeAllocatableResourceMappings": MAPPING},
            "spec.devices[0].nodeAllocatableResourceMappings",
            id="a device that counts as resources of the node",
        ),
    ],
)
async def test_a_hidden_device_goes_to_nobody_and_the_log_names_its_field(
    more: Json, field: str
) -> None:
    harness = ClaimsHarness()
    harness.device_class()
    harness.builder.node("n0")
    for name in ("p", "q"):
        harness.pod(name)
        harness.claim(f"{name}-0", owner=name)

    with capture_logs() as logs:
        harness.devices("n0", hidden(**more))
        async with harness.leading():
            await harness.settle(2)

    (told,) = [each for each in logs if "hidden" in each["event"]]
    assert told["error"] == f"uses {field}, which Muster does not know"
    assert (told["resourceslice"], told["devices"]) == ("slice-n0", 1)
    assert list(harness.held().values()) == [["n0/d1"]]
    assert len(harness.api.bound) == 1


def test_it_is_told_once_and_again_when_it_is_otherwise() -> None:
    harness = ClaimsHarness()
    counted = DEVICES_HIDDEN._value.get()

    with capture_logs() as logs:
        for generation, devices in enumerate((
            hidden(shiny=1),
            hidden(shiny=2),
            hidden(),
            hidden(shiny=1),
            hidden(shinier=1),
        )):  # fmt: skip
            harness.devices("n0", devices, generation=generation)

    assert [each["error"].split()[1] for each in logs] == [
        "spec.devices[0].shiny,",
        "spec.devices[0].shiny,",
        "spec.devices[0].shinier,",
    ]
    assert DEVICES_HIDDEN._value.get() == counted + 1
    harness.slices.delete(("", "slice-n0"))
    assert DEVICES_HIDDEN._value.get() == counted
