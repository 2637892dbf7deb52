"""Objects that the garbage collector forgot are deleted, and no others."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    DEPLOYMENT,
    JOB,
    JOBSET,
    JOBSET_LABEL_UID,
    LEADER_WORKER_SET,
    STATEFUL_SET,
    KindName,
)
from api.ownership import OwnerId
from controllers.cleanup.orphans import COLLECTOR_SECONDS, OWNERS
from kube.client.resources import JOBS, Resource
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import make_pod
from tests.support.owners import job_template, made_for, make_job, make_jobset

Json = dict[str, Any]
GENERATED = ("Workload", "CompositePodGroup", "PodGroup")


def generated(harness: ControllerHarness) -> list[str]:
    return harness.api.names(*GENERATED)


def owner(kind: str, name: str, uid: str, api_version: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}


def workload_owner(uid: str = "gone") -> Json:
    return owner("Workload", "w-job-runs", uid, "scheduling.muster.dev/v1alpha3")


def leaf(*owners: Json, managed: bool = True) -> Json:
    metadata = {
        "name": "pg-job-runs",
        "namespace": "default",
        "ownerReferences": list(owners),
        **(made_for(JOB, "runs", "gone") if managed else {}),
    }
    return {"kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": {"basic": {}}}}


GONE = {"apiVersion": "batch/v1", "kind": "Job", "name": "runs", "uid": "gone"}
PIPELINE = {"apiVersion": "example.com/v1", "kind": "Pipeline", "name": "p", "uid": "p"}


@pytest.mark.parametrize(
    ("owners", "at_once"),
    [
        pytest.param([], True, id="no owner, after a deletion with orphan"),
        pytest.param([GONE], False, id="its owner is gone"),
        pytest.param([GONE, workload_owner()], False, id="its owner and its Workload are gone"),
        pytest.param([workload_owner("mine")], True, id="a user's Workload lives"),
        pytest.param([GONE, workload_owner("mine")], True, id="and its owner is gone"),
        pytest.param([PIPELINE], True, id="an owner that is not ours may live"),
    ],
)
async def test_what_the_garbage_collector_does_not_delete_is_deleted_at_once(
    harness: ControllerHarness, owners: list[Json], at_once: bool
) -> None:
    """Other orphans get time for the garbage collector."""
    named = {"name": "w-job-runs", "namespace": "default", "uid": "mine"}
    harness.api.put({"kind": "Workload", "metadata": named, "spec": {}})
    harness.api.put(leaf(*owners))
    await harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS - 1)
    assert generated(harness) == ([] if at_once else ["pg-job-runs"]) + ["w-job-runs"]

    await harness.settle(seconds=1)
    assert generated(harness) == ["w-job-runs"]


def of_a_pipeline() -> Json:
    made = leaf()
    kind = KindName("example.com", "v1", "pipelines", "Pipeline")
    return made | {"metadata": made["metadata"] | made_for(kind, "p", "u")}


async def test_a_group_of_another_namespace_keeps_nothing(harness: ControllerHarness) -> None:
    """It claims the same Job as its owner, and has running pods."""
    harness.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    forged = leaf()
    forged["metadata"] |= made_for(JOB, "runs", "uid-of-runs")
    forged["metadata"]["namespace"] = "other"
    harness.api.put(forged)
    member = make_pod("p").in_group("pg-job-runs").build()
    member["metadata"]["namespace"] = "other"
    harness.api.put(member | {"kind": "Pod"})

    harness.api.forget("Job", "default", "runs")
    await harness.settle(seconds=COLLECTOR_SECONDS)
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert ("Workload", "default", "w-job-runs") not in harness.api.objects


async def test_a_group_made_after_its_owner_had_gone_is_deleted(harness: ControllerHarness) -> None:
    """A controller with stale caches creates it; no event about the owner follows."""
    harness.api.put(leaf(workload_owner()))

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_what_the_collector_forgot_after_its_owner_went_is_deleted(
    harness: ControllerHarness,
) -> None:
    harness.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    assert generated(harness) == ["pg-job-runs", "w-job-runs"]

    harness.api.forget("Job", "default", "runs")
    await harness.settle(seconds=COLLECTOR_SECONDS)
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_what_a_deletion_orphaned_is_kept_as_long_as_pods_use_it(
    harness: ControllerHarness,
) -> None:
    """After `kubectl delete --cascade=orphan` the pods continue, and so does their group."""
    harness.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    harness.api.put(make_pod("p").in_group("pg-job-runs").build() | {"kind": "Pod"})
    harness.api.orphan("Job", "default", "runs")
    for _ in range(3):
        await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == ["pg-job-runs", "w-job-runs"]

    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_the_next_of_the_name_does_not_wait_for_the_garbage_collector(
    harness: ControllerHarness, mode: str
) -> None:
    """The collector lags or forgot: the first owner is deleted, and its objects are not."""
    tree = make_jobset("a").asks(gang_mode=mode).replicated_job("b", 2, job_template()).build()
    harness.submit_jobset(tree)
    await harness.settle()
    made = generated(harness)
    harness.api.forget("JobSet", "default", "a")
    await harness.settle()
    assert generated(harness) == made

    harness.submit_jobset(tree | {"metadata": tree["metadata"] | {"uid": "uid-of-the-second"}})
    await harness.settle()

    assert generated(harness) == made
    notes = [it["metadata"]["annotations"] for it in harness.api.objects.values()]
    uids = {it[ANNOTATION_MADE_FOR].rpartition("/")[2] for it in notes if ANNOTATION_MADE_FOR in it}
    assert uids == {"uid-of-the-second"}


async def test_an_orphaned_tree_goes_after_its_last_pod(harness: ControllerHarness) -> None:
    tree = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2, job_template())
    harness.submit_jobset(tree.build())
    await harness.settle()
    made = generated(harness)
    harness.api.put(make_pod("p").in_group("pg-a-b-1").build() | {"kind": "Pod"})
    harness.api.orphan("JobSet", "default", "a")
    for _ in range(3):
        await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == made

    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_an_orphaned_group_waits_for_a_job_that_makes_pods_again(
    harness: ControllerHarness,
) -> None:
    """All pods have failed, and the Job backs off: its next pods need the group."""
    tree = make_jobset("a").asks(gang_mode="Gang").replicated_job("b", 1, job_template())
    harness.submit_jobset(tree.build())
    job = make_job("a-b-0").managed("pg-a").of_jobset("a", "b", 0, "JobSet").build()
    job["metadata"]["labels"][JOBSET_LABEL_UID] = "uid-of-a"
    harness.api.put(job | {"kind": "Job"})
    await harness.settle()
    made = generated(harness)

    harness.api.orphan("JobSet", "default", "a")
    for _ in range(3):
        await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == made

    over = {"conditions": [{"type": "Failed", "status": "True"}]}
    harness.api.put(job | {"kind": "Job", "status": over})
    await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == []


async def test_what_is_orphaned_goes_with_its_last_pod_at_once(harness: ControllerHarness) -> None:
    """The next owner of the name waits for it."""
    harness.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    harness.api.put(make_pod("p").in_group("pg-job-runs").build() | {"kind": "Pod"})
    harness.api.orphan("Job", "default", "runs")
    again = make_job("runs").asks(gang_mode="Gang").pods(3).build()
    harness.submit_job(again | {"metadata": again["metadata"] | {"uid": "uid-of-the-second"}})
    await harness.settle()
    assert uid_of_owner(harness) == "uid-of-runs"

    harness.api.remove("Pod", "default", "p")
    await harness.settle()

    assert uid_of_owner(harness) == "uid-of-the-second"


def uid_of_owner(harness: ControllerHarness) -> str:
    notes = harness.api.objects["PodGroup", "default", "pg-job-runs"]["metadata"]["annotations"]
    return str(notes[ANNOTATION_MADE_FOR].rpartition("/")[2])


async def test_what_was_orphaned_while_nobody_led_is_found_at_the_start_of_a_term(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf())
    harness.orphans.controller.queue.close()
    await harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_what_belongs_to_a_living_owner_stays(harness: ControllerHarness) -> None:
    harness.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    before = generated(harness)
    writes = len(harness.api.writes)

    await harness.orphans.resync()
    await harness.clock.advance(COLLECTOR_SECONDS)
    assert len(harness.orphans.controller.queue) == 0, "nobody even looks at it"
    await harness.settle()

    assert generated(harness) == before
    assert len(harness.api.writes) == writes


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(leaf(workload_owner(), managed=False), id="a group a user made"),
        pytest.param(of_a_pipeline(), id="made for a kind that is not ours, it says"),
    ],
)
async def test_what_muster_did_not_make_stays(harness: ControllerHarness, group: Json) -> None:
    harness.api.put(group)

    await harness.orphans.resync()
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == ["pg-job-runs"]


async def test_an_owner_that_the_cache_has_not_seen_yet_is_asked_for(
    harness: ControllerHarness,
) -> None:
    harness.api.objects["Job", "default", "runs"] = {"metadata": {"uid": "gone"}}
    harness.api.put(leaf())
    await harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert "pg-job-runs" in generated(harness)


async def test_a_kind_that_is_not_served_for_the_moment_proves_nothing(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf(workload_owner()))
    harness.api.client.unserved.add(JOBS.full_name)
    await harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == ["pg-job-runs"]


async def test_a_namesake_of_the_owner_keeps_nothing(harness: ControllerHarness) -> None:
    job = make_job("runs").build()
    harness.api.put(job | {"kind": "Job"})
    harness.api.put(leaf(owner("Job", "runs", "of-the-first", "batch/v1")))
    await harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_an_owner_that_was_replaced_unseen_is_missed(harness: ControllerHarness) -> None:
    """Its deletion event was lost: after a list its namesake looks like a change of it."""
    job = make_job("runs").build() | {"kind": "Job"}
    harness.api.put(job | {"metadata": job["metadata"] | {"uid": "gone"}})
    harness.api.put(leaf(GONE))
    await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == ["pg-job-runs"]

    harness.api.put(job | {"metadata": job["metadata"] | {"uid": "of-the-second"}})
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_an_irrelevant_change_of_an_orphan_costs_nothing(harness: ControllerHarness) -> None:
    """A namespace may have thousands of one owner's orphans, kept by a pod, and change them all."""
    left = harness.api.put(leaf())
    harness.api.put(make_pod("p").in_group("pg-job-runs").build() | {"kind": "Pod"})
    await harness.settle()
    assert len(harness.orphans.controller.queue) == 0

    harness.api.put(left | {"status": {"blocker": {"summary": "no room"}}})
    assert len(harness.orphans.controller.queue) == 0

    owners = {"ownerReferences": [GONE]}
    harness.api.put(left | {"metadata": left["metadata"] | owners})
    assert len(harness.orphans.controller.queue) == 1


