"""Warnings for Jobs, JobSets and CronJobs at admission, through a complete API server."""

import copy
from collections.abc import Callable

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_GROUP_SCOPE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT,
    CRON_JOB,
    LABEL_POD_GROUP,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from e2e.harness.environment import Environment
from e2e.harness.muster import WEBHOOK
from e2e.harness.objects import (
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
    resource,
)
from e2e.harness.support.rest import JSON_PATCH, Answer, Rest
from kube.base.errors import Invalid
from kube.client.resources import EVENTS, JOBS, JOBSETS, PODS, PRIORITY_CLASSES, Resource

OTHER = "example.com/elsewhere"
CRON_JOBS = resource(CRON_JOB)
MODE = f"metadata.annotations[{ANNOTATION_GANG_MODE}]"
COUNT = f"metadata.annotations[{ANNOTATION_MIN_COUNT}]"

Bad = Callable[[str], Json]


def path(env: Environment, kind: Resource, name: str = "") -> str:
    group = f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
    return f"/{group}/namespaces/{env.name}/{kind.plural}" + (f"/{name}" if name else "")


def said(answer: Answer) -> list[str]:
    """Return the warnings of Muster, without their HTTP quoting."""
    texts = [warning.partition('"')[2].rstrip('"') for warning in answer.warnings]
    return [text.replace('\\"', '"') for text in texts if "metadata." in text or "spec." in text]


def cron_job(jobs: Json) -> Json:
    template = {"metadata": {"annotations": jobs["metadata"]["annotations"]}, "spec": jobs["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "@yearly", "suspend": True, "jobTemplate": template},
    }


def with_count(obj: Json, count: str) -> Json:
    obj["metadata"]["annotations"][ANNOTATION_MIN_COUNT] = count
    return obj


async def test_jobs_and_jobsets_of_another_controller_get_no_group(
    env: Environment, rest: Rest
) -> None:
    """They do not wait for pods either."""
    await env.add_node(cpu=2)
    alone = with_count(job("alone", env.name, pods=2), "9")
    alone["spec"]["managedBy"] = OTHER
    many = jobset("many", replicated_job("w", env.name, replicas=2, pods=1))
    many["spec"]["managedBy"] = OTHER

    made = await rest.post(path(env, JOBS), alone)
    made_too = await rest.post(path(env, JOBSETS), many)
    # Muster's controllers process objects in order: with this group, they have seen the others.
    await env.create(JOBS, job("usual", env.name, pods=2))
    await env.runs(of_job("usual"), 2)

    told, fault = said(made)
    assert told.startswith(
        f"spec.managedBy: {OTHER} runs this Job, so Muster creates no group for it"
    )
    assert fault == (
        f'{COUNT}: Invalid value: "9": must be between 1 and 2, inclusive, the number of its pods'
    )
    [told] = said(made_too)
    assert told.startswith(f"spec.managedBy: {OTHER} runs this JobSet, so Muster creates no group")
    template = made.expect(201)["spec"]["template"]
    assert LABEL_POD_GROUP not in template["metadata"].get("labels", {})
    assert template["spec"].get("schedulerName", "default-scheduler") == "default-scheduler"
    [replicated] = made_too.expect(201)["spec"]["replicatedJobs"]
    assert ANNOTATION_GROUP_SCOPE not in str(replicated)
    for kind, wanted in ((POD_GROUPS, "pg-job-usual"), (WORKLOADS, "w-job-usual")):
        found = (await env.client.list(kind, env.name))["items"]
        assert [each["metadata"]["name"] for each in found] == [wanted]
    assert not await env.pods(of_job("alone"))


@pytest.mark.parametrize("grouped", [False, True])
async def test_pods_that_another_controller_makes_for_a_job_are_in_the_group_they_name(
    env: Environment, rest: Rest, grouped: bool
) -> None:
    """The controller creates them from the Job's template, as this test does.

    They are plain pods, or a user's gang.
    """
    await env.add_node(cpu=1)
    made = job("theirs", env.name, pods=2)
    made["spec"]["managedBy"] = OTHER
    if grouped:
        await env.create(POD_GROUPS, pod_group("mine", 2))
        made["spec"]["template"]["metadata"] = {"labels": {LABEL_POD_GROUP: "mine"}}
    stored = (await rest.post(path(env, JOBS), made)).expect(201)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "controller": True}
    for index in range(2):
        template = copy.deepcopy(stored["spec"]["template"])
        template["metadata"] = {
            "name": f"theirs-{index}",
            "labels": template["metadata"].get("labels", {}),
            "ownerReferences": [owner | {"uid": stored["metadata"]["uid"]}],
        }
        await env.create(PODS, {"apiVersion": "v1", "kind": "Pod"} | template)

    pods = await env.pods()
    schedulers = {each["spec"]["schedulerName"] for each in pods}
    assert schedulers == {SCHEDULER_NAME if grouped else "default-scheduler"}
    if grouped:
        await env.waits("mine", needed=2, free=1)
        await env.add_node(cpu=1)
        await env.runs("", 2)
    groups = (await env.client.list(POD_GROUPS, env.name))["items"]
    assert [each["metadata"]["name"] for each in groups] == ["mine"] * grouped
    if grouped:
        await env.delete(POD_GROUPS, "mine")


