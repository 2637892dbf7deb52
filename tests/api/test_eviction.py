"""For whom and how often a group was evicted, by a status of any structure, and at what cost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.eviction import (
    checkpoint,
    eviction_cost,
    eviction_of,
    preempted_condition,
    preemptions_of,
)

FOR = "preempted for PodGroup team/big of priority 9"


def target(**fields: Any) -> dict[str, Any]:
    message = f"muster-scheduler: {FOR}"
    condition = {"type": "DisruptionTarget", "status": "True", "message": message}
    return {"conditions": [{"type": "Other", "status": "True"}, condition | fields]}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(target(), FOR, id="evicted"),
        pytest.param(target(message="by kube-scheduler"), "by kube-scheduler", id="by another"),
        pytest.param(target(status="False"), "", id="scheduled again"),
        pytest.param(target(message=7), "", id="no text"),
        pytest.param({}, "", id="no conditions"),
        pytest.param({"conditions": [None, "x", 3]}, "", id="no objects"),
        pytest.param({"conditions": {}}, "", id="no list"),
    ],
)
def test_the_message_without_its_writer(status: dict[str, Any], want: str) -> None:
    assert eviction_of(status) == want


@pytest.mark.parametrize(
    ("written", "cost"),
    [
        ("0", 0),
        ("100", 100),
        ("-100", -100),
        ("2147483647", 2147483647),
        ("-2147483647", -2147483647),
        ("2147483648", None),
        ("-2147483648", None),
        ("99999999999999", None),
        ("+1", None),
        ("01", None),
        ("-0", None),
        ("1.5", None),
        ("١", None),
        (" 1", None),
        ("", None),
        (7, None),
        (None, None),
    ],
)
def test_a_cost_is_an_integer_as_kubernetes_deletion_cost(written: Any, cost: int | None) -> None:
    assert eviction_cost(written) == cost


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01t00:01:00z", 60.0),
        ("1970-01-01T00:01:00.5Z", 60.5),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-01T00:01:00", None),
        ("1970-01-01", None),
        ("19700101T000100Z", None),
        ("1970-02-31T00:01:00Z", None),
        ("1970-01-01T25:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("1701014400", None),
        ("now", None),
        ("", None),
        (60, None),
        (None, None),
    ],
)
def test_a_checkpoint_is_a_time_with_a_zone(written: Any, moment: float | None) -> None:
    assert checkpoint(written) == moment


NOW = datetime(2026, 11, 30, 16, tzinfo=UTC)


@given(
    st.lists(st.integers(0, 4000), max_size=8),
    st.sampled_from([60.0, 3600.0]),
)
def test_preemptions_count_from_the_first_of_a_window(gaps: list[int], window: float) -> None:
    status: dict[str, Any] = {"conditions": [{"type": "Other", "status": "True"}]}
    now, first, want = NOW, NOW, 0
    for gap in gaps:
        now += timedelta(seconds=gap)
        if not want or (now - first).total_seconds() >= window:
            first, want = now, 0
        want += 1
        condition, number = preempted_condition(status, now, window, 3)
        status["conditions"] = [status["conditions"][0], condition]
        assert number == want
        assert preemptions_of(status) == (want, first.timestamp())
        assert condition["observedGeneration"] == 3


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="never"),
        pytest.param({"conditions": 3}, id="no list"),
        *(
            pytest.param({"conditions": [{"type": "Preempted", **fields}]}, id=name)
            for name, fields in {
                "nothing": {},
                "False": {
                    "status": "False",
                    "message": "preempted 2 times",
                    "lastTransitionTime": "2026-11-30T16:00:00Z",
                },
                "no number": {
                    "status": "True",
                    "message": "preempted",
                    "lastTransitionTime": "2026-11-30T16:00:00Z",
                },
                "a huge number": {
                    "status": "True",
                    "message": f"preempted {'9' * 5000} times",
                    "lastTransitionTime": "2026-11-30T16:00:00Z",
                },
                "no time": {"status": "True", "message": "preempted 2 times"},
            }.items()
        ),
    ],
)
def test_anything_else_is_no_count(status: dict[str, Any]) -> None:
    assert preemptions_of(status) == (0, 0.0)
    assert preempted_condition(status, NOW, 60, 1)[1] == 1


def test_a_count_of_the_future_starts_again() -> None:
    later, _ = preempted_condition({}, NOW + timedelta(hours=1), 3600, 1)

    assert preempted_condition({"conditions": [later]}, NOW, 3600, 1)[1] == 1
