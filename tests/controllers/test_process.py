"""The complete controller process on the embedded cluster: watches, lease, garbage collection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import jsonpatch
import msgspec
import pytest

from api import crd
from api.constants import KINDS
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission
from api.integration.jobset.admission import jobset_admission
from controllers.app import ControllerProcess
from controllers.cache.objects import COMPOSITES, POD_GROUPS, WORKLOADS
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.resources import CRDS, JOBS, JOBSETS, NAMESPACES, PODS, Resource
from localcluster.cluster import LocalCluster
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        await install(client)
        yield client


async def install(client: Client) -> None:
    """Create the manifests' objects that the controllers need."""
    for kind in KINDS:
        await client.create(CRDS, crd.crd(kind))
    await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})


@asynccontextmanager
async def running(client: Client) -> AsyncIterator[ControllerProcess]:
    """Run a controller process, and check that it ends cleanly."""
    election = LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.1)
    process, stop = ControllerProcess(client, election), asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await task


async def seen(
    client: Client, resource: Resource, holds: Callable[[dict[str, Json]], bool]
) -> None:
    """Watch a kind until its objects meet the condition."""
    there: dict[str, Json] = {}
    path = resource.path("default")
    listed = await client.list(resource, "default")
    for item in listed["items"]:
        there[item["metadata"]["name"]] = item
    version = listed["metadata"]["resourceVersion"]
    lines = client.watch_lines(path, {"watch": "true", "resourceVersion": version})
    async with aclosing(lines) as stream:
        while not holds(there):
            event = msgspec.json.decode(await anext(stream))
            name = event["object"]["metadata"]["name"]
            there[name] = event["object"]
            if event["type"] == "DELETED":
                del there[name]


def names(*wanted: str) -> Callable[[dict[str, Json]], bool]:
    return lambda there: set(there) == set(wanted)


async def submit_jobset(client: Client, jobset: Json) -> None:
    del jobset["metadata"]["uid"]
    for job in jobset["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    patch = jobset_admission(jobset, Review("CREATE")).patch
    await client.create(JOBSETS, jsonpatch.apply_patch(jobset, patch))


async def submit_job(client: Client, job: Json) -> None:
    del job["metadata"]["uid"]
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    patch = job_admission(job, Review("CREATE")).patch
    await client.create(JOBS, jsonpatch.apply_patch(job, patch))


async def test_a_tree_comes_and_goes_with_its_jobset(client: Client) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    async with running(client) as process:
        await submit_jobset(client, jobset.build())
        await seen(client, POD_GROUPS, names("pg-a-b-0", "pg-a-b-1"))
        await seen(client, COMPOSITES, names("cpg-a", "cpg-a-b-d38fb85d90"))
        assert process.checks["caches"]()

        await client.delete(JOBSETS, "a", "default", propagation="Background")

        for resource in (COMPOSITES, POD_GROUPS, WORKLOADS, JOBS, PODS):
            await seen(client, resource, names())


async def test_a_job_s_group_follows_its_life(client: Client) -> None:
    def min_count_is(count: int) -> Callable[[dict[str, Json]], bool]:
        def holds(there: dict[str, Json]) -> bool:
            policies = [it["spec"]["schedulingPolicy"] for it in there.values()]
            return policies == [{"gang": {"minCount": count}}]

        return holds

    async with running(client):
        await submit_job(client, make_job("t").asks(gang_mode="Gang").pods(2).build())
        await seen(client, PODS, lambda there: len(there) == 2)
        await seen(client, POD_GROUPS, min_count_is(2))

        scaled = [{"op": "add", "path": "/spec/parallelism", "value": 3}]
        await client.patch(JOBS, "t", scaled, "default")
        await seen(client, POD_GROUPS, min_count_is(3))

        suspended = [{"op": "add", "path": "/spec/suspend", "value": True}]
        await client.patch(JOBS, "t", suspended, "default")
        await seen(client, POD_GROUPS, names())

        await client.patch(JOBS, "t", [{"op": "remove", "path": "/spec/suspend"}], "default")
        await seen(client, POD_GROUPS, min_count_is(3))

        await client.delete(JOBS, "t", "default", propagation="Foreground")
        for resource in (POD_GROUPS, WORKLOADS, PODS):
            await seen(client, resource, names())


async def test_a_second_replica_takes_over_when_the_first_one_stops(client: Client) -> None:
    gang = make_jobset("a").asks(gang_mode="Gang").replicated_job("b", 1, job_template().pods(2))
    async with running(client):
        async with running(client):
            await submit_jobset(client, gang.build())
            await seen(client, POD_GROUPS, names("pg-a"))
        await client.delete(JOBSETS, "a", "default", propagation="Background")
        await seen(client, POD_GROUPS, names())

    await submit_jobset(client, gang.build())
    async with running(client):
        await seen(client, POD_GROUPS, names("pg-a"))


async def test_jobs_are_served_where_jobsets_are_not_installed() -> None:
    async with (
        LocalCluster(jobset=False) as cluster,
        await Client.connect(cluster.kubeconfig) as client,
    ):
        await install(client)
        async with running(client):
            await submit_job(client, make_job("t").asks(gang_mode="Gang").build())
            await seen(client, POD_GROUPS, names("pg-job-t"))
