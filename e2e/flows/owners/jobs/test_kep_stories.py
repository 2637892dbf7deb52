"""The user stories and examples of KEP-1068, 4671, 5832 and 6012, with their own numbers.

`golden/` has their objects; these flows run them.
"""

from collections import Counter
from typing import Any

from api.constants import (
    JOB,
    JOBSET_LABEL_REPLICATED_JOB,
    LABEL_POD_GROUP,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
    WORKLOAD,
)
from api.names import JOINED, implicit_pod_group, jobset_pod_group
from e2e.flows.owners.jobs.queries import change, names, uids, wait_for_objects
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    replicated_job,
)
from kube.client.resources import JOBS, JOBSETS

FIRST, SECOND = "replicated-job-1", "replicated-job-2"
SAMPLE = "sample-jobset"


def group_name(replicated_job: str, index: int | None = None) -> str:
    return jobset_pod_group("", SAMPLE, replicated_job, index, JOINED)


def of_replicated_job(name: str) -> str:
    return f"{of_jobset(SAMPLE)},{JOBSET_LABEL_REPLICATED_JOB}={name}"


def workload(name: str, template: str, count: int, **spec: Any) -> Json:
    """Return a user's Workload of one gang."""
    leaf = {"name": template, "schedulingPolicy": {"gang": {"minCount": count}}}
    head = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
    return head | {"metadata": {"name": name}, "spec": {"podGroupTemplates": [leaf], **spec}}


def refer(pod_template: Json, to: str, template: str) -> None:
    """Let the pods name Workload and template by labels, as KEP-4671 does by a field."""
    labels = {LABEL_WORKLOAD: to, LABEL_TEMPLATE: template}
    pod_template["metadata"] = {"labels": labels}
    pod_template["spec"]["schedulerName"] = SCHEDULER_NAME


async def bound_by_group(env: Environment) -> Counter[str]:
    pods = [pod for pod in await env.pods() if pod["spec"].get("nodeName")]
    return Counter(pod["metadata"]["labels"][LABEL_POD_GROUP] for pod in pods)


async def test_kep_1068_story_2_the_second_part_starts_whole_when_the_first_is_complete(
    env: Environment,
) -> None:
    await env.add_node(cpu=7)
    first = replicated_job(FIRST, env.name, replicas=2, pods=4, mode="Gang")
    second = replicated_job(SECOND, env.name, replicas=1, pods=3, mode="Gang")
    second["dependsOn"] = [{"name": FIRST, "status": "Complete"}]
    await env.create(JOBSETS, jobset(SAMPLE, first, second, mode=None))
    await env.waits(group_name(FIRST), needed=8, free=7)
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs(of_replicated_job(FIRST), 8)
    assert not await env.pods(of_replicated_job(SECOND))

    await env.cluster.finish_pods(env.name, of_replicated_job(FIRST))
    await env.runs(of_replicated_job(SECOND), 3)
    await env.scheduled(group_name(SECOND))
    await env.waits_for_nothing(JOBSETS, SAMPLE)

    await env.cluster.finish_pods(env.name, of_replicated_job(SECOND))

    async def complete() -> bool:
        status = (await env.client.get(JOBSETS, SAMPLE, env.name)).get("status", {})
        return bool(status.get("terminalState") == "Completed")

    await env.until("the JobSet to be complete", complete)


async def test_kep_1068_story_3_each_replica_starts_whole_by_itself(env: Environment) -> None:
    """Two gangs of four and three of three with capacity for nine: no gang runs partially."""
    await env.add_node(cpu=9)
    await env.create(
        JOBSETS,
        jobset(
            SAMPLE,
            replicated_job(FIRST, env.name, replicas=2, pods=4, mode="ReplicatedGang"),
            replicated_job(SECOND, env.name, replicas=3, pods=3, mode="ReplicatedGang"),
            mode=None,
        ),
    )
    sizes = {group_name(FIRST, at): 4 for at in range(2)}
    sizes |= {group_name(SECOND, at): 3 for at in range(3)}
    await env.has_pods(of_jobset(SAMPLE), 17)

    async def full() -> bool:
        bound = await bound_by_group(env)
        least = min(size for name, size in sizes.items() if not bound[name])
        return 9 - bound.total() < least

    await env.until("no more gang to fit", full)
    bound = await bound_by_group(env)
    assert bound.items() <= sizes.items()
    for name in sizes.keys() - bound.keys():
        await env.waits(name, needed=sizes[name])

    await env.add_node(cpu=8)
    await env.runs(of_jobset(SAMPLE), 17)
    assert await bound_by_group(env) == sizes


async def test_kep_1068_a_jobset_s_gang_by_a_workload_of_the_user_s(env: Environment) -> None:
    """The form of the KEP's first version: the templates of the JobSet name the Workload."""
    await env.add_node(cpu=15)
    owner = {"apiGroup": JOBSETS.group, "kind": JOBSETS.kind, "name": SAMPLE}
    theirs = workload(f"w-{SAMPLE}", f"pg-{SAMPLE}", 2 * 2 * 4, controllerRef=owner)
    await env.create(WORKLOADS, theirs)
    parts = [replicated_job(name, env.name, replicas=2, pods=4) for name in (FIRST, SECOND)]
    for part in parts:
        refer(part["template"]["spec"]["template"], f"w-{SAMPLE}", f"pg-{SAMPLE}")
    await env.create(JOBSETS, jobset(SAMPLE, *parts, mode="Gang"))
    group = implicit_pod_group(f"w-{SAMPLE}", f"pg-{SAMPLE}")
    await env.waits(group, needed=16, free=15)
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs(of_jobset(SAMPLE), 16)
    assert await names(env, WORKLOADS) == [f"w-{SAMPLE}"]
    assert await names(env, POD_GROUPS) == [group]

    await env.delete(JOBSETS, SAMPLE)
    await env.has_pods("", 0)
    assert await names(env, WORKLOADS) == [f"w-{SAMPLE}"]
    await env.delete(WORKLOADS, f"w-{SAMPLE}")
    await env.empty()


