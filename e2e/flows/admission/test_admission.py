"""Admission through a complete API server: defaulting, rejections, annotations and exceptions."""

import copy
import secrets

import aiohttp
import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    FINALIZER_POD_GROUP,
    LABEL_POD_GROUP,
    SCHEDULER_NAME,
)
from e2e.harness.environment import Environment
from e2e.harness.muster import WEBHOOK
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
)
from kube.base.errors import ApiError, Forbidden, Invalid
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, MUTATING_WEBHOOKS, PODS, PRIORITY_CLASSES

HOLD = "test.muster.dev/hold"
REFERENCE = {"workloadName": "w", "templateName": "t"}


def group(name: str, **spec: object) -> Json:
    made = pod_group(name, 4)
    made["spec"] |= spec
    return made


def faults(error: ApiError) -> set[tuple[str, str]]:
    return {(cause.field, cause.reason) for cause in error.causes}


async def reviews(env: Environment) -> float:
    """Return the number of admission reviews that the webhook has processed since its start.

    Conversions do not count: kube-apiserver requests one for each served version that it caches.
    """
    registered = await env.client.get(MUTATING_WEBHOOKS, "muster")
    base = registered["webhooks"][0]["clientConfig"]["url"].partition("/mutate/")[0]
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        aiohttp.ClientSession(connector=connector, trust_env=False) as session,
        session.get(f"{base}/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()
    counted = [line for line in lines if line.startswith("muster_webhook_reviews_total{")]
    counts = [line for line in counted if 'route="convert"' not in line]
    return sum(float(line.split()[-1]) for line in counts)


async def test_a_group_is_completed(env: Environment) -> None:
    made = await env.create(POD_GROUPS, group("complete", priorityClassName="system-node-critical"))

    assert made["metadata"]["finalizers"] == [FINALIZER_POD_GROUP]
    assert made["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "disruptionMode": {"single": {}},
        "priorityClassName": "system-node-critical",
        "priority": 2_000_001_000,
        "preemptionPolicy": "PreemptLowerPriority",
    }


async def test_a_priority_class_counts_as_soon_as_it_is_made(env: Environment) -> None:
    name = f"late-{secrets.token_hex(3)}"
    asking = group("late", priorityClassName=name)
    with pytest.raises(Forbidden) as refused:
        await env.create(POD_GROUPS, asking)
    await env.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 77})
    made: Json = {}

    async def accepted() -> bool:
        nonlocal made
        try:
            made = await env.create(POD_GROUPS, asking)
        except Forbidden:
            return False
        return True

    await env.until("the class to be known", accepted)
    await env.client.delete(PRIORITY_CLASSES, name)

    assert faults(refused.value) == {("spec.priorityClassName", "FieldValueForbidden")}
    assert made["spec"]["priority"] == 77


async def test_all_faults_of_a_group_come_in_one_answer(env: Environment) -> None:
    wrong = group(
        "wrong",
        schedulingPolicy={"gang": {"minCount": 0}},
        schedulingConstraints={"topology": [{"key": "a b"}]},
        parentCompositePodGroupName="Bad_Name",
    )

    with pytest.raises(Invalid) as refused:
        await env.create(POD_GROUPS, wrong)

    assert faults(refused.value) == {
        ("spec.schedulingPolicy.gang.minCount", "FieldValueInvalid"),
        ("spec.schedulingConstraints.topology[0].key", "FieldValueInvalid"),
        ("spec.parentCompositePodGroupName", "FieldValueInvalid"),
        ("spec.workloadRef", "FieldValueRequired"),
    }


async def test_a_spec_is_immutable_and_its_finalizers_are_not(env: Environment) -> None:
    await env.create(POD_GROUPS, group("fixed"))
    with pytest.raises(Invalid) as refused:
        await env.client.patch(
            POD_GROUPS, "fixed", PatchBuilder().add("/spec/priority", 5), env.name
        )
    before = await reviews(env)
    freed = PatchBuilder().remove("/metadata/finalizers")
    await env.client.patch(POD_GROUPS, "fixed", freed, env.name)

    assert faults(refused.value) == {("spec.priority", "FieldValueInvalid")}
    assert await reviews(env) == before


