"""The life cycle of Jobs and JobSets: their groups follow every change and never leak."""

import asyncio
from typing import Any

import pytest

from api.constants import ANNOTATION_WAITING_FOR, GROUP
from api.names import JOINED, jobset_composite
from e2e.flows.owners.jobs.queries import (
    change,
    event_reasons,
    items,
    min_count_is,
    names,
    uids,
    wait_for_objects,
)
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    job,
    jobset,
    of_job,
    of_jobset,
    pod_group,
    replicated_job,
)
from kube.client.resources import JOBS, JOBSETS, NAMESPACES, Resource


async def test_a_job_scales_up_and_down(env: Environment) -> None:
    await env.add_node(cpu=8)
    made = job("t", env.name, pods=2)
    del made["spec"]["completions"]
    await env.create(JOBS, made)
    await env.runs(of_job("t"), 2)

    await change(env, JOBS, "t", parallelism=4)
    await min_count_is(env, "pg-job-t", 4)
    await env.runs(of_job("t"), 4)

    await change(env, JOBS, "t", parallelism=1)
    await min_count_is(env, "pg-job-t", 1)
    await env.runs(of_job("t"), 1)
    (workload,) = await items(env, WORKLOADS)
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template["schedulingPolicy"] == {"gang": {"minCount": 1}}


async def test_a_job_made_suspended_gets_its_group_on_resume(env: Environment) -> None:
    await env.add_node(cpu=4)
    made = job("t", env.name)
    made["spec"]["suspend"] = True
    await env.create(JOBS, made)
    await env.create(JOBS, job("other", env.name, pods=1))
    await env.runs(of_job("other"), 1)
    assert await names(env, POD_GROUPS) == ["pg-job-other"]

    await change(env, JOBS, "t", suspend=False)
    await env.grouped("pg-job-t")
    await env.delete(JOBS, "other")
    await env.runs(of_job("t"), 4)

    await change(env, JOBS, "t", suspend=True)
    await wait_for_objects(env, POD_GROUPS)
    await change(env, JOBS, "t", suspend=False)
    await env.runs(of_job("t"), 4)


async def test_a_jobset_is_suspended_and_resumed(env: Environment) -> None:
    await env.add_node(cpu=4)
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    await env.create(JOBSETS, jobset("a", workers, mode="Composite"))
    await env.runs(of_jobset("a"), 4)
    before = await uids(env)

    await change(env, JOBSETS, "a", suspend=True)
    await wait_for_objects(env, POD_GROUPS)
    await wait_for_objects(env, COMPOSITE_POD_GROUPS)
    assert await names(env, WORKLOADS) == ["w-a"]

    await change(env, JOBSETS, "a", suspend=False)
    await env.runs(of_jobset("a"), 4)
    after = await uids(env)
    assert set(after) == set(before)
    assert set(after.values()).isdisjoint(before.values())


@pytest.mark.parametrize("kind", ["Job", pytest.param("JobSet", marks=pytest.mark.long)])
async def test_resumed_while_its_groups_are_being_deleted(env: Environment, kind: str) -> None:
    """The first pod may be created just before its group is deleted, and the others just after."""
    await env.add_node(cpu=4)
    if kind == "Job":
        resource, name, made = JOBS, "t", job("t", env.name)
    else:
        workers = replicated_job("w", env.name, replicas=2, pods=2)
        resource, name, made = JOBSETS, "a", jobset("a", workers, mode="Composite")
    await env.create(resource, made)
    for _ in range(6):
        await env.runs("", 4)
        await change(env, resource, name, suspend=True)
        await env.has_pods("", 0)
        await change(env, resource, name, suspend=False)

    await env.runs("", 4)


async def test_a_restarted_jobset_keeps_its_groups(env: Environment) -> None:
    await env.add_node(cpu=4)
    made = jobset("a", replicated_job("w", env.name, replicas=2, pods=2))
    made["spec"]["failurePolicy"] = {"maxRestarts": 1}
    await env.create(JOBSETS, made)
    await env.runs(of_jobset("a"), 4)
    before = await uids(env)

    first = of_jobset("a") + ",jobset.sigs.k8s.io/job-index=0"
    await env.cluster.finish_pods(env.name, first, "Failed")

    async def restarted() -> bool:
        pods = await env.pods(of_jobset("a") + ",jobset.sigs.k8s.io/restart-attempt=1")
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return len(running) == 4

    await env.until("the second attempt to run", restarted)
    assert await uids(env) == before

    await env.cluster.finish_pods(env.name, first, "Failed")

    async def failed() -> bool:
        status = (await env.client.get(JOBSETS, "a", env.name)).get("status", {})
        return bool(status.get("terminalState") == "Failed")

    await env.until("the JobSet to fail", failed)
    assert await uids(env) == before


