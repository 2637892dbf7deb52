"""JobSets and Jobs through the complete review: annotated once, and unchanged afterwards."""

import copy
from typing import Any

import pytest

from api.constants import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    JOBSET,
    JOBSET_LABEL_NAME,
    STATEFUL_SET,
    KindName,
)
from api.integration.common.autoscalers import SILENT, Autoscalers
from api.integration.common.workloads import OwnerName
from api.integration.jobset.admission import jobset_groups
from api.names import JOINED, UNIQUE, hashed, jobset_composite
from api.priority import PriorityClass
from tests.support.apps import deployment, stateful_set
from tests.webhooks.review_requests import FakeLister, Read, encoded, read, review_of
from webhooks.routing.reviewer import Reviewer

MODE = "scheduling.muster.dev/gang-mode"
LABEL = "scheduling.muster.dev/pod-group"
MANAGED = "scheduling.muster.dev/managed-group"


KINDS = {"jobs": JOB, "jobsets": JOBSET, "cronjobs": CRON_JOB}


def ask(route: str, new: dict[str, Any], old: dict[str, Any] | None = None, **request: str) -> Read:
    kind = KINDS[route.partition("/")[2]]
    review = review_of(kind, new, old, **request)
    return read(Reviewer(FakeLister()).review(route, encoded(review)), review)


def job(name: str = "sweep", *, mode: str | None = "Gang", **labels: str) -> dict[str, Any]:
    """Return a Job of four pods that requests a gang."""
    metadata: dict[str, Any] = {"name": name, "namespace": "team", "labels": labels}
    if mode:
        metadata["annotations"] = {MODE: mode}
    containers = [{"name": "main", "image": "x"}]
    spec = {"parallelism": 4, "completions": 4, "template": {"spec": {"containers": containers}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def jobset(name: str = "training", *, mode: str = "Gang") -> dict[str, Any]:
    """Return a JobSet of two replicatedJobs that requests one gang."""
    template = {"spec": job(mode=None)["spec"]}
    names = ("encoder", "decoder")
    replicated = [{"name": n, "replicas": 2, "template": copy.deepcopy(template)} for n in names]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "team", "annotations": {MODE: mode}},
        "spec": {"replicatedJobs": replicated},
    }


def marks_of(jobset: dict[str, Any]) -> set[str]:
    """Return the scope annotations on the Job templates of a JobSet."""
    return {
        entry["template"]["metadata"]["annotations"]["scheduling.muster.dev/group-scope"]
        for entry in jobset["spec"]["replicatedJobs"]
    }


def group_of(answer: Read) -> tuple[str | None, str | None, str | None]:
    """Return (annotation of the Job, label of its pods, their scheduler)."""
    assert answer.result is not None
    template = answer.result["spec"]["template"]
    return (
        answer.result["metadata"].get("annotations", {}).get(MANAGED),
        template.get("metadata", {}).get("labels", {}).get(LABEL),
        template["spec"].get("schedulerName"),
    )


def test_a_job_that_asks_is_given_a_group_and_the_scheduler() -> None:
    answer = ask("mutate/jobs", job())

    assert group_of(answer) == ("pg-job-sweep", "pg-job-sweep", "muster-scheduler")


def test_a_job_of_a_marked_jobset_is_given_the_group_of_the_jobset() -> None:
    marked = ask("mutate/jobsets", jobset()).result
    assert marked is not None
    template = marked["spec"]["replicatedJobs"][0]["template"]
    made = job("training-encoder-0", mode=None)
    made["metadata"] |= {
        "annotations": template["metadata"]["annotations"],
        "labels": {
            "jobset.sigs.k8s.io/jobset-name": "training",
            "jobset.sigs.k8s.io/replicatedjob-name": "encoder",
            "jobset.sigs.k8s.io/job-index": "0",
        },
    }

    answer = ask("mutate/jobs", made)

    assert group_of(answer) == ("pg-training", "pg-training", "muster-scheduler")


def test_two_jobs_with_generated_names_get_two_groups() -> None:
    made = job()
    made["metadata"] = {"generateName": "sweep-", "annotations": {MODE: "Gang"}}

    first, second = (ask("mutate/jobs", made, uid=uid) for uid in ("uid-1", "uid-2"))

    assert group_of(first)[0] is not None
    assert group_of(first)[0] == group_of(first)[1]
    assert group_of(first)[0] != group_of(second)[0]


def test_the_unchanged_manifest_applied_again_changes_nothing() -> None:
    manifest = jobset()
    stored = ask("mutate/jobsets", manifest).result
    assert stored is not None
    again = ask("mutate/jobsets", manifest, stored)
    stored_job = ask("mutate/jobs", job()).result
    job_again = ask("mutate/jobs", job(), stored_job)

    assert stored != manifest
    assert again.result == stored
    assert ask("validate/jobsets", stored, stored).allowed
    assert job_again.result == stored_job
    assert job_again.result is not None
    assert ask("validate/jobs", job_again.result, stored_job).allowed


