"""Limits of preemption, whatever a tenant writes, and evictions that others obstruct."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.objects import NODE_LABEL, POD_GROUPS, Json, pod, pod_group
from e2e.harness.priorities import known_class
from e2e.harness.support.ports import free
from kube.base.errors import ApiError, NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import (
    DAEMON_SETS,
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_WEBHOOKS,
)

HOLD = "test.muster.dev/hold"


def bound_pod(env: Environment, name: str, node: str, *, group: str | None = None) -> Json:
    """Return a pod that no scheduler placed: its creator set the node."""
    made = pod(name, env.name, group=group, scheduler="another-scheduler")
    made["spec"]["nodeName"] = node
    return made


async def is_bound(env: Environment, name: str) -> bool:
    return bool((await env.client.get(PODS, name, env.name))["spec"].get("nodeName"))


async def gone(env: Environment, name: str) -> bool:
    return name not in {each["metadata"]["name"] for each in await env.pods()}


async def terminates(env: Environment, name: str) -> bool:
    found = {each["metadata"]["name"]: each["metadata"] for each in await env.pods()}
    return name not in found or "deletionTimestamp" in found[name]


async def test_a_pod_of_low_priority_does_not_hide_in_an_important_group(
    env: Environment, important: str
) -> None:
    node = await env.add_node(cpu=1)
    shield = pod_group("shield", 1)
    shield["spec"] |= {"priorityClassName": important, "disruptionMode": {"all": {}}}
    await env.create(POD_GROUPS, shield)
    await env.create(PODS, bound_pod(env, "low", node, group="shield"))
    await env.runs(members("shield"), 1)

    async with known_class(env, "middle", 500) as middle:
        high = pod("high", env.name)
        high["spec"]["priorityClassName"] = middle
        await env.create(PODS, high)

        await env.until("the pod of low priority to go", lambda: gone(env, "low"))
        await env.until("the pod of higher priority to be bound", lambda: is_bound(env, "high"))


async def test_the_place_that_another_scheduler_nominated_is_kept_for_its_pod(
    env: Environment, important: str
) -> None:
    node = await env.add_node(cpu=1, tainted=True)
    foreign = pod("foreign", env.name, scheduler="another-scheduler")
    foreign["spec"]["priorityClassName"] = important
    await env.create(PODS, foreign)
    ops = PatchBuilder().add("/status/nominatedNodeName", node)
    await env.client.patch(PODS, "foreign", ops, env.name, subresource="status")
    await leaf(env, "low", 1)
    await env.untaint_node(node)

    await env.waits("low", needed=1)
    assert await env.bound(members("low")) == 0

    await env.delete(PODS, "foreign")
    await env.runs(members("low"), 1)


async def test_pods_of_a_daemon_set_are_not_evicted(env: Environment, important: str) -> None:
    node = await env.add_node(cpu=2)
    selector = {"app": "agent"}
    template = {"metadata": {"labels": selector}, "spec": pod("x", "nowhere")["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    agents = {
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": selector}, "template": template},
    }
    owner = (await env.create(DAEMON_SETS, agents))["metadata"]
    for name, uid in (("real", owner["uid"]), ("forged", "00000000-0000-4000-8000-000000000000")):
        made = bound_pod(env, name, node)
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": uid}
            | {"controller": True}
        ]
        await env.create(PODS, made)

    await leaf(env, "high", 1, priority_class=important, of_pod={"priorityClassName": important})
    await env.runs(members("high"), 1)

    assert not await terminates(env, "real")
    assert await gone(env, "forged")
    await env.delete(DAEMON_SETS, "agent")


async def test_only_pods_that_know_their_nodes_uid_are_mirror_pods(
    env: Environment, important: str
) -> None:
    """The API server lets anyone who may set the node of a pod write the annotation."""
    node = await env.add_node(cpu=2)
    uid = (await env.client.get(NODES, node))["metadata"]["uid"]
    for name, said in (("real", uid), ("forged", "00000000-0000-4000-8000-000000000000")):
        made = bound_pod(env, name, node)
        made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Node", "name": node, "uid": said, "controller": True}
        ]
        await env.create(PODS, made)

    await leaf(env, "high", 1, priority_class=important, of_pod={"priorityClassName": important})
    await env.runs(members("high"), 1)

    assert not await terminates(env, "real")
    assert await gone(env, "forged")


@pytest.mark.long
@pytest.mark.unsettled("the second eviction is still to come")
async def test_a_root_whose_place_others_took_evicts_again_after_a_pause(
    env: Environment, important: str
) -> None:
    """One victim is deleted at once and recreated; the other still uses the rest of the node."""
    node = await env.add_node(cpu=2)
    await env.create(PODS, bound_pod(env, "back-0", node))
    stays = bound_pod(env, "stays", node)
    stays["metadata"]["finalizers"] = [HOLD]
    await env.create(PODS, stays)
    await env.runs("", 2)
    wide = pod_group("high", 1)
    wide["spec"]["priorityClassName"] = important
    await env.create(POD_GROUPS, wide)
    high = pod("high-0", env.name, group="high")
    high["spec"]["priorityClassName"] = important
    high["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    await env.create(PODS, high)

    await env.until("the first victim to go", lambda: gone(env, "back-0"))
    await env.create(PODS, bound_pod(env, "back-1", node))
    await env.until("the other victim to be asked to go", lambda: terminates(env, "stays"))
    ops = PatchBuilder().remove("/metadata/finalizers")
    await env.client.patch(PODS, "stays", ops, env.name)
    await env.until("the other victim to go", lambda: gone(env, "stays"))

    async def says_so() -> bool:
        return "Other pods took the capacity" in (await env.blocker("high")).get("summary", "")

    await env.until("the group to say that others took its place", says_so)
    assert not await terminates(env, "back-1")
    await env.until("the next eviction, after the pause", lambda: gone(env, "back-1"))
    await env.runs(members("high"), 1)


@pytest.mark.unsettled("the deletions that failed are tried again for a while")
async def test_deletions_that_fail_in_one_namespace_do_not_delay_another(
    env: Environment, important: str
) -> None:
    """A webhook that does not respond rejects each deletion of a pod in one namespace."""
    other = f"{env.name}-stuck"
    await env.client.create(NAMESPACES, {"metadata": {"name": other}})
    stuck_node = await env.add_node(cpu=20, labels={NODE_LABEL: other})
    node = await env.add_node(cpu=2)
    for index in range(20):
        made = pod(f"stuck-{index}", other, scheduler="another-scheduler")
        made["spec"]["nodeName"] = stuck_node
        await env.client.create(PODS, made, other)
    for index in range(2):
        await env.create(PODS, bound_pod(env, f"low-{index}", node))
    await env.runs("", 2)
    async with _deletions_fail(env, other):
        for index in range(20):
            made = pod(f"high-{index}", other)
            made["spec"]["priorityClassName"] = important
            await env.client.create(PODS, made, other)

        async def tried() -> bool:
            found = (await env.client.list(PODS, other))["items"]
            return any(
                c["type"] == "DisruptionTarget"
                for each in found
                for c in each["status"].get("conditions") or []
            )

        await env.until("the first plan to be carried out", tried)
        await leaf(env, "high", 2, priority_class=important,
                   of_pod={"priorityClassName": important})  # fmt: skip

        await env.until("the victims here to go", lambda: gone(env, "low-0"), timeout=20)
        await env.runs(members("high"), 2)
        left = {p["metadata"]["name"] for p in (await env.client.list(PODS, other))["items"]}
        assert {f"stuck-{index}" for index in range(20)} <= left
    for name in left:
        with contextlib.suppress(NotFound):  # the scheduler was still deleting it
            await env.client.delete(PODS, name, other)

    async def empty() -> bool:
        return not (await env.client.list(PODS, other))["items"]

    await env.until("the other namespace to be empty", empty)
    await env.client.delete(NAMESPACES, other)


@asynccontextmanager
async def _deletions_fail(env: Environment, namespace: str) -> AsyncIterator[None]:
    (port,) = free(1)
    name = f"{env.name}-stuck"
    probe = pod("probe", namespace, scheduler="another-scheduler")
    await env.client.create(PODS, probe, namespace)
    hook = {
        "name": "stuck.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["DELETE"],
                "resources": ["pods"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    await env.client.create(VALIDATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:

        async def refused() -> bool:
            try:
                await env.client.delete(PODS, "probe", namespace)
            except ApiError as error:
                return error.status == 500
            await env.client.create(PODS, probe, namespace)
            return False

        await env.until("deletions to fail", refused)
        yield
    finally:
        await env.client.delete(VALIDATING_WEBHOOKS, name)
