"""The scheduler's work on held places, once a second."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from api.constants import LABEL_POD_GROUP, POD_GROUP, SCHEDULER_NAME
from kube.base.clock import ServerClock, SystemClock
from kube.client.meta import Json
from kube.concurrency.freeze import Freeze
from kube.events.events import EventType, ObjectReference, Recorder
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.values.model import GroupKey
from scheduler.decoding.objects import GroupObject, decode_pod, group_of
from scheduler.events.group_events import GroupEvents
from scheduler.expected.pods import ExpectedPods
from scheduler.held_places.held_places import HeldPlaces
from scheduler.queue.scheduling_queue import Queue
from scheduler.queue.shell import Shell
from scheduler.support.activity import Activity
from scheduler.support.config import ExpectedLimits, HoldingLimits
from scheduler.watch.event_handlers import GroupHandler, PodHandler
from tools.bench.decisions.clusters import cluster
from tools.bench.report.frame import clock

_WORKERS = 8
_LOOKS = 60
_CHANGED = 200
"""Rows that change between two passes: as many nodes as get a pod in a busy second."""


class _NoEvents(Recorder):
    def __init__(self) -> None: ...

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None: ...


def looks(nodes: int = 5_000, gangs: int = 1_000) -> Iterator[float]:
    """Time passes over gangs whose driver runs and whose eight workers have held places.

    Nodes change between two passes.
    """
    state = cluster(nodes, cpu=64)
    observed: dict[GroupKey, GroupObject] = {}
    expected = ExpectedPods(state, ExpectedLimits(gangs * (_WORKERS + 1)))
    pods = PodHandler(state, _nothing, expected=expected)
    groups = GroupHandler(POD_GROUP.kind, state, _nothing, observed, pods.on_group_changed)
    held = HeldPlaces(
        Shell(state, Queue(state), ServerClock(SystemClock()), Activity(), Freeze(), _nothing),
        pods,
        expected,
        GroupEvents(_NoEvents(), state, observed),
        config=HoldingLimits(),
        observed=observed,
        evict=_evict,
        store=_store,
    )
    for index in range(gangs):
        groups.upsert(group_of(_group(f"g{index}")))
        pods.upsert(decode_pod(json.dumps(_driver(f"g{index}")).encode()))
    for group in list(state.forest.groups.values()):
        decision = place(state, group, SearchBudget())
        assert isinstance(decision, Placement)
        state.assume(decision.pods, decision.rows)
    for each in range(_LOOKS):
        first = each * _CHANGED % nodes
        state.nodes.touch_rows(np.arange(first, first + _CHANGED) % nodes)
        start = clock()
        held.release_unusable()
        yield clock() - start


def _nothing() -> None:
    """Ignore a change."""


def _evict(root: Group, pods: list[Pod], why: str) -> None:
    raise AssertionError((root, pods, why))


def _store(placement: Placement) -> None:
    raise AssertionError(placement)


def _template() -> Json:
    requests = {"cpu": "1", "memory": "1Gi"}
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}


def _meta(name: str) -> Json:
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}


def _group(name: str) -> Json:
    kinds = [
        {"name": kind, "count": count, "template": _template()}
        for kind, count in (("driver", 1), ("worker", _WORKERS))
    ]
    gang = {"gang": {"minCount": _WORKERS + 1}}
    spec = {"schedulingPolicy": gang, "priority": 0, "expectedPods": kinds}
    return {"metadata": _meta(name), "spec": spec}


def _driver(group: str) -> Json:
    made = _template()
    made["spec"]["schedulerName"] = SCHEDULER_NAME
    labels = {LABEL_POD_GROUP: group}
    return made | {"metadata": _meta(f"{group}-driver") | {"labels": labels}}
