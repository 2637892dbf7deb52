"""What the garbage collector forgot is deleted, and nothing else is."""

from typing import Any

import pytest

from api.constants import JOB
from controllers.orphans import COLLECTOR_SECONDS
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


async def test_a_group_that_lost_its_workload_unseen_is_deleted_after_a_while(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf(workload_owner()))
    harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS - 1)
    assert generated(harness) == ["pg-job-runs"]

    await harness.settle(seconds=1)
    assert generated(harness) == []


async def test_a_group_made_after_its_owner_had_gone_is_deleted(harness: ControllerHarness) -> None:
    """By a controller whose caches were behind: of the owner nothing is heard any more."""
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
    """`kubectl delete --cascade=orphan`: the pods run on, and so does their group."""
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


async def test_what_was_orphaned_while_nobody_led_is_found_at_the_start_of_a_term(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf())
    harness.orphans.controller.queue.close()
    harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_what_belongs_to_a_living_owner_stays(harness: ControllerHarness) -> None:
    harness.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await harness.settle()
    before = generated(harness)
    writes = len(harness.api.writes)

    harness.orphans.resync()
    await harness.clock.advance(COLLECTOR_SECONDS)
    assert len(harness.orphans.controller.queue) == 0, "nobody even looks at it"
    await harness.settle()

    assert generated(harness) == before
    assert len(harness.api.writes) == writes


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(leaf(workload_owner(), managed=False), id="a group a user made"),
        pytest.param(
            leaf(owner("Pipeline", "p", "u", "example.com/v1"), workload_owner()),
            id="a group with an owner of a kind that is not ours",
        ),
    ],
)
async def test_what_muster_did_not_make_stays(harness: ControllerHarness, group: Json) -> None:
    harness.api.put(group)

    harness.orphans.resync()
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == ["pg-job-runs"]


async def test_an_owner_that_the_cache_has_not_seen_yet_is_asked_for(
    harness: ControllerHarness,
) -> None:
    harness.api.objects["Workload", "default", "w-job-runs"] = {"metadata": {"uid": "alive"}}
    harness.api.put(leaf(workload_owner("alive")))
    harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert "pg-job-runs" in generated(harness)


async def test_a_kind_that_is_not_served_for_the_moment_proves_nothing(
    harness: ControllerHarness,
) -> None:
    harness.api.put(leaf(workload_owner()))
    harness.api.unserved.add("Workload")
    harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == ["pg-job-runs"]


async def test_a_namesake_of_the_owner_keeps_nothing(harness: ControllerHarness) -> None:
    job = make_job("runs").build()
    harness.api.put(job | {"kind": "Job"})
    harness.api.put(leaf(owner("Job", "runs", "of-the-first", "batch/v1")))
    harness.orphans.resync()

    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


async def test_an_owner_that_was_replaced_unseen_is_missed(harness: ControllerHarness) -> None:
    """Its deletion was lost: after a list its namesake is there as if it had changed."""
    job = make_job("runs").build() | {"kind": "Job"}
    uid = harness.api.put(job)["metadata"]["uid"]
    harness.api.put(leaf(owner("Job", "runs", uid, "batch/v1")))
    await harness.settle(seconds=COLLECTOR_SECONDS)
    assert generated(harness) == ["pg-job-runs"]

    harness.api.put(job | {"metadata": job["metadata"] | {"uid": "of-the-second"}})
    await harness.settle(seconds=COLLECTOR_SECONDS)

    assert generated(harness) == []


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
