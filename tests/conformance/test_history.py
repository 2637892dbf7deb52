"""Objects of the API as values."""

from decimal import Decimal
from typing import Any

import pytest

from conformance import objects
from conformance.values.history import GANG_LABEL, Node, Pod, node_of, pod_of
from conformance.values.scenario import Nodes

ONE = {"pods": Decimal(1), "cpu": Decimal(1)}


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1", "1"), ("1500m", "1.5"), ("2Ki", "2048"), ("1e3", "1000"), ("0.5", "0.5")],
)
def test_quantities_are_numbers(text: str, amount: str) -> None:
    node: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {}}
    node["status"] = {"allocatable": {"cpu": text}}
    assert node_of(node).allocatable == {"cpu": Decimal(amount)}


def test_a_pod_of_the_kit_has_its_gang_and_what_it_requests() -> None:
    raw = objects.pod("train-1", "ns", "train", "some-scheduler", 10)
    raw["metadata"] |= {"uid": "u", "namespace": "ns"}
    waits = Pod(uid="u", name="train-1", gang="train", requests=ONE)
    assert pod_of(raw) == waits
    assert not waits.placed
    raw["spec"] |= {"nodeName": "n", "priority": 10}
    assert pod_of(raw).placed
    raw["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    assert pod_of(raw).ending
    assert not pod_of(raw).placed


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_not_placed(phase: str) -> None:
    raw: dict[str, Any] = {
        "metadata": {"uid": "u", "name": "p", "labels": {GANG_LABEL: "g"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }
    assert pod_of(raw).finished
    assert not pod_of(raw).placed


def test_a_node_is_ready_without_the_taint_of_a_new_one() -> None:
    raw = objects.node("n", "run", Nodes(cpu=2, rack="r1"))
    assert node_of(raw).ready is False
    raw["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    ready = node_of(raw)
    assert ready == Node(
        name="n",
        allocatable={"cpu": Decimal(2), "memory": Decimal(256 * 2**30), "pods": Decimal(110)},
        rack="r1",
        ready=True,
    )
    raw["spec"]["taints"].append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    assert node_of(raw).ready is False
