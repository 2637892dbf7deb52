"""A Job's admission and objects: marks, generateName, JobSets' Jobs, elastic minimums."""

from typing import Any

import jsonpatch
import pytest

from api.constants import ANNOTATION_MANAGED_GROUP, GROUP, LABEL_POD_GROUP, SCHEDULER_NAME
from api.integration.admission import Admission
from api.integration.job import job_admission, job_groups
from tests.support.owners import JobBuilder, make_job

Json = dict[str, Any]
FORBIDDEN, INVALID = "FieldValueForbidden", "FieldValueInvalid"


def note(word: str) -> str:
    return f"metadata.annotations[{GROUP}/{word}]"


def admitted(job: Json, old: Json | None = None) -> Json:
    operation = "CREATE" if old is None else "UPDATE"
    admission = job_admission(job, old, operation, request_uid="r", namespace="default")
    patched: Json = jsonpatch.apply_patch(job, admission.patch)
    return patched


def marks(job: Json) -> tuple[Any, Any, Any]:
    """(annotation, label, scheduler)."""
    template = job["spec"]["template"]
    return (
        job["metadata"].get("annotations", {}).get(ANNOTATION_MANAGED_GROUP),
        template.get("metadata", {}).get("labels", {}).get(LABEL_POD_GROUP),
        template["spec"].get("schedulerName"),
    )


def marked(name: str) -> tuple[str, str, str]:
    return name, name, SCHEDULER_NAME


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job("a").asks(gang_mode="Gang"), marked("pg-job-a"), id="a gang"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang").scheduler("default-scheduler"),
            marked("pg-job-a"),
            id="a gang with the scheduler that the API server fills in",
        ),
        pytest.param(make_job("a"), (None, None, None), id="a Job that asks for nothing"),
        pytest.param(make_job("a").asks(gang_mode="Off"), (None, None, None), id="Off"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang").in_group("mine"),
            (None, "mine", None),
            id="a Job whose pods name a group already",
        ),
        pytest.param(
            make_job("b").asks(gang_mode="Gang").managed("pg-job-a"),
            marked("pg-job-b"),
            id="a copy of another Job gets a group of its own",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "JobSet"), marked("pg-s"), id="of a JobSet's gang"
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "ReplicatedJob").asks(gang_mode="Gang"),
            marked("pg-s-r"),
            id="of a replicatedJob's gang",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1, "Job").asks(gang_mode="ReplicatedGang"),
            marked("pg-s-r-1"),
            id="of a gang for each Job",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "", 1, "ReplicatedJob"),
            (None, None, None),
            id="of a JobSet, with labels that name no group",
        ),
        pytest.param(
            make_job("a").of_jobset("s", "r", 1).asks(gang_mode="Gang"),
            (None, None, None),
            id="of a JobSet that was never marked",
        ),
    ],
)
def test_marks(job: JobBuilder, want: tuple[Any, Any, Any]) -> None:
    assert marks(admitted(job.build())) == want
    assert job_admission(job.build(), None, "CREATE", namespace="default").causes == []


def test_a_job_without_a_name_is_named_by_its_request() -> None:
    job = make_job(generate_name="train-").asks(gang_mode="Gang").build()

    created = admitted(job)
    created["metadata"]["name"] = "train-x7k2p"

    assert marks(created) == marked("pg-job-train-454349e422")
    assert job_admission(created, None, "CREATE", request_uid="another").patch == []
    assert [obj["metadata"]["name"] for obj in job_groups(created)] == [
        "w-job-train-x7k2p",
        "pg-job-train-454349e422",
    ]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(
            make_job().asks(gang_mode="ReplicatedGang"),
            [(note("gang-mode"), "FieldValueNotSupported")],
            id="a replicatedJob's mode",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="0"),
            [(note("min-count"), INVALID)],
            id="zero",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="5").pods(4),
            [(note("min-count"), INVALID)],
            id="a minimum above the pods",
        ),
        pytest.param(
            make_job().asks(gang_mode="Basic", min_count="1").pods(4),
            [(note("min-count"), FORBIDDEN)],
            id="a minimum of a Basic group",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").scheduler("other"),
            [("spec.template.spec.schedulerName", INVALID)],
            id="a third scheduler",
        ),
    ],
)
def test_creation_refused(job: JobBuilder, want: list[tuple[str, str]]) -> None:
    causes = job_admission(job.build(), None, "CREATE").causes

    assert [(cause.field, cause.reason) for cause in causes] == want


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(make_job().asks(gang_mode="Gang").pods(4), [], id="nothing"),
        pytest.param(make_job().asks(gang_mode="Gang").pods(8), [], id="parallelism"),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="2").pods(4), [], id="the minimum"
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="5").pods(4),
            [(note("min-count"), INVALID)],
            id="a minimum above the pods",
        ),
        pytest.param(
            make_job().asks(gang_mode="Basic").pods(4),
            [(note("gang-mode"), INVALID)],
            id="the mode",
        ),
        pytest.param(make_job().pods(4), [(note("gang-mode"), INVALID)], id="the mode unset"),
        pytest.param(
            make_job().asks(gang_mode="Gang", topology="a").pods(4),
            [(note("topology"), INVALID)],
            id="a topology set later",
        ),
    ],
)
def test_update(new: JobBuilder, want: list[tuple[str, str]]) -> None:
    stored = admitted(make_job().asks(gang_mode="Gang").pods(4).build())

    admission = job_admission(new.build(), stored, "UPDATE")

    assert [(cause.field, cause.reason) for cause in admission.causes] == want


