"""Kueue admits by quota, and Muster places what is admitted as a whole."""

from collections.abc import AsyncIterator

import pytest
import yaml

from api import names
from api.constants import ANNOTATION_TOPOLOGY
from e2e.harness.controlplane.places import ROOT
from e2e.harness.environment import Environment
from e2e.harness.objects import NODE_LABEL, POD_GROUPS, Json, job, jobset, of_job, of_jobset
from e2e.harness.objects import replicated_job as part
from e2e.neighbours.kueue.conftest import READY_SECONDS
from e2e.neighbours.kueue.queues import (
    CLUSTER_QUEUES,
    FLAVORS,
    HIGH,
    KUEUE_WORKLOADS,
    LOCAL_QUEUES,
    LOW,
    Queue,
    opened,
    queued,
)
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, NODES

RACK = "test.muster.dev/rack"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def queue(env: Environment) -> AsyncIterator[Queue]:
    """Two racks of two nodes of four CPUs, and a quota of all of them."""
    for rack in ("r1", "r1", "r2", "r2"):
        await env.add_node(cpu=4, labels={RACK: rack})
    async with opened(env, {env.name: 16}) as queue:
        yield queue


async def racks(env: Environment, selector: str) -> set[str]:
    used = {pod["spec"]["nodeName"] for pod in await env.pods(selector)}
    nodes = [await env.client.get(NODES, name) for name in used]
    return {node["metadata"]["labels"][RACK] for node in nodes}


def in_one_rack(name: str, env: Environment, priority: str = LOW) -> Json:
    return queued(job(name, env.name, pods=8), priority, **{ANNOTATION_TOPOLOGY: RACK})


async def no_groups(env: Environment) -> None:
    async def probe() -> bool:
        return not (await env.client.list(POD_GROUPS, env.name))["items"]

    await env.until("there to be no PodGroup", probe)


async def test_a_gang_waits_for_its_quota_and_is_then_placed_in_one_rack(
    env: Environment, queue: Queue
) -> None:
    for name in ("first", "second", "third"):
        await env.create(JOBS, in_one_rack(name, env))
    await env.runs("", 16)
    await queue.refuses("third")
    assert await env.pods(of_job("third")) == []
    assert {len(await racks(env, of_job(name))) for name in ("first", "second")} == {1}

    await env.cluster.finish_pods(env.name, of_job("first"))

    await env.runs(of_job("third"), 8)
    assert len(await racks(env, of_job("third"))) == 1


async def test_a_jobset_gets_its_quota_and_starts_whole(env: Environment, queue: Queue) -> None:
    await env.create(JOBS, queued(job("before", env.name, pods=8)))
    await env.runs(of_job("before"), 8)
    parts = [part("driver", env.name, replicas=1, pods=2), part("worker", env.name, pods=4)]
    await env.create(JOBSETS, queued(jobset("train", *parts)))
    await queue.refuses("train")

    await env.cluster.finish_pods(env.name, of_job("before"))

    await env.runs(of_jobset("train"), 10)


async def test_quota_without_capacity_starts_nothing_and_the_rest_follows(
    env: Environment, queue: Queue
) -> None:
    """The gang has its quota, but no rack has room for it: Kueue gives the quota to the next.

    Kueue tries the gang again, and it starts when it has a rack.
    """
    for rack in ("r1", "r2"):
        small = job(f"small-{rack}", env.name, pods=1)
        small["spec"]["template"]["spec"]["nodeSelector"][RACK] = rack
        await env.create(JOBS, small)
    await env.runs("", 2)
    await env.create(JOBS, in_one_rack("gang", env))
    await queue.admits("gang")
    waiting = await env.waits(names.job_pod_group(env.name, "gang"), free=7, needed=8)
    assert waiting["summary"]

    async def is_evicted() -> bool:
        return ("gang", "PodsReadyTimeout") in await queue.evictions()

    await env.until("Kueue to take the quota back", is_evicted, READY_SECONDS + 60)
    assert await env.bound(of_job("gang")) == 0
    await env.cluster.finish_pods(env.name, of_job("small-r1"))
    await env.runs(of_job("gang"), 8)


