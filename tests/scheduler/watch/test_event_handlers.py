"""Event handlers: events in any order in which a watch may deliver them."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from kube.client.meta import ObjectMeta, OwnerReference, Partial, RawObject
from kube.client.quantity import QuantityError
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.decoding.objects import (
    Container,
    Gang,
    GroupObject,
    GroupObjectSpec,
    Metadata,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Policy,
    ResourceRequirements,
    SchedulingGroup,
)
from scheduler.decoding.volume_objects import CsiStorageCapacity, decode_storage_capacity
from scheduler.watch.event_handlers import (
    DaemonSetHandler,
    GroupHandler,
    PendingPod,
    PodHandler,
    PriorityClassHandler,
)
from scheduler.watch.object_handlers import node_handler, storage_capacity_handler


def test_a_capacity_that_is_no_more_one_is_forgotten() -> None:
    state, changes = State(), list[int]()
    handler = storage_capacity_handler(state, lambda: changes.append(1))
    known = state.volumes.capacities.known
    key = ("ns", "c")

    def told(**fields: object) -> CsiStorageCapacity:
        made = {"metadata": {"namespace": "ns", "name": "c"}, "storageClassName": "s", **fields}
        return decode_storage_capacity(msgspec.json.encode(made))

    handler.upsert(told(capacity="1Gi", nodeTopology={}))
    assert known[key].largest == 1 << 30
    handler.upsert(told(capacity="1Gi"))
    assert not known, "without a topology it is for no node"
    handler.upsert(told(capacity="2Gi", nodeTopology={}))
    handler.set_aside(key, b"{}")
    assert not known, "what cannot be read promises no space"
    handler.upsert(told(capacity="3Gi", nodeTopology={}))
    handler.delete(key)
    assert not known


class Feed:
    """Three event handlers over one state, and a counter of their change notifications."""

    def __init__(self) -> None:
        self.state = State()
        self.changes = 0
        self.observed: dict[GroupKey, GroupObject] = {}
        self.nodes = node_handler(self.state, self.changed)
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


def raw(obj: Pod) -> bytes:
    return msgspec.json.encode(obj)


def free(feed: Feed) -> int:
    """Return the free millicores of the node."""
    nodes = feed.state.nodes
    return int(nodes.resources.free[nodes.resources.indices["cpu"], nodes.row_of["n"]])


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
def test_a_node_whose_amounts_cannot_be_read_takes_no_pods(cpu: str) -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    with pytest.raises(QuantityError):
        feed.nodes.upsert(node(cpu))
    feed.nodes.set_aside(("", "n"), b"")

    assert feed.state.nodes.row_of == {}


def test_a_pod_whose_amounts_cannot_be_read_is_refused_with_a_reason() -> None:
    feed = Feed()
    feed.pods.upsert(pod())
    with pytest.raises(QuantityError):
        feed.pods.upsert(pod(cpu="lots"))
    feed.pods.set_aside(("ns", "p"), raw(pod(cpu="lots")))

    (waiting,) = feed.state.singles.values()
    assert waiting.info.requirements.unsupported
    assert list(feed.pods.pending) == [waiting.info.uid]
    feed.pods.delete(("ns", "p"))
    assert (feed.state.pods, feed.pods.pending) == ({}, {})


def test_a_gated_pod_that_cannot_be_read_stays_gated() -> None:
    feed = Feed()
    feed.pods.set_aside(("ns", "p"), raw(pod(cpu="lots", scheduling_gates=[msgspec.Raw(b"{}")])))

    (held,) = feed.state.held.values()
    assert held.hold == "gate"


@pytest.mark.parametrize("node_name", ["", "n"])
def test_a_pod_that_cannot_be_read_ends_another_of_its_name(node_name: str) -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    feed.pods.upsert(pod("before", node_name=node_name))
    feed.pods.set_aside(("ns", "p"), raw(pod("after", cpu="lots", node_name=node_name)))

    assert list(feed.state.pods) == ["after"]


def test_nothing_of_a_controller_is_kept_after_its_pods() -> None:
    feed = Feed()
    tracemalloc.start()
    try:
        for number in range(20):
            owner = OwnerReference("batch/v1", "Job", "j", f"{number}-" + "u" * 1_000_000, True)
            owned = pod()
            owned.metadata.owner_references = [owner]
            feed.pods.upsert(owned)
            assert feed.pods.pending["u"].controller is not None
            feed.pods.delete(("ns", "p"))
        del owner, owned
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 5_000_000


def test_a_bound_pod_that_cannot_be_read_holds_what_can_be_read_of_it() -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    unreadable = pod(cpu="3", node_name="n")
    odd = Container(resources=ResourceRequirements(requests={"cpu": "lots", "memory": "1Gi"}))
    unreadable.spec.containers.append(odd)

    feed.pods.set_aside(("ns", "p"), raw(unreadable))

    assert free(feed) == 1000
    feed.pods.delete(("ns", "p"))
    assert free(feed) == 4000


@pytest.mark.parametrize("cpu", ["1e30", "9223372036854775807", "5"])
def test_a_bound_pod_that_cannot_be_read_holds_no_more_than_its_node_has(cpu: str) -> None:
    feed = Feed()
    feed.nodes.upsert(node())

    for uid in ("u", "v"):
        feed.pods.set_aside(("ns", uid), raw(pod(uid, cpu=cpu, node_name="n")))

    assert free(feed) == -4000


def test_a_bound_pod_that_can_no_longer_be_read_stays_as_it_was() -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    feed.groups.upsert(GroupObject(Metadata(name="g", namespace="ns")))
    group = SchedulingGroup(pod_group_name="g")
    feed.pods.upsert(pod(cpu="3", node_name="n", scheduling_group=group))

    feed.pods.set_aside(("ns", "p"), raw(pod(cpu="lots", node_name="n", scheduling_group=group)))

    assert free(feed) == 1000
    assert feed.state.forest.groups["PodGroup", "ns", "g"].running == 1


def test_a_pod_that_ended_holds_nothing() -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    ended = pod(cpu="3", node_name="n")
    ended.status.phase = "Succeeded"

    feed.pods.set_aside(("ns", "p"), raw(ended))

    assert free(feed) == 4000


def test_one_that_is_being_deleted_is_read_as_such() -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    going = pod(cpu="lots", node_name="n")
    going.metadata.deletion_timestamp = "2026-11-22T00:00:00Z"

    feed.pods.set_aside(("ns", "p"), raw(going))

    assert feed.state.pods["u"].info.terminating


def test_the_later_good_form_of_a_held_pod_replaces_what_was_held() -> None:
    feed = Feed()
    feed.nodes.upsert(node())
    feed.pods.set_aside(("ns", "p"), raw(pod(cpu="lots", node_name="n")))
    feed.pods.upsert(pod(cpu="2", node_name="n"))

    assert free(feed) == 2000


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


def test_daemon_sets_come_go_and_are_replaced() -> None:
    feed = Feed()
    handler, daemons = DaemonSetHandler(feed.state), feed.state.units.daemons

    handler.upsert(Partial(ObjectMeta("agent", "ns", "first")))
    handler.upsert(Partial(ObjectMeta("agent", "ns", "second")))
    handler.upsert(Partial(ObjectMeta("agent", "other", "third")))
    handler.delete(("other", "agent"))
    handler.delete(("other", "unknown"))

    assert list(daemons) == [("ns", "second")]


def test_classes_that_never_preempt_are_known_by_name() -> None:
    feed = Feed()
    handler = PriorityClassHandler(feed.state)

    for name, policy in (("a", "Never"), ("b", "Never"), ("c", "PreemptLowerPriority")):
        raw = {"metadata": {"name": name}, "value": 5, "preemptionPolicy": policy}
        handler.upsert(RawObject(ObjectMeta(name), raw))
    handler.delete(("", "b"))

    assert feed.state.modest_classes == {"a"}
    assert [each.name for each in handler.all()] == ["a", "c"]


def group_object(uid: str, *, scheduled: bool = False) -> GroupObject:
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True"}
    policy = Policy(gang=Gang(min_count=1))
    return GroupObject(
        Metadata(name="g", namespace="ns", uid=uid),
        GroupObjectSpec(scheduling_policy=policy),
        {"conditions": [condition]} if scheduled else None,
    )


def test_a_new_process_learns_from_the_status_that_a_group_was_scheduled() -> None:
    feed = Feed()
    said = []
    for event in (group_object("one", scheduled=True), group_object("two")):
        feed.groups.upsert(event)
        said.append(feed.state.forest.groups["PodGroup", "ns", "g"].initially_scheduled)

    assert said == [True, False], "the deletion of the first one was missed"
