"""KEP-6012's block and rack example and similar ones, at two, three and four levels."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, tree

ZONE = "test.muster.dev/zone"
BLOCK = "test.muster.dev/block"
RACK = "test.muster.dev/rack"

LEVELS = {2: ["top"], 3: ["top", "middle"], 4: ["top", "upper", "middle"]}


async def rack(env: Environment, block: str, name: str, slots: int) -> str:
    labels = {ZONE: env.name, BLOCK: f"{env.name}-{block}", RACK: name}
    return await env.add_node(cpu=slots, labels=labels)


async def above(env: Environment, levels: int, children: int, *, key: str) -> str:
    """Create composites from the root down; the lowest needs `children` and has the key."""
    parent = None
    *outer, lowest = LEVELS[levels]
    for name in outer:
        await tree(env, name, 1, parent=parent, key=ZONE)
        parent = name
    await tree(env, lowest, children, parent=parent, key=key)
    return lowest


async def nodes(env: Environment, name: str, pods: int) -> set[str]:
    """Return the nodes of all pods of a leaf, once they run."""
    await env.runs(members(name), pods)
    return {pod["spec"]["nodeName"] for pod in await env.pods(members(name))}


@pytest.mark.long
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("turned", [False, True], ids=["as written", "reversed"])
async def test_the_block_with_room_for_both_racks_is_chosen(
    env: Environment, levels: int, turned: bool
) -> None:
    racks = [("a", "r1", 3), ("a", "r2", 5), ("b", "r1", 5), ("b", "r2", 5)]
    made = {}
    for block, name, slots in reversed(racks) if turned else racks:
        made[block, name] = await rack(env, block, name, slots)
    parent = await above(env, levels, 2, key=BLOCK)
    children = {"one": 5, "two": 4} if turned else {"one": 4, "two": 5}
    for name, pods in children.items():
        await leaf(env, name, pods, parent=parent, key=RACK)

    found = [await nodes(env, name, pods) for name, pods in children.items()]

    assert sorted(found, key=str) == sorted([{made["b", "r1"]}, {made["b", "r2"]}], key=str)


@pytest.mark.long
@pytest.mark.parametrize("levels", LEVELS)
async def test_child_one_may_sit_in_a_or_b_and_child_two_only_in_a(
    env: Environment, levels: int
) -> None:
    a, b = await rack(env, "a", "r1", 4), await rack(env, "b", "r1", 3)
    parent = await above(env, levels, 2, key=ZONE)
    await leaf(env, "one", 3, parent=parent, key=BLOCK)
    await leaf(env, "two", 4, parent=parent, key=BLOCK)

    assert await nodes(env, "one", 3) == {b}
    assert await nodes(env, "two", 4) == {a}
