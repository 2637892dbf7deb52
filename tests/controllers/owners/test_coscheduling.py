"""Groups of KEP-3370 and scheduler-plugins are converted to ours, and mirror their status."""

from typing import Any

import pytest

from api.constants import ANNOTATION_SCHEDULE_TIMEOUT, LABEL_COSCHEDULING, LABEL_SUBSET
from api.names import subset_pod_group
from controllers.cache.objects import COSCHEDULINGS, PLUGINS_POD_GROUPS
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod

Json = dict[str, Any]
KIND = COSCHEDULINGS.full_name
GROUPS = ("PodGroup", "CompositePodGroup", "Workload")


def group(*subsets: tuple[str, int], name: str = "g", kind: str = KIND) -> Json:
    said = [{"minMember": count} | ({"name": sub} if sub else {}) for sub, count in subsets]
    spec: Json = {"subsets": said}
    if kind != KIND:
        spec = {"minMember": subsets[0][1]}
    return {"kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod(name: str, subset: str = "", *, state: str = "", priority: str = "") -> Json:
    builder = make_pod(name).label(LABEL_COSCHEDULING, "g")
    if subset:
        builder = builder.label(LABEL_SUBSET, subset)
    if priority:
        builder = builder.priority_class(priority)
    status: Json = {"phase": "Running"} if state == "Running" else {"phase": "Pending"}
    if state and state != "Running":
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": state}]
    return builder.build() | {"kind": "Pod", "status": status}


def spec(harness: ControllerHarness, kind: str, name: str) -> Json:
    found: Json = harness.api.objects[kind, "default", name]["spec"]
    return found


def says(harness: ControllerHarness, kind: str, name: str, status: str, reason: str) -> None:
    """Set the scheduler's condition of a group."""
    obj = harness.api.objects[kind, "default", name]
    named = {"PodGroup": "PodGroupInitiallyScheduled"}
    condition = {"type": named.get(kind, "CompositePodGroupInitiallyScheduled")}
    condition |= {"status": status, "reason": reason, "message": "m"}
    harness.api.put(obj | {"status": {"conditions": [condition]}})


@pytest.mark.parametrize("kind", [KIND, PLUGINS_POD_GROUPS.full_name])
async def test_one_subset_is_one_group_once_there_is_a_pod(
    harness: ControllerHarness, kind: str
) -> None:
    harness.api.put(group(("", 3), kind=kind))
    await harness.settle()
    assert harness.api.names(*GROUPS) == []
    await harness.clock.advance(60)
    assert sum(len(it.queue) for it in harness.controllers) == 0, "nothing is tried again"

    harness.api.put(pod("p", priority="high"))
    await harness.settle()

    assert harness.api.names(*GROUPS) == ["g"]
    assert spec(harness, "PodGroup", "g") == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "high",
        "disruptionMode": {"single": {}},
    }


@pytest.mark.parametrize(("said", "name"), [("s", subset_pod_group("g", "s")), ("", "g")])
async def test_pods_of_a_single_subset_may_name_it(
    harness: ControllerHarness, said: str, name: str
) -> None:
    harness.api.put(group(("s", 2)))
    harness.api.put(pod("p", said, state="Running"))

    await harness.settle()
    await harness.settle(seconds=2)

    assert harness.api.names(*GROUPS) == [name]
    assert spec(harness, "PodGroup", name)["schedulingPolicy"] == {"gang": {"minCount": 2}}
    (subset,) = harness.api.objects[KIND, "default", "g"]["status"]["subsets"]
    assert (subset["name"], subset["total"], subset["running"]) == ("s", 1, 1)


@pytest.mark.parametrize("kind", [KIND, PLUGINS_POD_GROUPS.full_name])
async def test_pods_of_other_schedulers_get_no_group_and_no_status(
    harness: ControllerHarness, kind: str
) -> None:
    harness.api.put(group(("", 3), kind=kind))
    theirs = pod("p")
    theirs["spec"]["schedulerName"] = "default-scheduler"
    harness.api.put(theirs)

    await harness.settle()
    await harness.clock.advance(60)

    assert harness.api.names(*GROUPS) == []
    status = harness.api.objects[kind, "default", "g"].get("status")
    # The kind of scheduler-plugins has its own controller.
    ours = {"total": 0, "scheduledAvailable": 0, "scheduledUnavailable": 0, "running": 0}
    assert status == ({"subsets": [{"name": ""} | ours]} if kind == KIND else None)


async def test_pods_of_a_single_subset_that_differ_have_a_group_each(
    harness: ControllerHarness,
) -> None:
    harness.api.put(group(("s", 2)))
    for name, subset in (("p", "s"), ("q", ""), ("r", "other")):
        harness.api.put(pod(name, subset))
    await harness.settle()

    assert harness.api.names(*GROUPS) == ["g", subset_pod_group("g", "s")]
    for name in ("g", subset_pod_group("g", "s")):
        assert spec(harness, "PodGroup", name)["schedulingPolicy"] == {"gang": {"minCount": 2}}