@pytest.mark.parametrize(
    ("route", "make"),
    [
        pytest.param("mutate/jobs", lambda: job(mode=None), id="a Job"),
        pytest.param("mutate/jobs", lambda: job(mode="Off"), id="a Job that says Off"),
        pytest.param("mutate/jobsets", lambda: jobset(mode="Off"), id="a JobSet that says Off"),
    ],
)
def test_who_does_not_ask_is_left_alone(route: str, make: Any) -> None:
    assert ask(route, make()).result == make()


def test_all_that_is_wrong_with_a_jobset_comes_in_one_answer() -> None:
    wrong = jobset(mode="Gangg")
    wrong["metadata"]["annotations"]["scheduling.muster.dev/topology"] = "a b"
    wrong["spec"]["replicatedJobs"][1]["template"]["metadata"] = {
        "annotations": {MODE: "Gang", "scheduling.muster.dev/min-count": "0"}
    }

    mutated = ask("mutate/jobsets", wrong)
    answer = ask("validate/jobsets", wrong)

    assert mutated.allowed
    assert (answer.code, answer.reason) == (422, "Invalid")
    holder = "spec.replicatedJobs[1].template.metadata.annotations"
    assert answer.faults == [
        (f"metadata.annotations[{MODE}]", "FieldValueNotSupported"),
        ("metadata.annotations[scheduling.muster.dev/topology]", "FieldValueInvalid"),
        (f"{holder}[scheduling.muster.dev/min-count]", "FieldValueInvalid"),
    ]


def test_a_mode_does_not_change_after_creation() -> None:
    stored = ask("mutate/jobsets", jobset()).result
    changed = copy.deepcopy(stored)
    assert changed is not None
    changed["metadata"]["annotations"][MODE] = "Off"

    answer = ask("validate/jobsets", changed, stored)

    assert answer.faults == [(f"metadata.annotations[{MODE}]", "FieldValueInvalid")]
    assert "field is immutable" in answer.message


NEVER = PriorityClass("calm", 10, preemption_policy="Never")
PREEMPTING = {"priorityClassName": "calm", "preemptionPolicy": "PreemptLowerPriority"}


@pytest.mark.parametrize(
    ("kind", "make", "path"),
    [
        pytest.param(JOB, job, "spec.template.spec", id="a Job"),
        pytest.param(
            JOBSET, jobset, "spec.replicatedJobs[1].template.spec.template.spec", id="a JobSet"
        ),
    ],
)
def test_pods_that_preempt_against_their_class_are_refused_before_their_group_is(
    kind: KindName, make: Any, path: str
) -> None:
    new = make()
    holder = new["spec"]["replicatedJobs"][1]["template"] if kind is JOBSET else new
    others = new["spec"]["replicatedJobs"][:1] if kind is JOBSET else []
    for other in others:
        other["template"]["spec"]["template"]["spec"]["priorityClassName"] = "calm"
    holder["spec"]["template"]["spec"] |= PREEMPTING
    review = review_of(kind, new)

    answer = read(
        Reviewer(FakeLister([NEVER])).review(f"validate/{kind.plural}", encoded(review)), review
    )

    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.faults == [(f"{path}.preemptionPolicy", "FieldValueForbidden")]


