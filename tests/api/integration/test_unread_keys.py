"""Warnings about unknown keys of ours, with their path, wherever they are."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_START_TIMEOUT,
    ANNOTATION_TOPOLOGY,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    LWS_LABEL_NAME,
)
from api.integration.unread_keys import BY_TEMPLATES, unread_keys, warnings
from tests.support.apps import admitted, deployment, stateful_set
from tests.support.lws import make_lws

Json = dict[str, Any]
TYPO = "scheduling.muster.dev/min-cuont"
MIN = {ANNOTATION_MIN_COUNT: "2"}
RING = {LABEL_POD_GROUP: "ring"}


def meta(annotations: Any = None, labels: Any = None) -> Json:
    return {"metadata": {"annotations": annotations, "labels": labels}}


TO_TEMPLATE = "set it in the pod template"
TO_MAKER = "set it on the object that creates the pods, such as a Job"
UNGROUPED = (
    f"set the label {LABEL_POD_GROUP}, or set the annotation on the object that creates the pods"
)
RIGHT = f"use {ANNOTATION_MIN_COUNT}"
BY = f"annotations[{ANNOTATION_GROUP_BY}]"
ASKS = f"annotations[{ANNOTATION_GANG_MODE}]"
IN_TEMPLATES = (
    f"set the label {LABEL_POD_GROUP} and the annotation {ANNOTATION_MIN_COUNT}"
    " in the templates of its pods"
)
MODE = {ANNOTATION_GANG_MODE: "Gang"}
LIMIT = {ANNOTATION_START_TIMEOUT: "10m"}
WITHIN = f"annotations[{ANNOTATION_START_TIMEOUT}]"
WRONG = meta({TYPO: "2"})


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (WRONG, (f"annotations[{TYPO}]", RIGHT)),
        (
            meta(None, {ANNOTATION_MIN_COUNT: "2"}),
            (f"labels[{ANNOTATION_MIN_COUNT}]", "use an annotation with this key"),
        ),
        (
            meta({LABEL_POD_GROUP: "g"}),
            (f"annotations[{LABEL_POD_GROUP}]", "use a label with this key"),
        ),
        (meta(MIN), (f"annotations[{ANNOTATION_MIN_COUNT}]", UNGROUPED)),
        (meta(MODE, RING), (f"annotations[{ANNOTATION_GANG_MODE}]", TO_MAKER)),
        (
            meta({ANNOTATION_TOPOLOGY: "rack"}, RING),
            (
                f"annotations[{ANNOTATION_TOPOLOGY}]",
                (
                    f"Muster reads it only together with {ANNOTATION_MIN_COUNT}, which creates "
                    "the group"
                ),
            ),
        ),
        (meta(MIN, RING), None),
        (meta(), None),
    ],
)
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Pod", ""),
        ("Job", "spec.template"),
        ("StatefulSet", "spec.template"),
        ("Deployment", "spec.template"),
        ("CronJob", "spec.jobTemplate.spec.template"),
        ("JobSet", "spec.replicatedJobs[1].template.spec.template"),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.leaderTemplate"),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.workerTemplate"),
    ],
)
def test_pods_and_templates_are_read_wherever_they_are(
    kind: str, path: str, obj: Json, want: tuple[str, str] | None
) -> None:
    whole = obj
    for step in reversed(path.split(".")) if path else ():
        name, _, index = step.partition("[")
        whole = {name: [{}, whole] if index else whole}

    prefix = f"{path}." if path else ""
    said = [(at, instead()) for at, instead in unread_keys(kind, whole)]
    assert said == ([(f"{prefix}metadata.{want[0]}", want[1])] if want else [])


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        ("Job", meta({TYPO: "2"}), (f"annotations[{TYPO}]", RIGHT)),
        ("Job", meta({ANNOTATION_GROUP_BY: "x"}), (BY, TO_TEMPLATE)),
        ("ReplicaSet", meta(MODE), (ASKS, TO_MAKER)),
        ("TrainJob", meta(MODE), (ASKS, "set it in spec.annotations")),
        ("TrainJob", meta(LIMIT), (WITHIN, "set it in spec.annotations")),
        ("Pod", meta(LIMIT), (WITHIN, TO_MAKER)),
        ("Deployment", meta(MODE | LIMIT), None),
        ("PodGroup", meta(LIMIT), None),
        ("Deployment", meta(None, RING), (f"labels[{LABEL_POD_GROUP}]", TO_TEMPLATE)),
        ("Job", meta(None, RING) | {"spec": {"template": meta(None, RING)}}, None),
        ("CronJob", {"spec": {"jobTemplate": meta(MODE)}}, None),
        ("LeaderWorkerSet", meta(MODE | MIN), None),
        ("PodGroup", meta(None, RING), None),
        *((kind, meta(MODE), (ASKS, IN_TEMPLATES)) for kind in sorted(BY_TEMPLATES)),
        *(
            ("Job", meta(None, {label: "x"}), (f"labels[{label}]", TO_TEMPLATE))
            for label in (
                LABEL_REPLICA_KEY, LABEL_SUBSET, LABEL_TEMPLATE, LABEL_WORKLOAD
            )
        ),
    ],
)  # fmt: skip
def test_owners_are_read_by_their_kind(kind: str, obj: Json, want: tuple[str, str] | None) -> None:
    said = [(at, instead()) for at, instead in unread_keys(kind, obj)]

    assert said == ([(f"metadata.{want[0]}", want[1])] if want else [])


@pytest.mark.parametrize(
    ("kind", "path"),
    [("CronJob", "spec.jobTemplate"), ("JobSet", "spec.replicatedJobs[1].template")],
)
@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (WRONG, (f"annotations[{TYPO}]", RIGHT)),
        (meta({ANNOTATION_GROUP_BY: "x"}), (BY, TO_TEMPLATE)),
        (meta(None, RING), (f"labels[{LABEL_POD_GROUP}]", TO_TEMPLATE)),
        (meta(MODE | MIN), None),
    ],
)
def test_job_templates_are_read_as_jobs(
    kind: str, path: str, obj: Json, want: tuple[str, str] | None
) -> None:
    template = obj | {"spec": {"template": {}}}
    jobset = {"replicatedJobs": [{}, {"template": template}]}
    spec = jobset if kind == "JobSet" else {"jobTemplate": template}

    said = [(at, instead()) for at, instead in unread_keys(kind, {"spec": spec})]

    assert said == ([(f"{path}.metadata.{want[0]}", want[1])] if want else [])


def test_what_admission_writes_is_read() -> None:
    made = admitted(deployment(gang_mode="Gang", min_count="2", topology="rack"))

    assert list(unread_keys("Deployment", made)) == []


@pytest.mark.parametrize("odd", [None, [], 7, "x", {"annotations": 3, "labels": []}])
@pytest.mark.parametrize("kind", ["Pod", "Job", "JobSet", "CronJob", "Deployment"])
def test_odd_structures_are_read(kind: str, odd: Any) -> None:
    for obj in (
        {"metadata": odd},
        {"spec": odd},
        {"spec": {"template": odd, "jobTemplate": odd, "replicatedJobs": odd}},
        {"spec": {"template": {"metadata": odd}, "replicatedJobs": [odd, {"template": odd}]}},
    ):
        assert list(unread_keys(kind, obj)) == []


def test_thousands_are_a_few_warnings_and_cost_no_comparison_each() -> None:
    many = {f"scheduling.muster.dev/{'x' * 300}{at}": "y" for at in range(5000)}

    said = warnings(unread_keys("Job", meta(many)))

    assert len(said) == 5
    assert all("has no effect: remove it" in one for one in said)


def test_what_is_asked_of_a_leader_worker_sets_stateful_set_is_said_where_to_write() -> None:
    made = stateful_set(gang_mode="Gang", min_count="2")
    made["metadata"]["labels"] = {LWS_LABEL_NAME: "serve"}

    assert warnings(unread_keys("StatefulSet", made)) == [
        f"metadata.annotations[{key}]: has no effect: set it on LeaderWorkerSet serve"
        for key in (ANNOTATION_GANG_MODE, ANNOTATION_MIN_COUNT)
    ]
    del made["metadata"]["labels"]
    assert not warnings(unread_keys("StatefulSet", made))


def test_the_marks_of_a_leader_worker_set_are_read() -> None:
    lws = make_lws().replicas(2, 4).asks(gang_mode="Gang").leader().admitted()

    assert not warnings(unread_keys("LeaderWorkerSet", lws))
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"] |= MODE
    assert warnings(unread_keys("LeaderWorkerSet", lws)) == [
        f"spec.leaderWorkerTemplate.workerTemplate.metadata.{ASKS}: has no effect: {TO_MAKER}"
    ]
