"""An API server that replays a large cluster: pages of nodes and of running pods, over TLS.

Nodes and pods have the form in which kube-apiserver sends them, including managed fields, about 6
kB each. Each is one recorded text with its own names. Lists are paged as requested, watches stay
silent, leases are stored, and every Binding is accepted and counted.
"""

import asyncio
import json
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import httptools

from api.constants import LABEL_POD_GROUP, POD_GROUP, SCHEDULER_NAME

RACK: Final = "example.com/rack"
PER_RACK: Final = 16
WAITING: Final = 4
"""Members of the one gang that is scheduled. They are in the last page."""

_VERSION: Final = "900000000"
_SAMPLE: Final = "@SAMPLE@"
_NODE: Final = "@NODE@"
_RACK: Final = "@RACK@"
_STAMP: Final = "2026-11-21T07:00:00Z"

Json = dict[str, Any]


def _managed(manager: str, tree: Json, subresource: str = "") -> Json:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _STAMP,
             "fieldsType": "FieldsV1", "fieldsV1": tree}  # fmt: skip
    return entry | ({"subresource": subresource} if subresource else {})


def _meta(name: str, labels: Json, managed: list[Json]) -> Json:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "123456789",
        "generation": 1,
        "creationTimestamp": _STAMP,
        "labels": labels,
        "managedFields": managed,
    }


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": f"Kubelet{kind}", "lastProbeTime": None,
            "lastHeartbeatTime": _STAMP, "lastTransitionTime": _STAMP,
            "message": f"kubelet says {kind}"}  # fmt: skip


def node_sample() -> bytes:
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    labels = {
        "kubernetes.io/hostname": _SAMPLE,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m.16xlarge",
        "topology.kubernetes.io/zone": "zone-a",
        RACK: _RACK,
    }
    amounts = {"cpu": "64", "memory": "263421640Ki", "pods": "110", "hugepages-2Mi": "0",
               "ephemeral-storage": "95551679124"}  # fmt: skip
    fields: Json = {f"f:{key}": {} for key in labels} | {
        f'k:{{"type":"{kind}"}}': {"f:lastHeartbeatTime": {}, "f:message": {}, "f:reason": {},
                                   "f:status": {}, "f:type": {}} for kind in kinds
    }  # fmt: skip
    images = [
        {"names": [f"registry.example/team-{i}/service-{i}@sha256:{'0123456789abcdef' * 4}",
                   f"registry.example/team-{i}/service-{i}:v1.{i}.0"], "sizeBytes": 100_000_000 + i}
        for i in range(15)
    ]  # fmt: skip
    return _encode({
        "metadata": _meta(_SAMPLE, labels, [_managed("kubelet", {"f:metadata": fields}, "status")]),
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [_condition(kind) for kind in kinds],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"},
                          {"type": "Hostname", "address": _SAMPLE}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Linux", "architecture": "amd64"},
            "images": images,
        },
    })  # fmt: skip


