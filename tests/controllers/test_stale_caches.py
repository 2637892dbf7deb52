"""Caches may be behind: what became another's meanwhile is neither changed nor deleted."""

from typing import Any

import pytest

from tests.controllers.conftest import House
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]

JOBSET = (
    make_jobset("a")
    .replicated_job("b", 2, job_template().pods(4), mode="ReplicatedGang")
    .replicated_job("c", 2, job_template().pods(4), mode="Gang")
)


def taken(house: House, kind: str, name: str) -> Json:
    """Somebody else's object has the name now, alike but for its UID and its marks."""
    old = house.api.objects[kind, "default", name]
    metadata = {"name": name, "namespace": "default"}
    return house.api.unseen({"kind": kind, "metadata": metadata, "spec": old["spec"]})


def scale(house: House, **sizes: int) -> None:
    """Replicas by replicatedJob."""
    jobs = house.api.objects["JobSet", "default", "a"]["spec"]["replicatedJobs"]
    scaled = [job | {"replicas": sizes.get(job["name"], job["replicas"])} for job in jobs]
    house.change("JobSet", "a", replicatedJobs=scaled)


@pytest.mark.parametrize(("kind", "name"), [("PodGroup", "pg-a-c"), ("Workload", "w-a")])
async def test_floors_of_others_stay(house: House, kind: str, name: str) -> None:
    house.submit_jobset(JOBSET.build())
    await house.settle()
    theirs = taken(house, kind, name)

    scale(house, c=3)
    await house.settle()

    assert house.api.objects[kind, "default", name] == theirs


async def test_groups_of_others_are_no_surplus(house: House) -> None:
    house.submit_jobset(JOBSET.build())
    await house.settle()
    theirs = taken(house, "PodGroup", "pg-a-b-1")

    scale(house, b=1)
    await house.settle()

    assert house.api.objects["PodGroup", "default", "pg-a-b-1"] == theirs


async def test_a_surplus_group_that_is_gone_already_is_no_failure(house: House) -> None:
    house.submit_jobset(JOBSET.build())
    await house.settle()
    del house.api.objects["PodGroup", "default", "pg-a-b-1"]

    scale(house, b=1)
    await house.settle()
    await house.clock.advance(60)

    assert len(house.jobset.controller.queue) == 0
