"""Held places in statuses, whichever process wrote them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.watch.published_places import (
    assume_published,
    is_published_expired,
    published_since,
    published_until,
)
from tests.scheduler.holding_harness import HoldingHarness, kind


def told(*places: tuple[Any, Any, Any], **more: Any) -> dict[str, Any]:
    pods = [{"name": name, "node": node, "count": count} for name, node, count in places]
    return {"heldPlaces": {"since": "2026-01-01T00:00:00Z", "pods": pods, **more}}


def harness_of(status: dict[str, Any], *, came: int = 1) -> HoldingHarness:
    harness = HoldingHarness()
    harness.builder.nodes(3, cpu=2)
    harness.group("train", 4, kind("worker", 4), status=status)
    for index in range(came):
        harness.pod(f"worker-{index}", "train")
    harness.builder.state.assume([harness.builder.state.pods["uid-worker-0"]], [0])
    assume_published(harness.builder.state, harness.expected, harness.observed)
    return harness


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(told(("worker", "n1", 2), ("worker", "n2", 1)), {"n1": 2, "n2": 1}, id="all"),
        pytest.param(told(("worker", "n1", 9)), {"n1": 2}, id="more than there is room for"),
        pytest.param(told(("worker", "n9", 2)), {}, id="no such node"),
        pytest.param(told(("driver", "n1", 2)), {}, id="no such kind"),
        pytest.param(told(("worker", "n1", -2), ("worker", "n1", True)), {}, id="no numbers"),
        pytest.param(told((3, [], 1), (None, "n1", "2")), {}, id="no names"),
        pytest.param({"heldPlaces": {"pods": "many"}}, {}, id="no list"),
        pytest.param({"heldPlaces": {"pods": [1, None, []]}}, {}, id="no entries"),
        pytest.param({"heldPlaces": []}, {}, id="no object"),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_what_fits_is_held(status: dict[str, Any], want: dict[str, int]) -> None:
    harness = harness_of(status)

    assert harness.held("train") == want


def test_a_pod_that_came_and_waits_has_the_first_place() -> None:
    harness = harness_of(told(("worker", "n1", 2), ("worker", "n2", 1)), came=2)
    pod = harness.builder.state.pods["uid-worker-1"]

    assert (pod.assumed, pod.node) == (True, "n1")
    assert harness.held("train") == {"n1": 1, "n2": 1}


def test_a_group_whose_time_was_over_expects_nothing() -> None:
    harness = harness_of(told())

    assert harness.expected.expired(("PodGroup", "ns", "train"))
    assert not any(pod.info.expected for pod in harness.builder.state.pods.values())


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("soon", None),
        (7, None),
    ],
)
def test_times_are_read_as_far_as_they_are_times(written: Any, want: datetime | None) -> None:
    harness = harness_of(told(since=written, until=written))
    obj = harness.observed["PodGroup", "ns", "train"]

    assert published_since(obj) == want
    assert published_until(obj) == want
    assert published_since(None) is None
    assert is_published_expired(obj)
