"""Stale caches: the controllers neither change nor delete an object that belongs to another now."""

from typing import Any

import msgspec
import pytest

from controllers.cache.decoding import decode_jobset
from kube.base.errors import Unreachable
from tests.controllers.conftest import ControllerHarness
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]

JOBSET = (
    make_jobset("a")
    .replicated_job("b", 2, job_template().pods(4), mode="ReplicatedGang")
    .replicated_job("c", 2, job_template().pods(4), mode="Gang")
)


def taken(harness: ControllerHarness, kind: str, name: str) -> Json:
    """Give the name to another object, equal except for its UID and its labels."""
    old = harness.api.objects[kind, "default", name]
    metadata = {"name": name, "namespace": "default"}
    return harness.api.put_unseen({"kind": kind, "metadata": metadata, "spec": old["spec"]})


def hold_back_deletion(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Delay all events of the caches from the deletion of that name on."""
    delete = harness.api.client.delete

    async def holding(resource: Any, deleted: str, *rest: Any, **options: Any) -> None:
        if deleted == name:
            harness.api.pause_events()
        await delete(resource, deleted, *rest, **options)

    monkeypatch.setattr(harness.api.client, "delete", holding)


def scale(harness: ControllerHarness, **sizes: int) -> None:
    """Set replicas by replicatedJob."""
    jobs = harness.api.objects["JobSet", "default", "a"]["spec"]["replicatedJobs"]
    scaled = [job | {"replicas": sizes.get(job["name"], job["replicas"])} for job in jobs]
    harness.change("JobSet", "a", replicatedJobs=scaled)


@pytest.mark.parametrize(("kind", "name"), [("PodGroup", "pg-a-c-fe25d5b2a3"), ("Workload", "w-a")])
async def test_minimums_of_others_stay(harness: ControllerHarness, kind: str, name: str) -> None:
    harness.submit_jobset(JOBSET.build())
    await harness.settle()
    theirs = taken(harness, kind, name)

    scale(harness, c=3)
    await harness.settle()

    assert harness.api.objects[kind, "default", name] == theirs


async def test_groups_of_others_are_no_surplus(harness: ControllerHarness) -> None:
    harness.submit_jobset(JOBSET.build())
    await harness.settle()
    theirs = taken(harness, "PodGroup", "pg-a-b-1")

    scale(harness, b=1)
    await harness.settle()

    assert harness.api.objects["PodGroup", "default", "pg-a-b-1"] == theirs


async def test_a_surplus_group_that_is_gone_already_is_no_failure(
    harness: ControllerHarness,
) -> None:
    harness.submit_jobset(JOBSET.build())
    await harness.settle()
    del harness.api.objects["PodGroup", "default", "pg-a-b-1"]

    scale(harness, b=1)
    await harness.settle()
    await harness.clock.advance(60)

    assert len(harness.jobset.controller.queue) == 0


async def test_no_group_is_made_below_one_whose_deletion_is_under_way(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep its parent, which then accepts no other group."""
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())
    await harness.settle()
    made = harness.api.names("PodGroup", "CompositePodGroup")

    hold_back_deletion(harness, monkeypatch, "cpg-a-b-d38fb85d90")
    harness.change("JobSet", "a", suspend=True)
    await harness.settle()
    assert harness.api.names("PodGroup", "CompositePodGroup") == ["cpg-a", "cpg-a-b-d38fb85d90"]
    harness.change("JobSet", "a", suspend=False)
    resumed = harness.api.objects["JobSet", "default", "a"]
    harness.caches.jobsets.upsert(decode_jobset(msgspec.json.encode(resumed)))
    await harness.settle()
    assert harness.api.names("PodGroup", "CompositePodGroup") == ["cpg-a", "cpg-a-b-d38fb85d90"]

    harness.api.resume_events()
    await harness.settle(seconds=10)
    assert harness.api.names("PodGroup", "CompositePodGroup") == made
    metadata = [obj["metadata"] for obj in harness.api.objects.values()]
    assert not [meta["name"] for meta in metadata if "deletionTimestamp" in meta]


async def test_a_deletion_whose_answer_was_lost_holds_up_nobody_for_long(
    harness: ControllerHarness,
) -> None:
    """It may never have reached the server; the cache shows that soon enough."""
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())
    await harness.settle()
    made = harness.api.names("PodGroup", "CompositePodGroup")

    harness.api.fail(Unreachable("DELETE", "/", "reset"))
    harness.change("JobSet", "a", suspend=True)
    await harness.settle()
    harness.change("JobSet", "a", suspend=False)
    await harness.settle()
    await harness.settle(seconds=10)

    assert harness.api.names("PodGroup", "CompositePodGroup") == made
