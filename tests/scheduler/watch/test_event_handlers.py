"""Event handlers: events in whatever order a watch may deliver them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.core.model import GroupKey
from scheduler.core.state import State
from scheduler.watch.event_handlers import GroupHandler, NodeHandler, PendingPod, PodHandler
from scheduler.watch.objects import (
    Container,
    GroupObject,
    Metadata,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)


class Feed:
    """Three event handlers over one state; counts how often they said that something changed."""

    def __init__(self) -> None:
        self.state = State()
        self.changes = 0
        self.observed: dict[GroupKey, GroupObject] = {}
        self.nodes = NodeHandler(self.state, self.changed)
        self.pods = PodHandler(self.state, self.changed)
        self.groups = GroupHandler("PodGroup", self.state, self.changed, self.observed)

    def changed(self) -> None:
        self.changes += 1


def node(cpu: str = "4") -> Node:
    return Node(Metadata(name="n"), status=NodeStatus(allocatable={"cpu": cpu, "pods": "9"}))


def pod(uid: str = "u", cpu: str = "1", **fields: Any) -> Pod:
    container = Container(resources=ResourceRequirements(requests={"cpu": cpu}))
    spec = PodSpec(scheduler_name="muster-scheduler", containers=[container], **fields)
    meta = Metadata(name="p", namespace="ns", uid=uid, resource_version="7")
    return Pod(meta, spec, PodStatus(phase="Pending"))


def test_a_waiting_pod_leaves_what_its_status_patch_needs() -> None:
    feed = Feed()
    feed.pods.upsert(pod())
    waiting = dict(feed.pods.pending)
    feed.pods.upsert(pod(node_name="n"))

    assert waiting == {"u": PendingPod("7", ())}
    assert feed.pods.pending == {}


def test_a_pod_that_is_bound_keeps_what_it_asks_for() -> None:
    feed = Feed()
    waiting, bound = pod(), pod(node_name="n")
    for event in (waiting, bound):
        event.metadata.generation = 1
    feed.pods.upsert(waiting)
    asked = feed.state.pods["u"].info.requirements

    feed.pods.upsert(bound)

    assert feed.state.pods["u"].info.node == "n"
    assert feed.state.pods["u"].info.requirements is asked


def test_a_namesake_replaces_the_pod_whose_deletion_was_missed() -> None:
    feed = Feed()
    feed.pods.upsert(pod("old"))
    feed.pods.upsert(pod("new"))
    feed.pods.delete(("ns", "p"))

    assert feed.state.pods == {}
    assert feed.pods.pending == {}


def test_a_deletion_of_the_unknown_is_nothing() -> None:
    feed = Feed()
    feed.pods.delete(("ns", "p"))
    feed.nodes.delete(("", "n"))

    assert feed.state.pods == {}


@pytest.mark.parametrize("cpu", ["lots", "1 000"])
def test_amounts_that_cannot_be_read_leave_the_object_out(cpu: str) -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    feed.nodes.upsert(node(cpu))
    feed.pods.upsert(pod(cpu=cpu))

    assert feed.state.nodes.row_of == {}
    assert feed.state.pods == {}


def test_groups_keep_the_object_for_their_status() -> None:
    feed = Feed()
    obj = GroupObject(Metadata(name="g", namespace="ns"))
    feed.groups.upsert(obj)
    seen = feed.observed["PodGroup", "ns", "g"]
    feed.groups.delete(("ns", "g"))

    assert seen is obj
    assert feed.observed == {}
    assert feed.state.forest.groups == {}
    assert feed.changes == 2
