"""Caches may be behind: what became another's meanwhile is neither changed nor deleted."""

from typing import Any

import pytest

from tests.controllers.conftest import ControllerHarness
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]

JOBSET = (
    make_jobset("a")
    .replicated_job("b", 2, job_template().pods(4), mode="ReplicatedGang")
    .replicated_job("c", 2, job_template().pods(4), mode="Gang")
)


def taken(harness: ControllerHarness, kind: str, name: str) -> Json:
    """Somebody else's object has the name now, alike but for its UID and its marks."""
    old = harness.api.objects[kind, "default", name]
    metadata = {"name": name, "namespace": "default"}
    return harness.api.put_unseen({"kind": kind, "metadata": metadata, "spec": old["spec"]})


def scale(harness: ControllerHarness, **sizes: int) -> None:
    """Replicas by replicatedJob."""
    jobs = harness.api.objects["JobSet", "default", "a"]["spec"]["replicatedJobs"]
    scaled = [job | {"replicas": sizes.get(job["name"], job["replicas"])} for job in jobs]
    harness.change("JobSet", "a", replicatedJobs=scaled)


@pytest.mark.parametrize(("kind", "name"), [("PodGroup", "pg-a-c"), ("Workload", "w-a")])
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
