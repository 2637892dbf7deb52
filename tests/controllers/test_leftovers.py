"""What the garbage collector forgot is deleted, and nothing else is."""

from typing import Any

import pytest

from api.constants import JOB
from controllers.leftovers import PATIENCE
from tests.controllers.conftest import House
from tests.support.builders import make_pod
from tests.support.owners import job_template, made_for, make_job, make_jobset

Json = dict[str, Any]
GENERATED = ("Workload", "CompositePodGroup", "PodGroup")


def generated(house: House) -> list[str]:
    return house.api.names(*GENERATED)


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
    house: House,
) -> None:
    house.api.put(leaf(workload_owner()))
    house.leftovers.resync()

    await house.settle(seconds=PATIENCE - 1)
    assert generated(house) == ["pg-job-runs"]

    await house.settle(seconds=1)
    assert generated(house) == []


async def test_a_group_made_after_its_owner_had_gone_is_deleted(house: House) -> None:
    """By a controller whose caches were behind: of the owner nothing is heard any more."""
    house.api.put(leaf(workload_owner()))

    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_what_the_collector_forgot_after_its_owner_went_is_deleted(house: House) -> None:
    house.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await house.settle()
    assert generated(house) == ["pg-job-runs", "w-job-runs"]

    house.api.forget("Job", "default", "runs")
    await house.settle(seconds=PATIENCE)
    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_what_a_deletion_orphaned_is_kept_as_long_as_pods_use_it(house: House) -> None:
    """`kubectl delete --cascade=orphan`: the pods run on, and so does their group."""
    house.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await house.settle()
    house.api.put(make_pod("p").in_group("pg-job-runs").build() | {"kind": "Pod"})
    house.api.orphan("Job", "default", "runs")
    for _ in range(3):
        await house.settle(seconds=PATIENCE)
    assert generated(house) == ["pg-job-runs", "w-job-runs"]

    house.api.remove("Pod", "default", "p")
    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_an_orphaned_tree_goes_after_its_last_pod(house: House) -> None:
    tree = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2, job_template())
    house.submit_jobset(tree.build())
    await house.settle()
    made = generated(house)
    house.api.put(make_pod("p").in_group("pg-a-b-1").build() | {"kind": "Pod"})
    house.api.orphan("JobSet", "default", "a")
    for _ in range(3):
        await house.settle(seconds=PATIENCE)
    assert generated(house) == made

    house.api.remove("Pod", "default", "p")
    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_what_was_orphaned_while_nobody_led_is_found_at_the_start_of_a_term(
    house: House,
) -> None:
    house.api.put(leaf())
    house.leftovers.controller.queue.close()
    house.leftovers.resync()

    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_what_belongs_to_a_living_owner_stays(house: House) -> None:
    house.submit_job(make_job("runs").asks(gang_mode="Gang").pods(2).build())
    await house.settle()
    before = generated(house)
    writes = len(house.api.writes)

    house.leftovers.resync()
    await house.clock.advance(PATIENCE)
    assert len(house.leftovers.controller.queue) == 0, "nobody even looks at it"
    await house.settle()

    assert generated(house) == before
    assert len(house.api.writes) == writes


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
async def test_what_is_not_ours_to_judge_stays(house: House, group: Json) -> None:
    house.api.put(group)

    house.leftovers.resync()
    await house.settle(seconds=PATIENCE)

    assert generated(house) == ["pg-job-runs"]


async def test_an_owner_that_the_cache_has_not_seen_yet_is_asked_for(house: House) -> None:
    house.api.objects["Workload", "default", "w-job-runs"] = {"metadata": {"uid": "alive"}}
    house.api.put(leaf(workload_owner("alive")))
    house.leftovers.resync()

    await house.settle(seconds=PATIENCE)

    assert "pg-job-runs" in generated(house)


async def test_a_kind_that_is_not_served_for_the_moment_proves_nothing(house: House) -> None:
    house.api.put(leaf(workload_owner()))
    house.api.unserved.add("Workload")
    house.leftovers.resync()

    await house.settle(seconds=PATIENCE)

    assert generated(house) == ["pg-job-runs"]


async def test_a_namesake_of_the_owner_keeps_nothing(house: House) -> None:
    job = make_job("runs").build()
    house.api.put(job | {"kind": "Job"})
    house.api.put(leaf(owner("Job", "runs", "of-the-first", "batch/v1")))
    house.leftovers.resync()

    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_an_owner_that_was_replaced_unseen_is_missed(house: House) -> None:
    """Its deletion was lost: after a list its namesake is there as if it had changed."""
    job = make_job("runs").build() | {"kind": "Job"}
    uid = house.api.put(job)["metadata"]["uid"]
    house.api.put(leaf(owner("Job", "runs", uid, "batch/v1")))
    await house.settle(seconds=PATIENCE)
    assert generated(house) == ["pg-job-runs"]

    house.api.put(job | {"metadata": job["metadata"] | {"uid": "of-the-second"}})
    await house.settle(seconds=PATIENCE)

    assert generated(house) == []


async def test_what_is_no_longer_ours_is_left_alone(house: House) -> None:
    house.api.put(leaf())
    house.api.put(leaf(managed=False))

    await house.settle(seconds=PATIENCE)

    assert generated(house) == ["pg-job-runs"]


@pytest.mark.parametrize("replaced", [True, False])
async def test_what_went_meanwhile_is_not_tried_again(house: House, replaced: bool) -> None:
    house.api.put(leaf())
    if replaced:
        house.api.unseen(leaf())
    else:
        del house.api.objects["PodGroup", "default", "pg-job-runs"]

    await house.settle(seconds=PATIENCE)
    assert generated(house) == (["pg-job-runs"] if replaced else [])

    await house.clock.advance(60)
    assert len(house.leftovers.controller.queue) == 0
