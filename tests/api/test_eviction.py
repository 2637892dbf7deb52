"""For whom a group was evicted, by a status of any structure."""

from typing import Any

import pytest

from api.eviction import eviction_of

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
