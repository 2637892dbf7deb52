"""Devices of a flow: slices on its nodes, classes, claims, and their allocations.

Slices and classes are cluster-scoped, so `Devices` names them after the flow and deletes them at
its end. The driver is the flow's own too: no other flow's claims match its devices.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from e2e.harness.objects import Json
from e2e.harness.support.waiting import eventually
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource

GROUP = "resource.k8s.io"
SINCE = ("1.34", "resource.k8s.io/v1 is served, and its gate on, since 1.34")
"""Arguments of the mark `since`: older API servers have only betas of it, behind a gate."""
CLAIMS = Resource(GROUP, "v1", "resourceclaims", "ResourceClaim")
CLAIM_TEMPLATES = Resource(GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
CLASSES = Resource(GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False)
SLICES = Resource(GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False)

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""


def request(device_class: str, count: int = 1, *, name: str = "device", **exactly: Any) -> Json:
    """Return a request of a claim for exactly that many devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **exactly}}


def claim_spec(*requests: Json, **more: Any) -> Json:
    """Return the spec of a claim; `more` are its constraints and config."""
    return {"devices": {"requests": list(requests), **more}}


def claim(name: str, *requests: Json, **more: Any) -> Json:
    """Return a claim that pods share by its name."""
    return _object(CLAIMS, name, claim_spec(*requests, **more))


def claim_template(name: str, *requests: Json, **more: Any) -> Json:
    """Return a template from which each pod gets its own claim."""
    return _object(CLAIM_TEMPLATES, name, {"spec": claim_spec(*requests, **more)})


def with_claims(spec: Json, entries: Mapping[str, Json]) -> Json:
    """Return a pod's spec with claims that its first container uses.

    `entries` are by name, each {"resourceClaimName": ...} or {"resourceClaimTemplateName": ...}.
    """
    first, *others = spec["containers"]
    uses = [{"name": name} for name in entries]
    container = {**first, "resources": {**first.get("resources", {}), "claims": uses}}
    named = [{"name": name, **entry} for name, entry in entries.items()]
    return {**spec, "containers": [container, *others], "resourceClaims": named}


def _object(resource: Resource, name: str, spec: Json) -> Json:
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def devices_of(claim: Json) -> list[DeviceId]:
    """Return the devices allocated exclusively to a claim: no shares, and no admin access."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        (one["driver"], one["pool"], one["device"])
        for one in results
        if not one.get("adminAccess") and not one.get("shareID")
    ]


class Devices:
    """The devices of one flow, of `driver`; its claims are in `namespace`."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.driver = f"{namespace}.example.com"
        self._made: list[tuple[Resource, str]] = []

    async def add_class(
        self, name: str = "gpu", *expressions: str, resource: str | None = None
    ) -> str:
        """Create a class of the flow's devices that match CEL expressions; return its full name.

        Its devices provide the extended `resource` if that is given.
        """
        full = f"{self.namespace}-{name}"
        said = (f'device.driver == "{self.driver}"', *expressions)
        spec: Json = {"selectors": [{"cel": {"expression": text}} for text in said]}
        if resource is not None:
            spec["extendedResourceName"] = resource
        await self._create(CLASSES, _object(CLASSES, full, spec))
        return full

    async def publish(
        self,
        node: str,
        devices: int | Sequence[Json],
        *,
        generation: int = 1,
        counters: Sequence[Json] = (),
    ) -> str:
        """Publish a node's devices, that many plain ones or these; return the slice's name.

        A second call replaces the slice: give it a higher generation then. Shared counter sets are
        in a separate slice.
        """
        listed = (
            [{"name": f"device-{index}"} for index in range(devices)]
            if isinstance(devices, int)
            else list(devices)
        )
        pool = {"name": node, "resourceSliceCount": 2 if counters else 1, "generation": generation}
        common = {"driver": self.driver, "nodeName": node, "pool": pool}
        name = f"{node}-{self.namespace}"
        if counters:
            await self._publish(f"{name}-counters", common | {"sharedCounters": list(counters)})
        await self._publish(name, common | {"devices": listed})
        return name

    async def _publish(self, name: str, spec: Json) -> None:
        if (SLICES, name) in self._made:
            await self.client.patch(SLICES, name, PatchBuilder().replace("/spec", spec))
        else:
            await self._create(SLICES, _object(SLICES, name, spec))

    async def withdraw(self, node: str) -> None:
        """Delete a node's slice, as its driver does when it leaves."""
        name = f"{node}-{self.namespace}"
        self._made.remove((SLICES, name))
        await self.client.delete(SLICES, name)

    async def claims(self) -> list[Json]:
        """Return the flow's claims."""
        found: list[Json] = (await self.client.list(CLAIMS, self.namespace))["items"]
        return found

    async def held(self) -> dict[str, list[DeviceId]]:
        """Return the devices of each allocated claim, by the claim's name."""
        return {
            one["metadata"]["name"]: devices_of(one)
            for one in await self.claims()
            if "allocation" in (one.get("status") or {})
        }

    async def held_twice(self) -> list[DeviceId]:
        """Return the flow's devices that are allocated to several claims, in any namespace."""
        everywhere = (await self.client.list(CLAIMS))["items"]
        counts = Counter(device for one in everywhere for device in devices_of(one))
        return sorted(one for one, count in counts.items() if count > 1 and one[0] == self.driver)

    async def nothing_left_allocated(self, timeout: float = 30) -> None:
        """Wait until none of the flow's claims has devices.

        Raises AssertionError that names the others.
        """

        async def free() -> bool:
            return not await self.held()

        try:
            await eventually(free, "all devices to be given back", timeout)
        except TimeoutError as error:
            held = await self.held()
            if held:
                raise AssertionError(f"{error}; still held: {held}") from error

    async def close(self) -> None:
        """Delete slices and classes."""
        for resource, name in reversed(self._made):
            try:
                await self.client.delete(resource, name)
            except NotFound:  # the flow deleted it itself
                continue
        self._made.clear()

    async def _create(self, resource: Resource, obj: Json) -> None:
        await self.client.create(resource, obj)
        self._made.append((resource, obj["metadata"]["name"]))


@asynccontextmanager
async def devices_in(client: Client, namespace: str) -> AsyncIterator[Devices]:
    """Create the devices of a flow whose claims are in a namespace; delete them at the end."""
    made = Devices(client, namespace)
    try:
        yield made
    finally:
        await made.close()
