"""Minimums that change while gangs are pending or run, and late members of a running gang."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, tree
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, pod
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS

RACK = "test.muster.dev/rack"


@pytest.mark.long
async def test_a_lowered_min_count_lets_a_gang_start_with_what_fits(env: Environment) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "gang", 4)
    await env.waits("gang", needed=4, free=2)
    assert await env.bound() == 0

    await min_count(env, "gang", 2)

    await env.runs(members("gang"), 2)
    # The others are extras now, and are placed one by one.
    await env.waits("gang", needed=2, free=0)
    await env.add_node(cpu=1)
    await env.runs(members("gang"), 3)


async def test_a_raised_min_count_makes_a_waiting_gang_wait_for_more_members(
    env: Environment,
) -> None:
    tainted = await env.add_node(cpu=8, tainted=True)
    await leaf(env, "gang", 2)
    await env.waits("gang", needed=2, free=0)

    await min_count(env, "gang", 3)
    await incomplete(env, "gang", has=2, needs=3)
    await env.untaint_node(tainted)
    await leaf(env, "plain", 1)
    # The node is open to other pods by now.
    await env.runs(members("plain"), 1)
    assert await env.bound(members("gang")) == 0

    await more(env, "gang", 2)
    await env.runs(members("gang"), 3)


async def test_a_raised_min_count_of_a_running_gang_binds_what_is_missing_together(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await leaf(env, "gang", 2)
    await env.runs(members("gang"), 2)

    await min_count(env, "gang", 4)
    await more(env, "gang", 2)
    await more(env, "gang", 3)
    await env.waits("gang", needed=2, free=1)
    assert await env.bound(members("gang")) == 2

    await env.add_node(cpu=1)
    await env.runs(members("gang"), 4)


async def test_a_raised_min_group_count_makes_a_tree_wait_for_another_child(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await tree(env, "root", 2)
    await leaf(env, "a", 2, parent="root")
    await min_group_count(env, 3)
    await leaf(env, "b", 1, parent="root")
    # With the previous minimum this would run.
    await composite_says(env, "Incomplete", "2 of 3")
    assert await env.bound() == 0

    await leaf(env, "c", 1, parent="root")
    await composite_says(env, "Unschedulable", "")
    assert await env.bound() == 0
    await env.add_node(cpu=1)
    await env.runs("", 4)


async def test_a_raised_min_group_count_of_a_running_tree_leaves_alone_what_runs(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    await tree(env, "root", 1)
    await leaf(env, "a", 2, parent="root")
    await env.runs(members("a"), 2)

    await min_group_count(env, 3)
    await leaf(env, "b", 1, parent="root")
    await leaf(env, "c", 2, parent="root")
    await env.until("b and c to wait", lambda: says_waiting(env, ("b-0", "c-0", "c-1")))
    # b alone would fit, but without c the tree is below its minimum.
    assert await env.bound() == 2

    await env.add_node(cpu=1)
    await env.runs("", 5)


async def test_a_lowered_min_group_count_of_a_waiting_tree_starts_the_children_that_fit(
    env: Environment,
) -> None:
    await env.add_node(cpu=3)
    await tree(env, "root", 3)
    for name in ("a", "b", "c"):
        await leaf(env, name, 2, parent="root")
    await composite_says(env, "Unschedulable", "")
    assert await env.bound() == 0

    await min_group_count(env, 1)

    await env.runs("", 2)
    running = {found["metadata"]["name"][0] for found in await env.pods() if node_of(found)}
    assert len(running) == 1
    await env.add_node(cpu=3)
    await env.runs("", 6)


async def test_a_running_gang_grows_one_by_one_where_it_runs(env: Environment) -> None:
    first = await env.add_node(cpu=3, labels={RACK: "r0"})
    await leaf(env, "gang", 2, key=RACK)
    await env.runs(members("gang"), 2)
    await env.add_node(cpu=4, labels={RACK: "r1"})

    await more(env, "gang", 2)
    await more(env, "gang", 3)

    await env.runs(members("gang"), 3)
    await env.waits("gang", needed=1, free=0)
    second = await env.add_node(cpu=1, labels={RACK: "r0"})
    await env.runs(members("gang"), 4)
    assert {node_of(found) for found in await env.pods()} == {first, second}


async def test_a_running_gang_that_lost_a_pod_needs_one_more(env: Environment) -> None:
    await env.add_node(cpu=3)
    await leaf(env, "gang", 3)
    await env.runs(members("gang"), 3)

    await env.delete(PODS, "gang-0")
    await env.has_pods(members("gang"), 2)
    await more(env, "gang", 3)

    await env.runs(members("gang"), 3)


def node_of(found: dict[str, dict[str, str]]) -> str:
    return found["spec"].get("nodeName", "")


async def more(env: Environment, group: str, index: int) -> None:
    await env.create(PODS, pod(f"{group}-{index}", env.name, group=group))


async def min_count(env: Environment, group: str, count: int) -> None:
    change = PatchBuilder().replace("/spec/schedulingPolicy/gang/minCount", count)
    await env.client.patch(POD_GROUPS, group, change, env.name)


async def min_group_count(env: Environment, count: int) -> None:
    change = PatchBuilder().replace("/spec/schedulingPolicy/gang/minGroupCount", count)
    await env.client.patch(COMPOSITE_POD_GROUPS, "root", change, env.name)


async def incomplete(env: Environment, group: str, *, has: int, needs: int) -> None:
    """Wait until the group reports that it waits for members."""

    async def probe() -> bool:
        blocker = await env.blocker(group)
        return f"The group has {has} of {needs} pods" in blocker.get("summary", "")

    await env.until(f"{group} to have {has} of {needs}", probe)


async def composite_says(env: Environment, reason: str, words: str) -> None:
    """Wait until the root's condition has this reason and these words."""

    async def probe() -> bool:
        found = await env.client.get(COMPOSITE_POD_GROUPS, "root", env.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(c["reason"] == reason and words in c["message"] for c in conditions)

    await env.until(f"root to be {reason} {words}", probe)


async def says_waiting(env: Environment, names: tuple[str, ...]) -> bool:
    """Return True if each of the pods has a reason in PodScheduled."""
    said = {
        found["metadata"]["name"]
        for found in await env.pods()
        for condition in found.get("status", {}).get("conditions") or ()
        if (condition["type"], condition["status"]) == ("PodScheduled", "False")
    }
    return said >= set(names)
