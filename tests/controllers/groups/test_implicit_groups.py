"""Groups that pods name by Workload and template (KEP-4671)."""

from copy import deepcopy
from typing import Any

import pytest

from api.constants import (
    LABEL_REPLICA_KEY,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    finalizer_of,
)
from api.names import implicit_pod_group
from controllers.groups.implicit_groups import IDLE_SECONDS
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod

Json = dict[str, Any]

OWN = implicit_pod_group("jobset", "job-1")
KEYED = implicit_pod_group("jobset", "job-1", "k")
"""The groups of template `job-1` of Workload `jobset`, without and with the replica key `k`."""


def workload(*templates: Json, name: str = "jobset") -> Json:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    return {"kind": "Workload", "metadata": metadata, "spec": {"podGroupTemplates": [*templates]}}


def template(name: str = "job-1", count: int = 100, **more: Any) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}, **more}


def pod(name: str, key: str = "", *, phase: str = "", by: str = "jobset") -> Json:
    builder = make_pod(name).label(LABEL_WORKLOAD, by).label(LABEL_TEMPLATE, "job-1")
    if key:
        builder = builder.label(LABEL_REPLICA_KEY, key)
    made = builder.build() | {"kind": "Pod"}
    return made | ({"status": {"phase": phase}} if phase else {})


def spec(harness: ControllerHarness, name: str) -> Json:
    found: Json = harness.api.objects["PodGroup", "default", name]["spec"]
    return found


@pytest.mark.parametrize(("key", "group"), [("", OWN), ("k", KEYED)])
async def test_the_first_pod_makes_the_group(
    harness: ControllerHarness, key: str, group: str
) -> None:
    constraint = {"topology": [{"key": "rack"}]}
    harness.api.put(workload(template(schedulingConstraints=constraint)))
    harness.api.put(pod("p", key))
    harness.api.put(pod("q", key))

    await harness.settle()

    assert harness.api.writes == [("create", "PodGroup", group)]
    assert spec(harness, group) == {
        "workloadRef": {"workloadName": "jobset", "templateName": "job-1"},
        "schedulingPolicy": {"gang": {"minCount": 100}},
        "schedulingConstraints": constraint,
        "disruptionMode": {"single": {}},
    }
    metadata = harness.api.objects["PodGroup", "default", group]["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Workload", "uid-of-jobset")
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
    assert metadata["finalizers"] == [finalizer_of("PodGroup")]
    assert metadata["labels"].get(LABEL_REPLICA_KEY, "") == key


async def test_pods_wait_for_a_workload_that_comes_later(harness: ControllerHarness) -> None:
    harness.api.put(pod("p", "k"))
    await harness.settle()
    assert harness.api.writes == []

    harness.api.put(workload(template()))
    await harness.settle()

    assert harness.api.names("PodGroup") == [KEYED]


async def test_without_pods_there_is_no_group(harness: ControllerHarness) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k", phase="Succeeded"))

    await harness.settle()

    assert harness.api.writes == []


async def test_a_missing_template_is_reported_once_on_the_workload(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload(template("other")))
    harness.api.put(pod("p", "k"))
    await harness.settle()
    await harness.implicit_groups.resync()
    await harness.settle()

    assert harness.recorded.events == [("Workload", "jobset", "TemplateNotFound")]
    assert harness.api.writes == []

    harness.api.put(workload(template()))
    await harness.settle()
    harness.api.put(workload(template("other")))
    harness.api.forget("PodGroup", "default", KEYED)
    await harness.settle()
    assert harness.recorded.events == [("Workload", "jobset", "TemplateNotFound")] * 2


@pytest.mark.parametrize(
    "templates",
    [
        {"compositePodGroupTemplates": [template("top", podGroupTemplates=[template()])]},
        {"compositePodGroupTemplates": [template(podGroupTemplates=[template("inner")])]},
    ],
    ids=["a template inside a tree", "a composite's template"],
)
async def test_only_templates_of_groups_without_a_parent_count(
    harness: ControllerHarness, templates: Json
) -> None:
    harness.api.put(workload() | {"spec": templates})
    harness.api.put(pod("p", "k"))

    await harness.settle()

    assert harness.recorded.events == [("Workload", "jobset", "TemplateNotFound")]
    assert harness.api.writes == []


async def test_a_workload_that_goes_gets_no_more_groups(harness: ControllerHarness) -> None:
    going = workload(template())
    going["metadata"]["finalizers"] = ["theirs/hold"]
    harness.api.put(going)
    harness.api.remove("Workload", "default", "jobset")

    harness.api.put(pod("p", "k"))
    await harness.settle()

    assert harness.api.writes == []


