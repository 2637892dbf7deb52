"""Objects generated for an owner are deleted with it, whatever the deletion and the Workload.

The next owner of its name gets its own groups, and its pods run in no other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_MADE_FOR,
    ANNOTATION_WAITING_FOR,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from e2e.flows.owners.jobs.queries import items, names
from e2e.flows.owners.jobs.test_templates import CONFIG_MAPS, labelled, leaf, workload
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_jobset,
    replicated_job,
)
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

POLICIES = ("Background", "Foreground", "Orphan")
MINIMUM = "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"


async def set_minimum(env: Environment, name: str, count: int) -> None:
    change = [{"op": "replace", "path": MINIMUM, "value": count}]
    await env.client.patch(WORKLOADS, name, change, env.name)


async def makers(env: Environment) -> set[str]:
    """Return the UIDs of the owners with groups and Workloads."""
    found = [it for kind in (POD_GROUPS, COMPOSITE_POD_GROUPS) for it in await items(env, kind)]
    found += await items(env, WORKLOADS)
    said = (it["metadata"].get("annotations", {}).get(ANNOTATION_MADE_FOR) for it in found)
    return {it.rpartition("/")[2] for it in said if it}


async def delete(env: Environment, kind: Resource, name: str, policy: Any) -> None:
    """Delete the owner and wait until it is deleted; its dependents may still exist."""
    await env.client.delete(kind, name, env.name, propagation=policy)

    async def gone() -> bool:
        return name not in await names(env, kind)

    await env.until(f"{kind.kind} {name} to be gone", gone)


@pytest.mark.parametrize(
    "policy", ["Background", pytest.param("Foreground", marks=pytest.mark.long)]
)
async def test_a_gang_made_again_does_not_run_on_the_old_group(
    env: Environment, policy: str
) -> None:
    """The first needed only two; there is capacity for three, and the second needs four."""
    await env.add_node(cpu=3)
    await env.create(WORKLOADS, workload("mine", leaf("pg-x", 2), owner="x"))
    await env.create(JOBSETS, jobset("x", replicated_job("w", env.name, replicas=1, pods=2)))
    await env.runs(of_jobset("x"), 2)

    await delete(env, JOBSETS, "x", policy)
    await set_minimum(env, "mine", 4)
    await env.create(JOBSETS, jobset("x", replicated_job("w", env.name, replicas=1, pods=4)))

    await env.waits("pg-x", needed=4)
    assert await env.bound(of_jobset("x")) == 0
    await env.add_node(cpu=1)
    await env.runs(of_jobset("x"), 4)


@dataclass(frozen=True)
class Case:
    """An owner `x` of four pods, and the Workload that its user creates for it, if any."""

    kind: Resource
    owner: Callable[[Environment], Json]
    templates: Json | None = None
    delegated: bool = False


def gang(env: Environment) -> Json:
    return jobset("x", replicated_job("w", env.name, replicas=2, pods=2))


def own(mode: str) -> Callable[[Environment], Json]:
    def made(env: Environment) -> Json:
        return jobset("x", replicated_job("w", env.name, replicas=2, pods=2, mode=mode), mode=None)

    return made


def tree(env: Environment) -> Json:
    return jobset("x", replicated_job("w", env.name, replicas=2, pods=2), mode="Composite")


def of_job(env: Environment) -> Json:
    return job("x", env.name)


def below(name: str, count: int, **children: list[Json]) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": count}}, **children}


TREE = {
    "compositePodGroupTemplates": [
        below(
            "cpg-x",
            1,
            compositePodGroupTemplates=[below("cpg-w", 2, podGroupTemplates=[leaf("pg-w", 2)])],
        )
    ]
}
CASES = {
    "job": Case(JOBS, of_job),
    "job-mine": Case(JOBS, of_job, {"podGroupTemplates": [leaf("t", 4)]}),
    "job-delegated": Case(JOBS, of_job, delegated=True),
    "gang": Case(JOBSETS, gang),
    "gang-mine": Case(JOBSETS, gang, {"podGroupTemplates": [leaf("pg-x", 4)]}),
    "own-gang-mine": Case(JOBSETS, own("Gang"), {"podGroupTemplates": [leaf("pg-w", 4)]}),
    "replicated": Case(JOBSETS, own("ReplicatedGang")),
    "replicated-mine": Case(
        JOBSETS, own("ReplicatedGang"), {"podGroupTemplates": [leaf("pg-w", 2)]}
    ),
    "tree": Case(JOBSETS, tree),
    "tree-mine": Case(JOBSETS, tree, TREE),
}
SHORT = {
    ("tree-mine", "Background"),
    ("job-mine", "Orphan"),
}


async def submit(env: Environment, case: Case) -> str:
    """Create the owner, after its Workload if any, and return its UID."""
    made = case.owner(env)
    if case.delegated:
        (parent,) = [it for it in await items(env, CONFIG_MAPS) if it["metadata"]["name"] == "run"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
        reference |= {key: parent["metadata"][key] for key in ("name", "uid")}
        made["metadata"]["annotations"] = {ANNOTATION_GROUP_TEMPLATE: "workers"}
        made["metadata"]["ownerReferences"] = [reference]
        made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    uid: str = (await env.create(case.kind, made))["metadata"]["uid"]
    return uid


async def prepare(env: Environment, case: Case) -> None:
    if case.delegated:
        await env.create(CONFIG_MAPS, {"metadata": {"name": "run"}})
        theirs = workload("mine", leaf("workers", 4))
        theirs["spec"]["controllerRef"] = {"kind": "ConfigMap", "name": "run"}
        await env.create(WORKLOADS, theirs)
    elif case.templates is not None:
        theirs = workload("mine")
        reference = {"apiGroup": case.kind.group, "kind": case.kind.kind, "name": "x"}
        theirs["spec"] = {"controllerRef": reference, **case.templates}
        await env.create(WORKLOADS, theirs)


async def end_orphans(env: Environment, pods: set[str], jobs: set[str]) -> None:
    """End the pods that continued after their owner was deleted with `orphan`."""
    for name in jobs:
        await env.delete(JOBS, name)
    for name in pods if not jobs else ():
        await env.delete(PODS, name)


async def told(env: Environment, kind: Resource, start: str) -> None:
    async def probe() -> bool:
        notes = (await env.client.get(kind, "x", env.name))["metadata"].get("annotations", {})
        return bool(notes.get(ANNOTATION_WAITING_FOR, "").startswith(start))

    await env.until(f"{kind.kind} x to say that it {start}", probe)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(name, policy, marks=[] if (name, policy) in SHORT else pytest.mark.long)
        for name in CASES
        for policy in POLICIES
    ],
)
async def test_the_next_of_the_name_gets_groups_of_its_own(
    env: Environment, name: str, policy: str
) -> None:
    case = CASES[name]
    await env.add_node(cpu=4)
    await prepare(env, case)
    first = await submit(env, case)
    await env.runs("", 4)
    assert await makers(env) == {first}
    pods, jobs = set(await names(env, PODS)), set(await names(env, JOBS)) - {"x"}

    await delete(env, case.kind, "x", policy)
    second = await submit(env, case)
    if policy == "Orphan":
        assert await makers(env) >= {first}, "its pods run on"
        await told(env, case.kind, "4 pods of an earlier")
        await end_orphans(env, pods, jobs)

    async def replaced() -> bool:
        return await makers(env) == {second}

    await env.until("groups of the second alone", replaced)
    await env.runs("", 4)
    assert pods.isdisjoint(await names(env, PODS))
    await delete(env, case.kind, "x", "Background")
    await nothing_is_made(env)


async def nothing_is_made(env: Environment) -> None:
    """Wait until no generated object remains; a user's Workload is kept."""

    async def probe() -> bool:
        groups = [*await names(env, POD_GROUPS), *await names(env, COMPOSITE_POD_GROUPS)]
        return not groups and not await makers(env)

    await env.until("nothing that was made to be left", probe)


async def test_pods_that_wait_by_the_name_of_a_workload_get_the_group_of_the_next(
    env: Environment,
) -> None:
    """They know only the name; the first's minimum would block them forever."""
    await env.add_node(cpu=2)
    by = {LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t"}
    await env.create(WORKLOADS, workload("w", leaf("t", 3)))
    for number in range(2):
        await env.create(PODS, labelled(f"p{number}", env, **by))
    await env.grouped("w-t")

    await env.delete(WORKLOADS, "w")
    await env.create(WORKLOADS, workload("w", leaf("t", 2)))

    await env.runs("", 2)
    await env.scheduled("w-t")
