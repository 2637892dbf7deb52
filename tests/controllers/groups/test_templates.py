"""Groups from templates that are not Muster's own: a user's Workload, a delegated Job."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATIONS_PARENT_COMPOSITE,
    LABEL_MANAGED_BY,
    LABEL_POD_GROUP,
)
from tests.controllers.conftest import ControllerHarness
from tests.controllers.owners.test_owners import EVERYTHING, gang, waiting_for
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]


def leaf(name: str, count: int, **more: Any) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}, **more}


def workload(name: str, kind: str, owner: str, *templates: Json) -> Json:
    group = "batch" if kind == "Job" else "jobset.x-k8s.io"
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}"},
        "spec": {
            "controllerRef": {"apiGroup": group, "kind": kind, "name": owner},
            "podGroupTemplates": list(templates),
        },
    }


def spec(harness: ControllerHarness, name: str, kind: str = "PodGroup") -> Json:
    found: Json = harness.api.objects[kind, "default", name]["spec"]
    return found


async def test_groups_come_from_the_user_s_workload_which_stays_as_it_was(
    harness: ControllerHarness,
) -> None:
    theirs = harness.api.put(workload("mine", "JobSet", "a", leaf("pg-a", 3)))
    harness.submit_jobset(gang().build())

    await harness.settle()

    assert harness.api.writes == [("create", "PodGroup", "pg-a")]
    assert harness.recorded.events == []
    assert spec(harness, "pg-a") == {
        "workloadRef": {"workloadName": "mine", "templateName": "pg-a"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"single": {}},
    }
    assert harness.api.objects["Workload", "default", "mine"] == theirs
    owners = harness.api.objects["PodGroup", "default", "pg-a"]["metadata"]["ownerReferences"]
    assert [it["kind"] for it in owners] == ["JobSet"], "their Workload would keep it"


async def test_a_workload_that_comes_after_muster_s_own_is_reported_once(
    harness: ControllerHarness,
) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.put(workload("late", "JobSet", "a", leaf("pg-a", 3)))
    await harness.settle()
    await harness.jobset.resync()
    await harness.settle()

    assert harness.recorded.events == [("JobSet", "a", "WorkloadIgnored")]
    assert spec(harness, "pg-a")["workloadRef"]["workloadName"] == "w-a"
    assert waiting_for(harness) == "", "nothing waits for it"

    harness.api.remove("Workload", "default", "late")
    await harness.settle()
    harness.api.put(workload("late", "JobSet", "a", leaf("pg-a", 3)))
    await harness.settle()
    assert harness.recorded.events == [("JobSet", "a", "WorkloadIgnored")] * 2


@pytest.mark.parametrize("name", ["b", "pg-b"])
async def test_a_template_is_found_by_its_replicated_job(
    harness: ControllerHarness, name: str
) -> None:
    jobset = make_jobset("a").replicated_job("b", 2, job_template().pods(4), mode="ReplicatedGang")
    constraint = {"topology": [{"key": "rack"}]}
    templates = [leaf("c", 1), leaf(name, 2, schedulingConstraints=constraint)]
    harness.api.put(workload("mine", "JobSet", "a", *templates))
    harness.submit_jobset(jobset.build())

    await harness.settle()

    assert harness.api.names("PodGroup") == ["pg-a-b-0", "pg-a-b-1"]
    assert spec(harness, "pg-a-b-1")["schedulingConstraints"] == constraint
    assert spec(harness, "pg-a-b-1")["workloadRef"]["templateName"] == name

    (job,) = harness.api.objects["JobSet", "default", "a"]["spec"]["replicatedJobs"]
    harness.change("JobSet", "a", replicatedJobs=[job | {"replicas": 1}])
    await harness.settle()
    assert harness.api.names("PodGroup") == ["pg-a-b-0"]


async def test_a_job_takes_its_workload_s_only_template(harness: ControllerHarness) -> None:
    claims = [{"name": "c", "resourceClaimName": "d"}]
    theirs = leaf("whatever", 2, priorityClassName="high", resourceClaims=claims)
    harness.api.put(workload("mine", "Job", "t", theirs))
    harness.submit_job(make_job("t").asks(gang_mode="Gang").pods(4).build())

    await harness.settle()

    assert spec(harness, "pg-job-t")["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert spec(harness, "pg-job-t")["priorityClassName"] == "high"
    assert spec(harness, "pg-job-t")["resourceClaims"] == claims


async def test_a_tree_comes_from_composite_templates(harness: ControllerHarness) -> None:
    inner: Json = {"name": "b", "schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    inner |= {"podGroupTemplates": [leaf("pg-b", 2)]}
    root: Json = {"name": "cpg-a", "schedulingPolicy": {"basic": {}}}
    root |= {"compositePodGroupTemplates": [inner]}
    theirs = workload("mine", "JobSet", "a")
    theirs["spec"] = {
        "controllerRef": theirs["spec"]["controllerRef"],
        "compositePodGroupTemplates": [root],
    }
    harness.api.put(theirs)
    harness.submit_jobset(
        make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2).build()
    )

    await harness.settle()

    assert spec(harness, "cpg-a", "CompositePodGroup")["schedulingPolicy"] == {"basic": {}}
    child = spec(harness, "cpg-a-b-d38fb85d90", "CompositePodGroup")
    assert child["parentCompositePodGroupName"] == "cpg-a"
    assert child["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}
    assert "podGroupTemplates" not in child
    assert spec(harness, "pg-a-b-0")["schedulingPolicy"] == {"gang": {"minCount": 2}}


async def test_a_workload_without_the_template_is_reported_and_corrected(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload("mine", "JobSet", "a", leaf("x", 1), leaf("y", 1)))
    harness.submit_jobset(gang().build())
    await harness.settle()

    assert harness.recorded.events == [("JobSet", "a", "TemplateNotFound")]
    assert waiting_for(harness) == (
        "TemplateNotFound: Workload mine has no template pg-a or a for PodGroup pg-a. Its "
        "templates of that kind: x, y"
    )
    assert harness.api.names("PodGroup") == []

    harness.api.remove("Workload", "default", "mine")
    await harness.settle()
    assert harness.api.names(*EVERYTHING) == ["pg-a", "w-a"]
    assert waiting_for(harness) == ""


async def test_two_workloads_of_one_jobset_hold_its_pods_until_one_goes(
    harness: ControllerHarness,
) -> None:
    for name in ("one", "two"):
        harness.api.put(workload(name, "JobSet", "a", leaf("pg-a", 3)))
    harness.submit_jobset(gang().build())
    await harness.settle()
    await harness.jobset.resync()
    await harness.settle()

    assert harness.recorded.events == [("JobSet", "a", "WorkloadConflict")]
    assert waiting_for(harness) == (
        "WorkloadConflict: Workloads one and two both name this JobSet in spec.controllerRef: its "
        "pods wait until all but one are deleted"
    )
    assert harness.api.names("PodGroup") == []

    harness.api.remove("Workload", "default", "one")
    await harness.settle()
    assert spec(harness, "pg-a")["workloadRef"]["workloadName"] == "two"


async def test_a_workload_that_goes_is_no_longer_the_jobset_s(harness: ControllerHarness) -> None:
    going = workload("going", "JobSet", "a", leaf("pg-a", 1))
    going["metadata"]["finalizers"] = ["theirs/hold"]
    harness.api.put(going)
    harness.api.put(workload("mine", "JobSet", "a", leaf("pg-a", 3)))
    harness.api.remove("Workload", "default", "going")

    harness.submit_jobset(gang().build())
    await harness.settle()

    assert harness.recorded.events == []
    assert spec(harness, "pg-a")["workloadRef"]["workloadName"] == "mine"


async def test_a_workload_that_comes_after_ours_changes_nothing(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.sent.clear()

    harness.api.put(workload("late", "JobSet", "a", leaf("pg-a", 3)))
    await harness.settle()

    assert harness.api.writes == []


async def test_a_workload_for_a_job_of_the_jobset_s_name_is_not_the_jobset_s(
    harness: ControllerHarness,
) -> None:
    harness.api.put(workload("mine", "Job", "a", leaf("pg-a", 3)))
    harness.submit_jobset(gang().build())

    await harness.settle()

    assert harness.api.names("Workload") == ["mine", "w-a"]


def delegated(name: str = "t", **notes: str) -> Json:
    job = make_job(name).pods(4).scheduler("muster-scheduler").build()
    job["metadata"]["annotations"] = {ANNOTATION_GROUP_TEMPLATE: "workers"} | notes
    owner = {"apiVersion": "example.org/v1", "kind": "Trainer", "name": "run", "uid": "uid-of-run"}
    job["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    return job


def trainers_workload(*templates: Json) -> Json:
    made = workload("of-trainer", "JobSet", "run", *templates)
    made["spec"]["controllerRef"] = {
        "apiGroup": "example.org",
        "kind": "Trainer",
        "name": "run",
    }
    return made


@pytest.mark.parametrize("parent", ["", *ANNOTATIONS_PARENT_COMPOSITE])
async def test_a_delegated_job_gets_its_group_from_the_template(
    harness: ControllerHarness, parent: str
) -> None:
    harness.api.put(trainers_workload(leaf("workers", 3)))
    harness.submit_job(delegated(**({parent: "above"} if parent else {})))

    await harness.settle()

    assert harness.api.writes == [("create", "PodGroup", "pg-job-t")]
    assert spec(harness, "pg-job-t") == {
        "workloadRef": {"workloadName": "of-trainer", "templateName": "workers"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"single": {}},
    } | ({"parentCompositePodGroupName": "above"} if parent else {})
    owners = harness.api.objects["PodGroup", "default", "pg-job-t"]["metadata"]["ownerReferences"]
    assert [(it["kind"], it["controller"]) for it in owners] == [("Job", True)]


async def test_a_delegated_job_waits_for_the_workload_of_its_owner(
    harness: ControllerHarness,
) -> None:
    harness.submit_job(delegated())
    await harness.settle()
    assert harness.recorded.events == [("Job", "t", "TemplateNotFound")]
    assert "no Workload names Trainer run" in waiting_for(harness, "Job", "t")

    harness.api.put(trainers_workload(leaf("workers", 3)))
    await harness.settle()

    assert harness.api.names("PodGroup") == ["pg-job-t"]
    assert waiting_for(harness, "Job", "t") == ""


async def test_of_several_workloads_the_first_by_name_counts(harness: ControllerHarness) -> None:
    for name in ("z", "a"):
        made = trainers_workload(leaf("workers", 3))
        made["metadata"] |= {"name": name, "uid": name}
        harness.api.put(made)

    harness.submit_job(delegated())
    await harness.settle()

    assert spec(harness, "pg-job-t")["workloadRef"]["workloadName"] == "a"


async def test_a_delegated_job_whose_pods_name_another_group_gets_none(
    harness: ControllerHarness,
) -> None:
    harness.api.put(trainers_workload(leaf("workers", 3)))
    job = delegated(**{ANNOTATION_MANAGED_GROUP: "pg-job-t"})
    job["spec"]["template"]["metadata"] = {"labels": {LABEL_POD_GROUP: "theirs"}}
    harness.api.put(job | {"kind": "Job"})

    await harness.settle()

    assert harness.api.writes == []


async def test_a_delegated_job_of_no_owner_says_so(harness: ControllerHarness) -> None:
    job = delegated()
    del job["metadata"]["ownerReferences"]
    harness.submit_job(job)

    await harness.settle()

    assert "no owner" in waiting_for(harness, "Job", "t")


async def test_a_delegated_job_says_which_template_is_missing(harness: ControllerHarness) -> None:
    harness.api.put(trainers_workload(leaf("others", 3)))
    harness.submit_job(delegated())

    await harness.settle()

    assert "no PodGroup template workers" in waiting_for(harness, "Job", "t")


async def test_names_taken_at_admission_are_avoided(harness: ControllerHarness) -> None:
    """The webhook saw a foreign pg-a: annotations and controller agree on hashed names."""
    jobset = harness.submit_jobset(gang().build(), taken=lambda _kind, name: name == "pg-a")

    await harness.settle()

    (group,) = harness.api.names("PodGroup")
    assert group.startswith("pg-a-")
    label = harness.api.objects["PodGroup", "default", group]["metadata"]["labels"]
    assert label[LABEL_MANAGED_BY] == "muster"
    assert len(harness.api.names("Workload")) == 1
    assert jobset["metadata"]["name"] == "a"
