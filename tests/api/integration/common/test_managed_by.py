"""Muster ignores Jobs and JobSets that another controller manages, and warns the user."""

from typing import Any

import jsonpatch
import pytest

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    GROUP,
    JOB_CONTROLLER,
    JOBSET_CONTROLLER,
)
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission, job_groups, read_job
from api.integration.job.kinds import Jobs
from api.integration.jobset.admission import jobset_admission, jobset_groups
from api.integration.jobset.kinds import JobSets
from tests.support.owners import JobBuilder, JobSetBuilder, job_template, make_job, make_jobset

Json = dict[str, Any]
OTHER = "kueue.x-k8s.io/multikueue"
MODE = f"metadata.annotations[{GROUP}/gang-mode]"
COUNT = f"metadata.annotations[{GROUP}/min-count]"


def asking_job() -> JobBuilder:
    return make_job("a").pods(2).asks(gang_mode="Gang")


def asking_jobset() -> JobSetBuilder:
    return make_jobset().asks(gang_mode="Gang").replicated_job("w", 2, job_template().pods(2))


def patched(obj: Json, operations: list[Json]) -> Json:
    made: Json = jsonpatch.apply_patch(obj, operations)
    return made


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(asking_job(), id="a gang"),
        pytest.param(asking_job().asks(min_count="9"), id="a fault"),
        pytest.param(asking_job().scheduler("other"), id="a third scheduler"),
        pytest.param(make_job("a").of_jobset("s", "r", 0, "JobSet"), id="of a marked JobSet"),
        pytest.param(asking_job().in_group("mine"), id="a group of the user's"),
        pytest.param(
            make_job("a").scheduler("muster-scheduler").noted({ANNOTATION_GROUP_TEMPLATE: "t"}),
            id="delegated",
        ),
    ],
)
def test_a_job_of_another_controller_is_neither_marked_nor_refused(job: JobBuilder) -> None:
    made = job.managed_by(OTHER).build()

    admission = job_admission(made, Review("CREATE", namespace="default"))

    assert (admission.patch, admission.causes) == ([], [])
    assert not job_groups(made)
    assert not Jobs().pod_specs(made)
    assert read_job(made).delegation is None


def test_who_asks_for_a_gang_of_another_controller_s_job_is_told() -> None:
    asking = asking_job().asks(min_count="9").managed_by(OTHER).build()
    plain = make_job("a").asks(waiting_for="x").managed_by(OTHER).build()

    said, fault = job_admission(asking, Review("CREATE")).warnings

    assert said.startswith(f"spec.managedBy: {OTHER} runs this Job, so Muster creates no group")
    assert fault == (
        f'{COUNT}: Invalid value: "9": must be between 1 and 2, inclusive, the number of its pods'
    )
    assert job_admission(plain, Review("CREATE")).warnings == []


def test_marks_that_such_a_job_brings_along_are_taken_off() -> None:
    """It may be a copy, or another webhook may set managedBy after Muster's."""
    copied = asking_job().managed("pg-job-a").managed_by(OTHER).build()

    made = patched(copied, job_admission(copied, Review("CREATE")).patch)

    assert made["metadata"]["annotations"] == {f"{GROUP}/gang-mode": "Gang"}
    assert made["spec"]["template"]["metadata"]["labels"] == {}


def test_a_job_that_an_earlier_version_marked_keeps_its_marks_and_gets_no_group() -> None:
    old = asking_job().managed("pg-job-a").managed_by(OTHER).build()
    manifest = asking_job().asks(gang_mode="Basic").managed_by(OTHER).build()

    admission = job_admission(manifest, Review("UPDATE", old))

    assert admission.causes == []
    assert patched(manifest, admission.patch)["spec"]["template"]["metadata"]["labels"] == {
        f"{GROUP}/pod-group": "pg-job-a"
    }
    assert job_groups(old) == []


