"""A preemptor whose nominated node no longer fits evicts elsewhere, and at once."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.groups import remove_finalizers
from e2e.harness.objects import Json, pod
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import NODES, PODS

HOLD = "test.muster.dev/hold"
WHICH = "test.muster.dev/which"
_LABEL = pointer("metadata", "labels", WHICH)
SOON = 15
"""Seconds, much fewer than any grace period and timeout."""

SPOILS = {
    "cordoned": PatchBuilder().add("/spec/unschedulable", True),
    "tainted": PatchBuilder().add("/spec/taints", [{"key": "broken", "effect": "NoSchedule"}]),
}


def on(node: str, env: Environment, *, grace: int = 30) -> Json:
    """Return a pod for a node, and with its name."""
    made = pod(node, env.name)
    made["metadata"]["labels"] = {WHICH: node}
    made["spec"]["nodeSelector"] |= {WHICH: node}
    made["spec"]["terminationGracePeriodSeconds"] = grace
    return made


def held(node: str, env: Environment, *, grace: int) -> Json:
    """Return the same pod with a finalizer, which delays its deletion."""
    made = on(node, env, grace=grace)
    made["metadata"]["finalizers"] = [HOLD]
    return made


async def two_nodes(env: Environment) -> list[str]:
    names = []
    for _ in range(2):
        name = await env.add_node(cpu=1)
        await env.client.patch(NODES, name, PatchBuilder().add(_LABEL, name))
        names.append(name)
    return names


async def node_of(env: Environment, name: str) -> str:
    found = await env.client.get(PODS, name, env.name)
    return str(found["spec"].get("nodeName"))


async def bound(env: Environment, count: int) -> None:
    async def probe() -> bool:
        return await env.bound() == count

    await env.until(f"{count} pods to be bound", probe, SOON)


async def leaving(env: Environment) -> set[str]:
    pods = await env.pods()
    return {it["metadata"]["name"] for it in pods if "deletionTimestamp" in it["metadata"]}


@pytest.mark.parametrize("spoil", SPOILS)
async def test_another_pod_is_evicted_when_the_node_cannot_be_used(
    env: Environment, important: str, spoil: str
) -> None:
    nodes = await two_nodes(env)
    for node in nodes:
        await env.create(PODS, held(node, env, grace=120))
    await bound(env, 2)
    high = pod("high", env.name)
    high["spec"]["priorityClassName"] = important
    await env.create(PODS, high)

    async def one() -> bool:
        return len(await leaving(env)) == 1

    await env.until("a victim to be chosen", one, SOON)
    (victim,) = await leaving(env)
    await env.client.patch(NODES, victim, SPOILS[spoil])

    async def both() -> bool:
        return len(await leaving(env)) == 2

    await env.until("another victim to be chosen", both, SOON)
    (other,) = set(nodes) - {victim}
    await remove_finalizers(env, f"{WHICH}={other}")

    async def runs() -> bool:
        return await node_of(env, "high") == other

    await env.until("the preemptor to be bound there", runs, SOON)
    await remove_finalizers(env, f"{WHICH}={victim}")


async def test_pods_that_take_years_to_end_are_not_chosen(env: Environment, important: str) -> None:
    slow, prompt = await two_nodes(env)
    await env.create(PODS, held(slow, env, grace=315_360_000))
    await env.create(PODS, on(prompt, env))
    await bound(env, 2)
    high = pod("high", env.name)
    high["spec"]["priorityClassName"] = important
    await env.create(PODS, high)

    async def runs() -> bool:
        return await node_of(env, "high") == prompt

    await env.until("the preemptor to be bound", runs, SOON + 30)
    assert await leaving(env) == set()
    await remove_finalizers(env, f"{WHICH}={slow}")
