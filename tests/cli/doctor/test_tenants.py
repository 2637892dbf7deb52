"""Findings about the objects of tenants: keys, pods, groups, and requested labels."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_TOPOLOGY,
    GROUP,
    LABEL_POD_GROUP,
)
from cli.doctor.findings import About, Limited, Severity
from cli.doctor.groups import LONGEST, Groups, NodeLabels
from cli.doctor.keys import check_keys
from cli.doctor.pods import check_pod
from kube.base.clock import rfc3339
from tests.support.builders import make_pod

Json = dict[str, Any]
NOW = datetime(2026, 6, 1, tzinfo=UTC)
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
TYPO = f"{GROUP}/min-cuont"


def noted(key: str, holder: str = "annotations") -> Json:
    return {"metadata": {"name": "x", "namespace": "ns", holder: {key: "1"}}}


def grouped(key: str, value: str) -> Json:
    """Return a pod that names a group, with an annotation about it."""
    return make_pod("x", "ns").in_group("g").annotation(key, value).build()


@pytest.mark.parametrize(
    ("kind", "obj", "action"),
    [
        pytest.param("Job", noted(ANNOTATION_MIN_COUNT), None, id="it is read"),
        pytest.param("LeaderWorkerSet", noted(ANNOTATION_MIN_COUNT), None, id="read of a set"),
        pytest.param("Job", noted("example.com/min-cuont"), None, id="it is somebody else's"),
        pytest.param("Job", noted(TYPO), f"use {ANNOTATION_MIN_COUNT}", id="a typing error"),
        pytest.param("Job", noted(f"{GROUP}/x"), "remove it", id="like none of ours"),
        pytest.param(
            "Pod", noted(LABEL_POD_GROUP), "use a label with this key", id="a label is wanted"
        ),
        pytest.param(
            "Pod",
            noted(ANNOTATION_GANG_MODE, "labels"),
            "use an annotation with this key",
            id="no label",
        ),
        pytest.param(
            "Pod", noted(f"{GROUP}/pod-grup", "labels"), f"use {LABEL_POD_GROUP}", id="label typo"
        ),
        pytest.param(
            "Pod",
            noted(ANNOTATION_MIN_COUNT),
            "on the object that creates the pods",
            id="not read there",
        ),
        pytest.param(
            "JobSet",
            {"metadata": {}, "spec": {"replicatedJobs": [{"template": noted(TYPO)}]}},
            f"use {ANNOTATION_MIN_COUNT}",
            id="in a replicatedJob",
        ),
        pytest.param(
            "CronJob",
            {"metadata": {}, "spec": {"jobTemplate": noted(TYPO)}},
            f"use {ANNOTATION_MIN_COUNT}",
            id="in a CronJob",
        ),
        pytest.param("StatefulSet", noted(ANNOTATION_GROUP_BY), "template", id="not of pods"),
        pytest.param(
            "Pod",
            grouped(ANNOTATION_MIN_COUNT, "1"),
            None,
            id="what pods say of the group that they name",
        ),
        pytest.param(
            "Pod", grouped(ANNOTATION_TOPOLOGY, "rack"), "min-count", id="only with min-count"
        ),
        pytest.param(
            "Pod",
            grouped(ANNOTATION_GANG_MODE, "Gang"),
            "on the object that creates the pods",
            id="no mode",
        ),
        pytest.param("JobSet", {"spec": {"replicatedJobs": [1, {"template": 2}]}}, None, id="odd"),
    ],
)
def test_keys_that_nothing_reads(kind: str, obj: Json, action: str | None) -> None:
    found = Limited("annotations")

    check_keys(kind, obj, found)

    findings = list(found.findings())
    assert len(findings) == (action is not None)
    assert all(one.severity == WARNING and (action or "") in one.action for one in findings)


def test_one_namespace_leaves_room_for_others() -> None:
    """A typing error in another namespace still appears, and the work is limited."""
    found = Limited("annotations")
    many = {f"{GROUP}/{number}": "" for number in range(20_000)}

    check_keys("Job", {"metadata": {"name": "a", "namespace": "loud", "annotations": many}}, found)
    check_keys("Job", noted(TYPO), found)

    findings = list(found.findings())
    assert [one.about.namespace for one in findings].count("loud") == 5
    assert any(one.about.namespace == "ns" for one in findings)
    assert findings[-1].problem == "19995 more of this kind are not shown"


def pod(age: float = 600, **changed: Any) -> Json:
    made = make_pod("p", "ns").build()
    made["metadata"]["creationTimestamp"] = rfc3339(NOW - timedelta(seconds=age))
    made["metadata"] |= changed.pop("metadata", {})
    made["spec"] |= changed.pop("spec", {})
    return made | changed


LOOKED_AT = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
GROUPED = {"labels": {LABEL_POD_GROUP: "g"}}


@pytest.mark.parametrize(
    ("obj", "want", "text"),
    [
        pytest.param(pod(), ERROR, "has not tried it for 600 s", id="nobody looks at it"),
        pytest.param(pod(30), None, "", id="it is new"),
        pytest.param(pod(status=LOOKED_AT), None, "", id="it waits and is told why"),
        pytest.param(pod(spec={"schedulingGates": [{"name": "g"}]}), None, "", id="it is gated"),
        pytest.param(pod(status={"phase": "Failed"}), None, "", id="it has ended"),
        pytest.param(pod(metadata={"deletionTimestamp": "x"}), None, "", id="it is going"),
        pytest.param(
            pod(metadata=GROUPED, spec={"schedulerName": "default-scheduler"}),
            WARNING,
            "but default-scheduler schedules it, and not as a gang",
            id="a group, and another scheduler",
        ),
        pytest.param(
            pod(spec={"schedulerName": "muster-sheduler"}), WARNING, "is not one of", id="misspelt"
        ),
        pytest.param(pod(spec={"schedulerName": "volcano"}), None, "", id="somebody else's"),
        pytest.param({"metadata": 1, "spec": [], "status": ""}, None, "", id="odd types"),
    ],
)
def test_pods_that_nobody_schedules(obj: Json, want: Severity | None, text: str) -> None:
    found = Limited("unscheduled")

    check_pod(obj, found, NOW)

    assert [one.severity for one in found.found] == ([] if want is None else [want])
    assert all(text in one.problem for one in found.found)


def group(name: str, hours: float, *, key: str = "", preferred: bool = False, **said: Any) -> Json:
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": said.get("reason", "Unschedulable"),
        "message": "needs room",
        "lastTransitionTime": rfc3339(NOW - timedelta(hours=hours)),
    }
    topology = [{"key": key, "preferred": preferred}] if key else []
    blocker = {"summary": "needs room for 2", "impossible": said.get("impossible", False)}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"schedulingConstraints": {"topology": topology}},
        "status": {"conditions": [condition], "blocker": blocker},
    }


def test_the_groups_that_wait_longest_come_first() -> None:
    seen = Groups()
    for number in range(20):
        seen.see("PodGroup", group(f"g{number}", hours=number % 7 + number / 100))

    *named, count = seen.findings(NOW)

    assert [one.about.name for one in named] == ["g13", "g6", "g19", "g12", "g5"]
    assert len(named) == LONGEST
    assert named[0].problem == "it has been waiting for 6.1 hours (Unschedulable): needs room for 2"
    assert count.problem == "20 groups are waiting in total"
    assert {one.severity for one in named} == {INFO}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param({"reason": "Invalid"}, "needs room", id="invalid"),
        pytest.param({"reason": "SchedulerError"}, "needs room", id="it cannot be bound"),
        pytest.param(
            {"impossible": True}, "it cannot start on the nodes of this cluster", id="impossible"
        ),
    ],
)
def test_groups_that_wait_for_a_change_are_warnings(said: Json, text: str) -> None:
    seen = Groups()
    seen.see("PodGroup", group("g", 1, **said))

    (finding,) = seen.findings(NOW)

    assert finding.severity == WARNING
    assert text in finding.problem


def test_groups_of_any_form_end_nothing() -> None:
    seen = Groups()
    for status in (
        "",
        {"conditions": "x"},
        {"conditions": [{"type": "PodGroupInitiallyScheduled"}]},
    ):
        seen.see(
            "PodGroup", {"metadata": None, "spec": {"schedulingConstraints": 1}, "status": status}
        )

    assert list(seen.findings(NOW)) == []


def node(*keys: str) -> Json:
    return {"metadata": {"labels": dict.fromkeys(keys, "a")}}


@pytest.mark.parametrize(
    ("preferred", "nodes", "want", "text"),
    [
        pytest.param(False, [node("rack")], None, "", id="all have it"),
        pytest.param(
            False, [node("rack"), node()], INFO, "1 of 2 nodes do not have", id="some lack it"
        ),
        pytest.param(False, [node()], WARNING, "no node has the label rack", id="none has it"),
        pytest.param(False, [], WARNING, "no node has the label rack", id="there are no nodes"),
        pytest.param(True, [node()], WARNING, "which has no effect", id="it is only preferred"),
    ],
)
def test_labels_that_groups_ask_for(
    preferred: bool, nodes: list[Json], want: Severity | None, text: str
) -> None:
    seen = Groups()
    seen.see("PodGroup", group("g", 1, key="rack", preferred=preferred))
    labels = NodeLabels(seen.asked)
    labels.see(nodes)

    found = list(labels.findings())

    assert [one.severity for one in found] == ([] if want is None else [want])
    assert all(text in one.problem and one.about == About("PodGroup", "g", "ns") for one in found)


@pytest.mark.parametrize(
    ("name", "missed"),
    [
        pytest.param("clique", False, id="the driver's own"),
        pytest.param("gpu.example.com/clique", False, id="qualified"),
        pytest.param("other.example.com/clique", True, id="of another domain"),
    ],
)
def test_what_devices_have_as_an_attribute_is_not_missed_as_a_label(
    name: str, missed: bool
) -> None:
    seen = Groups()
    seen.see("PodGroup", group("g", 1, key="gpu.example.com/clique"))
    labels = NodeLabels(seen.asked)
    labels.see([node()])
    assert labels.may_be_attributes
    device = {"name": "d", "attributes": {name: {"string": "a"}}}
    labels.see_slice({"spec": {"driver": "gpu.example.com", "devices": [device, None]}})
    labels.see_slice({"spec": 1})

    assert bool(list(labels.findings())) == missed


def test_slices_are_read_only_for_keys_that_may_be_attributes_and_that_nodes_lack() -> None:
    for key, of_node, want in (("rack", "x", False), ("a/b", "a/b", False), ("a/b", "x", True)):
        seen = Groups()
        seen.see("PodGroup", group("g", 1, key=key))
        labels = NodeLabels(seen.asked)
        labels.see([node(of_node)])
        assert labels.may_be_attributes == want
