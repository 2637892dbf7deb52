"""A gang that ran completely counts as scheduled, even if pods fail or its minCount is raised."""

import asyncio
from collections.abc import Callable

from api.constants import CONDITION_COMPOSITE_SCHEDULED, CONDITION_POD_GROUP_SCHEDULED
from e2e.harness.clusters.nodes import FINISH_ANNOTATION
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json, job, jobset, replicated_job
from kube.client.meta import RawObject
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, PODS, Resource
from kube.informers.cache import Cache

GANG = "/spec/schedulingPolicy/gang/minCount"


def fails_at_once(job_spec: Json) -> None:
    """Let the pods fail as soon as they run.

    The first does not end the Job before others are bound.
    """
    job_spec["backoffLimit"] = 6
    job_spec["template"]["metadata"] = {"annotations": {FINISH_ANNOTATION: "Failed"}}


async def was_scheduled(env: Environment, kind: Resource, *names: str) -> None:
    wanted = {CONDITION_POD_GROUP_SCHEDULED, CONDITION_COMPOSITE_SCHEDULED}

    async def probe() -> bool:
        for name in names:
            status = (await env.client.get(kind, name, env.name)).get("status") or {}
            said = {it["type"]: it["status"] for it in status.get("conditions") or ()}
            if not any(said.get(it) == "True" for it in wanted):
                return False
        return True

    await env.until(f"{names} to have been scheduled", probe, timeout=30)


async def as_soon_as(pods: Cache[RawObject], all_are: Callable[[Json], bool]) -> None:
    """Return after the event that makes the predicate true for both pods."""
    reached = asyncio.Event()

    def look(_old: RawObject | None, _new: RawObject | None) -> None:
        found = [it.raw for it in pods.values()]
        if len(found) == 2 and all(map(all_are, found)):
            reached.set()

    pods.subscribe(look)
    look(None, None)
    await asyncio.wait_for(reached.wait(), 60)


def is_bound(found: Json) -> bool:
    return bool(found["spec"].get("nodeName"))


async def test_a_job_whose_pods_fail_at_once(env: Environment) -> None:
    await env.add_node(cpu=2)
    made = job("t", env.name, pods=2)
    fails_at_once(made["spec"])
    await env.create(JOBS, made)

    await env.grouped("pg-job-t")
    await was_scheduled(env, POD_GROUPS, "pg-job-t")


async def test_a_tree_whose_pods_fail_at_once(env: Environment) -> None:
    await env.add_node(cpu=4)
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    fails_at_once(workers["template"]["spec"])
    await env.create(JOBSETS, jobset("a", workers, mode="Composite"))

    for index in range(2):
        await env.grouped(f"pg-a-w-{index}")
    await was_scheduled(env, POD_GROUPS, "pg-a-w-0", "pg-a-w-1")
    await was_scheduled(env, COMPOSITE_POD_GROUPS, "cpg-a", "cpg-a-w-28a83eb478")


async def test_a_gang_whose_min_count_is_raised_at_once(env: Environment) -> None:
    """It waited for gates, so there is nothing to report when it starts."""
    await env.add_node(cpu=2)
    await leaf(env, "g", 2, of_pod={"schedulingGates": [{"name": "example.com/hold"}]})

    async def told() -> bool:
        return (await env.blocker("g")).get("kind") == "quorum"

    await env.until("the group to say that it waits", told)
    async with env.followed() as pods:
        ungate = PatchBuilder().remove("/spec/schedulingGates")
        names = ("g-0", "g-1")
        await asyncio.gather(*(env.client.patch(PODS, it, ungate, env.name) for it in names))
        await as_soon_as(pods, is_bound)
        await env.client.patch(POD_GROUPS, "g", PatchBuilder().replace(GANG, 3), env.name)

    await was_scheduled(env, POD_GROUPS, "g")
