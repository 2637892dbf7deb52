"""An owner whose gang did not start in time is suspended, unless another object decides that."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from api.constants import ANNOTATION_START_TIMEOUT, GROUP, TRAIN_JOB
from api.integration.common.suspension import resume_command
from kube.base.errors import Conflict, Invalid
from tests.controllers.conftest import ControllerHarness
from tests.controllers.owners.test_single_group import put
from tests.support.apps import deployment
from tests.support.memory_api import FOREVER
from tests.support.owners import job_template, make_job, make_jobset
from tests.support.parts import mpi_job, ray_cluster

Json = dict[str, Any]
ASKS = {"gang_mode": "Gang", "start_timeout": "10m"}
NOTES = {key.replace("_", "-"): value for key, value in ASKS.items()}
TRAINER = "trainer.kubeflow.org/v1alpha1"


def job(harness: ControllerHarness) -> str:
    harness.submit_job(make_job("a").asks(**ASKS).pods(2).build())
    return "pg-job-a"


def jobset(harness: ControllerHarness, **changes: Any) -> str:
    made = make_jobset("a").asks(**ASKS).replicated_job("w", 1, job_template().pods(2)).build()
    made["metadata"] |= changes
    harness.submit_jobset(made)
    return "pg-a"


def given_up(harness: ControllerHarness, group: str, kind: str = "PodGroup") -> None:
    """Write the status of a root that the scheduler gave up."""
    obj = harness.api.objects[kind, "default", group]
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "StartTimeout",
        "message": "none",
    }
    status = {"conditions": [condition], "blocker": {"kind": "timeout", "summary": "none"}}
    harness.api.put(obj | {"status": status})


def pending(harness: ControllerHarness, group: str) -> None:
    """Write the status of a root that waits, for the first time or again."""
    obj = harness.api.objects["PodGroup", "default", group]
    harness.api.put(obj | {"status": {"blocker": {"kind": "capacity", "summary": "few"}}})


def suspended(harness: ControllerHarness, kind: str, name: str) -> Any:
    spec = harness.api.objects[kind, "default", name].get("spec", {})
    return spec.get("runPolicy", spec).get("suspend", False)


def events(harness: ControllerHarness) -> list[tuple[str, str]]:
    """Return kind and text of the events about a timeout."""
    told = zip(harness.recorded.events, harness.recorded.messages, strict=True)
    return [(kind, text) for (kind, _, reason), text in told if reason == "StartTimeout"]


def ray(harness: ControllerHarness) -> str:
    return put(harness, ray_cluster(asks=NOTES))


def mpi(harness: ControllerHarness) -> str:
    return put(harness, mpi_job(asks=NOTES))


def mpi_with_policy(harness: ControllerHarness) -> str:
    return put(harness, mpi_job(asks=NOTES, runPolicy={"cleanPodPolicy": "All"}))


@pytest.mark.parametrize(
    ("create", "kind"),
    [
        (job, "Job"),
        (jobset, "JobSet"),
        (ray, "RayCluster"),
        (mpi, "MPIJob"),
        (mpi_with_policy, "MPIJob"),
    ],
)
async def test_the_owner_is_suspended_and_the_event_says_how_to_resume(
    harness: ControllerHarness, create: Callable[[ControllerHarness], str], kind: str
) -> None:
    group = create(harness)
    (name,) = harness.api.names(kind)
    await harness.settle()
    pending(harness, group)
    await harness.settle(seconds=1)
    assert not suspended(harness, kind, name)
    given_up(harness, group)
    await harness.settle(seconds=1)

    assert suspended(harness, kind, name) is True
    ((about, text),) = events(harness)
    assert about == kind
    assert text.startswith(f"{group} did not start within 10m: {kind} {name} is suspended.")
    assert f" {name} --namespace default --type=merge --patch '" in text
    # Its group is deleted with its pods: a resumed owner gets a new one, and a new limit.
    await harness.settle(seconds=60)
    assert harness.api.names("PodGroup") == []


def test_the_command_resumes() -> None:
    plain = resume_command("Job", "jobs.batch", "ns", "a")
    assert plain.endswith("""--patch '{"spec":{"suspend":false}}'""")
    nested = resume_command("MPIJob", "mpijobs.kubeflow.org", "ns", "a").split("'")[1]
    assert json.loads(nested) == {"spec": {"runPolicy": {"suspend": False}}}


async def test_an_owner_that_is_resumed_is_suspended_again_only_for_a_new_group(
    harness: ControllerHarness,
) -> None:
    group = job(harness)
    await harness.settle()
    given_up(harness, group)
    await harness.settle(seconds=1)
    # The user resumes it before the group of before is deleted.
    harness.api.objects["Pod", "default", "x"] = _pod(group)
    harness.change("Job", "a", suspend=False)
    await harness.settle(seconds=30)
    assert not suspended(harness, "Job", "a")

    pending(harness, group)
    await harness.settle(seconds=1)
    given_up(harness, group)
    await harness.settle(seconds=1)
    assert suspended(harness, "Job", "a") is True


def _pod(group: str) -> Json:
    labels = {f"{GROUP}/pod-group": group}
    meta = {"name": "x", "namespace": "default", "uid": "x", "labels": labels}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {}}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"labels": {"kueue.x-k8s.io/queue-name": "team-a"}}, "Kueue decides when it runs"),
        (
            {
                "ownerReferences": [
                    {
                        "apiVersion": "example.com/v1",
                        "kind": "Pipeline",
                        "name": "p",
                        "uid": "p",
                        "controller": True,
                    }
                ]
            },
            "Pipeline p controls it",
        ),
    ],
)
async def test_an_owner_of_others_is_not_suspended_and_the_event_says_so_once(
    harness: ControllerHarness, changes: Json, why: str
) -> None:
    group = jobset(harness, **changes)
    await harness.settle()
    given_up(harness, group)
    for _ in range(3):
        await harness.settle(seconds=30)
        await harness.jobset.resync()

    assert not suspended(harness, "JobSet", "a")
    ((_, text),) = events(harness)
    assert why in text


async def test_a_train_job_is_suspended_in_place_of_its_jobset(
    harness: ControllerHarness,
) -> None:
    meta = {"name": "tune", "namespace": "default"}
    created = harness.api.put(
        {"apiVersion": TRAINER, "kind": TRAIN_JOB.kind, "metadata": meta, "spec": {}}
    )
    parent = {"apiVersion": TRAINER, "kind": "TrainJob", "name": "tune", "controller": True}
    reference = parent | {"uid": created["metadata"]["uid"]}
    group = jobset(harness, ownerReferences=[reference])
    await harness.settle()
    given_up(harness, group)
    await harness.settle(seconds=1)

    assert suspended(harness, "TrainJob", "tune") is True
    assert not suspended(harness, "JobSet", "a")
    assert [kind for kind, _ in events(harness)] == ["JobSet", "TrainJob"]
    assert "kubectl patch trainjobs.trainer.kubeflow.org tune" in events(harness)[0][1]


async def test_what_cannot_be_suspended_and_what_did_not_ask_stays(
    harness: ControllerHarness,
) -> None:
    groups = [put(harness, deployment(gang_mode="Gang", start_timeout="10m"))]
    harness.submit_job(make_job("b").asks(gang_mode="Gang").build())
    await harness.settle()
    # As a user may write it on the group: the owner did not ask.
    theirs = harness.api.objects["PodGroup", "default", "pg-job-b"]
    notes = theirs["metadata"]["annotations"] | {ANNOTATION_START_TIMEOUT: "1s"}
    harness.api.put(theirs | {"metadata": theirs["metadata"] | {"annotations": notes}})
    for group in (*groups, "pg-job-b"):
        given_up(harness, group)
    await harness.settle(seconds=30)

    assert not suspended(harness, "Job", "b")
    assert events(harness) == []


async def test_a_jobset_of_mode_composite_is_suspended_for_its_root_alone(
    harness: ControllerHarness,
) -> None:
    made = make_jobset("a").asks(gang_mode="Composite", start_timeout="10m")
    harness.submit_jobset(made.replicated_job("w", 2, job_template().pods(2)).build())
    await harness.settle()
    leaves = harness.api.names("PodGroup")
    (root,) = [
        name
        for name in harness.api.names("CompositePodGroup")
        if "parentCompositePodGroupName"
        not in harness.api.objects["CompositePodGroup", "default", name]["spec"]
    ]
    for leaf in leaves:
        given_up(harness, leaf)
    await harness.settle(seconds=10)
    assert not suspended(harness, "JobSet", "a")

    given_up(harness, root, "CompositePodGroup")
    await harness.settle(seconds=1)
    assert suspended(harness, "JobSet", "a") is True


@pytest.mark.parametrize("count", [1, 2])
async def test_a_jobset_with_gangs_of_its_replicated_jobs_is_not_suspended(
    harness: ControllerHarness, count: int
) -> None:
    made = make_jobset("a").asks(start_timeout="10m")
    for at in range(count):
        made.replicated_job(f"w{at}", 1, job_template().asks(**ASKS).pods(2))
    harness.submit_jobset(made.build())
    await harness.settle()
    groups = harness.api.names("PodGroup")
    assert len(groups) == count
    given_up(harness, groups[0])
    await harness.settle(seconds=10)

    assert not suspended(harness, "JobSet", "a")


async def test_an_owner_in_a_tree_of_several_is_not_suspended(harness: ControllerHarness) -> None:
    harness.submit_job(make_job("a").asks(tree="serve=2", **ASKS).pods(2).build())
    await harness.settle()
    (group,) = harness.api.names("PodGroup")
    given_up(harness, group)
    given_up(harness, "tree-serve", "CompositePodGroup")
    await harness.settle(seconds=10)

    assert not suspended(harness, "Job", "a")


async def test_a_group_that_only_claims_an_owner_suspends_nothing(
    harness: ControllerHarness,
) -> None:
    harness.submit_job(make_job("a").asks(**ASKS).pods(2).build())
    await harness.settle()
    real = harness.api.objects["PodGroup", "default", "pg-job-a"]
    stated = real["metadata"]["annotations"][f"{GROUP}/made-for"]
    # Of the name of the Job, but in another namespace, or with another UID.
    for name, space, made_for in (
        ("forged", "other", stated),
        ("older", "default", stated.rsplit("/", 1)[0] + "/another"),
    ):
        notes = {f"{GROUP}/made-for": made_for, ANNOTATION_START_TIMEOUT: "10m"}
        meta = {"name": name, "namespace": space, "uid": name, "annotations": notes}
        harness.api.put({"kind": "PodGroup", "metadata": meta, "spec": real["spec"]})
        obj = harness.api.objects["PodGroup", space, name]
        condition = {
            "type": "PodGroupInitiallyScheduled",
            "status": "False",
            "reason": "StartTimeout",
        }
        harness.api.put(obj | {"status": {"conditions": [condition]}})
    await harness.job.resync()
    await harness.settle(seconds=10)

    assert not suspended(harness, "Job", "a")


async def test_a_change_in_the_meantime_wins(harness: ControllerHarness) -> None:
    group = job(harness)
    await harness.settle()
    harness.api.fail(Conflict(409, "Conflict", "the object has been modified"), verbs=["patch"])
    given_up(harness, group)
    await harness.settle(seconds=1)
    assert not suspended(harness, "Job", "a")
    # Somebody removes the limit before the next attempt.
    stored = harness.api.objects["Job", "default", "a"]
    notes = dict(stored["metadata"]["annotations"])
    del notes[ANNOTATION_START_TIMEOUT]
    harness.api.put(stored | {"metadata": stored["metadata"] | {"annotations": notes}})
    await harness.settle(seconds=30)

    assert not suspended(harness, "Job", "a")
    made = harness.api.objects["PodGroup", "default", group]["metadata"]["annotations"]
    assert ANNOTATION_START_TIMEOUT not in made


async def test_a_policy_that_rejects_it_is_reported_once(harness: ControllerHarness) -> None:
    group = job(harness)
    await harness.settle()
    refusal = Invalid(422, "Invalid", "a policy says no", name="a")
    harness.api.fail(refusal, verbs=["patch"], times=FOREVER)
    given_up(harness, group)
    for _ in range(3):
        await harness.settle(seconds=30)
        await harness.job.resync()

    assert not suspended(harness, "Job", "a")
    ((_, text),) = events(harness)
    assert text == (
        "pg-job-a did not start within 10m, but Job a is not suspended: a policy says no"
    )


async def test_the_group_follows_the_limit_of_its_owner(harness: ControllerHarness) -> None:
    group = job(harness)
    await harness.settle()
    for limit in ("20m", None, "5m"):
        stored = harness.api.objects["Job", "default", "a"]
        notes = {**stored["metadata"]["annotations"], ANNOTATION_START_TIMEOUT: limit}
        kept = {key: value for key, value in notes.items() if value is not None}
        harness.api.put(stored | {"metadata": stored["metadata"] | {"annotations": kept}})
        await harness.settle(seconds=1)
        found = harness.api.objects["PodGroup", "default", group]["metadata"]["annotations"]
        assert found.get(ANNOTATION_START_TIMEOUT) == limit
