"""The modes of KEP-1068: valid combinations, the scope of gangs, and immutability."""

from typing import Any

import jsonpatch
import pytest

from api.constants import ANNOTATION_GROUP_SCOPE
from api.integration.common.owner_kind import Review
from api.integration.jobset.admission import jobset_admission
from api.integration.jobset.view import read_scope
from api.reading import annotations_of
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]
FORBIDDEN, INVALID = "FieldValueForbidden", "FieldValueInvalid"


def faults(jobset: Json, old: Json | None = None) -> list[str]:
    operation = "CREATE" if old is None else "UPDATE"
    return [cause.reason for cause in jobset_admission(jobset, Review(operation, old)).causes]


def scope_of(jobset: Json) -> str | None:
    """Return the scope that the annotation of the one Job template states, None if absent."""
    patch = jobset_admission(jobset, Review("CREATE")).patch
    [job] = jsonpatch.apply_patch(jobset, patch)["spec"]["replicatedJobs"]
    noted = annotations_of(job["template"]).get(ANNOTATION_GROUP_SCOPE)
    return None if noted is None else read_scope(noted).scope


KEP_1068 = {
    # (of the JobSet, of the replicatedJob): the pods that share a group; None: no gang
    ("", ""): None,
    ("", "Off"): None,
    ("", "Gang"): "ReplicatedJob",
    ("", "ReplicatedGang"): "Job",
    ("Off", ""): None,
    ("Off", "Off"): None,
    ("Off", "Gang"): "ReplicatedJob",
    ("Off", "ReplicatedGang"): "Job",
    ("Gang", ""): "JobSet",
    ("Gang", "Off"): None,
    ("Gang", "Gang"): FORBIDDEN,
    ("Gang", "ReplicatedGang"): FORBIDDEN,
}


@pytest.mark.parametrize(("modes", "want"), KEP_1068.items(), ids=str)
@pytest.mark.parametrize("form", ["field", "annotation"])
def test_the_modes_of_kep_1068_and_which_of_them_go_together(
    modes: tuple[str, str], want: str | None, form: str
) -> None:
    """These are its API rules 1 to 4; the modes are immutable, in both directions."""

    def made(outer: str, inner: str) -> Json:
        template = job_template()
        if form == "annotation" and inner:
            template.asks(gang_mode=inner)
        jobset = make_jobset().replicated_job(
            "a", 2, template, mode=inner if form == "field" else ""
        )
        if outer:
            jobset = jobset.field_mode(outer) if form == "field" else jobset.asks(gang_mode=outer)
        return jobset.build()

    jobset = made(*modes)

    assert faults(jobset) == [want] * (want == FORBIDDEN)
    if want == FORBIDDEN:
        return
    assert scope_of(jobset) == want
    for others in KEP_1068:
        changed = sum(mine != other for mine, other in zip(modes, others, strict=True))
        assert faults(made(*others), jobset).count(INVALID) == changed