async def test_kep_4671_a_job_whose_pods_name_a_workload_that_comes_later(
    env: Environment,
) -> None:
    """Story 1, with the KEP's example: the Workload does not change the Job's objects."""
    await env.add_node(cpu=11)
    made = job("job-1", env.name, pods=12, mode=None)
    made["spec"]["completionMode"] = "Indexed"
    refer(made["spec"]["template"], "job-1", "pg1")
    await env.create(JOBS, made)
    await env.has_pods(of_job("job-1"), 12)
    assert await env.bound() == 0

    await env.create(WORKLOADS, workload("job-1", "pg1", 12))
    await env.waits(implicit_pod_group("job-1", "pg1"), needed=12, free=11)
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs(of_job("job-1"), 12)
    await env.delete(JOBS, "job-1")
    await env.delete(WORKLOADS, "job-1")
    await env.empty()


async def test_kep_4671_a_template_that_is_missing_comes_with_the_workload_made_again(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await env.create(WORKLOADS, workload("job-1", "another", 3))
    made = job("job-1", env.name, pods=3, mode=None)
    refer(made["spec"]["template"], "job-1", "pg1")
    await env.create(JOBS, made)
    await env.has_pods(of_job("job-1"), 3)
    # The controller has seen these pods once it has created a group for later pods.
    other = job("other", env.name, pods=1, mode=None)
    refer(other["spec"]["template"], "job-1", "another")
    await env.create(JOBS, other)
    group = implicit_pod_group("job-1", "another")
    await env.grouped(group)
    assert await names(env, POD_GROUPS) == [group]
    assert await env.bound() == 0

    await env.delete(JOBS, "other")
    await env.delete(WORKLOADS, "job-1")
    await wait_for_objects(env, WORKLOADS)
    await env.create(WORKLOADS, workload("job-1", "pg1", 3))

    await env.runs(of_job("job-1"), 3)
    await env.delete(JOBS, "job-1")
    await env.delete(WORKLOADS, "job-1")
    await env.empty()


async def test_kep_6012_a_stage_starts_as_some_of_it_can_together_with_a_whole_gang(
    env: Environment,
) -> None:
    """6012-012: three data downloaders as they fit, three trainers all or none, one tree."""
    await env.add_node(cpu=3)
    first = replicated_job(FIRST, env.name, replicas=3, pods=1, mode="Basic")
    second = replicated_job(SECOND, env.name, replicas=1, pods=3)
    await env.create(JOBSETS, jobset(SAMPLE, first, second, mode="Composite"))
    blocker = await env.waits(group_name(SECOND, 0), needed=1, free=0)
    said = f'PodGroup "{group_name(SECOND, 0)}" placed, the group needs capacity for 1 more pod'
    assert said in blocker["summary"]
    assert await env.bound() == 0

    await env.add_node(cpu=1)
    await env.runs(of_replicated_job(SECOND), 3)
    await env.runs(of_replicated_job(FIRST), 1)

    await env.add_node(cpu=2)
    await env.runs(of_replicated_job(FIRST), 3)


async def test_kep_5832_story_1_a_training_job_scales_on_the_workload_it_has(
    env: Environment,
) -> None:
    await env.add_node(cpu=8)
    made = job("train", env.name, pods=4)
    del made["spec"]["completions"]
    await env.create(JOBS, made)
    await env.runs(of_job("train"), 4)
    before = await uids(env)

    await change(env, JOBS, "train", parallelism=8)
    await env.runs(of_job("train"), 8)

    async def follows() -> bool:
        group = await env.group("pg-job-train")
        owned = await env.client.get(WORKLOADS, "w-job-train", env.name)
        templates = owned["spec"]["podGroupTemplates"]
        said = [each["schedulingPolicy"] for each in (group["spec"], *templates)]
        return said == [{"gang": {"minCount": 8}}] * 2

    await env.until("group and Workload to follow", follows)
    assert await uids(env) == before


async def test_kep_5832_workload_and_group_belong_to_the_job_and_go_with_it(
    env: Environment,
) -> None:
    """The ownership diagram: the Job owns both, and the group names its Workload."""
    made = await env.create(JOBS, job("train", env.name))
    group = await env.grouped("pg-job-train")
    owned = await env.client.get(WORKLOADS, "w-job-train", env.name)
    uid = made["metadata"]["uid"]

    for obj in (group, owned):
        [controller] = [it for it in obj["metadata"]["ownerReferences"] if it.get("controller")]
        assert (controller["kind"], controller["uid"]) == (JOB.kind, uid)
    reference = group["spec"]["workloadRef"]
    assert reference == {"workloadName": "w-job-train", "templateName": "pg-job-train"}
    owners = {it["kind"] for it in group["metadata"]["ownerReferences"]}
    assert owners == {JOB.kind, WORKLOAD.kind}

    await env.delete(JOBS, "train")
    await env.empty()
