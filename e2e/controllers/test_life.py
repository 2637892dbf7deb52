"""The life of Jobs and JobSets: whatever happens to them, their groups follow and never remain."""

import asyncio
from typing import Any

import pytest

from api.constants import ANNOTATION_WAITING_FOR, GROUP
from e2e.controllers.questions import change, event_reasons, have, items, names, uids
from e2e.muster import CONTROLLER
from e2e.suite.objects import (
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
from e2e.suite.stage import Stage
from kube.errors import NotFound
from kube.resources import JOBS, JOBSETS, NAMESPACES, PODS, Resource


async def floor_is(stage: Stage, name: str, count: int) -> None:
    async def probe() -> bool:
        policy = (await stage.group(name))["spec"]["schedulingPolicy"]
        return bool(policy == {"gang": {"minCount": count}})

    await stage.until(f"{name} to need {count}", probe)


async def test_a_job_scales_up_and_down(stage: Stage) -> None:
    await stage.add_node(cpu=8)
    made = job("t", stage.name, pods=2)
    del made["spec"]["completions"]
    await stage.create(JOBS, made)
    await stage.runs_whole(of_job("t"), 2)

    await change(stage, JOBS, "t", parallelism=4)
    await floor_is(stage, "pg-job-t", 4)
    await stage.runs_whole(of_job("t"), 4)

    await change(stage, JOBS, "t", parallelism=1)
    await floor_is(stage, "pg-job-t", 1)
    await stage.runs_whole(of_job("t"), 1)
    (workload,) = await items(stage, WORKLOADS)
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template["schedulingPolicy"] == {"gang": {"minCount": 1}}


async def test_a_job_made_suspended_gets_its_group_on_resume(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    made = job("t", stage.name)
    made["spec"]["suspend"] = True
    await stage.create(JOBS, made)
    await stage.create(JOBS, job("other", stage.name, pods=1))
    await stage.runs_whole(of_job("other"), 1)
    assert await names(stage, POD_GROUPS) == ["pg-job-other"]

    await change(stage, JOBS, "t", suspend=False)
    await stage.grouped("pg-job-t")
    await stage.delete(JOBS, "other")
    await stage.runs_whole(of_job("t"), 4)

    await change(stage, JOBS, "t", suspend=True)
    await have(stage, POD_GROUPS)
    await change(stage, JOBS, "t", suspend=False)
    await stage.runs_whole(of_job("t"), 4)


async def test_a_jobset_is_suspended_and_resumed(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    workers = replicated_job("w", stage.name, replicas=2, pods=2)
    await stage.create(JOBSETS, jobset("a", workers, mode="Composite"))
    await stage.runs_whole(of_jobset("a"), 4)
    before = await uids(stage)

    await change(stage, JOBSETS, "a", suspend=True)
    await have(stage, POD_GROUPS)
    await have(stage, COMPOSITE_POD_GROUPS)
    assert await names(stage, WORKLOADS) == ["w-a"]

    await change(stage, JOBSETS, "a", suspend=False)
    await stage.runs_whole(of_jobset("a"), 4)
    after = await uids(stage)
    assert set(after) == set(before)
    assert set(after.values()).isdisjoint(before.values())


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
async def test_resumed_while_its_groups_are_being_deleted(stage: Stage, kind: str) -> None:
    """The first pod may come just before its group goes, and the others just after."""
    await stage.add_node(cpu=4)
    if kind == "Job":
        resource, name, made = JOBS, "t", job("t", stage.name)
    else:
        workers = replicated_job("w", stage.name, replicas=2, pods=2)
        resource, name, made = JOBSETS, "a", jobset("a", workers, mode="Composite")
    await stage.create(resource, made)
    for _ in range(6):
        await stage.runs_whole("", 4)
        await change(stage, resource, name, suspend=True)
        await stage.has_pods("", 0)
        await change(stage, resource, name, suspend=False)

    await stage.runs_whole("", 4)


async def test_a_restarted_jobset_keeps_its_groups(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    made = jobset("a", replicated_job("w", stage.name, replicas=2, pods=2))
    made["spec"]["failurePolicy"] = {"maxRestarts": 1}
    await stage.create(JOBSETS, made)
    await stage.runs_whole(of_jobset("a"), 4)
    before = await uids(stage)

    first = of_jobset("a") + ",jobset.sigs.k8s.io/job-index=0"
    await stage.cluster.finish_pods(stage.name, first, "Failed")

    async def restarted() -> bool:
        pods = await stage.pods(of_jobset("a") + ",jobset.sigs.k8s.io/restart-attempt=1")
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return len(running) == 4

    await stage.until("the second attempt to run", restarted)
    assert await uids(stage) == before

    await stage.cluster.finish_pods(stage.name, first, "Failed")

    async def failed() -> bool:
        status = (await stage.client.get(JOBSETS, "a", stage.name)).get("status", {})
        return bool(status.get("terminalState") == "Failed")

    await stage.until("the JobSet to fail", failed)
    assert await uids(stage) == before


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_deletion_leaves_nothing(stage: Stage, propagation: Any, mode: str) -> None:
    await stage.add_node(cpu=4)
    workers = replicated_job("w", stage.name, replicas=2, pods=2)
    await stage.create(JOBSETS, jobset("a", workers, mode=mode))
    await stage.runs_whole(of_jobset("a"), 4)

    await stage.client.delete(JOBSETS, "a", stage.name, propagation=propagation)

    await stage.empty()


async def test_orphaned_jobs_keep_running_and_their_groups_go_last(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    await stage.create(JOBS, job("t", stage.name))
    await stage.runs_whole(of_job("t"), 4)

    await stage.client.delete(JOBS, "t", stage.name, propagation="Orphan")

    await have(stage, JOBS)
    assert await stage.running() == 4
    assert await names(stage, POD_GROUPS) == ["pg-job-t"]
    for kind, name in ((POD_GROUPS, "pg-job-t"), (WORKLOADS, "w-job-t")):
        await stage.delete(kind, name)
    assert await names(stage, POD_GROUPS) == ["pg-job-t"], "pods still hold it"
    for pod in await stage.pods():
        await stage.delete(PODS, pod["metadata"]["name"])
    await stage.empty()


async def test_the_jobs_of_a_jobset_that_was_orphaned_run_on(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    workers = replicated_job("w", stage.name, replicas=2, pods=2)
    await stage.create(JOBSETS, jobset("a", workers, mode="Composite"))
    await stage.runs_whole(of_jobset("a"), 4)
    before = await uids(stage)

    await stage.client.delete(JOBSETS, "a", stage.name, propagation="Orphan")

    await have(stage, JOBSETS)
    assert await stage.running() == 4
    assert await uids(stage) == before
    for name in await names(stage, JOBS):
        await stage.delete(JOBS, name)
    await stage.delete(WORKLOADS, "w-a")
    await stage.empty()


ORDERS = {
    "dependsOn": ("dependsOn", [{"name": "first", "status": "Ready"}]),
    "startupPolicy": ("startupPolicy", {"startupPolicyOrder": "InOrder"}),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_gangs_start_in_order(stage: Stage, order: str) -> None:
    """The second one's group is there, and waits for pods that are made once the first runs."""
    await stage.add_node(cpu=2)
    jobs = [
        replicated_job(name, stage.name, replicas=1, pods=2, mode="Gang")
        for name in ("first", "second")
    ]
    made = jobset("a", *jobs, mode=None)
    field, value = ORDERS[order]
    (jobs[1] if field == "dependsOn" else made["spec"])[field] = value
    await stage.create(JOBSETS, made)

    second = of_jobset("a") + ",jobset.sigs.k8s.io/replicatedjob-name=second"
    await have(stage, POD_GROUPS, "pg-a-first", "pg-a-second")
    await stage.has_pods(second, 2)
    assert await stage.running(of_jobset("a")) == 2, "the first runs already"
    await stage.waits("pg-a-second")

    await stage.add_node(cpu=2)
    await stage.runs_whole(of_jobset("a"), 4)


async def test_the_groups_have_the_priority_of_the_pods(stage: Stage, important: str) -> None:
    await stage.add_node(cpu=4)
    worker = replicated_job("w", stage.name, replicas=2, pods=2)
    worker["template"]["spec"]["template"]["spec"]["priorityClassName"] = important
    await stage.create(JOBSETS, jobset("a", worker, mode="Composite"))
    await stage.runs_whole(of_jobset("a"), 4)

    groups = [*await items(stage, POD_GROUPS), *await items(stage, COMPOSITE_POD_GROUPS)]
    assert len(groups) == 4
    for group in groups:
        assert (group["spec"]["priorityClassName"], group["spec"]["priority"]) == (important, 1000)


async def test_groups_count_who_is_there_and_who_is_placed(stage: Stage) -> None:
    await stage.add_node(cpu=2)
    workers = replicated_job("w", stage.name, replicas=2, pods=2)
    made = jobset("a", workers, mode="Composite")
    made["spec"]["replicatedJobs"][0]["template"]["metadata"] = {
        "annotations": {f"{GROUP}/replicated-job-min-count": "1"}
    }
    await stage.create(JOBSETS, made)

    async def counted(resource: Resource, wanted: list[tuple[int, int]]) -> None:
        both = ("members", "scheduledPods")
        names = both if resource == POD_GROUPS else ("children", "scheduledChildren")

        async def probe() -> bool:
            found = [it.get("status", {}) for it in await items(stage, resource)]
            return sorted(tuple(it.get(name, 0) for name in names) for it in found) == wanted

        await stage.until(f"{resource.plural} to count {wanted}", probe)

    await counted(POD_GROUPS, [(2, 0), (2, 2)])
    await counted(COMPOSITE_POD_GROUPS, [(1, 1), (2, 1)])
    await stage.add_node(cpu=2)
    await counted(POD_GROUPS, [(2, 2), (2, 2)])
    await counted(COMPOSITE_POD_GROUPS, [(1, 1), (2, 2)])


async def test_a_namesake_starts_while_the_first_one_s_groups_go(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    made = jobset("a", replicated_job("w", stage.name, replicas=2, pods=2))
    await stage.create(JOBSETS, made)
    await stage.runs_whole(of_jobset("a"), 4)
    first = await uids(stage)

    await stage.delete(JOBSETS, "a")
    await have(stage, JOBSETS)
    await stage.create(JOBSETS, made)

    async def renewed() -> bool:
        there = await uids(stage)
        return set(there) == set(first) and there != first and await stage.running() == 4

    await stage.until("the second one to run", renewed)
    assert "NameTaken" not in await event_reasons(stage, "JobSet", "a")


async def test_a_taken_name_is_avoided(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    foreign = await stage.create(POD_GROUPS, pod_group("pg-a", 1))
    await asyncio.sleep(0.5)  # the webhook's cache hears of it
    await stage.create(JOBSETS, jobset("a", replicated_job("w", stage.name, replicas=2, pods=2)))

    await stage.runs_whole(of_jobset("a"), 4)

    (mine,) = [name for name in await names(stage, POD_GROUPS) if name != "pg-a"]
    assert mine.startswith("pg-a-")
    assert (await stage.group("pg-a"))["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert (await stage.group("pg-a")).get("status", {}).get("members", 0) == 0


async def test_what_a_jobset_waits_for_is_said_on_it(stage: Stage) -> None:
    await stage.add_node(cpu=3)
    await stage.create(JOBSETS, jobset("a", replicated_job("w", stage.name, replicas=2, pods=2)))

    async def note() -> str:
        found = await stage.client.get(JOBSETS, "a", stage.name)
        said: str = found["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR, "")
        return said

    async def told() -> bool:
        return (await note()).startswith("PodGroup pg-a: ")

    await stage.until("the annotation", told)
    await stage.add_node(cpu=1)
    await stage.runs_whole(of_jobset("a"), 4)

    async def both() -> bool:
        said = await event_reasons(stage, "JobSet", "a")
        return {"Unschedulable", "Scheduled"} <= set(said)

    await stage.until("the events", both)
    said = await event_reasons(stage, "JobSet", "a")
    assert sorted(said) == ["Scheduled", "Unschedulable"], "once for each change"

    async def taken_back() -> bool:
        return await note() == ""

    await stage.until("the annotation to go", taken_back)


async def test_deleting_the_namespace_leaves_nothing(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    other = f"{stage.name}-going"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    await stage.client.create(NAMESPACES, body)
    workers = replicated_job("w", stage.name, replicas=2, pods=2)
    await stage.client.create(JOBSETS, jobset("a", workers, mode="Composite"), other)

    async def grouped() -> bool:
        found = await stage.client.list(POD_GROUPS, other)
        return len(found["items"]) == 2

    await stage.until("its groups", grouped)
    await stage.client.delete(NAMESPACES, other)

    async def gone() -> bool:
        try:
            await stage.client.get(NAMESPACES, other)
        except NotFound:
            return True
        return False

    await stage.until("the namespace to be gone", gone)


async def test_a_controller_killed_at_any_moment_finishes_after_its_return(
    stage: Stage, long: bool
) -> None:
    await stage.add_node(cpu=8)
    for number in range(6 if long else 2):
        name = f"a{number}"
        workers = replicated_job("w", stage.name, replicas=4, pods=2)
        await stage.create(JOBSETS, jobset(name, workers, mode="Composite"))
        await asyncio.sleep(0.02 * number)  # another moment each time
        stage.muster.kill(CONTROLLER)
        await stage.muster.start(CONTROLLER)
        await stage.runs_whole(of_jobset(name), 8)
        await have(stage, COMPOSITE_POD_GROUPS, f"cpg-{name}", f"cpg-{name}-w")

        await stage.delete(JOBSETS, name)
        stage.muster.kill(CONTROLLER)
        await stage.muster.start(CONTROLLER)
        await stage.empty()


async def test_groups_removed_by_hand_come_back(stage: Stage) -> None:
    workers = replicated_job("w", stage.name, replicas=2, pods=2)
    await stage.create(JOBSETS, jobset("a", workers))
    await stage.grouped("pg-a")
    before = await uids(stage)
    await change(stage, JOBSETS, "a", suspend=True)
    await have(stage, POD_GROUPS)
    await stage.delete(WORKLOADS, "w-a")
    await have(stage, WORKLOADS)

    await change(stage, JOBSETS, "a", suspend=False)

    await have(stage, WORKLOADS, "w-a")
    await have(stage, POD_GROUPS, "pg-a")
    assert await uids(stage) != before
