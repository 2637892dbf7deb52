"""Extended resources that some nodes offer, and devices provide on the others."""

import random
from contextlib import suppress

import pytest

from e2e.harness.devices import CLAIMS, Devices
from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job, of_job
from e2e.harness.support.waiting import eventually
from kube.base.errors import NotFound
from kube.client.resources import JOBS, PODS

pytestmark = pytest.mark.since("1.36", "devices stand for extended resources from 1.36 on")


def resource_of(env: Environment) -> str:
    """Return the extended resource of the flow, which no other class provides."""
    return f"{env.name}.example.com/gpu"


def requesting(made: Json, resource: str) -> Json:
    """Return the Job, with a request of one for each container."""
    container = made["spec"]["template"]["spec"]["containers"][0]
    requests = {**container.get("resources", {}).get("requests", {}), resource: "1"}
    limits = {**container.get("resources", {}).get("limits", {}), resource: "1"}
    container["resources"] = {"requests": requests, "limits": limits}
    return made


async def check(env: Environment, devices: Devices, *, claims: int) -> None:
    """Check that that many pods have a claim in their status, with devices of their node."""
    held = await devices.held()
    told = {}
    for pod in await env.pods():
        said = pod["status"].get("extendedResourceClaimStatus")
        if said is not None:
            (mapping,) = said["requestMappings"]
            assert mapping["resourceName"] == resource_of(env)
            told[said["resourceClaimName"]] = pod["spec"]["nodeName"]
    assert {name: pools for name, ((_, pools, _),) in held.items()} == told
    assert len(told) == claims
    assert await devices.held_twice() == []


async def ended(env: Environment, *jobs: str) -> None:
    """Delete the Jobs, and wait until the claims for their pods are deleted."""
    for name in jobs:
        await env.delete(JOBS, name)
    await env.empty()

    async def none() -> bool:
        return not (await env.client.list(CLAIMS, env.name))["items"]

    await eventually(none, "all claims to be deleted", 30)


async def test_a_gang_uses_devices_and_what_nodes_offer_and_starts_when_both_suffice(
    env: Environment, devices: Devices
) -> None:
    resource = resource_of(env)
    await devices.add_class(resource=resource)
    for count in (2, 1):
        await devices.publish(await env.add_node(cpu=8), count)
    await env.create(JOBS, requesting(job("train", env.name, pods=4), resource))
    await env.waits("pg-job-train", needed=4)
    assert await devices.claims() == []

    await env.add_node(cpu=8, resources={resource: "1"})

    await env.runs(of_job("train"), 4)
    await check(env, devices, claims=3)
    await ended(env, "train")


async def test_the_name_of_a_class_is_an_extended_resource(
    env: Environment, devices: Devices
) -> None:
    resource = f"deviceclass.resource.kubernetes.io/{await devices.add_class()}"
    await devices.publish(await env.add_node(cpu=8), 2)

    await env.create(JOBS, requesting(job("train", env.name, pods=2), resource))

    await env.runs(of_job("train"), 2)
    assert len(await devices.held()) == 2
    await ended(env, "train")


async def test_a_gang_of_a_higher_priority_gets_the_devices_of_the_gang_that_it_evicts(
    env: Environment, devices: Devices, important: str
) -> None:
    resource = resource_of(env)
    await devices.add_class(resource=resource)
    for _ in range(2):
        await devices.publish(await env.add_node(cpu=8), 2)
    await env.create(JOBS, requesting(job("low", env.name, pods=4), resource))
    await env.runs(of_job("low"), 4)
    high = requesting(job("high", env.name, pods=2), resource)
    high["spec"]["template"]["spec"]["priorityClassName"] = important

    await env.create(JOBS, high)

    await env.runs(of_job("high"), 2)
    # Two victims suffice. Their Job allows no failure: its controller then deletes the others.
    await env.has_pods(of_job("low"), 0)
    await check(env, devices, claims=2)
    await ended(env, "high", "low")


async def test_pods_and_claims_that_are_deleted_in_any_order_leave_nothing_allocated(
    env: Environment, devices: Devices
) -> None:
    resource = resource_of(env)
    await devices.add_class(resource=resource)
    for _ in range(2):
        await devices.publish(await env.add_node(cpu=8), 3)
    await env.create(JOBS, requesting(job("first", env.name, pods=6), resource))
    await env.runs(of_job("first"), 6)
    await check(env, devices, claims=6)
    objects = [(PODS, one["metadata"]["name"]) for one in await env.pods()]
    objects += [(CLAIMS, one["metadata"]["name"]) for one in await devices.claims()]
    random.shuffle(objects)

    for kind, name in objects:
        with suppress(NotFound):  # a claim is deleted with its pod
            await env.client.delete(kind, name, env.name)

    await devices.nothing_left_allocated()
    await env.create(JOBS, requesting(job("next", env.name, pods=6), resource))
    await env.runs(of_job("next"), 6)
    await check(env, devices, claims=6)
    await ended(env, "first", "next")
