"""Gangs of JobSets with exclusive placement, in which a Job's first pod needs a node first."""

from typing import Any

import pytest

from api.constants import LABEL_POD_GROUP
from api.integration.common.owner_kind import Review
from api.integration.jobset.admission import jobset_admission
from api.integration.jobset.exclusive_topology import ANNOTATION_EXCLUSIVE, ANNOTATION_NODE_SELECTOR
from tests.support.owners import JobBuilder, JobSetBuilder, job_template, make_jobset

Json = dict[str, Any]

EXCLUSIVE = {ANNOTATION_EXCLUSIVE: "example.com/pool"}
SELECTOR = {ANNOTATION_NODE_SELECTOR: "true"}

JOBSET = f"metadata.annotations[{ANNOTATION_EXCLUSIVE}]"
TEMPLATE = f"spec.replicatedJobs[0].template.{JOBSET}"
POD = f"spec.replicatedJobs[0].template.spec.template.{JOBSET}"


def pods(count: int, notes: dict[str, str] | None = None) -> JobBuilder:
    return job_template().pods(count).noted(notes or {})


def noted(jobset: JobSetBuilder | Json, at: str, notes: dict[str, str]) -> Json:
    """Return the JobSet with annotations at that level."""
    made = jobset.build() if isinstance(jobset, JobSetBuilder) else jobset
    first = made["spec"]["replicatedJobs"][0]["template"]
    holder = {"JobSet": made, "template": first, "pod": first["spec"]["template"]}[at]
    meta = holder.setdefault("metadata", {})
    meta["annotations"] = meta.get("annotations", {}) | notes
    return made


def rejected(jobset: Json, old: Json | None = None, *, expects: bool = False) -> list[str]:
    """Return the fields of the causes."""
    operation = "CREATE" if old is None else "UPDATE"
    return [
        it.field for it in jobset_admission(jobset, Review(operation, old, expects=expects)).causes
    ]


def gang(mode: str = "Gang", count: int = 2, **words: str) -> JobSetBuilder:
    """Return a JobSet with the mode on its replicatedJob of two Jobs, or on itself."""
    if mode in {"Gang", "Basic", "Composite"}:
        return make_jobset().asks(gang_mode=mode, **words).replicated_job("w", 2, pods(count))
    of_jobs = {"Gangs": "Gang"}.get(mode, mode)
    return make_jobset().replicated_job("w", 2, pods(count).asks(gang_mode=of_jobs, **words))


@pytest.mark.parametrize("expects", [False, True])
@pytest.mark.parametrize("mode", ["Gang", "Composite", "Gangs", "ReplicatedGang"])
@pytest.mark.parametrize(("at", "path"), [("JobSet", JOBSET), ("template", TEMPLATE), ("pod", POD)])
def test_a_gang_of_jobs_with_exclusive_placement_is_rejected(
    mode: str, at: str, path: str, expects: bool
) -> None:
    jobset = noted(gang(mode), at, EXCLUSIVE)

    assert rejected(jobset, expects=expects) == [path]


@pytest.mark.parametrize(
    ("levels", "want"),
    [
        ({"JobSet": EXCLUSIVE | SELECTOR}, []),
        ({"template": EXCLUSIVE | SELECTOR}, []),
        ({"JobSet": EXCLUSIVE, "pod": SELECTOR}, []),
        # JobSet copies the annotation with exclusive-topology, so only from the same level.
        ({"JobSet": EXCLUSIVE, "template": SELECTOR}, [JOBSET]),
        ({"JobSet": SELECTOR, "template": EXCLUSIVE}, [TEMPLATE]),
        ({"JobSet": SELECTOR}, []),
    ],
)
def test_node_selectors_of_labelled_nodes_let_the_gang_start(
    levels: dict[str, dict[str, str]], want: list[str]
) -> None:
    jobset = gang().build()
    for at, notes in levels.items():
        jobset = noted(jobset, at, notes)

    assert rejected(jobset) == want


@pytest.mark.parametrize(
    ("jobset", "want"),
    [
        pytest.param(gang("Basic"), [], id="a Basic group has no minCount"),
        pytest.param(gang("Off"), [], id="no gang"),
        pytest.param(make_jobset().replicated_job("w", 2, pods(4)), [], id="nothing is asked for"),
        pytest.param(gang(count=1), [], id="each Job has its first pod only"),
        pytest.param(gang(min_count="2"), [], id="minCount is the number of first pods"),
        pytest.param(gang(min_count="3"), [JOBSET], id="minCount is more"),
        pytest.param(gang("Gangs", min_count="2"), [], id="of a replicatedJob"),
        pytest.param(gang("ReplicatedGang", min_count="1"), [], id="of a Job"),
        pytest.param(gang("ReplicatedGang", min_count="2"), [JOBSET], id="of a Job, more"),
        pytest.param(
            make_jobset().asks(gang_mode="Gang").replicated_job("w", 0, pods(4)), [], id="no Jobs"
        ),
    ],
)
def test_gangs_that_need_first_pods_only_are_accepted(
    jobset: JobSetBuilder, want: list[str]
) -> None:
    assert rejected(noted(jobset, "JobSet", EXCLUSIVE)) == want


def test_pods_of_other_replicated_jobs_count_whole() -> None:
    builder = make_jobset().asks(gang_mode="Gang", min_count="5")
    jobset = builder.replicated_job("w", 1, pods(4, EXCLUSIVE)).replicated_job("x", 1, pods(4))

    assert rejected(jobset.build()) == []
    assert rejected(jobset.asks(min_count="6").build()) == [TEMPLATE]


def test_an_update_may_not_add_it() -> None:
    plain, exclusive = gang().build(), noted(gang(), "JobSet", EXCLUSIVE)

    assert rejected(exclusive, plain) == [JOBSET]
    assert rejected(exclusive, exclusive) == []
    assert rejected(plain, exclusive) == []


def test_pods_that_name_a_group_of_the_users_get_a_warning() -> None:
    template = pods(2)
    jobset = noted(make_jobset().replicated_job("w", 1, template), "JobSet", EXCLUSIVE)
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod["metadata"] = {"labels": {LABEL_POD_GROUP: "g"}}

    admitted = jobset_admission(jobset, Review("CREATE"))

    assert admitted.causes == []
    assert [it.split(": ")[0] for it in admitted.warnings] == [JOBSET]


def test_the_message_names_the_ways_out() -> None:
    (cause,) = jobset_admission(noted(gang(), "JobSet", EXCLUSIVE), Review("CREATE")).causes

    assert f'{ANNOTATION_NODE_SELECTOR}: "true"' in cause.message
    assert "min-count" in cause.message
    assert "annotation topology" in cause.message
