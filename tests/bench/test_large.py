"""The replayed cluster is whole, and growth is told from noise."""

import json

import pytest

from api.constants import SCHEDULER_NAME
from bench import churn, startup
from bench.replay import WAITING, Cluster
from e2e.muster import ALL
from scheduler.watch import decode
from scheduler.watch.objects import decode_node, decode_pod


def test_pages_give_each_object_once_and_as_the_scheduler_reads_it() -> None:
    cluster = Cluster(nodes=3, pods=5)
    items: list[bytes] = []
    token = "0"
    while token:
        page = json.loads(cluster.page("/api/v1/pods", int(token), 4))
        items += [json.dumps(item).encode() for item in page["items"]]
        token = page["metadata"].get("continue", "")

    pods = [decode.pod_info(decode_pod(item)) for item in items]
    assert len({pod.uid for pod in pods}) == 5 + WAITING
    assert [pod.node for pod in pods[:5]] == ["node-0", "node-1", "node-2", "node-0", "node-1"]
    assert {pod.group for pod in pods if pod.ours} == {"gang"}
    assert sum(pod.ours for pod in pods) == WAITING
    assert pods[0].requirements.requests == (("cpu", 600), ("memory", 512 << 20))
    [node] = json.loads(cluster.page("/api/v1/nodes", 2, 500))["items"]
    assert decode.node_info(decode_node(json.dumps(node).encode())).name == "node-2"
    assert SCHEDULER_NAME.encode() in items[-1]


def test_a_lease_is_kept_and_a_binding_remembered() -> None:
    cluster = Cluster(1, 0)
    leases = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
    none = cluster.answer("GET", f"{leases}/l", {}, b"")
    cluster.answer("POST", leases, {}, b'{"metadata":{"name":"l"}}')
    cluster.answer("POST", "/api/v1/namespaces/n/pods/p/binding", {}, b"{}")

    assert isinstance(none, dict)
    assert none["code"] == 404
    assert cluster.answer("GET", f"{leases}/l", {}, b"") == cluster.leases[f"{leases}/l"]
    assert (cluster.bindings, cluster.first_binding > 0) == (1, True)


def _rows(memory: list[float], latency: list[float]) -> list[churn.Row]:
    return [
        churn.Row(minute + 1, 100, 300, p50, p50, dict.fromkeys(ALL, mib), dict.fromkeys(ALL, 1.0))
        for minute, (mib, p50) in enumerate(zip(memory, latency, strict=True))
    ]


@pytest.mark.parametrize(
    ("memory", "latency", "good"),
    [
        pytest.param([100] * 12, [0.01] * 12, True, id="all is as it was"),
        pytest.param([90, 95] + [100] * 10, [0.01] * 12, True, id="more in the beginning"),
        pytest.param([100 + 5 * m for m in range(12)], [0.01] * 12, False, id="more and more"),
        pytest.param([100] * 12, [0.01] * 8 + [0.03] * 4, False, id="slower in the end"),
    ],
)
def test_growth_is_told(memory: list[float], latency: list[float], good: bool) -> None:
    text, kept = churn.report(_rows(memory, latency), 2.0)

    assert kept is good
    assert text.count("\n| ") >= 12


def test_a_start_that_takes_too_long_is_told() -> None:
    measured = {
        "nodes": 10, "pods": 20, "seconds": 61.0, "sent MiB": 1.0, "cpu": 2.0,
        "resident MiB": 100.0, "peak MiB": 110.0, "empty MiB": 90.0,
        "decisions": {"refusal": 0.001},
    }  # fmt: skip

    assert startup.report(measured)[1] is False
    text, good = startup.report(measured | {"seconds": 59.0})
    assert good
    assert "| decision: refusal | 1.0 ms | 10 ms |" in text