async def test_partial_admission_shrinks_the_gang(env: Environment, queue: Queue) -> None:
    await env.create(JOBS, queued(job("before", env.name, pods=10)))
    await env.runs(of_job("before"), 10)
    annotations = {
        "kueue.x-k8s.io/job-min-parallelism": "4",
        "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
    }
    elastic = queued(job("elastic", env.name, pods=8), **annotations)
    elastic["spec"]["completionMode"] = "Indexed"
    await env.create(JOBS, elastic)

    await env.runs(of_job("elastic"), 6)
    group = await env.group(names.job_pod_group(env.name, "elastic"))
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 6


async def test_a_suspended_gang_leaves_and_comes_back_whole(env: Environment, queue: Queue) -> None:
    await env.create(JOBS, in_one_rack("gang", env))
    await env.runs(of_job("gang"), 8)
    name = (await queue.workload("gang"))["metadata"]["name"]

    async def active(value: bool) -> None:
        patch = PatchBuilder().replace("/spec/active", value)
        await env.client.patch(KUEUE_WORKLOADS, name, patch, env.name)

    await active(False)
    await env.has_pods(of_job("gang"), 0)
    await no_groups(env)
    await env.create(JOBS, queued(job("other", env.name, pods=16)))
    await env.runs(of_job("other"), 16)
    await active(True)
    await queue.refuses("gang")
    await env.cluster.finish_pods(env.name, of_job("other"))

    await env.runs(of_job("gang"), 8)
    assert len(await racks(env, of_job("gang"))) == 1


async def test_the_example_starts_as_a_gang(env: Environment, queue: Queue) -> None:
    """Its queue has its own names, so that it needs no other."""
    *shared, local, gang = yaml.safe_load_all((ROOT / "examples/kueue-gang.yaml").read_text())
    kinds = (FLAVORS, CLUSTER_QUEUES)
    gang["spec"]["template"]["spec"]["nodeSelector"] = {NODE_LABEL: env.name}
    try:
        for kind, obj in zip(kinds, shared, strict=True):
            await env.client.create(kind, obj)
        await env.create(LOCAL_QUEUES, local)
        await env.create(JOBS, gang)
        await env.runs(of_job("train"), 4)
        group = await env.group(names.job_pod_group(env.name, "train"))
        assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 4
    finally:
        await env.clear()
        for kind, obj in zip(kinds[::-1], shared[::-1], strict=True):
            await env.client.delete(kind, obj["metadata"]["name"])


async def test_a_flavor_chooses_the_nodes(env: Environment) -> None:
    """The first flavor has quota for one gang of four; the second gang gets the other nodes."""
    first, second = f"{env.name}-a", f"{env.name}-b"
    for flavor in (first, second):
        await env.add_node(cpu=8, labels={NODE_LABEL: flavor})
    async with opened(env, {first: 4, second: 8}):
        for name in ("one", "two"):
            gang = queued(job(name, env.name, pods=4))
            del gang["spec"]["template"]["spec"]["nodeSelector"]
            await env.create(JOBS, gang)
        await env.runs("", 8)
        places = {pod["spec"]["nodeName"] for pod in await env.pods("")}
        assert len(places) == 2, "each gang has the nodes of its flavor"
        for name in ("one", "two"):
            assert len({pod["spec"]["nodeName"] for pod in await env.pods(of_job(name))}) == 1


async def test_a_higher_class_suspends_one_gang_and_muster_evicts_nothing(
    env: Environment, queue: Queue
) -> None:
    for name in ("first", "second"):
        await env.create(JOBS, in_one_rack(name, env))
    await env.runs("", 16)

    await env.create(JOBS, in_one_rack("urgent", env, HIGH))

    await env.runs(of_job("urgent"), 8)
    assert len(await racks(env, of_job("urgent"))) == 1
    assert list((await queue.evictions()).values()) == [1]
    suspended = [await queue.is_suspended(name) for name in ("first", "second")]
    assert sorted(suspended) == [False, True]
