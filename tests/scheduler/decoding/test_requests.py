"""A resized pod's requests, as kube-scheduler counts them until 1.36, and since 1.37."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from scheduler.core.values.model import NEWEST_RELEASE, PodInfo, Release
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_pod
from tests.scheduler.state_builder import StateBuilder

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def pod(spec: dict[str, Any], status: dict[str, Any], release: Release = NEWEST_RELEASE) -> PodInfo:
    spec = {"schedulerName": "default-scheduler", "nodeName": "n", **spec}
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    document = {"metadata": meta, "spec": spec, "status": {"phase": "Running", **status}}
    return decode.pod_info(decode_pod(msgspec.json.encode(document)), release=release)


def container(cpu: str, name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


def reported(used: str, allocated: str, name: str = "c") -> dict[str, Any]:
    requests = {"requests": {"cpu": used}}
    return {"name": name, "resources": requests, "allocatedResources": {"cpu": allocated}}


def cpu(spec: dict[str, Any], status: dict[str, Any], release: Release = NEWEST_RELEASE) -> int:
    return dict(pod(spec, status, release).requirements.requests).get("cpu", 0)


RELEASES: tuple[Release, ...] = ((1, 36), (1, 37))


@pytest.mark.parametrize(
    ("wanted", "used", "allocated", "condition", "want"),
    [
        pytest.param("1", "1", "1", None, 1000, id="no resize"),
        pytest.param("4", "1", "1", None, 4000, id="grows: what is wanted counts"),
        pytest.param("1", "4", "1", None, 4000, id="shrinks: what is in use counts"),
        pytest.param("1", "1", "4", None, 4000, id="shrinks: what is allocated counts"),
        pytest.param("4", "1", "1", DEFERRED, 4000, id="deferred: what is wanted counts"),
        pytest.param("4", "1", "2", INFEASIBLE, 2000, id="infeasible: it does not"),
    ],
)
def test_the_most_of_wanted_used_and_allocated(
    wanted: str, used: str, allocated: str, condition: dict[str, str] | None, want: int
) -> None:
    status = {
        "containerStatuses": [reported(used, allocated)],
        "conditions": [condition] if condition else [],
    }

    found = [cpu({"containers": [container(wanted)]}, status, it) for it in RELEASES]
    assert found == [want, want]


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param(
            {"containers": [container("1", "a"), container("1", "b")]},
            {"containerStatuses": [reported("3", "1", "b"), reported("1", "2", "a")]},
            (5000, 4000),
            id="each container by its name",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("1", "s", restartPolicy="Always")],
            },
            {"initContainerStatuses": [reported("3", "3", "s")]},
            (4000, 4000),
            id="sidecars",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", "i")]},
            {"initContainerStatuses": [reported("9", "9", "i")]},
            (2000, 9000),
            id="other init containers",
        ),
        pytest.param(
            {"containers": [container("4")]},
            {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]},
            (4000, 9000),
            id="nothing is known of what is in use",
        ),
        pytest.param(
            {"containers": [container("3", "a"), container("1", "b")]},
            {"containerStatuses": [reported("1", "1", "a"), reported("3", "3", "b")]},
            (6000, 4000),
            id="one grows as much as the other shrinks",
        ),
        pytest.param(
            {"containers": [container("3", "a"), container("1", "b"), container("1", "new")]},
            {
                "containerStatuses": [reported("1", "2", "a"), reported("3", "2", "b")],
                "conditions": [INFEASIBLE],
            },
            (6000, 4000),
            id="infeasible: the totals that are allocated and in use",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}},
            {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "5"}},
            (5000, 5000),
            id="of the whole pod",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "8"}}},
            {
                "resources": {"requests": {"cpu": "3"}},
                "allocatedResources": {"cpu": "2"},
                "conditions": [INFEASIBLE],
            },
            (3000, 3000),
            id="of the whole pod, infeasible",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"example.com/x": "8"}}},
            {},
            (1000, 1000),
            id="pod-level requests are for cpu, memory and huge pages alone",
        ),
    ],
)
def test_requests_of_resized_pods(
    spec: dict[str, Any], status: dict[str, Any], want: tuple[int, int]
) -> None:
    """`want` is for 1.36 and 1.37."""
    assert tuple(cpu(spec, status, release) for release in RELEASES) == want
    names = [name for name, _ in pod(spec, status).requirements.requests]
    assert names == ["cpu"]


def test_a_resize_changes_what_is_free() -> None:
    builder = StateBuilder()
    builder.node("n", cpu=4)
    small = pod({"containers": [container("1")]}, {"containerStatuses": [reported("1", "1")]})
    grows = pod({"containers": [container("3")]}, {"containerStatuses": [reported("1", "1")]})
    waits = builder.pod(cpu=2)
    slots = []
    for info in (small, grows, replace(small, generation=2)):
        builder.state.set_pod(info)
        slots.append(int(builder.state.framework.slots(builder.single(waits).shape).sum()))

    assert slots == [1, 0, 1]
