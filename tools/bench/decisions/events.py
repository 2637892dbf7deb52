"""Ingestion: watch lines into the state, arrivals and free capacity into the queue."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.constants import LABEL_POD_GROUP, SCHEDULER_NAME
from kube.informers.watching import Upserted, WatchState
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.state import State
from scheduler.core.values.model import POD_GROUP, GroupSpec, PodInfo
from scheduler.decoding.objects import Pod, decode_node, decode_pod
from scheduler.queue.scheduling_queue import Queue
from scheduler.watch.event_handlers import PodHandler
from scheduler.watch.object_handlers import node_handler
from tools.bench.decisions.clusters import SMALL, cluster, gang
from tools.bench.decisions.replay import node_sample
from tools.bench.report.frame import clock

_GANG = 4
_BYTES = 6_000


def received(gangs: int = 5_000) -> Iterator[float]:
    """Time members of gangs of four that arrive one by one; the fourth makes its gang ready."""
    state = cluster(100)
    queue = Queue(state)
    for number in range(gangs):
        state.set_group(GroupSpec((POD_GROUP, "ns", f"g{number}"), _GANG))
    for member in range(_GANG):
        start = clock()
        for number in range(gangs):
            uid = f"g{number}-{member}"
            state.set_pod(PodInfo(uid, "ns", uid, SMALL, group=f"g{number}"))
            queue.refresh(state.take_changes(), 0.0)
        yield (clock() - start) / gangs
    assert len(queue) == gangs


def woken(gangs: int = 2_000, nodes: int = 5_000, size: int = _GANG) -> Iterator[float]:
    """Time the wakeup of waiting roots after each of four pods that end on a full cluster."""
    state = cluster(nodes, cpu=1)
    running = gang(state, "running", nodes)
    decision = place(state, running, SearchBudget())
    assert isinstance(decision, Placement)
    state.assume(decision.pods, decision.rows)
    queue = Queue(state)
    for number in range(gangs):
        group = gang(state, f"g{number}", size)
        answer = place(state, group, SearchBudget())
        assert isinstance(answer, Refusal)
        queue.refuse(group.key, answer, 0.0)
    state.take_changes()
    for index in range(_GANG):
        state.remove_pod(f"running-{index}")
        start = clock()
        queue.refresh(state.take_changes(), 0.0)
        yield clock() - start
    assert len(queue) == gangs


def decoded(pods: int = 2_000) -> Iterator[float]:
    """Time watch lines of running pods, as they come from a socket, until the state has them."""
    state = cluster(1_000)
    handler = PodHandler(state, lambda: None)
    watch: WatchState[Pod] = WatchState(decode_pod)
    watch.begin_list()
    watch.feed_page(b'{"metadata":{"resourceVersion":"1"}}')
    watch.end_list()
    spent = 0.0
    # A thousand at a time: lines from a socket are in the processor's caches.
    for first in range(0, pods, 1_000):
        lines = [pod_event(index, 1_000) for index in range(first, min(pods, first + 1_000))]
        gc.collect()
        start = clock()
        for line in lines:
            for change in watch.feed(line):
                assert isinstance(change, Upserted)
                handler.upsert(change.obj)
        spent += clock() - start
    yield spent / pods
    assert len(state.pods) == pods


def heartbeats(nodes: int = 2_000) -> Iterator[float]:
    """Time repeated states of nodes of 5 KB, until the state finds no change."""
    state = State()
    handler = node_handler(state, lambda: None)
    sample = node_sample()
    lines = [sample.replace(b"@SAMPLE@", b"n%d" % index) for index in range(nodes)]
    for line in lines:
        handler.upsert(decode_node(line))
    state.take_changes()
    start = clock()
    for line in lines:
        handler.upsert(decode_node(line))
    yield (clock() - start) / nodes
    assert len(state.nodes.row_of) == nodes


def memory(nodes: int = 5_000, pods: int = 20_000) -> float:
    """Return the MiB that a cluster from watch events adds to this process."""
    gc.collect()
    before = resident_mib()
    state = State()
    nodes_handler = node_handler(state, lambda: None)
    pods_handler = PodHandler(state, lambda: None)
    for index in range(nodes):
        nodes_handler.upsert(decode_node(_node(index)))
    for index in range(pods):
        pods_handler.upsert(decode_pod(json.dumps(_pod(index, nodes)).encode()))
    gc.collect()
    assert len(state.pods) == pods
    return round(resident_mib() - before, 1)


def resident_mib() -> float:
    """Return the MiB of memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc does not say how much memory this process has")


def pod_event(index: int, nodes: int) -> bytes:
    """Return a line of a watch, about 6 KB."""
    return json.dumps({"type": "ADDED", "object": _pod(index, nodes)}).encode()


def _pod(index: int, nodes: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "256Mi"}
    container = {
        "name": "main",
        "image": "registry.example/team/train:1.2.3",
        "resources": {"requests": requests, "limits": requests},
        "env": [{"name": f"RANK_{number}", "value": str(number)} for number in range(20)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
    }
    meta: dict[str, Any] = {
        "name": f"g{index // _GANG}-{index}",
        "namespace": "team",
        "uid": f"5f0c2f8e-0000-4000-8000-{index:012}",
        "resourceVersion": str(100 + index),
        "creationTimestamp": "2026-11-01T08:00:00Z",
        "labels": {LABEL_POD_GROUP: f"g{index // _GANG}", "app": "train"},
    }
    condition = {"status": "True", "lastTransitionTime": "2026-11-01T08:00:05Z"}
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "nodeName": f"n{index % nodes}",
            "schedulerName": SCHEDULER_NAME,
            "containers": [container, {**container, "name": "sidecar"}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-11-01T08:00:06Z",
            "conditions": [{"type": kind, **condition} for kind in kinds],
        },
    }
    rest = _BYTES - len(json.dumps(pod))
    fields = {f"f:field-{number:04}": None for number in range(max(0, rest) // 23)}
    meta["managedFields"] = [{"manager": "kubelet", "fieldsV1": fields}]
    return pod


def _node(index: int) -> bytes:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    name = f"n{index}"
    labels = {"kubernetes.io/hostname": name, "rack": f"r{index % 50}", "zone": f"z{index % 3}"}
    meta = {"name": name, "uid": f"node-{index}", "resourceVersion": "1", "labels": labels}
    status = {"capacity": amounts, "allocatable": amounts}
    return json.dumps({"metadata": meta, "spec": {}, "status": status}).encode()
