"""Events are reported in the schedulerName of the pods that they are about."""

from kube.client.meta import OwnerReference
from scheduler.core.values.model import POD_GROUP, GroupKey
from scheduler.decoding.objects import GroupObject, Metadata
from scheduler.events.group_events import GroupEvents
from tests.scheduler.state_builder import StateBuilder
from tests.support.events import RecordedEvents

KEY: GroupKey = (POD_GROUP, "ns", "g")


def test_a_group_its_owner_and_its_pods_are_told_by_one_name() -> None:
    builder, recorder = StateBuilder(), RecordedEvents()
    builder.gang("g", 1)
    info = builder.pod("g", scheduler="team-spread")
    owner = OwnerReference("batch/v1", "Job", "j", "u", controller=True)
    group = GroupObject(Metadata("g", "ns", "uid", owner_references=[owner]))
    events = GroupEvents(recorder, builder.state, {KEY: group})

    events.entity(KEY, "Warning", "FailedScheduling", "no room")
    events.pod(builder.state.pods[info.uid], "Warning", "FailedScheduling", "no room")

    assert list(zip(recorder.objects, recorder.components, strict=True)) == [
        ("PodGroup/g", "team-spread"),
        ("Job/j", "team-spread"),
        (f"Pod/{info.name}", "team-spread"),
    ]


def test_a_group_without_pods_is_told_of_by_the_process() -> None:
    builder, recorder = StateBuilder(), RecordedEvents()
    builder.gang("g", 1)
    group = GroupObject(Metadata("g", "ns", "uid"))

    GroupEvents(recorder, builder.state, {KEY: group}).entity(KEY, "Normal", "Incomplete", "none")

    assert list(zip(recorder.objects, recorder.components, strict=True)) == [("PodGroup/g", "")]
