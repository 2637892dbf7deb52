"""Pods that wait for others to end all fit, whichever node is free first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from bench.e2e import workload_objects, workload_volumes
from bench.e2e.cases import CASES, Case
from bench.e2e.objects import NAMESPACE, OURS, node
from kube.clock import ServerClock
from scheduler.core.explain import Blocker
from scheduler.core.forest import Pod
from scheduler.core.model import GroupKey
from scheduler.core.place import Placement
from scheduler.core.state import State
from scheduler.cycle import Cycle
from scheduler.queue import Queue
from scheduler.watch.event_handlers import NodeHandler, PodHandler
from scheduler.watch.objects import decode_node, decode_pod
from scheduler.watch.volume_handlers import ClaimHandler, CsiNodeHandler, VolumeHandler
from scheduler.watch.volume_objects import decode_claim, decode_csi_node, decode_volume
from tests.support.clock import FakeClock

Json = dict[str, Any]

CASE: Case = replace(CASES["perf-pod-deleted"], nodes=5, size=300)
"""As many pods of each kind as there are blockers, as in the whole case."""


class Scheduler:
    """The scheduler's queue and cycle; what is placed runs at once."""

    def __init__(self) -> None:
        self.state = State(lambda _key: None)
        self.queue = Queue(self.state)
        self.cycle = Cycle(self.state, self.queue, self, self, clock=ServerClock(FakeClock()))
        self.decisions = 0
        self._placed: list[Pod] = []

    def submit(self, placement: Placement) -> None:
        self._placed += placement.pods

    def touched(self, _keys: object) -> None:
        """Nobody is told."""

    def refused(self, _key: GroupKey, _blocker: Blocker) -> None:
        self.decisions += 1

    def placed(self, _key: GroupKey) -> None:
        self.decisions += 1

    def settle(self) -> None:
        for _ in self.cycle.refresh():
            pass
        while self.queue or self._placed:
            for _ in self.cycle.step():
                pass
            for pod in self._placed:
                self.state.set_pod(replace(pod.info, node=pod.node, phase="Running"))
            self._placed.clear()
            for _ in self.cycle.refresh():
                pass

    @property
    def waiting(self) -> list[str]:
        return [pod.info.name for pod in self.state.pods.values() if not pod.node]


def filled() -> Scheduler:
    """Blockers run on all nodes, and all that they block was refused."""
    scheduler = Scheduler()
    nodes = NodeHandler(scheduler.state, lambda: None)
    pods = PodHandler(scheduler.state, lambda: None)
    for index in range(CASE.nodes):
        nodes.upsert(decode_node(_raw(node(CASE, index))))
    _attach(scheduler.state)
    for blocker in workload_objects.blockers(CASE.nodes, NAMESPACE):
        pods.upsert(stored(blocker | {"status": {"phase": "Running"}}))
    for _, lot in OURS.waiting(CASE):
        for pod in lot:
            pods.upsert(stored(pod))
    scheduler.settle()
    return scheduler


def _attach(state: State) -> None:
    """Volumes and claims of all pods, and as many as each node can attach."""
    claims, volumes = ClaimHandler(state, lambda: None), VolumeHandler(state, lambda: None)
    limits = CsiNodeHandler(state, lambda: None)
    assert CASE.workload is not None
    count = workload_volumes.attachable(CASE.workload)
    for index in range(CASE.nodes):
        limits.upsert(decode_csi_node(_raw(workload_volumes.csi_node(f"n{index}", count=count))))
    both = workload_volumes.of_stages(CASE.workload, CASE.nodes, CASE.size, NAMESPACE)
    for volume, claim in both:
        claim["metadata"]["namespace"] = NAMESPACE
        volumes.upsert(decode_volume(_raw(volume)))
        claims.upsert(decode_claim(_raw(claim)))


def _raw(obj: Json) -> bytes:
    return json.dumps(obj).encode()


def stored(pod: Json) -> Any:
    meta = {"namespace": NAMESPACE, "uid": pod["metadata"]["name"], "resourceVersion": "1"}
    pod["metadata"] |= meta | {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return decode_pod(_raw(pod))


@pytest.mark.parametrize("at_once", [1, 7, 50])
def test_all_fit_once_the_blockers_are_gone_however_many_end_at_once(at_once: int) -> None:
    scheduler = filled()
    assert len(scheduler.waiting) == CASE.size
    there = workload_objects.blockers(CASE.nodes, NAMESPACE)
    blockers = [blocker["metadata"]["name"] for blocker in there]
    before = scheduler.decisions

    for first in range(0, len(blockers), at_once):
        for name in blockers[first : first + at_once]:
            scheduler.state.remove_pod(name)
        scheduler.settle()

    assert scheduler.waiting == []
    assert scheduler.decisions - before <= 6 * CASE.size  # not all of them for each end
