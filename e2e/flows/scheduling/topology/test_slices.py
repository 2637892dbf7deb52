"""Slices of one group: each in one clique, all in one block, with consecutive indexes."""

from collections import defaultdict

import pytest

from api.constants import (
    ANNOTATION_MIN_COUNT,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
)
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.objects import Json, job, jobset, of_job, of_jobset, replicated_job
from kube.base.errors import Invalid
from kube.client.resources import JOBS, JOBSETS, NODES, PODS

BLOCK = "test.muster.dev/block"
CLIQUE = "test.muster.dev/clique"
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"


async def clique(env: Environment, block: str, name: str, *nodes: int) -> None:
    """Add nodes for so many pods each."""
    for cpu in nodes:
        await env.add_node(cpu=cpu, labels={BLOCK: block, CLIQUE: name})


def slices(size: int, *, block: bool = True) -> dict[str, str]:
    notes = {ANNOTATION_SLICE_SIZE: str(size), ANNOTATION_SLICE_TOPOLOGY: CLIQUE}
    return notes | ({ANNOTATION_TOPOLOGY: BLOCK} if block else {})


def sliced_job(env: Environment, name: str, pods: int, size: int) -> Json:
    made = job(name, env.name, pods=pods)
    made["metadata"]["annotations"] |= slices(size)
    made["spec"] |= {"completionMode": "Indexed", "backoffLimit": 100}
    return made


async def cliques(env: Environment, selector: str, size: int, *, job_pods: int = 0) -> list[str]:
    """Return the clique of each slice by its number; fails if one is in several."""
    found = defaultdict[int, set[str]](set)
    for pod in await env.pods(selector):
        labels = pod["metadata"]["labels"]
        index = int(labels[INDEX]) + job_pods * int(labels.get(JOB_INDEX, "0"))
        node = await env.client.get(NODES, pod["spec"]["nodeName"])
        found[index // size].add(node["metadata"]["labels"][CLIQUE])
    assert all(len(there) == 1 for there in found.values()), found
    return [found[number].pop() for number in sorted(found)]


async def test_a_job_in_slices_waits_for_a_block_and_keeps_its_domains(env: Environment) -> None:
    await clique(env, "b0", "c0", 2, 3)
    await clique(env, "b0", "c1", 3)
    await env.create(JOBS, sliced_job(env, "train", 8, 4))

    blocker = await env.waits("pg-job-train", needed=4, free=3)
    assert "slice 2 of 2 (indexes 4-7) needs capacity for 4 more pods" in blocker["summary"]
    assert await env.bound() == 0

    await clique(env, "b1", "c2", 2, 2)
    await clique(env, "b1", "c3", 4)
    await env.runs(of_job("train"), 8)
    assert sorted(await cliques(env, of_job("train"), 4)) == ["c2", "c3"]
    before = await cliques(env, of_job("train"), 4)

    # Elsewhere in the block there is more capacity, but not for this slice.
    await clique(env, "b1", "c4", 8)
    (lost,) = await env.pods(f"{of_job('train')},{INDEX}=5")
    await env.delete(PODS, lost["metadata"]["name"])

    async def replaced() -> bool:
        found = await env.pods(f"{of_job('train')},{INDEX}=5")
        return [it["metadata"]["uid"] for it in found] not in ([], [lost["metadata"]["uid"]])

    await env.until("the pod to be replaced", replaced)
    await env.runs(of_job("train"), 8)
    assert await cliques(env, of_job("train"), 4) == before


async def test_the_jobs_of_a_jobset_share_slices(env: Environment) -> None:
    for number in range(2):
        await clique(env, "b0", f"c{number}", 4)
    part = replicated_job("w", env.name, replicas=4, pods=2)
    part["template"]["spec"]["completionMode"] = "Indexed"
    made = jobset("train", part)
    made["metadata"]["annotations"] |= slices(4)
    await env.create(JOBSETS, made)

    await env.runs(of_jobset("train"), 8)

    assert sorted(await cliques(env, of_jobset("train"), 4, job_pods=2)) == ["c0", "c1"]


async def test_pods_without_indexes_are_in_slices_too(env: Environment) -> None:
    for number, cpu in enumerate((3, 3, 1)):
        await clique(env, "b0", f"c{number}", cpu)
    await leaf(env, "g", 4, annotations=slices(2, block=False))

    await env.runs(members("g"), 4)

    nodes = [pod["spec"]["nodeName"] for pod in await env.pods(members("g"))]
    assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2]


async def test_preemption_evicts_one_slice_beyond_the_minimum(
    env: Environment, important: str
) -> None:
    """A single pod needs the capacity of one pod: four that work together go, the others run on."""
    for number in range(2):
        await clique(env, "b0", f"c{number}", 4)
    low = sliced_job(env, "low", 8, 4)
    low["metadata"]["annotations"][ANNOTATION_MIN_COUNT] = "4"
    await env.create(JOBS, low)
    await env.runs(of_job("low"), 8)

    await leaf(env, "high", 1, priority_class=important, of_pod={"priorityClassName": important})
    await env.runs(members("high"), 1)

    await env.runs(of_job("low"), 4)
    running = [
        int(pod["metadata"]["labels"][INDEX]) // 4
        for pod in await env.pods(of_job("low"))
        if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
    ]
    assert len(set(running)) == 1, running


@pytest.mark.parametrize("size", [3, 16, 10**9])
async def test_admission_rejects_slices_that_pods_cannot_fill(env: Environment, size: int) -> None:
    with pytest.raises(Invalid, match="slice-size"):
        await env.create(JOBS, sliced_job(env, "train", 8, size))
