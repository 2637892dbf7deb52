"""CronJobs through the complete review: warnings about their Jobs, and no rejections."""

from typing import Any

import pytest

from api.constants import CRON_JOB, GROUP
from api.priority import PriorityClass
from tests.support.owners import JobBuilder, make_job
from tests.webhooks.review_requests import FakeLister, Read, encoded, read, review_of
from webhooks.routing.reviewer import Reviewer

NEVER = PriorityClass("calm", 10, preemption_policy="Never")
NOTES = "spec.jobTemplate.metadata.annotations"
TOO_HIGH = 'Invalid value: "5": must be between 1 and 4, inclusive, the number of its pods'
POD = "spec.jobTemplate.spec.template.spec"


def cron_job(job: JobBuilder, **annotations: str) -> dict[str, Any]:
    """Return a CronJob of such Jobs; its controller chooses their names."""
    built = job.build()
    metadata = {"annotations": built["metadata"].get("annotations", {})}
    own = {f"{GROUP}/{word.replace('_', '-')}": value for word, value in annotations.items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "team", "annotations": own},
        "spec": {
            "schedule": "@daily",
            "jobTemplate": {"metadata": metadata, "spec": built["spec"]},
        },
    }


def ask(new: dict[str, Any], old: dict[str, Any] | None = None) -> Read:
    review = review_of(CRON_JOB, new, old)
    return read(Reviewer(FakeLister([NEVER])).review("validate/cronjobs", encoded(review)), review)


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(make_job().asks(gang_mode="Gang").pods(4), [], id="nothing is wrong"),
        pytest.param(make_job(), [], id="no gang"),
        pytest.param(
            make_job().asks(gang_mode="Gang", min_count="5").pods(4),
            [
                f"{NOTES}[{GROUP}/min-count]: {TOO_HIGH}; admission will reject its Jobs",
            ],
            id="a minimum above the pods",
        ),
        pytest.param(
            make_job().asks(gang_mode="Horde", topology="a b"),
            [f"{NOTES}[{GROUP}/gang-mode]: Unsupported", f"{NOTES}[{GROUP}/topology]: Invalid"],
            id="two faults",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").in_group("Bad_Group"),
            [
                f"spec.jobTemplate.spec.template.metadata.labels[{GROUP}/pod-group]: Invalid",
                f"{NOTES}[{GROUP}/gang-mode]: has no effect",
            ],
            id="a group that there cannot be",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").priority_class("gone"),
            [f"{POD}.priorityClassName: no PriorityClass with name gone was found"],
            id="an unknown class",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").priority_class("calm").preempting(),
            [
                (
                    f"{POD}.preemptionPolicy: Forbidden: the string value of PreemptionPolicy "
                    "(PreemptLowerPriority)"
                )
            ],
            id="against its class",
        ),
        pytest.param(
            make_job().asks(gang_mode="Gang").managed_by("example.com/other"),
            ["spec.jobTemplate.spec.managedBy: example.com/other runs this Job"],
            id="of another controller",
        ),
    ],
)
@pytest.mark.parametrize("update", [False, True])
def test_a_cron_job_is_told_what_its_jobs_would_be_told(
    job: JobBuilder, want: list[str], update: bool
) -> None:
    new = cron_job(job)

    answer = ask(new, cron_job(make_job()) if update else None)

    assert answer.allowed
    assert answer.result == new
    assert len(answer.warnings) == len(want)
    for warning, beginning in zip(answer.warnings, want, strict=True):
        assert warning.startswith(beginning)


def test_a_mode_on_the_cron_job_itself_has_no_effect() -> None:
    [warning] = ask(cron_job(make_job(), gang_mode="Gang")).warnings

    assert warning == (
        f"metadata.annotations[{GROUP}/gang-mode]: has no effect on a CronJob: "
        f"set {NOTES}[{GROUP}/gang-mode]"
    )
    both = cron_job(make_job().asks(gang_mode="Gang"), gang_mode="Gang")
    assert ask(both).warnings == []


@pytest.mark.parametrize(
    "spec", [None, 3, {}, {"jobTemplate": 3}, {"jobTemplate": {"metadata": [], "spec": 4}}]
)
def test_any_structure_is_accepted(spec: Any) -> None:
    new = cron_job(make_job()) | {"spec": spec}

    assert ask(new).allowed