@pytest.mark.parametrize(
    "propagation", ["Background", pytest.param("Foreground", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_deletion_leaves_nothing(env: Environment, propagation: Any, mode: str) -> None:
    await env.add_node(cpu=4)
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    await env.create(JOBSETS, jobset("a", workers, mode=mode))
    await env.runs(of_jobset("a"), 4)

    await env.client.delete(JOBSETS, "a", env.name, propagation=propagation)

    await env.empty()


async def test_orphaned_jobs_keep_running_and_their_groups_go_last(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, job("t", env.name))
    await env.runs(of_job("t"), 4)

    await env.client.delete(JOBS, "t", env.name, propagation="Orphan")

    await wait_for_objects(env, JOBS)
    assert await env.running() == 4
    assert await names(env, POD_GROUPS) == ["pg-job-t"]
    for kind, name in ((POD_GROUPS, "pg-job-t"), (WORKLOADS, "w-job-t")):
        await env.delete(kind, name)
    assert await names(env, POD_GROUPS) == ["pg-job-t"], "pods still hold it"
    await env.delete_pods()
    await env.empty()


async def test_the_jobs_of_a_jobset_that_was_orphaned_run_on(env: Environment) -> None:
    await env.add_node(cpu=4)
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    await env.create(JOBSETS, jobset("a", workers, mode="Composite"))
    await env.runs(of_jobset("a"), 4)
    before = await uids(env)

    await env.client.delete(JOBSETS, "a", env.name, propagation="Orphan")

    await wait_for_objects(env, JOBSETS)
    assert await env.running() == 4
    assert await uids(env) == before
    for name in await names(env, JOBS):
        await env.delete(JOBS, name)
    await env.delete(WORKLOADS, "w-a")
    await env.empty()


ORDERS = {
    "dependsOn": ("dependsOn", [{"name": "first", "status": "Ready"}]),
    "startupPolicy": ("startupPolicy", {"startupPolicyOrder": "InOrder"}),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_gangs_start_in_order(env: Environment, order: str) -> None:
    """The second one's group exists, and waits for pods that are created once the first runs."""
    await env.add_node(cpu=2)
    jobs = [
        replicated_job(name, env.name, replicas=1, pods=2, mode="Gang")
        for name in ("first", "second")
    ]
    made = jobset("a", *jobs, mode=None)
    field, value = ORDERS[order]
    (jobs[1] if field == "dependsOn" else made["spec"])[field] = value
    await env.create(JOBSETS, made)

    second = of_jobset("a") + ",jobset.sigs.k8s.io/replicatedjob-name=second"
    await wait_for_objects(env, POD_GROUPS, "pg-a-first-bbaa90823f", "pg-a-second-65c7891a79")
    await env.has_pods(second, 2)
    assert await env.running(of_jobset("a")) == 2, "the first runs already"
    await env.waits("pg-a-second-65c7891a79")

    await env.add_node(cpu=2)
    await env.runs(of_jobset("a"), 4)


async def test_the_groups_have_the_priority_of_the_pods(env: Environment, important: str) -> None:
    await env.add_node(cpu=4)
    worker = replicated_job("w", env.name, replicas=2, pods=2)
    worker["template"]["spec"]["template"]["spec"]["priorityClassName"] = important
    await env.create(JOBSETS, jobset("a", worker, mode="Composite"))
    await env.runs(of_jobset("a"), 4)

    groups = [*await items(env, POD_GROUPS), *await items(env, COMPOSITE_POD_GROUPS)]
    assert len(groups) == 4
    for group in groups:
        assert (group["spec"]["priorityClassName"], group["spec"]["priority"]) == (important, 1000)


async def test_groups_count_who_is_there_and_who_is_placed(env: Environment) -> None:
    await env.add_node(cpu=2)
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    made = jobset("a", workers, mode="Composite")
    made["spec"]["replicatedJobs"][0]["template"]["metadata"] = {
        "annotations": {f"{GROUP}/replicated-job-min-count": "1"}
    }
    await env.create(JOBSETS, made)

    async def counted(resource: Resource, wanted: list[tuple[int, int]]) -> None:
        both = ("members", "scheduledPods")
        names = both if resource == POD_GROUPS else ("children", "scheduledChildren")

        async def probe() -> bool:
            found = [it.get("status", {}) for it in await items(env, resource)]
            return sorted(tuple(it.get(name, 0) for name in names) for it in found) == wanted

        await env.until(f"{resource.plural} to count {wanted}", probe)

    await counted(POD_GROUPS, [(2, 0), (2, 2)])
    await counted(COMPOSITE_POD_GROUPS, [(1, 1), (2, 1)])
    await env.add_node(cpu=2)
    await counted(POD_GROUPS, [(2, 2), (2, 2)])
    await counted(COMPOSITE_POD_GROUPS, [(1, 1), (2, 2)])


async def test_a_namesake_starts_while_the_first_one_s_groups_go(env: Environment) -> None:
    await env.add_node(cpu=4)
    made = jobset("a", replicated_job("w", env.name, replicas=2, pods=2))
    await env.create(JOBSETS, made)
    await env.runs(of_jobset("a"), 4)
    first = await uids(env)

    await env.delete(JOBSETS, "a")
    await wait_for_objects(env, JOBSETS)
    await env.create(JOBSETS, made)

    async def renewed() -> bool:
        there = await uids(env)
        return set(there) == set(first) and there != first and await env.running() == 4

    await env.until("the second one to run", renewed)
    assert "NameTaken" not in await event_reasons(env, "JobSet", "a")


async def test_a_taken_name_is_avoided(env: Environment) -> None:
    await env.add_node(cpu=4)
    foreign = await env.create(POD_GROUPS, pod_group("pg-a", 1))
    await asyncio.sleep(0.5)  # until the webhook's cache observes it
    await env.create(JOBSETS, jobset("a", replicated_job("w", env.name, replicas=2, pods=2)))

    await env.runs(of_jobset("a"), 4)

    (mine,) = [name for name in await names(env, POD_GROUPS) if name != "pg-a"]
    assert mine.startswith("pg-a-")
    assert (await env.group("pg-a"))["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert (await env.group("pg-a")).get("status", {}).get("members", 0) == 0


async def test_a_jobset_says_what_it_waits_for(env: Environment) -> None:
    await env.add_node(cpu=3)
    await env.create(JOBSETS, jobset("a", replicated_job("w", env.name, replicas=2, pods=2)))

    async def note() -> str:
        found = await env.client.get(JOBSETS, "a", env.name)
        said: str = found["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR, "")
        return said

    async def told() -> bool:
        return (await note()).startswith("PodGroup pg-a: ")

    await env.until("the annotation", told)
    await env.add_node(cpu=1)
    await env.runs(of_jobset("a"), 4)

    async def both() -> bool:
        said = await event_reasons(env, "JobSet", "a")
        return {"Unschedulable", "Scheduled"} <= set(said)

    await env.until("the events", both)
    said = await event_reasons(env, "JobSet", "a")
    assert sorted(said) == ["Scheduled", "Unschedulable"], "once for each change"

    async def taken_back() -> bool:
        return await note() == ""

    await env.until("the annotation to go", taken_back)


async def test_deleting_the_namespace_leaves_nothing(env: Environment) -> None:
    await env.add_node(cpu=4)
    other = f"{env.name}-going"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    await env.client.create(NAMESPACES, body)
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    await env.client.create(JOBSETS, jobset("a", workers, mode="Composite"), other)

    async def grouped() -> bool:
        found = await env.client.list(POD_GROUPS, other)
        return len(found["items"]) == 2

    await env.until("its groups", grouped)
    await env.client.delete(NAMESPACES, other)
    await env.gone(NAMESPACES, other)


async def test_a_controller_killed_at_any_moment_finishes_after_its_return(
    env: Environment, long: bool
) -> None:
    await env.add_node(cpu=8)
    for number in range(6 if long else 2):
        name = f"a{number}"
        workers = replicated_job("w", env.name, replicas=4, pods=2)
        await env.create(JOBSETS, jobset(name, workers, mode="Composite"))
        await asyncio.sleep(0.02 * number)  # another moment each time
        env.muster.kill(CONTROLLER)
        await env.muster.start(CONTROLLER)
        await env.runs(of_jobset(name), 8)
        own = jobset_composite(env.name, name, "w", JOINED)
        await wait_for_objects(env, COMPOSITE_POD_GROUPS, f"cpg-{name}", own)

        await env.delete(JOBSETS, name)
        env.muster.kill(CONTROLLER)
        await env.muster.start(CONTROLLER)
        await env.empty()


async def test_groups_removed_by_hand_come_back(env: Environment) -> None:
    workers = replicated_job("w", env.name, replicas=2, pods=2)
    await env.create(JOBSETS, jobset("a", workers))
    await env.grouped("pg-a")
    before = await uids(env)
    await change(env, JOBSETS, "a", suspend=True)
    await wait_for_objects(env, POD_GROUPS)
    await env.delete(WORKLOADS, "w-a")
    await wait_for_objects(env, WORKLOADS)

    await change(env, JOBSETS, "a", suspend=False)

    await wait_for_objects(env, WORKLOADS, "w-a")
    await wait_for_objects(env, POD_GROUPS, "pg-a")
    assert await uids(env) != before
