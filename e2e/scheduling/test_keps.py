"""The scenarios that KEP-4671 and KEP-6012 name in their test plans, as users would meet them.

Preemption and topology have suites of their own.
"""

import asyncio

from api.constants import WORKLOAD
from e2e.suite.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    Json,
    pod,
    pod_group,
    resource,
)
from e2e.suite.stage import Stage
from kube.patch import PatchBuilder
from kube.resources import PODS, Resource

WORKLOADS = resource(WORKLOAD)
TREE = {"workloadName": "train", "templateName": "part"}


async def test_kep_4671_pods_linked_to_a_missing_workload_are_not_scheduled_until_it_is_there(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=4)
    for index in range(3):
        member = pod(f"member-{index}", stage.name)
        member["metadata"]["labels"] |= {
            "scheduling.muster.dev/workload": "train",
            "scheduling.muster.dev/template": "worker",
        }
        await stage.create(PODS, member)
    await says(stage, "member-0", "does not exist")
    assert await stage.bound() == 0

    template = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 3}}}
    body = {"metadata": {"name": "train"}, "spec": {"podGroupTemplates": [template]}}
    await stage.create(WORKLOADS, head(WORKLOADS) | body)

    await stage.runs_whole("", 3)


async def test_kep_4671_nothing_is_scheduled_without_space_for_the_whole_gang(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=2)
    await stage.create(POD_GROUPS, pod_group("worker", 3))
    await members(stage, "worker", 3)

    await stage.waits("worker", needed=3, free=2)
    assert await stage.bound() == 0
    await stage.add_node(cpu=1)
    await stage.runs_whole("", 3)


async def test_kep_4671_gangs_that_fit_only_one_at_a_time_do_not_lock_each_other_out(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=3)
    await stage.add_node(cpu=2)
    names = [f"gang-{index}" for index in range(4)]
    for name in names:
        await stage.create(POD_GROUPS, pod_group(name, 3))
    # Members of all gangs come mixed.
    await asyncio.gather(*(members(stage, name, 3) for name in names))

    for left in range(len(names), 0, -1):
        await stage.until("one gang to run", lambda: whole(stage, 3))
        done = await one_running(stage)
        for index in range(3):
            await stage.delete(PODS, f"{done}-{index}")
        await stage.has_pods("", 3 * (left - 1))


async def test_kep_6012_a_tree_is_held_until_its_root_is_observed(stage: Stage) -> None:
    await stage.add_node(cpu=8)
    for name in ("left", "right"):
        await stage.create(POD_GROUPS, leaf(name, 2, parent="middle"))
        await members(stage, name, 2)
    await stage.create(COMPOSITE_POD_GROUPS, composite("middle", 2, parent="root"))
    await says(stage, "left-0", 'composite pod group "root" does not exist')
    assert await stage.bound() == 0

    await stage.create(COMPOSITE_POD_GROUPS, composite("root", 1))

    await stage.runs_whole("", 4)
    for name in ("root", "middle"):
        await composite_says(stage, name, "Scheduled")


async def test_kep_6012_an_event_brings_a_refused_tree_back(stage: Stage) -> None:
    await stage.add_node(cpu=3)
    await stage.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name in ("left", "right"):
        await stage.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(stage, name, 2)
    await composite_says(stage, "root", "Unschedulable")
    assert await stage.bound() == 0

    await stage.add_node(cpu=1)

    await stage.runs_whole("", 4)


async def test_kep_6012_a_tree_short_of_nested_floors_is_held_and_says_where(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=8)
    await stage.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name, count in (("left", 2), ("right", 1)):
        await stage.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(stage, name, count)
    await composite_says(stage, "root", "Incomplete")
    await says(stage, "left-0", 'waits for pod group "right": has 1 of 2 pods')
    assert await stage.bound() == 0

    await stage.create(PODS, pod("right-1", stage.name, group="right"))

    await stage.runs_whole("", 4)


async def test_kep_6012_as_many_children_as_min_group_count_asks_for_are_enough(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=4)
    await stage.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name in ("a", "b", "c"):
        await stage.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(stage, name, 2)

    await stage.runs_whole("", 4)
    await composite_says(stage, "root", "Scheduled")


async def test_kep_6012_fewer_children_than_min_group_count_leave_the_tree_unscheduled(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=3)
    await stage.create(COMPOSITE_POD_GROUPS, composite("root", 2))
    for name in ("a", "b", "c"):
        await stage.create(POD_GROUPS, leaf(name, 2, parent="root"))
        await members(stage, name, 2)
    await composite_says(stage, "root", "Unschedulable")
    assert await stage.bound() == 0

    lower = PatchBuilder().replace("/spec/schedulingPolicy/gang/minGroupCount", 1)
    await stage.client.patch(COMPOSITE_POD_GROUPS, "root", lower, stage.name)

    await stage.runs_whole("", 2)


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


async def members(stage: Stage, group: str, count: int) -> None:
    for index in range(count):
        await stage.create(PODS, pod(f"{group}-{index}", stage.name, group=group))


async def says(stage: Stage, name: str, words: str) -> None:
    """Wait until the pod's PodScheduled condition has these words."""

    async def probe() -> bool:
        found = await stage.client.get(PODS, name, stage.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(words in condition.get("message", "") for condition in conditions)

    await stage.until(f"{name} to say {words!r}", probe)


async def composite_says(stage: Stage, name: str, reason: str) -> None:
    """Wait until the composite's condition has this reason."""

    async def probe() -> bool:
        found = await stage.client.get(COMPOSITE_POD_GROUPS, name, stage.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(condition.get("reason") == reason for condition in conditions)

    await stage.until(f"{name} to be {reason}", probe)


async def whole(stage: Stage, size: int) -> bool:
    return await stage.running() == size


async def one_running(stage: Stage) -> str:
    """The one gang whose pods run; never a mix."""
    running = {
        found["metadata"]["name"].rpartition("-")[0]
        for found in await stage.pods()
        if found["spec"].get("nodeName")
    }
    assert len(running) == 1, f"pods of {sorted(running)} run side by side"
    return str(running.pop())
