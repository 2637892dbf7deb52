"""ProvisioningRequests: the suite acts as the autoscaler, which responds and adds nodes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_CAPACITY_REQUESTED,
    ANNOTATION_CONSUMES_REQUEST,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PROVISIONING_REQUEST,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
)
from api.provisioning import BEST_EFFORT_ATOMIC, CHECK_CAPACITY, consumed
from e2e.flows.owners.jobs import definitions
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.muster import CONTROLLER
from e2e.harness.objects import (
    NODE_LABEL,
    POD_GROUPS,
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
from kube.base.errors import NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, JOBSETS, PODS

REQUESTS, TEMPLATES = resource(PROVISIONING_REQUEST), resource(POD_TEMPLATE)
ATOMIC = {ANNOTATION_PROVISIONING_REQUEST: BEST_EFFORT_ATOMIC}


@pytest.fixture
async def installed(env: Environment) -> AsyncIterator[None]:
    """The CRD, installed while Muster runs, and removed after the test."""
    async with definitions.installed(env, "provisioningrequests.autoscaling.x-k8s.io.yaml"):
        yield


@pytest.fixture
async def autoscaler(env: Environment, installed: None) -> None:
    """The CRD, known at once: a restarted controller checks the available kinds."""
    await env.muster.restart(CONTROLLER)


async def found(env: Environment, name: str) -> Json | None:
    try:
        return await env.client.get(REQUESTS, name, env.name)
    except NotFound:
        return None


async def asked(env: Environment, name: str, *counts: int, other: str = "") -> Json:
    """Wait for a request of these counts, with another UID than `other`."""
    seen: Json = {}

    async def probe() -> bool:
        nonlocal seen
        seen = await found(env, name) or {}
        sets = seen.get("spec", {}).get("podSets", [])
        uid = seen.get("metadata", {}).get("uid")
        return uid != other and sorted(each["count"] for each in sets) == sorted(counts)

    await env.until(f"{name} to ask for {counts}", probe)
    return seen


async def nothing_left(env: Environment) -> None:
    """Wait until there are neither requests nor PodTemplates."""

    async def probe() -> bool:
        left = [len((await env.client.list(it, env.name))["items"]) for it in (REQUESTS, TEMPLATES)]
        return left == [0, 0]

    await env.until("requests and templates to be gone", probe)


async def answer(env: Environment, name: str, condition: str, status: str = "True") -> None:
    """Set a condition of a request, as Cluster Autoscaler does."""
    now = "2026-01-01T00:00:00Z"
    said = {"type": condition, "status": status, "reason": "Said", "message": "by the suite"}
    ops = PatchBuilder().add("/status", {"conditions": [said | {"lastTransitionTime": now}]})
    await env.client.patch(REQUESTS, name, ops, env.name, subresource="status")


def gang(env: Environment, pods: int = 6, **annotations: str) -> Json:
    made = job("gang", env.name, pods=pods)
    made["metadata"]["annotations"] |= ATOMIC | annotations
    return made


async def member(env: Environment, name: str, root: str = "g", **spec: Any) -> None:
    """Create a pod by hand, with the annotations that a user has to set."""
    made = pod(name, env.name, group=root)
    made["metadata"]["annotations"] = consumed(root, CHECK_CAPACITY)
    made["spec"] |= spec
    await env.create(PODS, made)


@pytest.mark.long
async def test_a_refused_job_gets_what_it_lacks(env: Environment, installed: None) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, gang(env))

    request = await asked(env, "pg-job-gang", 6)

    spec = request["spec"]
    assert spec["provisioningClassName"] == "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    name = spec["podSets"][0]["podTemplateRef"]["name"]
    template = (await env.client.get(TEMPLATES, name, env.name))["template"]
    assert template["spec"]["nodeSelector"] == {NODE_LABEL: env.name}
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    for each in await env.pods(of_job("gang")):
        assert consumed("pg-job-gang", BEST_EFFORT_ATOMIC).items() <= (
            each["metadata"]["annotations"].items()
        )
    await answer(env, "pg-job-gang", "Accepted")
    await answer(env, "pg-job-gang", "Provisioned")
    assert await env.bound() == 0
    await env.add_node(cpu=2)
    await env.runs(of_job("gang"), 6)
    await nothing_left(env)


async def test_a_tree_asks_for_all_its_pods_at_once(env: Environment, autoscaler: None) -> None:
    await env.add_node(cpu=4)
    workers = replicated_job("workers", env.name, replicas=2, pods=2)
    driver = replicated_job("driver", env.name, replicas=1, pods=2)
    made = jobset("tree", workers, driver, mode="Composite")
    made["metadata"]["annotations"] |= ATOMIC
    await env.create(JOBSETS, made)

    await asked(env, "cpg-tree", 6)

    pods = await env.pods(of_jobset("tree"))
    said = {each["metadata"]["annotations"].get(ANNOTATION_CONSUMES_REQUEST) for each in pods}
    assert said == {"cpg-tree"}
    await env.add_node(cpu=2)
    await env.runs(of_jobset("tree"), 6)
    await nothing_left(env)


@pytest.mark.long
async def test_a_gang_that_grows_asks_anew(env: Environment, autoscaler: None) -> None:
    group = pod_group("g", 2)
    group["metadata"]["annotations"] = {ANNOTATION_PROVISIONING_REQUEST: CHECK_CAPACITY}
    await env.create(POD_GROUPS, group)
    for index in range(2):
        await member(env, f"g-{index}")
    first = await asked(env, "g", 2)

    for index in range(2, 4):
        await member(env, f"g-{index}", tolerations=[{"key": "large", "operator": "Exists"}])
    second = await asked(env, "g", 2, 2, other=first["metadata"]["uid"])

    assert second["spec"]["provisioningClassName"] == "check-capacity.autoscaling.x-k8s.io"
    assert len((await env.client.list(TEMPLATES, env.name))["items"]) == 2
    await env.add_node(cpu=4)
    await env.runs(members("g"), 4)
    await nothing_left(env)


@pytest.mark.long
async def test_an_owner_that_is_deleted_leaves_nothing(env: Environment, autoscaler: None) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, gang(env))
    await asked(env, "pg-job-gang", 6)

    await env.delete(JOBS, "gang")

    await nothing_left(env)


@pytest.mark.long
async def test_a_suspended_job_asks_for_nothing(env: Environment, autoscaler: None) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, gang(env))
    first = await asked(env, "pg-job-gang", 6)

    await env.client.patch(JOBS, "gang", PatchBuilder().add("/spec/suspend", True), env.name)
    await nothing_left(env)
    await env.client.patch(JOBS, "gang", PatchBuilder().add("/spec/suspend", False), env.name)

    await asked(env, "pg-job-gang", 6, other=first["metadata"]["uid"])
    await env.add_node(cpu=2)
    await env.runs(of_job("gang"), 6)


@pytest.mark.long
async def test_nodes_that_come_while_the_controller_is_down(
    env: Environment, autoscaler: None
) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, gang(env))
    request = await asked(env, "pg-job-gang", 6)

    env.muster.kill(CONTROLLER)
    await env.add_node(cpu=2)
    await env.runs(of_job("gang"), 6)
    assert await found(env, "pg-job-gang") == request
    await env.muster.start(CONTROLLER)

    await nothing_left(env)


@pytest.mark.long
async def test_nobody_is_evicted_before_the_request_has_failed(
    env: Environment, autoscaler: None, important: str
) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "low", 2)
    await env.runs(members("low"), 2)
    high = gang(env, pods=2, **{ANNOTATION_PREEMPTION_DELAY: "1h"})
    high["spec"]["template"]["spec"]["priorityClassName"] = important
    await env.create(JOBS, high)
    await asked(env, "pg-job-gang", 2)

    async def noted() -> bool:
        said = (await env.group("pg-job-gang"))["metadata"]["annotations"]
        return ANNOTATION_CAPACITY_REQUESTED in said

    await env.until("the delay to count from the request", noted)
    assert await env.running(members("low")) == 2
    await answer(env, "pg-job-gang", "Failed")

    await env.runs(of_job("gang"), 2)
    assert await env.running(members("low")) == 0
