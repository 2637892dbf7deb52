"""Several schedulerNames: assignment, kept names, and the pods whose labels count."""

import copy
from typing import Any

import pytest

from api.constants import CRON_JOB, JOB, JOBSET, KindName
from api.scheduler_names import SchedulerNames
from localcluster.schemas.cel import compile_condition
from localcluster.schemas.webhook_rules import CONDITION_VARIABLES
from tests.webhooks.registrations import Registrations
from tests.webhooks.review_requests import POD, FakeLister, Read, encoded, pod, read, review_of
from webhooks.routing.reviewer import Reviewer
from webhooks.server.registration import (
    RegistrationError,
    ServiceTarget,
    UrlTarget,
    load_manifests,
    register,
)

NAMES = SchedulerNames(("team-pack", "team-spread"))
LABEL = "scheduling.muster.dev/pod-group"
MODE = "scheduling.muster.dev/gang-mode"
MANAGED = "scheduling.muster.dev/managed-group"
PLUGINS = "scheduling.x-k8s.io/pod-group"
DELEGATES = {"scheduling.k8s.io/group-template-name": "workers"}
KINDS = {"jobs": JOB, "jobsets": JOBSET, "cronjobs": CRON_JOB}
BUNDLE = b"-----BEGIN CERTIFICATE-----\n"


def ask(route: str, kind: KindName, new: dict[str, Any]) -> Read:
    review = review_of(kind, new)
    lister = FakeLister(scheduler_names=NAMES)
    return read(Reviewer(lister).review(route, encoded(review)), review)


def job(scheduler: str = "", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a Job of four pods that requests a gang, unless it has other annotations."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "x"}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "team",
            "annotations": annotations or {MODE: "Gang"},
        },
        "spec": {"parallelism": 4, "completions": 4, "template": {"spec": spec}},
    }


def jobset(*schedulers: str, whole: bool = True) -> dict[str, Any]:
    """Return a JobSet with a replicatedJob of each scheduler: one gang, or one gang each."""
    own = {} if whole else {"metadata": {"annotations": {MODE: "Gang"}}}
    jobs = [
        {
            "name": f"r{i}",
            "replicas": 1,
            "template": {**copy.deepcopy(own), "spec": job(it)["spec"]},
        }
        for i, it in enumerate(schedulers)
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "s",
            "namespace": "team",
            "annotations": {MODE: "Gang"} if whole else {},
        },
        "spec": {"replicatedJobs": jobs},
    }


CHOICES = [
    pytest.param("", "team-pack", id="who names none gets the first"),
    pytest.param("default-scheduler", "team-pack", id="so do those of the default"),
    pytest.param("team-pack", "team-pack", id="who wrote the first keeps it"),
    pytest.param("team-spread", "team-spread", id="who wrote another keeps it"),
    pytest.param("muster-scheduler", "muster-scheduler", id="the usual name is not configured"),
    pytest.param("volcano", "volcano", id="a third scheduler"),
]


@pytest.mark.parametrize(("wrote", "want"), CHOICES)
def test_the_scheduler_of_pods_that_name_a_group(wrote: str, want: str) -> None:
    made = pod(labels={LABEL: "g"}, scheduler=wrote)
    foreign = pod(labels={PLUGINS: "g"}, scheduler=wrote)

    given = [
        ask("mutate/pods", POD, made).result,
        ask("mutate/foreign-pods", POD, foreign).result,
    ]

    assert [it["spec"]["schedulerName"] for it in given if it] == [want, want]


@pytest.mark.parametrize(("wrote", "want"), CHOICES)
def test_the_scheduler_of_jobs_that_ask_for_a_gang(wrote: str, want: str) -> None:
    made = job(wrote)
    result = ask("mutate/jobs", JOB, made).result

    assert result is not None
    assert result["spec"]["template"]["spec"]["schedulerName"] == want
    causes = ask("validate/jobs", JOB, result).causes
    texts = [cause["message"] for cause in causes]
    problem = "the pods of a group need schedulerName team-pack or team-spread"
    assert [problem in text for text in texts] == ([] if want in NAMES else [True])


@pytest.mark.parametrize(
    ("scheduler", "ours"),
    [
        pytest.param("team-pack", True, id="the first name"),
        pytest.param("team-spread", True, id="another name"),
        pytest.param("muster-scheduler", False, id="the usual name is not configured"),
        pytest.param("default-scheduler", False, id="kube-scheduler"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"schedulingGroup": {"podGroupName": "a"}}, id="the field of 1.36"),
        pytest.param({"workloadRef": {"name": "w", "podGroup": "a"}}, id="the field of 1.35"),
        pytest.param({"labels": {PLUGINS: "a"}}, id="the label of scheduler-plugins"),
    ],
)
def test_foreign_words_count_for_the_pods_of_every_configured_name(
    words: dict[str, Any], scheduler: str, ours: bool
) -> None:
    """Muster rejects such a pod of its own that also names another group."""
    made = pod(scheduler=scheduler, **words)
    made["metadata"].setdefault("labels", {})[LABEL] = "b"

    assert ask("validate/pods", POD, made).allowed is not ours


