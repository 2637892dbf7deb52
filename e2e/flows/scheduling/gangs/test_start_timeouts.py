"""A gang that does not start within its start-timeout is given up, and its owner suspended."""

import pytest

from api.constants import ANNOTATION_START_TIMEOUT, LABEL_POD_GROUP
from e2e.harness import muster as processes
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, tree
from e2e.harness.muster import Muster
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    replicated_job,
)
from kube.base.errors import NotFound
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import EVENTS, JOBS, JOBSETS, PODS, Resource

LIMIT = {ANNOTATION_START_TIMEOUT: "5s"}
PATH = pointer("metadata", "annotations", ANNOTATION_START_TIMEOUT)


def owner(env: Environment, kind: Resource) -> Json:
    made = job("a", env.name, pods=3)
    if kind == JOBSETS:
        made = jobset("a", replicated_job("w", env.name, replicas=1, pods=3))
    made["metadata"]["annotations"] |= LIMIT
    return made


async def given_up(env: Environment, name: str, kind: Resource = POD_GROUPS) -> Json:
    """Wait until the root reports that it was given up, and return its condition."""
    found: Json = {}

    async def probe() -> bool:
        nonlocal found
        status = (await env.client.get(kind, name, env.name)).get("status") or {}
        said = {it["type"]: it for it in status.get("conditions") or ()}
        over = said.get("StartTimeout", {}).get("status") == "True"
        found = next((it for key, it in said.items() if key.endswith("InitiallyScheduled")), {})
        return over and found.get("reason") == "StartTimeout"

    await env.until(f"{name} to be given up", probe)
    return found


async def pods_are_given_up(env: Environment, selector: str, count: int) -> None:
    async def probe() -> bool:
        conditions = [
            it
            for pod in await env.pods(selector)
            for it in pod["status"].get("conditions", ())
            if it["type"] == "PodScheduled"
        ]
        return [it["reason"] for it in conditions] == ["StartTimeout"] * count

    await env.until("the pods to say so, too", probe)


async def told(env: Environment, kind: str, *texts: str) -> None:
    """Wait until events StartTimeout on objects of a kind have these texts."""

    async def probe() -> bool:
        events = (await env.client.list(EVENTS, env.name))["items"]
        said = [
            it.get("message", "")
            for it in events
            if it["involvedObject"]["kind"] == kind and it["reason"] == "StartTimeout"
        ]
        return all(any(text in each for each in said) for text in texts)

    await env.until(f"events on the {kind}", probe)


@pytest.mark.parametrize("kind", [JOBS, JOBSETS], ids=lambda it: it.kind)
async def test_the_owner_is_suspended_and_gets_a_new_limit_when_it_is_resumed(
    env: Environment, kind: Resource
) -> None:
    await env.add_node(cpu=2)
    selector = of_job("a") if kind == JOBS else of_jobset("a")
    group = "pg-job-a" if kind == JOBS else "pg-a"
    await env.create(kind, owner(env, kind))
    uid = (await env.grouped(group))["metadata"]["uid"]

    async def suspended() -> bool:
        return (await env.client.get(kind, "a", env.name))["spec"].get("suspend") is True

    await env.until("the owner to be suspended", suspended)
    await told(env, kind.kind, "needs nodes for 3 pods at once", f"{kind.kind} a is suspended.")
    await env.has_pods(selector, 0)

    async def gone() -> bool:
        try:
            return bool((await env.group(group))["metadata"]["uid"] != uid)
        except NotFound:
            return True

    await env.until("its group to be deleted", gone)
    await env.add_node(cpu=1)
    await env.client.patch(kind, "a", PatchBuilder().add("/spec/suspend", False), env.name)
    await env.runs(selector, 3)
    await env.scheduled(group)
    status = (await env.group(group))["status"]
    assert "StartTimeout" not in {it["type"] for it in status["conditions"]}


async def test_a_group_of_a_user_is_tried_again_when_its_limit_changes(
    env: Environment, running_muster: Muster
) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "a", 3, annotations=LIMIT)
    condition = await given_up(env, "a")
    assert "within 5 s (annotation start-timeout). Last refusal: 0/" in condition["message"]
    await pods_are_given_up(env, members("a"), 3)
    await told(env, "PodGroup", "needs nodes for 3 pods at once")

    # The next leader knows it, and so do those that fit meanwhile.
    running_muster.kill(processes.SCHEDULER)
    await env.add_node(cpu=2)
    await running_muster.start(processes.SCHEDULER)
    await leaf(env, "b", 1)
    await env.runs(members("b"), 1)
    assert await env.bound(members("a")) == 0

    await env.client.patch(POD_GROUPS, "a", PatchBuilder().add(PATH, "1h"), env.name)
    await env.runs(members("a"), 3)
    await env.scheduled("a")


async def test_the_limit_of_a_tree_is_that_of_its_root_and_ends_with_new_pods(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await tree(env, "root", 2, annotations=LIMIT)
    for name in ("x", "y"):
        await leaf(env, name, 2, parent="root")
    await given_up(env, "root", COMPOSITE_POD_GROUPS)
    await pods_are_given_up(env, members("x"), 2)

    await env.add_node(cpu=1)
    (first, *_) = await env.pods(members("x"))
    await env.client.delete(PODS, first["metadata"]["name"], env.name)
    again = {"metadata": {"name": "again", "labels": first["metadata"]["labels"]}}
    spec = {
        key: first["spec"][key]
        for key in ("containers", "nodeSelector", "schedulerName", "restartPolicy")
    }
    await env.create(PODS, {"apiVersion": "v1", "kind": "Pod", "spec": spec} | again)

    await env.runs(f"{LABEL_POD_GROUP} in (x,y)", 4)
