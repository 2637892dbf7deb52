"""The scenarios in the test plans of KEP-4671 and KEP-6012, as users would meet them.

Preemption and topology have suites of their own.
"""

import asyncio

from api.constants import WORKLOAD
from e2e.harness.environment import Environment
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    Json,
    pod,
    pod_group,
    resource,
)
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS, Resource

WORKLOADS = resource(WORKLOAD)
TREE = {"workloadName": "train", "templateName": "part"}


async def test_kep_4671_pods_linked_to_a_missing_workload_are_not_scheduled_until_it_is_there(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    for index in range(3):
        member = pod(f"member-{index}", env.name)
        member["metadata"]["labels"] |= {
            "scheduling.muster.dev/workload": "train",
            "scheduling.muster.dev/template": "worker",
        }
        await env.create(PODS, member)
    await wait_for_message(env, "member-0", "does not exist")
    assert await env.bound() == 0

    template = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 3}}}
    body = {"metadata": {"name": "train"}, "spec": {"podGroupTemplates": [template]}}
    await env.create(WORKLOADS, head(WORKLOADS) | body)

    await env.runs("", 3)


async def test_kep_4671_nothing_is_scheduled_without_space_for_the_whole_gang(
    env: Environment,
) -> None:
    await env.add_node(cpu=2)
    await env.create(POD_GROUPS, pod_group("worker", 3))
    await members(env, "worker", 3)

    await env.waits("worker", needed=3, free=2)
    assert await env.bound() == 0
    await env.add_node(cpu=1)
    await env.runs("", 3)


async def test_kep_4671_gangs_that_fit_only_one_at_a_time_do_not_lock_each_other_out(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await env.add_node(cpu=2)
    names = [f"gang-{index}" for index in range(4)]
    for name in names:
        await env.create(POD_GROUPS, pod_group(name, 3))
    # Members of all gangs are created interleaved.
    await asyncio.gather(*(members(env, name, 3) for name in names))

    for left in range(len(names), 0, -1):
        await env.until("one gang to run", lambda: whole(env, 3))
        done = await one_running(env)
        for index in range(3):
            await env.delete(PODS, f"{done}-{index}")
        await env.has_pods("", 3 * (left - 1))


async def test_kep_6012_a_tree_is_held_until_its_root_is_observed(env: Environment) -> None:
    await env.add_node(cpu=8)
    for name in ("left", "right"):
        await env.create(POD_GROUPS, leaf(name, 2, parent="middle"))
        await members(env, name, 2)
    await env.create(COMPOSITE_POD_GROUPS, composite("middle", 2, parent="root"))
    await wait_for_message(env, "left-0", 'CompositePodGroup "root" does not exist')
    assert await env.bound() == 0

    await env.create(COMPOSITE_POD_GROUPS, composite("root", 1))

    await env.runs("", 4)
    for name in ("root", "middle"):
        await composite_says(env, name, "Scheduled")


async def test_kep_6012_an_event_brings_a_refused_tree_back(env: Environment) -> None:
    await env.add_node(cpu=3)
    await env.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name in ("left", "right"):
        await env.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(env, name, 2)
    await composite_says(env, "root", "Unschedulable")
    assert await env.bound() == 0

    await env.add_node(cpu=1)

    await env.runs("", 4)


async def test_kep_6012_a_tree_short_of_nested_minimums_is_held_and_says_where(
    env: Environment,
) -> None:
    await env.add_node(cpu=8)
    await env.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name, count in (("left", 2), ("right", 1)):
        await env.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(env, name, count)
    await composite_says(env, "root", "Incomplete")
    await wait_for_message(env, "left-0", 'Waiting for PodGroup "right": The group has 1 of 2 pods')
    assert await env.bound() == 0

    await env.create(PODS, pod("right-1", env.name, group="right"))

    await env.runs("", 4)


async def test_kep_6012_as_many_children_as_min_group_count_asks_for_are_enough(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    await env.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name in ("a", "b", "c"):
        await env.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(env, name, 2)

    await env.runs("", 4)
    await composite_says(env, "root", "Scheduled")


async def test_kep_6012_fewer_children_than_min_group_count_leave_the_tree_unscheduled(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await env.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name in ("a", "b", "c"):
        await env.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(env, name, 2)
    await composite_says(env, "root", "Unschedulable")
    assert await env.bound() == 0

    lower = PatchBuilder().replace("/spec/schedulingPolicy/gang/minGroupCount", 1)
    await env.client.patch(COMPOSITE_POD_GROUPS, "root", lower, env.name)

    await env.runs("", 2)


def head(of: Resource) -> Json:
    return {"apiVersion": of.api_version, "kind": of.kind}


def leaf(name: str, minimum: int, *, parent: str) -> Json:
    group = pod_group(name, minimum)
    group["spec"] |= {"parentCompositePodGroupName": parent, "workloadRef": TREE}
    return group


def composite(name: str, minimum: int, *, parent: str = "") -> Json:
    spec: Json = {
        "workloadRef": TREE,
        "schedulingPolicy": {"gang": {"minGroupCount": minimum}},
    }
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return head(COMPOSITE_POD_GROUPS) | {"metadata": {"name": name}, "spec": spec}


async def members(env: Environment, group: str, count: int) -> None:
    for index in range(count):
        await env.create(PODS, pod(f"{group}-{index}", env.name, group=group))


async def wait_for_message(env: Environment, name: str, words: str) -> None:
    """Wait until the pod's PodScheduled condition contains these words."""

    async def probe() -> bool:
        found = await env.client.get(PODS, name, env.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(words in condition.get("message", "") for condition in conditions)

    await env.until(f"{name} to say {words!r}", probe)


async def composite_says(env: Environment, name: str, reason: str) -> None:
    """Wait until the composite's condition has this reason."""

    async def probe() -> bool:
        found = await env.client.get(COMPOSITE_POD_GROUPS, name, env.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(condition.get("reason") == reason for condition in conditions)

    await env.until(f"{name} to be {reason}", probe)


async def whole(env: Environment, size: int) -> bool:
    return await env.running() == size


async def one_running(env: Environment) -> str:
    """Return the one gang whose pods run; fail on a mix."""
    running = {
        found["metadata"]["name"].rpartition("-")[0]
        for found in await env.pods()
        if found["spec"].get("nodeName")
    }
    assert len(running) == 1, f"pods of {sorted(running)} run side by side"
    return str(running.pop())