@pytest.mark.parametrize(
    ("scheduler", "want"),
    [("team-pack", True), ("team-spread", True), ("muster-scheduler", False), ("", False)],
)
def test_a_job_is_delegated_where_its_pods_have_a_configured_name(
    scheduler: str, want: bool
) -> None:
    result = ask("mutate/jobs", JOB, job(scheduler, DELEGATES)).result

    assert result is not None
    assert (MANAGED in result["metadata"]["annotations"]) is want


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(jobset("team-spread", "team-spread"), [], id="one name"),
        pytest.param(jobset("", "team-pack"), [], id="the first is what the other gets"),
        pytest.param(jobset("", "team-spread"), ["[1]"], id="two names in one gang"),
        pytest.param(jobset("", "team-spread", whole=False), [], id="two names in two gangs"),
        pytest.param(jobset("team-pack", "volcano"), ["[1]"], id="a third scheduler"),
    ],
)
def test_the_pods_of_one_gang_share_one_name(made: dict[str, Any], want: list[str]) -> None:
    answer = ask("validate/jobsets", JOBSET, made)

    path = "spec.replicatedJobs{}.template.spec.template.spec.schedulerName"
    assert [field for field, _ in answer.faults] == [path.format(at) for at in want]


def test_a_cron_job_is_told_which_names_count() -> None:
    made = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"schedule": "@daily", "jobTemplate": job("muster-scheduler")},
    }

    (warning,) = ask("validate/cronjobs", CRON_JOB, made).warnings
    assert "team-pack or team-spread" in warning


@pytest.mark.parametrize(
    ("webhook", "new"),
    [
        pytest.param(
            "pods.validate",
            lambda name: pod(labels={LABEL: "g"}, scheduler=name),
            id="pods that name a group",
        ),
        pytest.param("jobs.mutate", lambda name: job(name, DELEGATES), id="delegated Jobs"),
        pytest.param("jobs.validate", lambda name: job(name, DELEGATES), id="the same, validated"),
        pytest.param(
            "cronjobs.validate",
            lambda name: {
                "metadata": {"name": "c"},
                "spec": {"jobTemplate": job(name, DELEGATES)},
            },
            id="CronJobs of delegated Jobs",
        ),
    ],
)
def test_the_registration_asks_about_the_configured_names_only(webhook: str, new: Any) -> None:
    (conditions,) = (
        entry["matchConditions"]
        for manifest in load_manifests(NAMES)
        for entry in manifest["webhooks"]
        if entry["name"] == f"{webhook}.scheduling.muster.dev"
    )

    def reaches(name: str) -> bool:
        values = {"object": new(name), "oldObject": None, "request": {}}
        return all(
            compile_condition(it["expression"], CONDITION_VARIABLES).evaluate(values)
            for it in conditions
        )

    names = ("team-pack", "team-spread", "muster-scheduler", "volcano", "")
    assert [name for name in names if reaches(name)] == [*NAMES.all]


async def test_by_url_the_names_are_registered_and_repaired() -> None:
    registry, target = Registrations(), UrlTarget("https://127.0.0.1:9443")

    await register(registry, target, BUNDLE, load_manifests())
    await register(registry, target, BUNDLE, load_manifests(NAMES), NAMES)

    assert "'team-spread'" in conditions_of(registry)
    assert "muster-scheduler" not in conditions_of(registry)


async def test_by_service_a_registration_without_the_names_is_not_ready() -> None:
    registry = Registrations(*load_manifests())

    with pytest.raises(RegistrationError, match=r"lacks team-pack, team-spread.*muster manifests"):
        await register(registry, ServiceTarget(), BUNDLE, load_manifests(NAMES), NAMES)

    registry = Registrations(*load_manifests(NAMES))
    registered = await register(registry, ServiceTarget(), BUNDLE, load_manifests(NAMES), NAMES)
    assert registered.ca_bundle == BUNDLE


async def test_what_an_administrator_wrote_into_conditions_stays() -> None:
    """These are more names, another form of the same expression, and missing conditions."""
    manifests = load_manifests()
    for webhook in (entry for manifest in manifests for entry in manifest["webhooks"]):
        for condition in webhook.get("matchConditions", ()):
            text = condition["expression"]
            usual = "in ['muster-scheduler']"
            condition["expression"] = text.replace(usual, "in ['old', 'muster-scheduler']")
    manifests[0]["webhooks"][-1].pop("matchConditions")
    registry = Registrations(*manifests)

    await register(registry, ServiceTarget(), BUNDLE, load_manifests())

    assert "'old'" in conditions_of(registry)


def conditions_of(registry: Registrations) -> str:
    """Return all match conditions."""
    return " ".join(
        condition["expression"]
        for webhook in registry.webhooks()
        for condition in webhook.get("matchConditions", ())
    )
