"""The helpers for device flows: published devices exist, and allocations are found."""

import secrets
from collections.abc import AsyncIterator

import pytest

from e2e.harness.devices import (
    CLAIM_TEMPLATES,
    CLAIMS,
    CLASSES,
    SINCE,
    SLICES,
    Devices,
    claim,
    claim_template,
    devices_in,
    request,
    with_claims,
)
from e2e.harness.objects import Json
from kube.client.client import Client
from kube.client.patch import PatchBuilder
from kube.client.resources import NAMESPACES, PODS

pytestmark = pytest.mark.since(*SINCE)


@pytest.fixture
async def devices(client: Client) -> AsyncIterator[Devices]:
    name = f"devices-{secrets.token_hex(3)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    async with devices_in(client, name) as made:
        yield made
    await client.delete(NAMESPACES, name)


async def _hold(devices: Devices, name: str, device: str, *pods: Json) -> None:
    """Allocate a claim as a scheduler does."""
    finalizers = ["resource.kubernetes.io/delete-protection"]
    patch = PatchBuilder().add("/metadata/finalizers", finalizers)
    await devices.client.patch(CLAIMS, name, patch, devices.namespace)
    result = {"request": "device", "driver": devices.driver, "pool": "n", "device": device}
    consumers = [
        {"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
        for one in pods
    ]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    patch = PatchBuilder().add("/status", status)
    await devices.client.patch(CLAIMS, name, patch, devices.namespace, subresource="status")


async def test_what_is_published_is_replaced_and_goes_with_the_flow(devices: Devices) -> None:
    name = await devices.add_class("gpu", 'device.attributes["a.b"].big')
    published = await devices.publish("n", 2)
    await devices.publish("n", [{"name": "other"}], generation=2)

    spec = (await devices.client.get(SLICES, published))["spec"]
    assert (spec["pool"]["generation"], spec["devices"]) == (2, [{"name": "other"}])
    selectors = (await devices.client.get(CLASSES, name))["spec"]["selectors"]
    assert [one["cel"]["expression"] for one in selectors] == [
        f'device.driver == "{devices.driver}"',
        'device.attributes["a.b"].big',
    ]
    await devices.publish("m", 1)
    await devices.withdraw("m")
    await devices.close()
    for resource, one in ((SLICES, "n"), (SLICES, "m"), (CLASSES, "gpu")):
        listed = await devices.client.list(resource)
        names = [item["metadata"]["name"] for item in listed["items"]]
        assert not [found for found in names if devices.namespace in found and one in found]


async def test_what_is_held_is_found_until_it_is_given_back(devices: Devices) -> None:
    gpu = request("gpu")
    await devices.client.create(CLAIMS, claim("shared", gpu), devices.namespace)
    await devices.client.create(CLAIM_TEMPLATES, claim_template("own", gpu), devices.namespace)
    entries = {
        "a": {"resourceClaimName": "shared"},
        "b": {"resourceClaimName": "second"},
        "c": {"resourceClaimTemplateName": "own"},
    }
    spec = with_claims({"containers": [{"name": "main", "image": "x:1"}]}, entries)
    pod = await devices.client.create(
        PODS, {"metadata": {"name": "p"}, "spec": spec}, devices.namespace
    )
    await devices.nothing_left_allocated()

    await _hold(devices, "shared", "device-0", pod)

    assert await devices.held() == {"shared": [(devices.driver, "n", "device-0")]}
    assert await devices.held_twice() == []
    with pytest.raises(AssertionError, match=r"still held: \{'shared'"):
        await devices.nothing_left_allocated(timeout=0)
    await devices.client.create(CLAIMS, claim("second", gpu), devices.namespace)
    await _hold(devices, "second", "device-0", pod)
    assert await devices.held_twice() == [(devices.driver, "n", "device-0")]

    await devices.client.delete(PODS, "p", devices.namespace, grace_seconds=0)
    await devices.nothing_left_allocated()
    assert await devices.held_twice() == []
