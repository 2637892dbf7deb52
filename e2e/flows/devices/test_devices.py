"""Gangs whose pods need devices: all pods get theirs, or none starts and none has any."""

import msgspec
import pytest

from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    CLAIMS,
    CLASSES,
    SLICES,
    Devices,
    claim,
    claim_template,
    request,
    with_claims,
)
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, Json, job, of_job, pod, pod_group
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBS, NODES, PODS, Resource
from scheduler.cel.selectors import Selectors
from scheduler.decoding.device_decode import device_class_info, resource_claim_info, slice_info
from scheduler.decoding.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)
from tests.scheduler.devices.checker import Checker

pytestmark = pytest.mark.since("1.34", "resource.k8s.io/v1 is served from 1.34 on")

OWN = {"gpu": {"resourceClaimTemplateName": "one-gpu"}}


async def gpus(env: Environment, devices: Devices, *counts: int) -> str:
    """Create a class, a template for one device, and nodes with devices.

    Return the class's name.
    """
    name = await devices.add_class()
    await env.create(CLAIM_TEMPLATES, claim_template("one-gpu", request(name)))
    for count in counts:
        await devices.publish(await env.add_node(cpu=8), count)
    return name


def job_with_claims(name: str, room: str, pods: int, entries: dict[str, Json] = OWN) -> Json:
    """Return a gang Job whose pods use these claims."""
    made = job(name, room, pods=pods)
    template = made["spec"]["template"]
    template["spec"] = with_claims(template["spec"], entries)
    return made


def pod_with_claims(name: str, room: str, group: str, entries: dict[str, Json] = OWN) -> Json:
    """Return a pod of a gang that uses these claims."""
    made = pod(name, room, group=group)
    made["spec"] = with_claims(made["spec"], entries)
    return made


async def checked(env: Environment, devices: Devices, *, claims: int) -> None:
    """Check that that many claims are allocated, and that every allocation is valid."""
    client = env.client
    slices = [slice_info(decode_resource_slice(it))[0] for it in await _raw(env, SLICES)]
    classes = [device_class_info(decode_device_class(it)) for it in await _raw(env, CLASSES)]
    found = [resource_claim_info(decode_resource_claim(it))[0] for it in await _raw(env, CLAIMS)]
    nodes = (await client.list(NODES))["items"]
    labels = {it["metadata"]["name"]: it["metadata"].get("labels") or {} for it in nodes}
    pods = {it["metadata"]["uid"]: it["spec"].get("nodeName", "") for it in await env.pods()}
    checker = Checker(
        [each for each in slices if each.driver == devices.driver],
        {each.name: each for each in classes},
        Selectors().evaluate,
        labels,
    )
    allocated = [each for each in found if each.allocation is not None]
    used_on = {it.uid: [pods[uid] for uid in it.reserved if pods.get(uid)] for it in allocated}

    assert checker.complaints(allocated, used_on) == []
    assert len(allocated) == claims
    assert await devices.held_twice() == []


async def _raw(env: Environment, resource: Resource) -> list[bytes]:
    namespace = env.name if resource.namespaced else None
    items = (await env.client.list(resource, namespace))["items"]
    return [msgspec.json.encode(item) for item in items]


async def ended(env: Environment, devices: Devices, *jobs: str) -> None:
    """Delete the Jobs, and check that none of the flow's claims remains allocated."""
    for name in jobs:
        await env.delete(JOBS, name)
    await env.empty()
    await devices.nothing_left_allocated()


async def test_a_gang_starts_when_there_is_a_device_for_each_of_its_pods(
    env: Environment, devices: Devices
) -> None:
    await gpus(env, devices, 4, 3)
    await env.create(JOBS, job_with_claims("train", env.name, 8))
    await env.waits("pg-job-train", needed=8)
    assert await devices.held() == {}

    await devices.publish(await env.add_node(cpu=8), 1)

    await env.runs(of_job("train"), 8)
    await checked(env, devices, claims=8)
    await ended(env, devices, "train")


async def test_equal_gangs_that_start_together_have_their_devices_where_they_run(
    env: Environment, devices: Devices
) -> None:
    await gpus(env, devices)
    for number in range(6):
        await env.create(POD_GROUPS, pod_group(f"g{number}", 2))
    # The pods sort by name in the reverse order of their groups.
    for number in range(6):
        for member in ("a", "b"):
            name = f"p{5 - number}{member}"
            await env.create(PODS, pod_with_claims(name, env.name, f"g{number}"))
    await env.waits("g5", needed=2)

    node = await env.add_node(cpu=16)
    for _ in range(3):
        await devices.publish(await env.add_node(cpu=8), 3)
    await devices.publish(node, 3)

    await env.runs("", 12)
    await checked(env, devices, claims=12)
    for number in range(6):
        for member in ("a", "b"):
            await env.delete(PODS, f"p{number}{member}")
        await env.delete(POD_GROUPS, f"g{number}")
    await ended(env, devices)


async def test_a_gang_that_waits_starts_when_another_has_given_its_devices_back(
    env: Environment, devices: Devices
) -> None:
    await gpus(env, devices, 2, 2)
    await env.create(JOBS, job_with_claims("first", env.name, 3))
    await env.runs(of_job("first"), 3)
    await env.create(JOBS, job_with_claims("second", env.name, 3))
    await env.waits("pg-job-second", needed=3)

    await env.delete(JOBS, "first")

    await env.runs(of_job("second"), 3)
    await checked(env, devices, claims=3)
    await ended(env, devices, "second")


async def test_a_gang_shares_one_claim_which_may_come_late(
    env: Environment, devices: Devices
) -> None:
    device_class = await gpus(env, devices, 0, 1)
    shared = {"gpu": {"resourceClaimName": "common"}}
    await env.create(JOBS, job_with_claims("train", env.name, 4, shared))
    await env.has_pods(of_job("train"), 4)

    async def told() -> bool:
        summary: str = (await env.blocker("pg-job-train")).get("summary", "")
        return "could not find ResourceClaim" in summary and "common" in summary

    await env.until("the group to say which claim is missing", told)
    await env.create(CLAIMS, claim("common", request(device_class)))

    await env.runs(of_job("train"), 4)
    await checked(env, devices, claims=1)
    (common,) = await devices.claims()
    assert len(common["status"]["reservedFor"]) == 4
    await ended(env, devices, "train")


async def test_a_member_that_is_deleted_while_it_waits_leaves_nothing(
    env: Environment, devices: Devices
) -> None:
    await gpus(env, devices, 2)
    await env.create(POD_GROUPS, pod_group("g", 3))
    for name in ("a", "b", "c"):
        await env.create(PODS, pod_with_claims(name, env.name, "g"))
    await env.waits("g", needed=3)
    await env.delete(PODS, "c")
    await env.has_pods("", 2)
    lower = PatchBuilder().replace("/spec/schedulingPolicy/gang/minCount", 2)
    await env.client.patch(POD_GROUPS, "g", lower, env.name)

    await env.runs("", 2)
    await checked(env, devices, claims=2)
    for name in ("a", "b"):
        await env.delete(PODS, name)
    await env.delete(POD_GROUPS, "g")
    await ended(env, devices)