async def test_a_parent_that_is_being_deleted_takes_no_children(env: Environment) -> None:
    parent = {
        "apiVersion": COMPOSITE_POD_GROUPS.api_version,
        "kind": COMPOSITE_POD_GROUPS.kind,
        "metadata": {"name": "leaving", "finalizers": [HOLD]},
        "spec": {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 1}}},
    }
    child = group("child", workloadRef=REFERENCE, parentCompositePodGroupName="leaving")
    await env.create(COMPOSITE_POD_GROUPS, parent)
    await env.delete(COMPOSITE_POD_GROUPS, "leaving")
    found: set[tuple[str, str]] = set()

    async def refused() -> bool:
        nonlocal found
        try:
            await env.client.create(POD_GROUPS, child, env.name, dry_run=True)
        except Forbidden as error:
            found = faults(error)
        return bool(found)

    await env.until("the child to be refused", refused)
    freed = PatchBuilder().add("/metadata/finalizers", [])
    await env.client.patch(COMPOSITE_POD_GROUPS, "leaving", freed, env.name)

    assert found == {("spec.parentCompositePodGroupName", "FieldValueForbidden")}


async def test_a_job_replaced_by_its_unmarked_manifest_stays_as_it_was(env: Environment) -> None:
    made = await env.create(JOBS, job("alone", env.name))
    manifest = copy.deepcopy(made)
    template = manifest["spec"]["template"]
    del manifest["metadata"]["resourceVersion"]
    del manifest["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP]
    del template["metadata"]["labels"][LABEL_POD_GROUP]
    template["spec"]["schedulerName"] = "default-scheduler"

    again = await env.client.replace(JOBS, manifest)

    for found in (made, again):
        template = found["spec"]["template"]
        assert found["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP] == "pg-job-alone"
        assert template["metadata"]["labels"][LABEL_POD_GROUP] == "pg-job-alone"
        assert template["spec"]["schedulerName"] == SCHEDULER_NAME


async def test_a_jobset_applied_again_stays_as_it_was_and_its_pods_name_one_group(
    env: Environment,
) -> None:
    made = await env.create(JOBSETS, jobset("training", replicated_job("w", env.name, pods=1)))
    # Client-side apply replaces the whole list with the manifest's, which lacks the annotation.
    replicated = copy.deepcopy(made["spec"]["replicatedJobs"])
    for entry in replicated:
        entry["template"]["metadata"].pop("annotations")
    patch = PatchBuilder().replace("/spec/replicatedJobs", replicated)
    again = await env.client.patch(JOBSETS, "training", patch, env.name)
    await env.has_pods(of_jobset("training"), 2)
    pods = await env.pods(of_jobset("training"))

    assert made["spec"]["replicatedJobs"] != replicated
    assert again["spec"] == made["spec"]
    assert {each["metadata"]["labels"][LABEL_POD_GROUP] for each in pods} == {"pg-training"}
    assert {each["spec"]["schedulerName"] for each in pods} == {SCHEDULER_NAME}


async def test_all_faults_of_a_jobset_come_in_one_answer_with_their_paths(env: Environment) -> None:
    wrong = jobset("wrong", replicated_job("w", env.name, mode="Gang"), mode="Gangg")
    wrong["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"] |= {
        "scheduling.muster.dev/min-count": "0"
    }

    with pytest.raises(Invalid) as refused:
        await env.create(JOBSETS, wrong)

    holder = "spec.replicatedJobs[0].template.metadata.annotations"
    assert faults(refused.value) == {
        (f"metadata.annotations[{ANNOTATION_GANG_MODE}]", "FieldValueNotSupported"),
        (f"{holder}[scheduling.muster.dev/min-count]", "FieldValueInvalid"),
    }


async def test_objects_that_do_not_ask_never_reach_the_webhook(env: Environment) -> None:
    before = await reviews(env)
    await env.create(JOBS, job("plain", env.name, mode=None, pods=1))
    await env.create(JOBSETS, jobset("plain-set", replicated_job("w", env.name, pods=1), mode=None))
    await env.create(PODS, pod("plain", env.name))
    await env.has_pods(of_jobset("plain-set"), 2)
    labelled = PatchBuilder().add("/metadata/labels/more", "yes")
    await env.client.patch(JOBS, "plain", labelled, env.name)

    assert await reviews(env) == before


async def test_without_the_webhook_finalizers_still_come_off(env: Environment) -> None:
    await env.create(POD_GROUPS, group("stuck"))
    env.muster.kill(WEBHOOK)

    with pytest.raises(ApiError, match=r"podgroups\.mutate\.scheduling\.muster\.dev"):
        await env.create(POD_GROUPS, group("refused"))
    await env.delete(POD_GROUPS, "stuck")
    await env.empty()

    await env.muster.start(WEBHOOK)
