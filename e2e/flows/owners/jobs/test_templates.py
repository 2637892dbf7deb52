"""Groups from templates, and from the coscheduling kind, by the processes themselves."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GROUP_TEMPLATE,
    ANNOTATION_WAITING_FOR,
    COSCHEDULING,
    LABEL_COSCHEDULING,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from api.names import implicit_pod_group, subset_pod_group
from controllers.groups.implicit_groups import IDLE_SECONDS
from e2e.flows.owners.jobs.queries import event_reasons, min_count_is, names, wait_for_objects
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    replicated_job,
    resource,
)
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

COSCHEDULINGS = resource(COSCHEDULING)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def workload(name: str, *templates: Json, owner: str = "") -> Json:
    spec: Json = {"podGroupTemplates": list(templates)}
    if owner:
        spec["controllerRef"] = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": owner}
    metadata = {"name": name}
    return {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "metadata": metadata} | {
        "spec": spec
    }


def leaf(name: str, count: int) -> Json:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": count}}}


def labelled(name: str, env: Environment, **labels: str) -> Json:
    made = pod(name, env.name)
    made["metadata"]["labels"] = labels
    return made


async def test_pods_that_name_workload_and_template_get_their_group(env: Environment) -> None:
    """KEP-4671: the second replica lacks one pod, and waits alone."""
    await env.add_node(cpu=4)
    await env.create(WORKLOADS, workload("jobset", leaf("job-1", 2)))
    for name, key in (("p0", "key-1"), ("p1", "key-1"), ("p2", "key-2")):
        by = {LABEL_WORKLOAD: "jobset", LABEL_TEMPLATE: "job-1", LABEL_REPLICA_KEY: key}
        await env.create(PODS, labelled(name, env, **by))

    await env.scheduled(implicit_pod_group("jobset", "job-1", "key-1"))
    await env.grouped(implicit_pod_group("jobset", "job-1", "key-2"))
    await env.runs("", 2)

    await env.delete(WORKLOADS, "jobset")
    await env.delete_pods()
    await env.empty()


@pytest.mark.long
async def test_the_group_of_a_key_goes_a_while_after_its_last_pod(env: Environment) -> None:
    await env.add_node(cpu=2)
    await env.create(WORKLOADS, workload("jobset", leaf("job-1", 1)))
    for key in ("key-1", "key-2"):
        by = {LABEL_WORKLOAD: "jobset", LABEL_TEMPLATE: "job-1", LABEL_REPLICA_KEY: key}
        await env.create(PODS, labelled(key, env, **by))
    await env.runs("", 2)

    await env.delete(PODS, "key-1")

    env.timeout_seconds = 2 * IDLE_SECONDS
    await wait_for_objects(env, POD_GROUPS, implicit_pod_group("jobset", "job-1", "key-2"))
    assert await names(env, WORKLOADS) == ["jobset"]


async def test_a_policy_comes_with_its_template(env: Environment) -> None:
    """KEP-5832: the group is created first; admission completes it before the controller does."""
    reference = {"workloadName": "later", "templateName": "job-1"}
    made = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    await env.create(POD_GROUPS, made | {"spec": {"workloadRef": reference}})
    assert "schedulingPolicy" not in (await env.group("g"))["spec"]

    await env.create(WORKLOADS, workload("later", leaf("job-1", 3)))

    await min_count_is(env, "g", 3)
    spec = (await env.group("g"))["spec"]
    assert spec["disruptionMode"] == {"single": {}}
    assert spec["priority"] == 0


async def test_a_user_s_workload_defines_the_groups(env: Environment) -> None:
    await env.add_node(cpu=4)
    theirs = await env.create(WORKLOADS, workload("mine", leaf("pg-a", 3), owner="a"))
    await env.create(JOBSETS, jobset("a", replicated_job("w", env.name, replicas=2, pods=2)))

    await env.runs(of_jobset("a"), 4)

    spec = (await env.group("pg-a"))["spec"]
    assert spec["workloadRef"] == {"workloadName": "mine", "templateName": "pg-a"}
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 3}}
    (only,) = (await env.client.list(WORKLOADS, env.name))["items"]
    assert only["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]


async def test_two_workloads_of_one_jobset_hold_its_pods_until_one_goes(env: Environment) -> None:
    await env.add_node(cpu=4)
    for name, count in (("one", 3), ("two", 4)):
        await env.create(WORKLOADS, workload(name, leaf("pg-a", count), owner="a"))
    await env.create(JOBSETS, jobset("a", replicated_job("w", env.name, replicas=2, pods=2)))

    async def told() -> bool:
        return "WorkloadConflict" in await event_reasons(env, "JobSet", "a")

    async def noted() -> bool:
        notes = (await env.client.get(JOBSETS, "a", env.name))["metadata"]["annotations"]
        said = str(notes.get(ANNOTATION_WAITING_FOR, ""))
        return said.startswith("WorkloadConflict: Workloads one and two both")

    await env.until("the conflict to be told", told)
    await env.has_pods(of_jobset("a"), 4)
    await env.until("the JobSet to say what it waits for", noted)  # written after the event
    assert await names(env, POD_GROUPS) == []
    assert await env.bound() == 0

    await env.delete(WORKLOADS, "one")
    await env.runs(of_jobset("a"), 4)
    spec = (await env.group("pg-a"))["spec"]
    assert spec["workloadRef"] == {"workloadName": "two", "templateName": "pg-a"}
    assert (await event_reasons(env, "JobSet", "a")).count("WorkloadConflict") == 1


async def test_a_delegated_job_gets_its_group_from_its_owner_s_workload(env: Environment) -> None:
    """The owner may be of any kind: a ConfigMap replaces a training operator's object."""
    await env.add_node(cpu=4)
    owner = await env.create(CONFIG_MAPS, {"metadata": {"name": "run"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    made = job("t", env.name, mode=None)
    made["metadata"] |= {
        "annotations": {ANNOTATION_GROUP_TEMPLATE: "workers"},
        "ownerReferences": [reference],
    }
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    await env.create(JOBS, made)
    await env.has_pods(of_job("t"), 4)
    assert await names(env, POD_GROUPS) == []

    theirs = workload("of-run", leaf("workers", 3))
    theirs["spec"]["controllerRef"] = {"kind": "ConfigMap", "name": "run"}
    await env.create(WORKLOADS, theirs)
    await env.runs(of_job("t"), 4)

    spec = (await env.group("pg-job-t"))["spec"]
    assert spec["workloadRef"] == {"workloadName": "of-run", "templateName": "workers"}
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 3}}
    await env.delete(CONFIG_MAPS, "run")
    await env.delete(WORKLOADS, "of-run")
    await env.empty()


async def test_subsets_of_a_coscheduling_group_run_together(env: Environment) -> None:
    """KEP-3370: no pod runs before every subset has its minimum; the status counts them."""
    await env.add_node(cpu=3)
    subsets = [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 2}]
    made = {"apiVersion": COSCHEDULINGS.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    await env.create(COSCHEDULINGS, made | {"spec": {"subsets": subsets}})
    by = {LABEL_COSCHEDULING: "g"}
    for name in ("w0", "w1"):
        await env.create(PODS, labelled(name, env, **by, **{LABEL_SUBSET: "worker"}))
    await env.grouped(subset_pod_group("g", "worker"))
    assert await env.bound() == 0

    await env.create(PODS, labelled("p0", env, **by, **{LABEL_SUBSET: "ps"}))
    await env.runs("", 3)

    async def said() -> bool:
        return _says(await env.client.get(COSCHEDULINGS, "g", env.name))

    await env.until("the status of the coscheduling group", said)
    await env.delete(COSCHEDULINGS, "g")
    await env.delete_pods()
    await env.empty()
    assert (await env.client.list(COMPOSITE_POD_GROUPS, env.name))["items"] == []


def _says(group: Any) -> bool:
    status = group.get("status", {})
    conditions = {it["type"]: it["status"] for it in status.get("conditions", [])}
    running = {it["name"]: it["running"] for it in status.get("subsets", [])}
    scheduled = conditions.get("PodGroupScheduled") == "True"
    return bool(scheduled and running == {"ps": 1, "worker": 2})
