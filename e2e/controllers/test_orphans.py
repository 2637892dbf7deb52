"""Owners go while nobody leads: `muster gc --check` names what they left, until it is gone."""

import asyncio
from typing import Any

import pytest

from api.constants import COSCHEDULING, LABEL_COSCHEDULING
from e2e.controllers.questions import have, names
from e2e.muster import CONTROLLER, MUSTER
from e2e.suite.objects import (
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
from e2e.suite.stage import Stage
from kube.resources import JOBS, JOBSETS, PODS, Resource

COSCHEDULINGS = resource(COSCHEDULING)
NOTHING = "no orphans and no stuck finalizers"


async def gc(stage: Stage) -> tuple[int, list[str]]:
    """Exit code and lines of `muster gc --check` in the flow's namespace."""
    arguments = ["gc", "--check", f"--namespace={stage.name}"]
    process = await asyncio.create_subprocess_exec(
        *MUSTER,
        *arguments,
        f"--kubeconfig={stage.cluster.kubeconfig}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().splitlines()


async def submit(stage: Stage, kind: Resource) -> None:
    """Four pods that run as one gang, named `a`."""
    if kind == JOBSETS:
        workers = replicated_job("w", stage.name, replicas=2, pods=2)
        await stage.create(JOBSETS, jobset("a", workers, mode="Composite"))
    elif kind == JOBS:
        await stage.create(JOBS, job("a", stage.name))
    else:
        made: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}}
        await stage.create(kind, made | {"spec": {"subsets": [{"minMember": 4}]}})
        for number in range(4):
            one = pod(f"p{number}", stage.name)
            one["metadata"]["labels"] = {LABEL_COSCHEDULING: "a"}
            await stage.create(PODS, one)
    await stage.runs_whole("", 4)


async def end_pods(stage: Stage) -> None:
    """By their Jobs, if they have any."""
    kind = JOBS if await names(stage, JOBS) else PODS
    for name in await names(stage, kind):
        await stage.delete(kind, name)
    await stage.has_pods("", 0)


# A tree goes with its Workload, so that is what is named.
LEFT = {
    JOBSETS: "Workload {}/w-a: its owner does not exist any more",
    JOBS: "Workload {}/w-job-a: its owner does not exist any more",
    COSCHEDULINGS: "PodGroup {}/a: its owner does not exist any more",
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(it, id=it.full_name, marks=[] if it == JOBSETS else pytest.mark.long)
        for it in LEFT
    ],
)
async def test_what_was_orphaned_while_nobody_led_goes_afterwards(
    stage: Stage, kind: Resource
) -> None:
    await stage.add_node(cpu=4)
    await submit(stage, kind)
    stage.muster.kill(CONTROLLER)

    await stage.client.delete(kind, "a", stage.name, propagation="Orphan")
    await have(stage, kind)
    assert await gc(stage) == (0, [NOTHING]), "its pods still run"
    await end_pods(stage)
    assert await gc(stage) == (1, [LEFT[kind].format(stage.name)])

    await stage.muster.start(CONTROLLER)
    await stage.empty()
    assert await gc(stage) == (0, [NOTHING])


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_what_was_deleted_while_nobody_led_goes_afterwards(
    stage: Stage, propagation: Any
) -> None:
    await stage.add_node(cpu=4)
    await submit(stage, JOBSETS)
    stage.muster.kill(CONTROLLER)

    await stage.client.delete(JOBSETS, "a", stage.name, propagation=propagation)
    await stage.has_pods("", 0)
    assert await names(stage, POD_GROUPS) == ["pg-a-w-0", "pg-a-w-1"], "finalizers hold them"
    assert await names(stage, COMPOSITE_POD_GROUPS) == ["cpg-a", "cpg-a-w"]

    await stage.muster.start(CONTROLLER)
    await stage.empty()
    assert await names(stage, WORKLOADS) == []
    assert await gc(stage) == (0, [NOTHING])
