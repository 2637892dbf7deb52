"""Hostile claims and device slices, which neither block other tenants nor leak allocations."""

import copy
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    CLAIMS,
    SINCE,
    SLICES,
    Devices,
    claim,
    claim_template,
    request,
    with_claims,
)
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.objects import POD_GROUPS, Json, pod, pod_spec
from e2e.harness.settled import settled
from kube.base.errors import NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import NAMESPACES, PODS

pytestmark = pytest.mark.since(*SINCE)

OWN = {"gpu": {"resourceClaimTemplateName": "one-gpu"}}
HOLD = "test.muster.dev/hold"
LARGEST = 2**63 - 1


async def prepared(env: Environment, devices: Devices) -> str:
    """Create a device class, and a template for one device of it; return the class's name."""
    name = await devices.add_class()
    await env.create(CLAIM_TEMPLATES, claim_template("one-gpu", request(name)))
    return name


async def gang(env: Environment, name: str, pods: int, entries: Json | None = None) -> None:
    await leaf(env, name, pods, of_pod=with_claims(pod_spec(env.name), entries or OWN))


async def gone(env: Environment, name: str, pods: int) -> None:
    """Delete a gang."""
    for at in range(pods):
        await env.delete(PODS, f"{name}-{at}")
    await env.delete(POD_GROUPS, name)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
async def test_claims_and_pods_may_be_deleted_in_any_order(
    env: Environment, devices: Devices, seed: int
) -> None:
    """Some of the claims have a finalizer of their tenant, who removes it at the end."""
    chance = random.Random(seed)
    name = await prepared(env, devices)
    for _ in range(2):
        await devices.publish(await env.add_node(cpu=16), 4)
    await env.create(CLAIMS, claim("common", request(name)))
    await gang(env, "own", 4)
    await gang(env, "shared", 3, {"gpu": {"resourceClaimName": "common"}})
    # One more than there are devices: it must not start while the others are being deleted.
    await gang(env, "waiting", 9)
    await env.runs("", 7)
    await env.waits("waiting", needed=9)

    names = [it["metadata"]["name"] for it in await devices.claims()]
    for each in chance.sample(names, 3):
        patch = PatchBuilder().add("/metadata/finalizers", [HOLD])
        found = await env.client.get(CLAIMS, each, env.name)
        if found["metadata"].get("finalizers"):
            patch = PatchBuilder().add("/metadata/finalizers/-", HOLD)
        await env.client.patch(CLAIMS, each, patch, env.name)
    to_delete = [(CLAIMS, each) for each in names]
    to_delete += [(PODS, it["metadata"]["name"]) for it in await env.pods(members("own"))]
    to_delete += [(PODS, it["metadata"]["name"]) for it in await env.pods(members("shared"))]
    chance.shuffle(to_delete)
    for kind, each in to_delete:
        try:
            await env.delete(kind, each)
        except NotFound:  # deleted with its pod
            continue

    # The pending gang's claims are deleted for good; another gang uses the deallocated devices.
    await gang(env, "after", 8)
    await env.runs(members("after"), 8)
    assert await devices.held_twice() == []
    await settled(env)

    for each, pods in (("own", 0), ("shared", 0), ("waiting", 9), ("after", 8)):
        await gone(env, each, pods)
    await env.has_pods("", 0)
    await devices.nothing_left_allocated()
    for it in await devices.claims():
        if HOLD in it["metadata"].get("finalizers", ()):
            patch = PatchBuilder().add("/metadata/finalizers", [])
            await env.client.patch(CLAIMS, it["metadata"]["name"], patch, env.name)


async def test_slices_that_lie_concern_those_alone_who_need_their_devices(
    env: Environment, devices: Devices
) -> None:
    await prepared(env, devices)
    liar = await env.add_node(cpu=16)
    await devices.publish(liar, 2)
    await gang(env, "before", 2)
    await env.runs(members("before"), 2)

    # The devices in use disappear, and come back twice, in the newest generations.
    await devices.publish(liar, [], generation=LARGEST - 2)
    published = await devices.publish(liar, 1, generation=LARGEST - 1)
    twin = copy.deepcopy(await env.client.get(SLICES, published))
    twin["metadata"] = {"name": f"{published}-twin"}
    await env.client.create(SLICES, twin)
    await gang(env, "there", 2)
    await env.waits("there", needed=2)
    honest = await env.add_node(cpu=16)
    await devices.publish(honest, 2)
    await env.runs(members("there"), 2)
    assert {it["spec"]["nodeName"] for it in await env.pods(members("there"))} == {honest}

    # Devices that were in use all the time are still in use once they reappear.
    await gang(env, "late", 2)
    await env.client.delete(SLICES, f"{published}-twin")
    await devices.publish(liar, 4, generation=LARGEST)
    await env.runs(members("late"), 2)
    assert await devices.held_twice() == []
    held = [each for found in (await devices.held()).values() for each in found]
    assert sorted(name for _, of, name in held if of == liar) == [f"device-{at}" for at in range(4)]
    await settled(env)

    for name in ("before", "there", "late"):
        await gone(env, name, 2)
    await devices.nothing_left_allocated()


PIGEONS, HOLES, HARD = 11, 10, 12


async def test_claims_that_are_hard_to_meet_stall_nobody_else(
    env: Environment, devices: Devices
) -> None:
    """Each claim requires one more device with distinct values than there are values."""
    name = await prepared(env, devices)
    key = f"{devices.driver}/hole"
    for _ in range(3):
        listed = [
            {"name": f"device-{at}", "attributes": {key: {"int": at % HOLES}}} for at in range(40)
        ]
        await devices.publish(await env.add_node(cpu=64), listed)
    costly = " && ".join(
        f'device.attributes["{devices.driver}"].hole < {99 + at}' for at in range(40)
    )
    selectors = [{"cel": {"expression": costly}}]
    async with tenant(env) as theirs:
        for at in range(HARD):
            many = request(name, PIGEONS, selectors=selectors)
            wanted = claim(f"c{at}", many, constraints=[{"distinctAttribute": key}])
            await env.client.create(CLAIMS, wanted, theirs)
            made = pod(f"p{at}", env.name)
            made["spec"] = with_claims(made["spec"], {"gpu": {"resourceClaimName": f"c{at}"}})
            await env.client.create(PODS, made, theirs)

        await gang(env, "calm", 4)
        await env.runs(members("calm"), 4)

        found = (await env.client.list(PODS, theirs))["items"]
        assert [it["spec"].get("nodeName") for it in found] == [None] * HARD
    await gone(env, "calm", 4)
    await devices.nothing_left_allocated()


@asynccontextmanager
async def tenant(env: Environment) -> AsyncIterator[str]:
    """Another namespace, deleted at the end with its pods."""
    name = f"{env.name}-other"
    await env.client.create(NAMESPACES, {"metadata": {"name": name}})
    try:
        yield name
    finally:
        for it in (await env.client.list(PODS, name))["items"]:
            await env.client.delete(PODS, it["metadata"]["name"], name)
        await env.client.delete(NAMESPACES, name)