@pytest.mark.parametrize(
    "jobset",
    [
        pytest.param(asking_jobset(), id="a gang"),
        pytest.param(make_jobset().asks(gang_mode="Composite").replicated_job("w"), id="a tree"),
        pytest.param(make_jobset().replicated_job("w", mode="Gang"), id="a replicatedJob's gang"),
        pytest.param(asking_jobset().in_order().replicated_job("v"), id="a fault"),
    ],
)
def test_a_jobset_of_another_controller_is_left_alone(jobset: JobSetBuilder) -> None:
    made = jobset.managed_by(OTHER).build()

    admission = jobset_admission(made, Review("CREATE"))

    assert (admission.patch, admission.causes) == ([], [])
    assert admission.warnings[0].startswith(f"spec.managedBy: {OTHER} runs this JobSet")
    assert not jobset_groups(made)
    assert not JobSets().pod_specs(made)


def test_a_jobset_s_faults_and_a_later_change_are_not_refused_either() -> None:
    wrong = make_jobset().asks(gang_mode="Gang", min_count="9").replicated_job("w")
    changed = make_jobset().asks(gang_mode="Basic").replicated_job("w")
    old, new = wrong.managed_by(OTHER).build(), changed.managed_by(OTHER).build()

    assert len(jobset_admission(old, Review("CREATE")).warnings) == 2
    assert jobset_admission(new, Review("UPDATE", old)).causes == []


def test_a_jobset_that_asks_for_nothing_is_told_nothing() -> None:
    made = make_jobset().asks(waiting_for="x").replicated_job("w").managed_by(OTHER).build()

    assert jobset_admission(made, Review("CREATE")).warnings == []


def test_a_jobset_that_an_earlier_version_marked_keeps_its_marks_and_gets_no_group() -> None:
    """The replicatedJobs are immutable: without the annotation every update would be rejected."""
    marked = asking_jobset().build()
    old = patched(marked, jobset_admission(marked, Review("CREATE")).patch)
    old["spec"]["managedBy"] = OTHER
    manifest = asking_jobset().managed_by(OTHER).build()

    assert patched(manifest, jobset_admission(manifest, Review("UPDATE", old)).patch) == old
    assert jobset_groups(old) == []


def test_a_replicated_job_that_another_controller_runs_has_no_part_in_the_gang() -> None:
    foreign = job_template().pods(2).managed_by(OTHER)
    jobset = asking_jobset().replicated_job("foreign", 1, foreign).build()

    admission = jobset_admission(jobset, Review("CREATE"))
    made = patched(jobset, admission.patch)

    assert admission.causes == []
    [warning] = admission.warnings
    assert warning.startswith(f"spec.replicatedJobs[1].template.spec.managedBy: {OTHER} runs")
    assert "metadata" not in made["spec"]["replicatedJobs"][1]["template"]
    [group] = [obj for obj in jobset_groups(made) if obj["kind"] == "PodGroup"]
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}


@pytest.mark.parametrize("mode", ["Off", ""])
def test_a_replicated_job_of_another_controller_that_is_in_no_group_needs_no_warning(
    mode: str,
) -> None:
    foreign = job_template().managed_by(OTHER)
    jobset = asking_jobset() if mode else make_jobset().asks(waiting_for="x")

    made = jobset.replicated_job("foreign", 1, foreign, mode=mode).build()

    assert jobset_admission(made, Review("CREATE")).warnings == []


def test_the_usual_controllers_by_their_names_are_the_usual_case() -> None:
    job = asking_job().managed_by(JOB_CONTROLLER).build()
    jobset = asking_jobset().managed_by(JOBSET_CONTROLLER).build()

    made = patched(job, job_admission(job, Review("CREATE", namespace="default")).patch)
    marked = patched(jobset, jobset_admission(jobset, Review("CREATE")).patch)

    assert len(job_groups(made)) == len(jobset_groups(marked)) == 2