def pod_sample(node: str, labels: Json, scheduler: str, *, running: bool) -> bytes:
    """Return a pod as bytes; `node` may be empty for a waiting pod."""
    mount = {"name": f"kube-api-access-{_SAMPLE}", "readOnly": True,
             "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}  # fmt: skip
    environment = [{"name": f"SETTING_{i}", "value": f"value of setting {i}"} for i in range(12)]
    containers = [
        {
            "name": name,
            "image": f"registry.example/team/{name}:v1.2.3",
            "env": environment,
            "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
            "volumeMounts": [mount],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        for name, cpu in (("main", "500m"), ("side", "100m"))
    ]
    tree: Json = {f"f:field-{i}": {".": {}, "f:name": {}, "f:value": {}} for i in range(40)}
    seconds = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300} for key in ("not-ready", "unreachable")]  # fmt: skip
    spec: Json = {
        "volumes": [{"name": mount["name"], "projected": {"sources": [], "defaultMode": 420}}],
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": scheduler,
        "tolerations": seconds,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    status: Json = {"phase": "Pending", "qosClass": "Burstable"}
    if running:
        spec["nodeName"] = node
        status = {
            "phase": "Running",
            "startTime": _STAMP,
            "conditions": [_condition(kind) for kind in ("PodScheduled", "Initialized", "Ready")],
            "containerStatuses": [
                {"name": c["name"], "ready": True, "restartCount": 0, "image": c["image"],
                 "imageID": f"registry.example/team@sha256:{'0123456789abcdef' * 4}",
                 "containerID": f"containerd://{'0123456789abcdef' * 4}",
                 "state": {"running": {"startedAt": _STAMP}}}
                for c in containers
            ],
            "podIP": "10.0.0.2",
        }  # fmt: skip
    managed = [_managed("kube-controller-manager", tree), _managed("kubelet", tree, "status")]
    meta = _meta(_SAMPLE, labels, managed) | {"namespace": "default"}
    return _encode({"metadata": meta, "spec": spec, "status": status})


def _encode(obj: Json) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


@dataclass
class Cluster:
    """The size of the cluster, and what happened: the first Binding, and all requests."""

    nodes: int
    pods: int
    first_binding: float = 0.0
    bindings: int = 0
    requests: int = 0
    sent: int = 0
    leases: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        labels = {"app": "service", "pod-template-hash": "5d5f7c9b9"}
        self._node = node_sample()
        self._pod = pod_sample(_NODE, labels, "default-scheduler", running=True)
        member = {LABEL_POD_GROUP: "gang"}
        self._member = pod_sample("", member, SCHEDULER_NAME, running=False)

    def page(self, path: str, start: int, count: int) -> bytes:
        """Return a list from `start` on, with its continue token."""
        plural = path.rpartition("/")[2]
        total = {"nodes": self.nodes, "pods": self.pods + WAITING, "podgroups": 1}.get(plural, 0)
        end = min(total, start + count)
        make = {"nodes": self._a_node, "pods": self._a_pod, "podgroups": self._a_group}
        items = b",".join([make[plural](index) for index in range(start, end)]) if total else b""
        more = f',"continue":"{end}"' if end < total else ""
        head = (
            f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{_VERSION}"{more}}}'
        )
        return b"".join((head.encode(), b',"items":[', items, b"]}"))

    def _a_node(self, index: int) -> bytes:
        named = self._node.replace(_SAMPLE.encode(), b"node-%d" % index)
        return named.replace(_RACK.encode(), b"rack-%d" % (index // PER_RACK))

    def _a_pod(self, index: int) -> bytes:
        if index >= self.pods:
            return self._member.replace(_SAMPLE.encode(), b"member-%d" % (index - self.pods))
        named = self._pod.replace(_SAMPLE.encode(), b"service-5d5f7c9b9-%d" % index)
        return named.replace(_NODE.encode(), b"node-%d" % (index % self.nodes))

    def _a_group(self, _index: int) -> bytes:
        spec = {"schedulingPolicy": {"gang": {"minCount": WAITING}}}
        meta = _meta("gang", {}, []) | {"namespace": "default"}
        kind = {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind}
        return _encode(kind | {"metadata": meta, "spec": spec})

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes
    ) -> Json | bytes:
        """Return the body of a 200 or 201; a dict with `code` has another status."""
        self.requests += 1
        if path.endswith("/binding"):
            self.bindings += 1
            self.first_binding = self.first_binding or time.monotonic()
            return {"kind": "Status", "status": "Success"}
        if "/leases" in path:
            return self._lease(method, path, body)
        if method == "GET":
            start = int(query.get("continue", ["0"])[0])
            return self.page(path, start, int(query.get("limit", ["1000000"])[0]))
        if method == "POST":
            return cast("Json", json.loads(body))
        return {"kind": "Status", "metadata": {"resourceVersion": _VERSION}}

    def _lease(self, method: str, path: str, body: bytes) -> Json:
        if method == "GET":
            return self.leases.get(path) or {"kind": "Status", "reason": "NotFound", "code": 404}
        lease: Json = json.loads(body)
        lease["metadata"]["resourceVersion"] = str(self.requests)
        name = lease["metadata"]["name"]
        self.leases[f"{path.partition('/leases')[0]}/leases/{name}"] = lease
        return lease


class _Connection(asyncio.Protocol):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        assert self._transport is not None
        where = urlsplit(self._url.decode())
        query, body = parse_qs(where.query), self._body
        self._url, self._body = b"", b""
        if "watch" in query:
            # A response without an end: a watch on which no event arrives.
            self._transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            return
        method = self._parser.get_method().decode()
        answer = self._cluster.answer(method, where.path, query, body)
        code = answer.get("code", 200) if isinstance(answer, dict) else 200
        data = answer if isinstance(answer, bytes) else _encode(answer)
        head = f"HTTP/1.1 {code} x\r\nContent-Length: {len(data)}\r\n\r\n"
        self._cluster.sent += len(data)
        self._transport.write(head.encode() + data)


async def serve(cluster: Cluster, tls: ssl.SSLContext) -> tuple[asyncio.Server, str]:
    """Return the server and its URL, on a free port of loopback."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(cluster), "127.0.0.1", 0, ssl=tls)
    return server, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
