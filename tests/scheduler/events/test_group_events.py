"""Events are reported in the schedulerName of the pods that they are about."""

from kube.client.meta import OwnerReference
from kube.events.events import EventType, ObjectReference
from scheduler.core.values.model import POD_GROUP, GroupKey
from scheduler.decoding.objects import GroupObject, Metadata
from scheduler.events.group_events import GroupEvents
from tests.scheduler.state_builder import StateBuilder

KEY: GroupKey = (POD_GROUP, "ns", "g")


class Reporters:
    """The reporter of an event on each object."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None:
        self.seen.append((f"{regarding.kind}/{regarding.name}", component))


def test_a_group_its_owner_and_its_pods_are_told_by_one_name() -> None:
    builder, reporters = StateBuilder(), Reporters()
    builder.gang("g", 1)
    info = builder.pod("g", scheduler="team-spread")
    owner = OwnerReference("batch/v1", "Job", "j", "u", controller=True)
    group = GroupObject(Metadata("g", "ns", "uid", owner_references=[owner]))
    events = GroupEvents(reporters, builder.state, {KEY: group})

    events.entity(KEY, "Warning", "FailedScheduling", "no room")
    events.pod(builder.state.pods[info.uid], "Warning", "FailedScheduling", "no room")

    assert reporters.seen == [
        ("PodGroup/g", "team-spread"),
        ("Job/j", "team-spread"),
        (f"Pod/{info.name}", "team-spread"),
    ]


def test_a_group_without_pods_is_told_of_by_the_process() -> None:
    builder, reporters = StateBuilder(), Reporters()
    builder.gang("g", 1)
    group = GroupObject(Metadata("g", "ns", "uid"))

    GroupEvents(reporters, builder.state, {KEY: group}).entity(KEY, "Normal", "Incomplete", "none")

    assert reporters.seen == [("PodGroup/g", "")]
