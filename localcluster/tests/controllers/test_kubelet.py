"""A kubelet's admission of pods, rejections and statuses."""

from typing import Any

import pytest

from localcluster.controllers import kubelet
from localcluster.controllers.base.pod_requests import amounts, pod_requests
from localcluster.controllers.node_lifecycle import (
    NOT_READY,
    UNREACHABLE,
    condition_taints,
    lost_node_status,
)
from localcluster.tests.controllers.builders import Obj, at, make_node, make_pod


def container(cpu: str, **more: Any) -> Obj:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1500, id="they add up"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3")]},
            3000,
            id="the larger init container counts",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
            },
            4000,
            id="a sidecar runs beside the init containers after it",
        ),
        pytest.param(
            {"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}},
            2000,
            id="pod-level requests take the place of the containers'",
        ),
    ],
)
def test_a_pod_requests(spec: Obj, want: int) -> None:
    assert pod_requests({"spec": spec}) == {"cpu": want, "pods": 1}


def test_quantities_are_rounded_up() -> None:
    found = amounts({"cpu": "0.0001", "memory": "1Ki", "example.com/gpu": "2"})

    assert found == {"cpu": 1, "memory": 1024, "example.com/gpu": 2}


def test_the_first_resource_that_is_short_is_named() -> None:
    want = {"cpu": 1000, "pods": 1}

    assert kubelet.first_shortage(want, {"cpu": 3000}, {"cpu": 4000, "pods": 1}) is None
    assert kubelet.first_shortage(want, {"cpu": 3500}, {"cpu": 4000, "pods": 9}) == (
        "cpu",
        1000,
        3500,
        4000,
    )


def test_a_pod_runs_with_an_address_and_ready_containers() -> None:
    pod = make_pod("a", node="n")
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    node = make_node()
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "172.16.0.1"}]

    status = kubelet.running(pod, node, "10.244.0.1", at(1))

    assert (status["phase"], status["podIP"], status["hostIP"]) == (
        "Running",
        "10.244.0.1",
        "172.16.0.1",
    )
    assert [one["type"] for one in status["conditions"]] == [
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    assert status["containerStatuses"][0]["ready"] is True


@pytest.mark.parametrize(
    ("phase", "code", "reason"),
    [
        pytest.param("Succeeded", 0, "PodCompleted", id="a pod that succeeds"),
        pytest.param("Failed", 1, "PodFailed", id="a pod that fails"),
    ],
)
def test_a_pod_ends(phase: kubelet.Phase, code: int, reason: str) -> None:
    pod = make_pod("a", node="n")
    pod = {**pod, "status": kubelet.running(pod, make_node(), "10.244.0.1", at(1))}

    status = kubelet.ended(pod, phase, at(5))

    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert status["phase"] == phase
    assert terminated["exitCode"] == code
    assert terminated["startedAt"] < terminated["finishedAt"]
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)


@pytest.mark.parametrize(
    ("ready", "taints", "want"),
    [
        pytest.param("True", [], [], id="a ready node has none"),
        pytest.param("True", [NOT_READY], [], id="it is taken off when the node gets ready"),
        pytest.param("False", [], [NOT_READY, NOT_READY], id="not ready"),
        pytest.param("Unknown", [NOT_READY], [UNREACHABLE, UNREACHABLE], id="lost"),
        pytest.param("", [], [NOT_READY, NOT_READY], id="nothing heard of it yet"),
        pytest.param("True", ["mine"], ["mine"], id="other taints stay"),
    ],
)
def test_taints_follow_the_condition(ready: str, taints: list[str], want: list[str]) -> None:
    node = make_node(ready=ready, taints=[{"key": key, "effect": "NoSchedule"} for key in taints])

    found = condition_taints(node)

    assert [taint["key"] for taint in found] == want
    assert len({(taint["key"], taint["effect"]) for taint in found}) == len(found)


def test_a_pod_whose_node_is_gone_fails_and_says_why() -> None:
    status = lost_node_status(make_pod("a", phase="Running", node="n"), "2026-01-01T00:00:00Z")

    assert status["phase"] == "Failed"
    assert status["conditions"][-1]["reason"] == "DeletionByPodGC"
