"""A preferred topology: one domain if there is one, else the fewest, named in the status."""

from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, tree
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS
from kube.client.resources import Resource

BLOCK = "test.muster.dev/block"
RACK = "test.muster.dev/rack"


async def rack(env: Environment, block: str, name: str, slots: int) -> str:
    return await env.add_node(cpu=slots, labels={BLOCK: block, RACK: name})


async def wait_for_message(env: Environment, kind: Resource, name: str, words: str) -> None:
    """Wait until the condition of a scheduled group ends with these words."""

    async def probe() -> bool:
        group = await env.client.get(kind, name, env.name)
        conditions = (group.get("status") or {}).get("conditions") or []
        return any(c["status"] == "True" and c["message"].endswith(f"{words}.") for c in conditions)

    await env.until(f"{name} to say {words!r}", probe)


async def test_one_domain_and_after_it_has_grown_the_fewest(env: Environment) -> None:
    for name, slots in (("r1", 2), ("r2", 3), ("r3", 1)):
        await rack(env, "a", name, slots)
    await leaf(env, "small", 2, key=RACK, preferred=True)
    await env.runs(members("small"), 2)
    await wait_for_message(env, POD_GROUPS, "small", f"in one {RACK}, as preferred: r1")

    await leaf(env, "large", 4, key=RACK, preferred=True)
    await env.runs(members("large"), 4)

    await wait_for_message(
        env, POD_GROUPS, "large", f"in 2 values of {RACK}, one is preferred: r2, r3"
    )


async def test_racks_of_one_name_stay_apart_under_a_block_that_is_only_preferred(
    env: Environment,
) -> None:
    await rack(env, "a", "r1", 2)
    await rack(env, "b", "r1", 3)
    await tree(env, "top", 2, key=BLOCK, preferred=True)
    await leaf(env, "one", 2, parent="top", key=RACK)
    await leaf(env, "two", 3, parent="top", key=RACK)
    for name, pods in (("one", 2), ("two", 3)):
        await env.runs(members(name), pods)
        assert len({pod["spec"]["nodeName"] for pod in await env.pods(members(name))}) == 1

    words = f"in 2 values of {BLOCK}, one is preferred: a, b"
    await wait_for_message(env, COMPOSITE_POD_GROUPS, "top", words)