async def test_what_is_no_longer_ours_is_left_alone(harness: ControllerHarness) -> None:
    harness.api.put(leaf())
    harness.api.put(leaf(managed=False))

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == ["pg-job-runs"]


@pytest.mark.parametrize("replaced", [True, False])
async def test_what_went_meanwhile_is_not_tried_again(
    harness: ControllerHarness, replaced: bool
) -> None:
    harness.api.put(leaf())
    if replaced:
        harness.api.put_unseen(leaf())
    else:
        del harness.api.objects["PodGroup", "default", "pg-job-runs"]

    await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == (["pg-job-runs"] if replaced else [])

    await harness.clock.advance(60)
    assert len(harness.orphans.controller.queue) == 0


@pytest.mark.parametrize("kind", [STATEFUL_SET, DEPLOYMENT, LEADER_WORKER_SET, JOBSET, JOB])
async def test_what_each_kind_of_owner_left_goes(
    harness: ControllerHarness, kind: KindName
) -> None:
    """The objects are deleted after the end of the forgotten owner, unless another owner exists."""
    api_version = f"{kind.group}/{kind.version}"
    group = leaf(owner(kind.kind, "runs", "gone", api_version))
    group["metadata"] |= made_for(kind, "runs", "gone")
    meta = {"name": "runs", "namespace": "default", "uid": "gone"}
    harness.api.put({"apiVersion": api_version, "kind": kind.kind, "metadata": meta, "spec": {}})
    harness.api.put(group)
    await harness.orphans.resync()
    await harness.settle(seconds=COLLECTOR_SECONDS)
    await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == ["pg-job-runs"], "its owner lives"

    harness.api.forget(kind.kind, "default", "runs")
    await harness.settle(seconds=COLLECTOR_SECONDS - 1)
    assert generated(harness) == ["pg-job-runs"], "the collector has its time"
    await harness.settle(seconds=1)

    assert generated(harness) == []


def test_all_kinds_that_groups_are_made_for_are_watched_as_owners(
    harness: ControllerHarness,
) -> None:
    def may_be_absent(it: Resource) -> bool:
        return not harness.caches.exists(OwnerId(it.group, it.kind, "n", "uid"), "default")

    assert {it for it in harness.caches.sources if may_be_absent(it)} == set(OWNERS)