def test_a_deletion_is_not_changed() -> None:
    stored = admitted(make_job().asks(gang_mode="Gang").build())

    assert job_admission(stored, stored, "DELETE") == Admission()


def test_a_gang_mode_beside_a_group_of_the_user_s_is_worth_a_warning() -> None:
    job = make_job().asks(gang_mode="Gang").in_group("mine").build()

    (warning,) = job_admission(job, None, "CREATE").warnings

    assert "already names a group" in warning


def test_applying_the_unchanged_manifest_changes_nothing() -> None:
    manifest = make_job().asks(gang_mode="Gang").build()
    stored = admitted(manifest)

    assert admitted(manifest, stored) == stored


@pytest.mark.parametrize(
    ("job", "succeeded", "want"),
    [
        pytest.param(make_job().pods(4), 0, 4, id="parallelism"),
        pytest.param(make_job(), 0, 1, id="parallelism unset"),
        pytest.param(make_job().pods(4, 3), 0, 3, id="fewer completions"),
        pytest.param(make_job().pods(4, 8), 6, 2, id="what is left to complete"),
        pytest.param(make_job().pods(4, 4), 4, 1, id="never below 1"),
        pytest.param(make_job().pods(4).asks(min_count="2"), 0, 2, id="an explicit minimum"),
        pytest.param(
            make_job().pods(4, 4).asks(min_count="4"),
            2,
            2,
            id="an explicit minimum that cannot come",
        ),
    ],
)
def test_minimum(job: JobBuilder, succeeded: int, want: int) -> None:
    _, group = job_groups(
        job.asks(gang_mode="Gang").managed("pg-job-train").build(), succeeded=succeeded
    )

    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": want}}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(make_job().asks(gang_mode="Gang"), id="not marked"),
        pytest.param(
            make_job().asks(gang_mode="Gang").in_group("g"), id="label without annotation"
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", managed_group="g"), id="annotation without label"
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang", managed_group="g").in_group("h"), id="they disagree"
        ),
        pytest.param(
            make_job().of_jobset("s", "r", 0, "Job").asks(gang_mode="Gang").managed("pg-s-r-0"),
            id="its JobSet makes the groups",
        ),
        pytest.param(make_job().managed("g"), id="marks without a mode"),
    ],
)
def test_no_objects(job: JobBuilder) -> None:
    assert job_groups(job.build()) == []


def test_a_basic_job_has_a_group_without_a_minimum() -> None:
    workload, group = job_groups(make_job("a").asks(gang_mode="Basic").managed("pg-job-a").build())

    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"basic": {}}
    assert group["spec"]["schedulingPolicy"] == {"basic": {}}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {"annotations": 3, "labels": []}, "spec": []}, id="wrong types"),
        pytest.param({"spec": {"template": {"metadata": 3, "spec": 4}}}, id="a broken template"),
    ],
)
def test_any_structure_is_accepted(job: Json) -> None:
    assert job_admission(job, job, "UPDATE").patch == []
    assert job_admission(job, None, "CREATE").patch == []
    assert job_groups(job) == []
