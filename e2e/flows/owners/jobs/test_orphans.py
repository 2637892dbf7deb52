"""Owners deleted without a leader: `muster gc --check` lists what they left behind.

It does so until these objects are deleted.
"""

from typing import Any

import pytest

from api.constants import COSCHEDULING, LABEL_COSCHEDULING
from e2e.flows.owners.jobs.queries import names, wait_for_objects
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    pod,
    replicated_job,
    resource,
)
from e2e.harness.support.command import muster
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

COSCHEDULINGS = resource(COSCHEDULING)
NOTHING = "no orphans and no stuck finalizers"


async def gc(env: Environment) -> tuple[int, list[str]]:
    """Return exit code and lines of `muster gc --check` in the flow's namespace."""
    arguments = ("gc", "--check", f"--namespace={env.name}")
    code, output, errors = await muster(env.cluster.kubeconfig, *arguments)
    return code, (output + errors).splitlines()


async def submit(env: Environment, kind: Resource) -> None:
    """Create four pods that run as one gang, named `a`."""
    if kind == JOBSETS:
        workers = replicated_job("w", env.name, replicas=2, pods=2)
        await env.create(JOBSETS, jobset("a", workers, mode="Composite"))
    elif kind == JOBS:
        await env.create(JOBS, job("a", env.name))
    else:
        made: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}}
        await env.create(kind, made | {"spec": {"subsets": [{"minMember": 4}]}})
        for number in range(4):
            one = pod(f"p{number}", env.name)
            one["metadata"]["labels"] = {LABEL_COSCHEDULING: "a"}
            await env.create(PODS, one)
    await env.runs("", 4)


async def end_pods(env: Environment) -> None:
    """End the pods, by deleting their Jobs if they have any."""
    kind = JOBS if await names(env, JOBS) else PODS
    for name in await names(env, kind):
        await env.delete(kind, name)
    await env.has_pods("", 0)


LEFT = {
    JOBSETS: [
        "CompositePodGroup {}/cpg-a",
        "CompositePodGroup {}/cpg-a-w-28a83eb478",
        "PodGroup {}/pg-a-w-0",
        "PodGroup {}/pg-a-w-1",
        "Workload {}/w-a",
    ],
    JOBS: ["PodGroup {}/pg-job-a", "Workload {}/w-job-a"],
    COSCHEDULINGS: ["PodGroup {}/a"],
}
WHY = "its owner does not exist"


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(it, id=it.full_name, marks=[] if it == JOBSETS else pytest.mark.long)
        for it in LEFT
    ],
)
@pytest.mark.long
async def test_orphans_made_without_a_leader_are_deleted_afterwards(
    env: Environment, kind: Resource
) -> None:
    await env.add_node(cpu=4)
    await submit(env, kind)
    env.muster.kill(CONTROLLER)

    await env.client.delete(kind, "a", env.name, propagation="Orphan")
    await wait_for_objects(env, kind)
    assert await gc(env) == (0, [NOTHING]), "its pods still run"
    await end_pods(env)
    assert await gc(env) == (1, [f"{it.format(env.name)}: {WHY}" for it in LEFT[kind]])

    await env.muster.start(CONTROLLER)
    await env.empty()
    assert await gc(env) == (0, [NOTHING])


@pytest.mark.parametrize(
    "propagation", ["Background", pytest.param("Foreground", marks=pytest.mark.long)]
)
async def test_dependents_of_owners_deleted_without_a_leader_are_deleted(
    env: Environment, propagation: Any
) -> None:
    await env.add_node(cpu=4)
    await submit(env, JOBSETS)
    env.muster.kill(CONTROLLER)

    await env.client.delete(JOBSETS, "a", env.name, propagation=propagation)
    await env.has_pods("", 0)
    assert await names(env, POD_GROUPS) == ["pg-a-w-0", "pg-a-w-1"], "finalizers hold them"
    assert await names(env, COMPOSITE_POD_GROUPS) == ["cpg-a", "cpg-a-w-28a83eb478"]

    await env.muster.start(CONTROLLER)
    await env.empty()
    assert await names(env, WORKLOADS) == []
    assert await gc(env) == (0, [NOTHING])