async def test_several_subsets_are_a_gang_of_gangs(harness: ControllerHarness) -> None:
    harness.api.put(group(("ps", 2), ("worker", 4)))
    harness.api.put(pod("p", "ps"))

    await harness.settle()

    assert harness.api.writes[:4] == [
        ("create", "Workload", "w-pg-g"),
        ("create", "CompositePodGroup", "g"),
        ("create", "PodGroup", subset_pod_group("g", "ps")),
        ("create", "PodGroup", subset_pod_group("g", "worker")),
    ]
    root = spec(harness, "CompositePodGroup", "g")
    assert root["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    worker = spec(harness, "PodGroup", subset_pod_group("g", "worker"))
    assert worker["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert worker["parentCompositePodGroupName"] == "g"


async def test_a_changed_min_member_moves_the_minimums(harness: ControllerHarness) -> None:
    theirs = harness.api.put(group(("ps", 2), ("worker", 4)))
    harness.api.put(pod("p", "ps"))
    await harness.settle()

    harness.api.put(theirs | {"spec": group(("ps", 2), ("worker", 3))["spec"]})
    await harness.settle()

    worker = spec(harness, "PodGroup", subset_pod_group("g", "worker"))
    assert worker["schedulingPolicy"] == {"gang": {"minCount": 3}}
    templates = spec(harness, "Workload", "w-pg-g")["compositePodGroupTemplates"][0]
    leaves = templates["podGroupTemplates"]
    assert leaves[1]["schedulingPolicy"] == {"gang": {"minCount": 3}}


@pytest.mark.parametrize("subsets", [[("", 3)], [("ps", 2), ("worker", 4)]])
async def test_the_root_says_how_long_its_bindings_may_take(
    harness: ControllerHarness, subsets: list[tuple[str, int]]
) -> None:
    kind = "PodGroup" if len(subsets) == 1 else "CompositePodGroup"

    def said() -> str:
        notes: Json = harness.api.objects[kind, "default", "g"]["metadata"]["annotations"]
        return str(notes.get(ANNOTATION_SCHEDULE_TIMEOUT, ""))

    theirs = group(*subsets)
    theirs["spec"]["scheduleTimeoutSeconds"] = 60
    theirs = harness.api.put(theirs)
    harness.api.put(pod("p", subsets[0][0]))
    await harness.settle()
    assert said() == "60s"

    theirs["spec"]["scheduleTimeoutSeconds"] = 90
    harness.api.put(theirs)
    await harness.settle()
    assert said() == "90s"

    del theirs["spec"]["scheduleTimeoutSeconds"]
    harness.api.put(theirs)
    await harness.settle()
    assert said() == ""


async def test_the_status_counts_and_names_the_reason(harness: ControllerHarness) -> None:
    harness.api.put(group(("ps", 1), ("worker", 2)))
    harness.api.put(pod("p", "ps", state="CoschedulingNotMeetMinMember"))
    harness.api.put(pod("w0", "worker", state="Unschedulable"))
    harness.api.put(pod("w1", "worker", state="Running"))
    harness.api.put(pod("w2", "worker") | {"status": {"phase": "Failed"}})
    await harness.settle()
    says(harness, "CompositePodGroup", "g", "False", "Unschedulable")
    await harness.settle(seconds=2)

    status = harness.api.objects[KIND, "default", "g"]["status"]
    (condition,) = status["conditions"]
    assert condition["type"] == "PodGroupScheduled"
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert status["subsets"] == [
        {"name": "ps", "total": 1}
        | {"scheduledAvailable": 1, "scheduledUnavailable": 0, "running": 0},
        {"name": "worker", "total": 2}
        | {"scheduledAvailable": 0, "scheduledUnavailable": 1, "running": 1},
    ]


async def test_the_status_is_written_once_for_a_burst_and_not_again(
    harness: ControllerHarness,
) -> None:
    harness.api.put(group(("", 3)))
    for index in range(20):
        harness.api.put(pod(f"p{index}"))
    await harness.settle()
    await harness.settle(seconds=2)
    harness.api.sent.clear()

    for index in range(20):
        harness.api.put(pod(f"p{index}", state="Running"))
    assert len(harness.coscheduling.controller.queue) == 0, "all of it a little later"
    says(harness, "PodGroup", "g", "True", "Scheduled")
    await harness.settle(seconds=2)
    await harness.coscheduling.resync()
    await harness.settle(seconds=60)

    assert harness.api.writes == [("patch", KIND, "g")]
    assert harness.api.objects[KIND, "default", "g"]["status"]["subsets"][0]["running"] == 20


async def test_scheduler_plugins_status_has_its_own_words(harness: ControllerHarness) -> None:
    kind = PLUGINS_POD_GROUPS.full_name
    harness.api.put(group(("", 1), kind=kind))
    harness.api.put(pod("p", state="Unschedulable"))
    await harness.settle()
    assert harness.api.objects[kind, "default", "g"]["status"] == {"phase": "Pending", "running": 0}

    harness.api.put(pod("p", state="Running"))
    says(harness, "PodGroup", "g", "True", "Scheduled")
    await harness.settle(seconds=2)

    assert harness.api.objects[kind, "default", "g"]["status"] == {"phase": "Running", "running": 1}


async def test_what_others_wrote_into_the_status_meanwhile_stays(
    harness: ControllerHarness,
) -> None:
    kind = PLUGINS_POD_GROUPS.full_name
    harness.api.put(group(("", 1), kind=kind))
    harness.api.put(pod("p"))
    await harness.settle()
    obj = harness.api.objects[kind, "default", "g"]
    theirs = {"status": obj["status"] | {"occupiedBy": "somebody"}}
    harness.api.put_unseen(obj | theirs)

    harness.api.put(pod("p", state="Running"))
    says(harness, "PodGroup", "g", "True", "Scheduled")
    await harness.settle(seconds=2)

    assert harness.api.objects[kind, "default", "g"]["status"]["occupiedBy"] == "somebody"


async def test_deleting_it_leaves_nothing(harness: ControllerHarness) -> None:
    harness.api.put(group(("ps", 2), ("worker", 4)))
    harness.api.put(pod("p", "ps"))
    await harness.settle()

    harness.api.remove(KIND, "default", "g")
    harness.api.remove("Pod", "default", "p")
    await harness.settle()

    assert harness.api.objects == {}
