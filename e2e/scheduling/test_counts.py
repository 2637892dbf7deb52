"""Floors raised and lowered while gangs wait or run, and members that come to a running gang."""

from e2e.suite.groups import leaf, members, tree
from e2e.suite.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, pod
from e2e.suite.stage import Stage
from kube.patch import PatchBuilder
from kube.resources import PODS

RACK = "test.muster.dev/rack"


async def test_a_lowered_min_count_lets_a_gang_start_with_what_fits(stage: Stage) -> None:
    await stage.add_node(cpu=2)
    await leaf(stage, "gang", 4)
    await stage.waits("gang", needed=4, free=2)
    assert await stage.bound() == 0

    await min_count(stage, "gang", 2)

    await stage.runs_whole(members("gang"), 2)
    # The others are extras now, and come one by one.
    await stage.waits("gang", needed=2, free=0)
    await stage.add_node(cpu=1)
    await stage.runs_whole(members("gang"), 3)


async def test_a_raised_min_count_makes_a_waiting_gang_wait_for_more_members(
    stage: Stage,
) -> None:
    closed = await stage.add_node(cpu=8, closed=True)
    await leaf(stage, "gang", 2)
    await stage.waits("gang", needed=2, free=0)

    await min_count(stage, "gang", 3)
    await incomplete(stage, "gang", has=2, needs=3)
    await stage.open_node(closed)
    await leaf(stage, "plain", 1)
    # The node is open to others by now.
    await stage.runs_whole(members("plain"), 1)
    assert await stage.bound(members("gang")) == 0

    await more(stage, "gang", 2)
    await stage.runs_whole(members("gang"), 3)


async def test_a_raised_min_count_of_a_running_gang_binds_what_is_missing_together(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=3)
    await leaf(stage, "gang", 2)
    await stage.runs_whole(members("gang"), 2)

    await min_count(stage, "gang", 4)
    await more(stage, "gang", 2)
    await more(stage, "gang", 3)
    await stage.waits("gang", needed=2, free=1)
    assert await stage.bound(members("gang")) == 2

    await stage.add_node(cpu=1)
    await stage.runs_whole(members("gang"), 4)


async def test_a_raised_min_group_count_makes_a_tree_wait_for_another_child(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=3)
    await tree(stage, "root", 2)
    await leaf(stage, "a", 2, parent="root")
    await min_group_count(stage, 3)
    await leaf(stage, "b", 1, parent="root")
    # With the floor of before this would run.
    await composite_says(stage, "Incomplete", "2 of 3")
    assert await stage.bound() == 0

    await leaf(stage, "c", 1, parent="root")
    await composite_says(stage, "Unschedulable", "")
    assert await stage.bound() == 0
    await stage.add_node(cpu=1)
    await stage.runs_whole("", 4)


async def test_a_raised_min_group_count_of_a_running_tree_leaves_alone_what_runs(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=4)
    await tree(stage, "root", 1)
    await leaf(stage, "a", 2, parent="root")
    await stage.runs_whole(members("a"), 2)

    await min_group_count(stage, 3)
    await leaf(stage, "b", 1, parent="root")
    await leaf(stage, "c", 2, parent="root")
    await stage.until("b and c to wait", lambda: says_waiting(stage, ("b-0", "c-0", "c-1")))
    # b alone would fit, but without c the tree is short of its floor.
    assert await stage.bound() == 2

    await stage.add_node(cpu=1)
    await stage.runs_whole("", 5)


async def test_a_lowered_min_group_count_of_a_waiting_tree_starts_the_children_that_fit(
    stage: Stage,
) -> None:
    await stage.add_node(cpu=3)
    await tree(stage, "root", 3)
    for name in ("a", "b", "c"):
        await leaf(stage, name, 2, parent="root")
    await composite_says(stage, "Unschedulable", "")
    assert await stage.bound() == 0

    await min_group_count(stage, 1)

    await stage.runs_whole("", 2)
    running = {found["metadata"]["name"][0] for found in await stage.pods() if node_of(found)}
    assert len(running) == 1
    await stage.add_node(cpu=3)
    await stage.runs_whole("", 6)


async def test_a_running_gang_grows_one_by_one_where_it_runs(stage: Stage) -> None:
    first = await stage.add_node(cpu=3, labels={RACK: "r0"})
    await leaf(stage, "gang", 2, key=RACK)
    await stage.runs_whole(members("gang"), 2)
    await stage.add_node(cpu=4, labels={RACK: "r1"})

    await more(stage, "gang", 2)
    await more(stage, "gang", 3)

    await stage.runs_whole(members("gang"), 3)
    await stage.waits("gang", needed=1, free=0)
    second = await stage.add_node(cpu=1, labels={RACK: "r0"})
    await stage.runs_whole(members("gang"), 4)
    assert {node_of(found) for found in await stage.pods()} == {first, second}


async def test_a_running_gang_that_lost_a_pod_needs_one_more(stage: Stage) -> None:
    await stage.add_node(cpu=3)
    await leaf(stage, "gang", 3)
    await stage.runs_whole(members("gang"), 3)

    await stage.delete(PODS, "gang-0")
    await stage.has_pods(members("gang"), 2)
    await more(stage, "gang", 3)

    await stage.runs_whole(members("gang"), 3)


def node_of(found: dict[str, dict[str, str]]) -> str:
    return found["spec"].get("nodeName", "")


async def more(stage: Stage, group: str, index: int) -> None:
    await stage.create(PODS, pod(f"{group}-{index}", stage.name, group=group))


async def min_count(stage: Stage, group: str, count: int) -> None:
    change = PatchBuilder().replace("/spec/schedulingPolicy/gang/minCount", count)
    await stage.client.patch(POD_GROUPS, group, change, stage.name)


async def min_group_count(stage: Stage, count: int) -> None:
    change = PatchBuilder().replace("/spec/schedulingPolicy/gang/minGroupCount", count)
    await stage.client.patch(COMPOSITE_POD_GROUPS, "root", change, stage.name)


async def incomplete(stage: Stage, group: str, *, has: int, needs: int) -> None:
    """Wait until the group says that it waits for members."""

    async def probe() -> bool:
        blocker = await stage.blocker(group)
        return f"has {has} of {needs} pods" in blocker.get("summary", "")

    await stage.until(f"{group} to have {has} of {needs}", probe)


async def composite_says(stage: Stage, reason: str, words: str) -> None:
    """Wait until the root's condition has this reason and these words."""

    async def probe() -> bool:
        found = await stage.client.get(COMPOSITE_POD_GROUPS, "root", stage.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(c["reason"] == reason and words in c["message"] for c in conditions)

    await stage.until(f"root to be {reason} {words}", probe)


async def says_waiting(stage: Stage, names: tuple[str, ...]) -> bool:
    """Whether each of the pods says why it is not scheduled."""
    said = {
        found["metadata"]["name"]
        for found in await stage.pods()
        for condition in found.get("status", {}).get("conditions") or ()
        if (condition["type"], condition["status"]) == ("PodScheduled", "False")
    }
    return said >= set(names)
