"""Groups that come from templates, and from the coscheduling kind, by the processes themselves."""

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
from controllers.implicit_groups import IDLE_SECONDS
from e2e.controllers.questions import event_reasons, have, names
from e2e.suite.objects import (
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
from e2e.suite.stage import Stage
from kube.resources import JOBS, JOBSETS, PODS, Resource

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


def labelled(name: str, stage: Stage, **labels: str) -> Json:
    made = pod(name, stage.name)
    made["metadata"]["labels"] = labels
    return made


async def remove_pods(stage: Stage) -> None:
    for found in await stage.pods():
        await stage.delete(PODS, found["metadata"]["name"])


async def test_pods_that_name_workload_and_template_get_their_group(stage: Stage) -> None:
    """KEP-4671: the second replica is short of one pod, and waits alone."""
    await stage.add_node(cpu=4)
    await stage.create(WORKLOADS, workload("jobset", leaf("job-1", 2)))
    for name, key in (("p0", "key-1"), ("p1", "key-1"), ("p2", "key-2")):
        by = {LABEL_WORKLOAD: "jobset", LABEL_TEMPLATE: "job-1", LABEL_REPLICA_KEY: key}
        await stage.create(PODS, labelled(name, stage, **by))

    await stage.scheduled("jobset-job-1-key-1")
    await stage.grouped("jobset-job-1-key-2")
    await stage.runs_whole("", 2)

    await stage.delete(WORKLOADS, "jobset")
    await remove_pods(stage)
    await stage.empty()


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_the_group_of_a_key_goes_a_while_after_its_last_pod(stage: Stage) -> None:
    await stage.add_node(cpu=2)
    await stage.create(WORKLOADS, workload("jobset", leaf("job-1", 1)))
    for key in ("key-1", "key-2"):
        by = {LABEL_WORKLOAD: "jobset", LABEL_TEMPLATE: "job-1", LABEL_REPLICA_KEY: key}
        await stage.create(PODS, labelled(key, stage, **by))
    await stage.runs_whole("", 2)

    await stage.delete(PODS, "key-1")

    stage.patience = 2 * IDLE_SECONDS
    await have(stage, POD_GROUPS, "jobset-job-1-key-2")
    assert await names(stage, WORKLOADS) == ["jobset"]


async def test_a_policy_comes_with_its_template(stage: Stage) -> None:
    """KEP-5832: the group is there first; admission completes what the controller takes over."""
    reference = {"workloadName": "later", "templateName": "job-1"}
    made = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    await stage.create(POD_GROUPS, made | {"spec": {"workloadRef": reference}})
    assert "schedulingPolicy" not in (await stage.group("g"))["spec"]

    await stage.create(WORKLOADS, workload("later", leaf("job-1", 3)))

    async def filled() -> bool:
        spec = (await stage.group("g"))["spec"]
        return bool(spec.get("schedulingPolicy") == {"gang": {"minCount": 3}})

    await stage.until("the policy", filled)
    spec = (await stage.group("g"))["spec"]
    assert spec["disruptionMode"] == {"single": {}}
    assert spec["priority"] == 0


async def test_a_user_s_workload_says_what_the_groups_are(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    theirs = await stage.create(WORKLOADS, workload("mine", leaf("pg-a", 3), owner="a"))
    await stage.create(JOBSETS, jobset("a", replicated_job("w", stage.name, replicas=2, pods=2)))

    await stage.runs_whole(of_jobset("a"), 4)

    spec = (await stage.group("pg-a"))["spec"]
    assert spec["workloadRef"] == {"workloadName": "mine", "templateName": "pg-a"}
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 3}}
    (only,) = (await stage.client.list(WORKLOADS, stage.name))["items"]
    assert only["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]


async def test_two_workloads_of_one_jobset_hold_its_pods_until_one_goes(stage: Stage) -> None:
    await stage.add_node(cpu=4)
    for name, count in (("one", 3), ("two", 4)):
        await stage.create(WORKLOADS, workload(name, leaf("pg-a", count), owner="a"))
    await stage.create(JOBSETS, jobset("a", replicated_job("w", stage.name, replicas=2, pods=2)))

    async def told() -> bool:
        return "WorkloadConflict" in await event_reasons(stage, "JobSet", "a")

    await stage.until("the conflict to be told", told)
    await stage.has_pods(of_jobset("a"), 4)
    notes = (await stage.client.get(JOBSETS, "a", stage.name))["metadata"]["annotations"]
    assert notes[ANNOTATION_WAITING_FOR].startswith("WorkloadConflict: Workloads one and two both")
    assert await names(stage, POD_GROUPS) == []
    assert await stage.bound() == 0

    await stage.delete(WORKLOADS, "one")
    await stage.runs_whole(of_jobset("a"), 4)
    spec = (await stage.group("pg-a"))["spec"]
    assert spec["workloadRef"] == {"workloadName": "two", "templateName": "pg-a"}
    assert (await event_reasons(stage, "JobSet", "a")).count("WorkloadConflict") == 1


async def test_a_delegated_job_gets_its_group_from_its_owner_s_workload(stage: Stage) -> None:
    """The owner may be of any kind: a ConfigMap stands for a training operator's object."""
    await stage.add_node(cpu=4)
    owner = await stage.create(CONFIG_MAPS, {"metadata": {"name": "run"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    made = job("t", stage.name, mode=None)
    made["metadata"] |= {
        "annotations": {ANNOTATION_GROUP_TEMPLATE: "workers"},
        "ownerReferences": [reference],
    }
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    await stage.create(JOBS, made)
    await stage.has_pods(of_job("t"), 4)
    assert await names(stage, POD_GROUPS) == []

    theirs = workload("of-run", leaf("workers", 3))
    theirs["spec"]["controllerRef"] = {"kind": "ConfigMap", "name": "run"}
    await stage.create(WORKLOADS, theirs)
    await stage.runs_whole(of_job("t"), 4)

    spec = (await stage.group("pg-job-t"))["spec"]
    assert spec["workloadRef"] == {"workloadName": "of-run", "templateName": "workers"}
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 3}}
    await stage.delete(CONFIG_MAPS, "run")
    await stage.delete(WORKLOADS, "of-run")
    await stage.empty()


async def test_subsets_of_a_coscheduling_group_run_together(stage: Stage) -> None:
    """KEP-3370: no pod runs before every subset has its least number; the status counts them."""
    await stage.add_node(cpu=3)
    subsets = [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 2}]
    made = {"apiVersion": COSCHEDULINGS.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    await stage.create(COSCHEDULINGS, made | {"spec": {"subsets": subsets}})
    by = {LABEL_COSCHEDULING: "g"}
    for name in ("w0", "w1"):
        await stage.create(PODS, labelled(name, stage, **by, **{LABEL_SUBSET: "worker"}))
    await stage.grouped("g-worker")
    assert await stage.bound() == 0

    await stage.create(PODS, labelled("p0", stage, **by, **{LABEL_SUBSET: "ps"}))
    await stage.runs_whole("", 3)

    async def said() -> bool:
        return _says(await stage.client.get(COSCHEDULINGS, "g", stage.name))

    await stage.until("the status of the coscheduling group", said)
    await stage.delete(COSCHEDULINGS, "g")
    await remove_pods(stage)
    await stage.empty()
    assert (await stage.client.list(COMPOSITE_POD_GROUPS, stage.name))["items"] == []


def _says(group: Any) -> bool:
    status = group.get("status", {})
    conditions = {it["type"]: it["status"] for it in status.get("conditions", [])}
    running = {it["name"]: it["running"] for it in status.get("subsets", [])}
    scheduled = conditions.get("PodGroupScheduled") == "True"
    return bool(scheduled and running == {"ps": 1, "worker": 2})
