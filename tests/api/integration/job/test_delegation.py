"""Admission of Jobs delegated to a template, and name collisions."""

from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATIONS_PARENT_COMPOSITE,
    LABEL_POD_GROUP,
)
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission
from api.integration.jobset.admission import jobset_admission, jobset_groups
from api.names import JOINED, UNIQUE, hashed, jobset_composite, jobset_pod_group
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]
FIRST, SECOND = ANNOTATIONS_PARENT_COMPOSITE


def delegated(scheduler: str = "muster-scheduler", **notes: str) -> Json:
    job = make_job("t").pods(4).scheduler(scheduler).build()
    job["metadata"]["annotations"] = {ANNOTATION_GROUP_TEMPLATE: "workers"} | notes
    return job


def admitted(job: Json, **kwargs: Any) -> Json:
    patch = job_admission(job, Review("CREATE", **kwargs)).patch
    made: Json = jsonpatch.apply_patch(job, patch)
    return made


def group_of(job: Json) -> tuple[str, str]:
    """Return the group according to the annotation and to the label."""
    labels = job["spec"]["template"].get("metadata", {}).get("labels", {})
    return job["metadata"]["annotations"].get(ANNOTATION_MANAGED_GROUP, ""), labels.get(
        LABEL_POD_GROUP, ""
    )


def test_a_delegated_job_s_group_is_named() -> None:
    assert group_of(admitted(delegated())) == ("pg-job-t", "pg-job-t")


def test_another_scheduler_s_job_is_left_to_it() -> None:
    assert job_admission(delegated("default-scheduler"), Review("CREATE")).patch == []


def test_gang_mode_beside_a_template_is_refused() -> None:
    job = delegated(**{"scheduling.muster.dev/gang-mode": "Gang"})

    (cause,) = job_admission(job, Review("CREATE")).causes

    assert cause.reason == "FieldValueForbidden"
    assert ANNOTATION_GROUP_TEMPLATE in cause.message


@pytest.mark.parametrize(
    ("first", "second", "fine"),
    [("x", "x", True), ("x", "", True), ("", "x", True), ("x", "y", False)],
)
def test_both_spellings_of_the_parent_agree(first: str, second: str, fine: bool) -> None:
    said = {key: value for key, value in ((FIRST, first), (SECOND, second)) if value}

    causes = job_admission(delegated(**said), Review("CREATE")).causes

    assert [cause.field for cause in causes] == (
        [] if fine else [f"metadata.annotations[{SECOND}]"]
    )


def test_a_delegation_may_not_change() -> None:
    before = admitted(delegated())
    after = admitted(delegated())
    after["metadata"]["annotations"][ANNOTATION_GROUP_TEMPLATE] = "others"

    (cause,) = job_admission(after, Review("UPDATE", before)).causes

    assert cause.field == f"metadata.annotations[{ANNOTATION_GROUP_TEMPLATE}]"
    assert job_admission(before, Review("UPDATE", before)).causes == []


def test_a_taken_name_of_a_job_is_avoided() -> None:
    job = make_job("t").asks(gang_mode="Gang").build()

    made = admitted(job, taken=lambda kind, name: (kind, name) == ("PodGroup", "pg-job-t"))

    assert set(group_of(made)) == {hashed("pg-job-t", "PodGroup", "default")}


def marks(jobset: Json) -> list[str]:
    return [
        job["template"].get("metadata", {}).get("annotations", {}).get(ANNOTATION_GROUP_SCOPE, "")
        for job in jobset["spec"]["replicatedJobs"]
    ]


@pytest.mark.parametrize("kind", ["PodGroup", "CompositePodGroup"])
def test_a_taken_name_of_a_tree_hashes_all_its_names(kind: str) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2).build()
    taken = {"PodGroup": "pg-a-b-1", "CompositePodGroup": "cpg-a"}[kind]

    patch = jobset_admission(jobset, Review("CREATE", taken=lambda *it: it == (kind, taken))).patch
    made = jsonpatch.apply_patch(jobset, patch)

    assert marks(made) == ["Job/Unique"]
    groups = [obj for obj in jobset_groups(made) if obj["kind"] != "Workload"]
    assert [obj["metadata"]["name"] for obj in groups] == [
        jobset_composite("default", "a", form=UNIQUE),
        jobset_composite("default", "a", "b", UNIQUE),
        jobset_pod_group("default", "a", "b", 0, UNIQUE),
        jobset_pod_group("default", "a", "b", 1, UNIQUE),
    ]
    assert groups[-1]["spec"]["parentCompositePodGroupName"] == groups[1]["metadata"]["name"]


@pytest.mark.parametrize(
    ("scope", "group"),
    [
        ("Job/Unique", jobset_pod_group("default", "a", "b", 1, UNIQUE)),
        ("ReplicatedJob/Joined", jobset_pod_group("default", "a", "b", form=JOINED)),
        pytest.param("Job/Hashed", hashed("pg-a-b-1", "PodGroup", "default"), id="of version 0.2"),
        pytest.param("ReplicatedJob", "pg-a-b", id="of version 0.2, and ambiguous"),
    ],
)
def test_a_jobset_s_job_names_the_hashed_group_too(scope: str, group: str) -> None:
    job = make_job("j").of_jobset("a", "b", 1, scope).build()

    assert set(group_of(admitted(job))) == {group}


def test_an_update_keeps_hashed_names_whatever_is_taken_then() -> None:
    jobset = make_jobset("a").asks(gang_mode="Gang").replicated_job("b", 1, job_template()).build()
    patch = jobset_admission(jobset, Review("CREATE", taken=lambda *_: True)).patch
    before = jsonpatch.apply_patch(jobset, patch)

    again = jsonpatch.apply_patch(jobset, jobset_admission(jobset, Review("UPDATE", before)).patch)

    assert marks(before) == marks(again) == ["JobSet/Unique"]
