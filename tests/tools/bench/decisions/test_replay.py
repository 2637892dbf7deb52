"""The replayed cluster is complete and behaves like an API server."""

import json

from api.constants import SCHEDULER_NAME
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_node, decode_pod
from tools.bench.decisions.replay import WAITING, Cluster


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