async def test_a_jobset_whose_jobs_are_run_elsewhere_in_part_waits_for_its_own(
    env: Environment, rest: Rest
) -> None:
    await env.add_node(cpu=2)
    made = jobset(
        "part",
        replicated_job("here", env.name, replicas=1, pods=2),
        replicated_job("there", env.name, replicas=1, pods=2),
    )
    made["spec"]["replicatedJobs"][1]["template"]["spec"]["managedBy"] = OTHER

    answer = await rest.post(path(env, JOBSETS), made)

    answer.expect(201)
    [told] = said(answer)
    assert told.startswith(f"spec.replicatedJobs[1].template.spec.managedBy: {OTHER} runs this Job")
    await env.runs(of_jobset("part"), 2)
    assert (await env.group("pg-part"))["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


def ordered(room: str) -> Json:
    made = jobset("bad", replicated_job("a", room), replicated_job("b", room))
    made["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    return made


def of_impossible_group(obj: Json, template: Json) -> Json:
    template["spec"]["template"]["metadata"] = {"labels": {LABEL_POD_GROUP: "Bad_Group"}}
    return obj


def pod_of_impossible_template(room: str) -> Json:
    made = pod("bad", room)
    made["metadata"]["labels"] = {LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "a.b"}
    return made


def job_of_impossible_group(room: str) -> Json:
    made = job("bad", room)
    return of_impossible_group(made, made)


def jobset_of_impossible_group(room: str) -> Json:
    made = jobset("bad", replicated_job("w", room))
    return of_impossible_group(made, made["spec"]["replicatedJobs"][0]["template"])


LABEL = f"metadata.labels[{LABEL_POD_GROUP}]"


@pytest.mark.parametrize(
    ("kind", "bad", "field", "text"),
    [
        pytest.param(
            JOBSETS,
            ordered,
            "spec.replicatedJobs[1].dependsOn",
            'Invalid value: ["a"]: the gang of the JobSet would wait',
            id="an order within a gang, with what it says",
        ),
        pytest.param(
            PODS,
            lambda room: pod("bad", room, group="Bad_Group"),
            LABEL,
            'Invalid value: "Bad_Group": no PodGroup can have this name',
            id="a pod of a group that there cannot be",
        ),
        pytest.param(
            PODS,
            pod_of_impossible_template,
            f"metadata.labels[{LABEL_TEMPLATE}]",
            'Invalid value: "a.b": must be a lowercase RFC 1123 label',
            id="a pod of a template that there cannot be",
        ),
        pytest.param(
            JOBS,
            job_of_impossible_group,
            f"spec.template.{LABEL}",
            'Invalid value: "Bad_Group": no PodGroup can have this name',
            id="a Job of such pods",
        ),
        pytest.param(
            JOBSETS,
            jobset_of_impossible_group,
            f"spec.replicatedJobs[0].template.spec.template.{LABEL}",
            'Invalid value: "Bad_Group": no PodGroup can have this name',
            id="a JobSet of such pods",
        ),
    ],
)
async def test_a_fault_is_refused_and_shown(
    env: Environment, kind: Resource, bad: Bad, field: str, text: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await env.create(kind, bad(env.name))

    [cause] = refused.value.causes
    assert cause.field == field
    assert cause.message.startswith(text)


async def test_pods_and_jobs_that_are_not_muster_s_may_be_called_anything(
    env: Environment,
) -> None:
    plain = pod("plain", env.name, group="Bad_Group", scheduler="another")
    other = job_of_impossible_group(env.name)
    other["spec"]["template"]["spec"]["schedulerName"] = "another"
    other["metadata"]["annotations"][ANNOTATION_GANG_MODE] = "Off"

    await env.create(PODS, plain)
    await env.create(JOBS, other)
    await env.has_pods(of_job("bad"), 4)


async def test_an_unknown_priority_class_is_said_at_once_and_may_come_later(
    env: Environment, rest: Rest
) -> None:
    await env.add_node(cpu=2)
    name = f"late-{env.name}"
    made = job("late", env.name, pods=2)
    made["spec"]["template"]["spec"]["priorityClassName"] = name

    answer = await rest.post(path(env, JOBS), made)
    answer.expect(201)
    await env.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 7})
    try:
        await env.runs(of_job("late"), 2)
    finally:
        await env.client.delete(PRIORITY_CLASSES, name)

    [warning] = said(answer)
    assert warning.startswith(
        f"spec.template.spec.priorityClassName: no PriorityClass with name {name} was found"
    )


async def test_who_takes_the_group_off_a_job_is_told_that_it_stays(
    env: Environment, rest: Rest
) -> None:
    made = await env.create(JOBS, job("alone", env.name, pods=1))
    note = ANNOTATION_MANAGED_GROUP.replace("/", "~1")
    label = LABEL_POD_GROUP.replace("/", "~1")
    patches: list[Json] = [
        {"op": "remove", "path": f"/metadata/annotations/{note}"},
        {"op": "replace", "path": f"/spec/template/metadata/labels/{label}", "value": "other"},
    ]

    answers = [await rest.patch(path(env, JOBS, "alone"), [it], JSON_PATCH) for it in patches]

    for answer in answers:
        now = answer.ok()
        assert now["metadata"]["annotations"] == made["metadata"]["annotations"]
        assert now["spec"]["template"] == made["spec"]["template"]
    fields = [warning.partition(": ")[0] for answer in answers for warning in said(answer)]
    assert fields == [f"metadata.annotations[{ANNOTATION_MANAGED_GROUP}]", f"spec.template.{LABEL}"]


async def test_an_unmarked_manifest_that_replaces_a_job_is_no_reason_for_a_warning(
    env: Environment, rest: Rest
) -> None:
    made = await env.create(JOBS, job("alone", env.name, pods=1))
    manifest = copy.deepcopy(made)
    del manifest["metadata"]["resourceVersion"]
    del manifest["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    del manifest["spec"]["template"]["metadata"]["labels"][LABEL_POD_GROUP]

    answer = await rest.put(path(env, JOBS, "alone"), manifest)

    assert answer.ok()["spec"]["template"] == made["spec"]["template"]
    assert said(answer) == []


async def test_a_cron_job_is_told_what_its_jobs_would_be_refused_for(
    env: Environment, rest: Rest
) -> None:
    wrong = cron_job(with_count(job("x", env.name, pods=2), "3"))
    right = cron_job(with_count(job("x", env.name, pods=2), "2"))
    collection, one = path(env, CRON_JOBS), path(env, CRON_JOBS, "nightly")
    refused = (
        f'spec.jobTemplate.{COUNT}: Invalid value: "3": must be between 1 and 2, inclusive, '
        "the number of its pods; "
        "admission will reject its Jobs"
    )

    created = await rest.post(collection, wrong)
    labelled = await rest.patch(one, {"metadata": {"labels": {"a": "b"}}})
    corrected = await rest.patch(one, right)
    spoilt = await rest.patch(one, wrong)
    misplaced = await rest.patch(one, {"metadata": {"annotations": {ANNOTATION_GANG_MODE: "Gang"}}})

    answers = (created, labelled, corrected, spoilt, misplaced)
    assert [answer.status for answer in answers] == [201, 200, 200, 200, 200]
    assert [said(answer) for answer in answers] == [[refused], [], [], [refused], [refused]]


@pytest.mark.long
async def test_the_jobs_of_such_a_cron_job_are_refused_as_it_was_told(
    env: Environment, rest: Rest, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip("the embedded cluster does not run CronJobs")
    wrong = cron_job(with_count(job("x", env.name, pods=2), "3"))
    wrong["spec"] |= {"schedule": "* * * * *", "suspend": False}

    [told] = said(await rest.post(path(env, CRON_JOBS), wrong))

    fault = told.removeprefix("spec.jobTemplate.").removesuffix("; admission will reject its Jobs")

    async def refused() -> bool:
        events = (await env.client.list(EVENTS, env.name))["items"]
        return any(
            event["reason"] == "FailedCreate" and fault in event["message"] for event in events
        )

    await env.until("a Job to be refused", refused, timeout=150)
    await env.client.delete(CRON_JOBS, "nightly", env.name)


async def test_a_cron_job_never_waits_for_the_webhook(env: Environment, rest: Rest) -> None:
    env.muster.kill(WEBHOOK)

    made = await rest.post(path(env, CRON_JOBS), cron_job(job("x", env.name)))
    changed = await rest.patch(path(env, CRON_JOBS, "nightly"), {"spec": {"schedule": "@monthly"}})

    made.expect(201)
    changed.ok()
    await env.muster.start(WEBHOOK)