@pytest.mark.parametrize(
    ("kind", "make", "paths"),
    [
        pytest.param(JOB, job, ["spec.template.spec"], id="a Job"),
        pytest.param(
            JOBSET,
            jobset,
            [f"spec.replicatedJobs[{at}].template.spec.template.spec" for at in range(2)],
            id="a JobSet",
        ),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_a_class_that_is_not_there_is_said_once_and_may_come_later(
    kind: KindName, make: Any, paths: list[str], known: bool
) -> None:
    new = make()
    templates = [it["template"] for it in new["spec"].get("replicatedJobs", [])] or [new]
    for template in templates:
        template["spec"]["template"]["spec"]["priorityClassName"] = "calm"
    review = review_of(kind, new)
    lister = FakeLister([NEVER] if known else [])

    answer, mutated = (
        read(Reviewer(lister).review(f"{phase}/{kind.plural}", encoded(review)), review)
        for phase in ("validate", "mutate")
    )

    wanted = [
        f"{path}.priorityClassName: no PriorityClass with name calm was found. "
        "The API server rejects the pods until the PriorityClass exists"
        for path in paths
    ]
    assert answer.allowed
    assert answer.warnings == ([] if known else wanted)
    assert mutated.warnings == []


def test_a_class_is_not_looked_for_where_no_group_is_asked_for() -> None:
    plain = job(mode="Off")
    plain["spec"]["template"]["spec"]["priorityClassName"] = "calm"

    assert ask("validate/jobs", plain).warnings == []


def test_who_takes_the_group_off_a_job_is_told_that_it_stays() -> None:
    stored = ask("mutate/jobs", job()).result
    freed = copy.deepcopy(stored)
    assert freed is not None
    del freed["metadata"]["annotations"][MANAGED]

    answer = ask("mutate/jobs", freed, stored)
    validated = ask("validate/jobs", answer.result or {}, stored)

    assert answer.result == stored
    [warning] = answer.warnings
    assert warning.startswith(
        f"metadata.annotations[{MANAGED}]: field is immutable, and Muster restored its value: "
    )
    assert validated.allowed
    assert validated.warnings == []


def test_the_name_of_a_foreign_group_is_avoided() -> None:
    lister = FakeLister(foreign_groups={("PodGroup", "pg-job-sweep"), ("PodGroup", "pg-training")})

    def asked(route: str, kind: KindName, new: dict[str, Any]) -> Read:
        review = review_of(kind, new)
        return read(Reviewer(lister).review(route, encoded(review)), review)

    group, label, _ = group_of(asked("mutate/jobs", JOB, job()))
    assert group == label == hashed("pg-job-sweep", "PodGroup", "team")
    marked = asked("mutate/jobsets", JOBSET, jobset()).result
    assert marked is not None
    assert marks_of(marked) == {"JobSet/Unique"}


@pytest.mark.parametrize(
    "name", ["cpg-training", jobset_composite("team", "training", "decoder", JOINED)]
)
def test_the_name_of_a_foreign_composite_is_avoided_by_all_groups_of_the_tree(name: str) -> None:
    lister = FakeLister(foreign_groups={("CompositePodGroup", name)})
    review = review_of(JOBSET, jobset(mode="Composite"))

    marked = read(Reviewer(lister).review("mutate/jobsets", encoded(review)), review).result

    assert marked is not None
    assert marks_of(marked) == {"Job/Unique"}
    marked["metadata"]["uid"] = "u"
    made = {obj["metadata"]["name"] for obj in jobset_groups(marked)[1:]}
    assert jobset_composite("team", "training", form=UNIQUE) in made
    assert name not in made


def test_a_tree_whose_names_are_too_long_has_hashed_ones_that_fit() -> None:
    long = "training-" * 5
    marked = ask("mutate/jobsets", jobset(f"{long}x", mode="Composite")).result

    assert marked is not None
    assert marks_of(marked) == {"Job/Joined"}
    made = [obj["metadata"]["name"] for obj in jobset_groups(marked)]
    assert len(set(made)) == len(made) == 8
    assert max(map(len, made)) <= 63


def test_what_is_configured_reaches_the_pods() -> None:
    asks = job()
    asks["metadata"]["annotations"] |= {
        "scheduling.muster.dev/topology": "example.com/rack",
        "scheduling.muster.dev/disruption-mode": "All",
    }
    review = review_of(JOB, asks)

    def made(autoscalers: Autoscalers, lister: FakeLister | None = None) -> dict[str, Any]:
        reviewer = Reviewer(lister or FakeLister(), autoscalers)
        result = read(reviewer.review("mutate/jobs", encoded(review)), review).result
        assert result is not None
        template: dict[str, Any] = result["spec"]["template"]
        return template

    told = made(Autoscalers(frozenset({"example.com/rack"})))
    assert "affinity" in told["spec"]
    assert told["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    silent = made(SILENT)
    assert "affinity" not in silent["spec"]
    assert "karpenter.sh/do-not-disrupt" not in silent["metadata"]["annotations"]

    template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 4}}}
    mine = {OwnerName("batch", "Job", "sweep"): {"spec": {"podGroupTemplates": [template]}}}
    assert "affinity" not in made(Autoscalers(), FakeLister(of_owners=mine))["spec"]


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        (JOB, job()),
        (JOBSET, jobset()),
        (CRON_JOB, {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": job()}}),
        (STATEFUL_SET, stateful_set(gang_mode="Gang")),
        (DEPLOYMENT, deployment(gang_mode="Gang")),
    ],
)
def test_who_makes_an_object_is_told_of_keys_that_nothing_reads(kind: KindName, obj: Any) -> None:
    """The warning appears once: an update repeats nothing."""
    made = copy.deepcopy(obj)
    notes = made["metadata"].setdefault("annotations", {})
    notes |= {"scheduling.muster.dev/min-cuont": "2"}

    def said(old: Any) -> list[str]:
        review = review_of(kind, made, old)
        answer = Reviewer(FakeLister()).review(f"validate/{kind.plural}", encoded(review))
        return [it for it in read(answer, review).warnings if ": has no effect: " in it]

    (told,) = said(None)
    assert told.startswith("metadata.annotations[scheduling.muster.dev/min-cuont]: ")
    assert told.endswith("use scheduling.muster.dev/min-count")
    assert said(made) == []


def test_a_job_of_a_jobset_repeats_no_warning_of_that() -> None:
    made = job()
    made["metadata"]["labels"] = {JOBSET_LABEL_NAME: "a"}
    made["metadata"]["annotations"]["scheduling.muster.dev/min-cuont"] = "2"

    assert not [it for it in ask("validate/jobs", made).warnings if ": has no effect: " in it]