async def test_a_group_of_a_key_goes_when_no_pod_has_named_it_for_a_while(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()

    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    await harness.settle(seconds=IDLE_SECONDS - 5)
    assert harness.api.names("PodGroup") == [KEYED]
    await harness.settle(seconds=10)

    assert harness.api.names("PodGroup") == []


async def test_a_pod_that_comes_back_in_time_keeps_the_group(harness: ControllerHarness) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS - 5)

    harness.api.put(pod("p2", "k"))
    await harness.settle(seconds=IDLE_SECONDS * 3)
    harness.api.remove("Pod", "default", "p2")
    await harness.settle(seconds=IDLE_SECONDS - 5)

    assert harness.api.names("PodGroup") == [KEYED]


async def test_a_group_without_a_key_stays_as_long_as_its_workload(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p"))
    await harness.settle()

    harness.api.remove("Pod", "default", "p")
    for _ in range(3):
        await harness.settle(seconds=IDLE_SECONDS)
    assert harness.api.names("PodGroup") == [OWN]

    harness.api.remove("Workload", "default", "jobset")
    await harness.settle()
    assert harness.api.objects == {}


async def test_the_group_outlives_its_workload_while_pods_run(harness: ControllerHarness) -> None:
    harness.api.put(workload(template()))
    running = pod("p", "k")
    running["spec"]["nodeName"] = "n"
    harness.api.put(running)
    await harness.settle()

    harness.api.remove("Workload", "default", "jobset")
    await harness.settle()
    assert harness.api.names("PodGroup") == [KEYED]

    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    assert harness.api.objects == {}


async def test_pods_that_wait_get_the_group_of_the_next_workload(
    harness: ControllerHarness,
) -> None:
    """They know only its name; the first one's group would keep its minimum forever."""
    harness.api.put(workload(template(count=4)))
    harness.api.put(pod("p", "k"))
    await harness.settle()

    harness.api.remove("Workload", "default", "jobset")
    again = workload(template(count=1))
    harness.api.put(again | {"metadata": again["metadata"] | {"uid": "uid-of-the-second"}})
    await harness.settle(seconds=10)

    assert spec(harness, KEYED)["schedulingPolicy"] == {"gang": {"minCount": 1}}


async def test_a_minimum_follows_its_template(harness: ControllerHarness) -> None:
    theirs = harness.api.put(workload(template(count=4)))
    harness.api.put(pod("p", "k"))
    await harness.settle()

    harness.api.put(theirs | {"spec": {"podGroupTemplates": [template(count=3)]}})
    await harness.settle()

    assert spec(harness, KEYED)["schedulingPolicy"] == {"gang": {"minCount": 3}}


async def test_a_foreign_group_of_the_name_is_left_alone(harness: ControllerHarness) -> None:
    metadata = {"name": KEYED, "namespace": "default"}
    harness.api.put({"kind": "PodGroup", "metadata": metadata, "spec": {}})
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()
    assert harness.recorded.events == [("Workload", "jobset", "NameTaken")]
    assert harness.api.writes == []

    harness.api.remove("PodGroup", "default", KEYED)
    await harness.settle()

    assert harness.api.writes == [("create", "PodGroup", KEYED)]


async def test_two_wordings_of_one_name_are_two_groups(harness: ControllerHarness) -> None:
    """Workload `a`, template `job-1`, key `x`, and Workload `a-job-1`, template `x`."""
    harness.api.put(workload(template("job-1", 2), name="a"))
    harness.api.put(workload(template("x", 3), name="a-job-1"))
    harness.api.put(pod("p", "x", by="a"))
    second = make_pod("q").label(LABEL_WORKLOAD, "a-job-1").label(LABEL_TEMPLATE, "x")
    harness.api.put(second.build() | {"kind": "Pod"})

    await harness.settle()

    first, other = implicit_pod_group("a", "job-1", "x"), implicit_pod_group("a-job-1", "x")
    assert harness.api.names("PodGroup") == sorted([first, other])
    assert spec(harness, first)["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert spec(harness, other)["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert harness.recorded.events == []


@pytest.mark.parametrize("keyed_first", [True, False])
async def test_a_replica_key_never_has_the_group_of_another_template(
    harness: ControllerHarness, keyed_first: bool
) -> None:
    """Key `1` of template `job`, and template `job-1`, whichever is first."""
    harness.api.put(workload(template("job", 2), template("job-1", 3)))
    keyed = make_pod("keyed").label(LABEL_WORKLOAD, "jobset").label(LABEL_TEMPLATE, "job")
    pods = [keyed.label(LABEL_REPLICA_KEY, "1").build() | {"kind": "Pod"}, pod("own")]
    for made in pods if keyed_first else reversed(pods):
        harness.api.put(made)
        await harness.settle()

    other = implicit_pod_group("jobset", "job", "1")
    assert harness.api.names("PodGroup") == sorted([OWN, other])
    assert spec(harness, OWN)["schedulingPolicy"] == {"gang": {"minCount": 3}}
    assert spec(harness, other)["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert harness.recorded.events == []


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": "t", "controller": True}


@pytest.mark.parametrize("owners", [[], [JOB]])
async def test_an_idle_group_of_somebody_else_stays(
    harness: ControllerHarness, owners: list[Json]
) -> None:
    """It has the name and the template's reference, but the controller did not create it."""
    foreign = waiting(KEYED, schedulingPolicy={"basic": {}})
    foreign["metadata"]["ownerReferences"] = owners
    harness.api.put(foreign)
    harness.api.put(pod("p", "k"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")

    for _ in range(3):
        await harness.settle(seconds=IDLE_SECONDS)

    assert harness.api.names("PodGroup") == [KEYED]


async def test_pods_that_ended_leave_the_group_of_their_key_idle(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()

    harness.api.put(pod("p", "k", phase="Succeeded"))
    for _ in range(2):
        await harness.settle(seconds=IDLE_SECONDS)

    assert harness.api.names("PodGroup") == []


async def idle(harness: ControllerHarness) -> Json:
    """Create a group of a key whose last pod was just deleted."""
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle()
    return deepcopy(harness.api.objects["PodGroup", "default", KEYED])


async def test_an_idle_group_is_deleted_once(harness: ControllerHarness) -> None:
    group = await idle(harness)
    finalizers = [*group["metadata"]["finalizers"], "theirs/hold"]
    harness.api.put(group | {"metadata": group["metadata"] | {"finalizers": finalizers}})
    for _ in range(3):
        await harness.settle(seconds=IDLE_SECONDS)
        await harness.implicit_groups.resync()

    assert harness.api.writes.count(("delete", "PodGroup", KEYED)) == 1


async def test_a_group_that_comes_back_has_its_time_again(harness: ControllerHarness) -> None:
    """A leader that was late recreated it, after this one deleted it."""
    group = await idle(harness)
    await harness.settle(seconds=IDLE_SECONDS)
    assert harness.api.names("PodGroup") == []

    harness.api.put(group)
    await harness.implicit_groups.resync()
    await harness.settle()
    assert harness.api.names("PodGroup") == [KEYED]
    await harness.settle(seconds=IDLE_SECONDS)
    assert harness.api.names("PodGroup") == []


@pytest.mark.parametrize("replaced", [True, False])
async def test_an_idle_group_that_went_meanwhile_is_not_missed(
    harness: ControllerHarness, replaced: bool
) -> None:
    await idle(harness)
    if replaced:
        harness.api.put_unseen(waiting(KEYED))
    else:
        del harness.api.objects["PodGroup", "default", KEYED]

    await harness.settle(seconds=IDLE_SECONDS)

    assert harness.api.names("PodGroup") == ([KEYED] if replaced else [])
    if not replaced:
        await harness.clock.advance(60)
        assert len(harness.implicit_groups.controller.queue) == 0


async def test_what_is_changed_by_hand_is_put_right(harness: ControllerHarness) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()

    harness.change("PodGroup", KEYED, schedulingPolicy={"gang": {"minCount": 1}})
    await harness.settle()
    assert spec(harness, KEYED)["schedulingPolicy"] == {"gang": {"minCount": 100}}

    harness.api.forget("PodGroup", "default", KEYED)
    await harness.settle()
    assert harness.api.names("PodGroup") == [KEYED]


async def test_an_irrelevant_change_queues_nothing(harness: ControllerHarness) -> None:
    """The changes: a running pod, a group's status, a group with a policy."""
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()

    harness.api.put(pod("p", "k", phase="Running"))
    group = harness.api.objects["PodGroup", "default", KEYED]
    harness.api.put(group | {"status": {"members": 1}})

    assert len(harness.implicit_groups.controller.queue) == 0
    assert len(harness.template_values.controller.queue) == 0


async def test_a_workload_does_not_queue_owners_that_are_complete(
    harness: ControllerHarness,
) -> None:
    harness.api.put(pod("p", "k", phase="Succeeded"))
    harness.api.put(waiting(schedulingPolicy={"basic": {}}))
    await harness.settle()

    harness.api.put(workload(template()))

    assert len(harness.implicit_groups.controller.queue) == 0
    assert len(harness.template_values.controller.queue) == 0


async def test_a_new_leader_removes_what_became_idle_before_it(harness: ControllerHarness) -> None:
    harness.api.put(workload(template()))
    harness.api.put(pod("p", "k"))
    await harness.settle()
    harness.fence.revoke()
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS * 2)

    harness.fence.extend(float("inf"))
    await harness.implicit_groups.resync()
    await harness.settle(seconds=IDLE_SECONDS * 2)
    await harness.settle(seconds=IDLE_SECONDS * 2)

    assert harness.api.names("PodGroup") == []


def waiting(name: str = "g", **more: Any) -> Json:
    reference = {"workloadName": "jobset", "templateName": "job-1"}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "PodGroup", "metadata": metadata, "spec": {"workloadRef": reference, **more}}
