"""The endpoints controller's part for a Service: EndpointSlices with the ready replicas.

API servers before 1.34 read the Endpoints of the Service instead, which are kept equal.
"""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from e2e.flows.admission.webhook.balancer import PROBE_SECONDS, Backend
from e2e.harness.controlplane.places import before
from e2e.harness.support.rest import Object, Rest
from e2e.harness.support.waiting import healthy

SLICES = "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
READY = "/endpoints/0/conditions/ready"
_ENDPOINTS = "/api/v1/namespaces/{namespace}/endpoints"


class EndpointSlices:
    """A slice for each replica; they differ by port, because all are on this machine."""

    def __init__(
        self, admin: Path, namespace: str, service: str, backends: Sequence[Backend]
    ) -> None:
        self._admin = admin
        self._namespace = namespace
        self._path = SLICES.format(namespace=namespace)
        self._service = service
        self._backends = backends
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        address = own_address()
        async with Rest.open(self._admin) as rest:
            for backend in self._backends:
                (await rest.post(self._path, self._slice(backend, address))).expect(201)
        self._watching = [asyncio.create_task(self._watch(each)) for each in self._backends]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for task in self._watching:
            task.cancel()
        for ended in await asyncio.gather(*self._watching, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        async with Rest.open(self._admin) as rest:
            for backend in self._backends:
                (await rest.delete(f"{self._path}/{self._name(backend)}")).ok()
            await copy_to_endpoints(rest, self._namespace, self._service)

    async def _watch(self, backend: Backend) -> None:
        async with Rest.open(self._admin) as rest:
            while True:
                ready = await healthy(backend.ready_url)
                if ready != backend.ready:
                    change = [{"op": "replace", "path": READY, "value": ready}]
                    path = f"{self._path}/{self._name(backend)}"
                    (await rest.patch(path, change, "application/json-patch+json")).ok()
                    await copy_to_endpoints(rest, self._namespace, self._service)
                    backend.ready = ready
                await asyncio.sleep(PROBE_SECONDS)

    def _name(self, backend: Backend) -> str:
        return f"{self._service}-{backend.port}"

    def _slice(self, backend: Backend, address: str) -> Object:
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self._name(backend),
                "labels": {"kubernetes.io/service-name": self._service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": backend.port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": False}}],
        }


async def copy_to_endpoints(rest: Rest, namespace: str, service: str) -> None:
    """Copy the slices of a Service to Endpoints, for API servers that do not read slices."""
    if not before("1.34"):
        return
    selector = {"labelSelector": f"kubernetes.io/service-name={service}"}
    while True:
        # Read first, so that a concurrent write results in a conflict.
        path = _ENDPOINTS.format(namespace=namespace)
        there = await rest.get(f"{path}/{service}")
        slices = (await rest.get(SLICES.format(namespace=namespace), params=selector)).ok()["items"]
        wanted: Object = {"metadata": {"name": service}, "subsets": _subsets(slices)}
        if slices and "ownerReferences" in slices[0]["metadata"]:
            wanted["metadata"]["ownerReferences"] = slices[0]["metadata"]["ownerReferences"]
        if not slices:
            answer = await rest.delete(f"{path}/{service}")
        elif there.status == 404:
            answer = await rest.post(path, wanted)
        else:
            wanted["metadata"]["resourceVersion"] = there.ok()["metadata"]["resourceVersion"]
            answer = await rest.put(f"{path}/{service}", wanted)
        if answer.status in {200, 201, 404}:
            return
        assert answer.status == 409, answer.text


def _subsets(slices: list[Object]) -> list[Object]:
    """Return one subset for each slice with a ready endpoint."""
    return [
        {"addresses": [{"ip": endpoint["addresses"][0]}], "ports": one["ports"]}
        for one in slices
        for endpoint in one["endpoints"]
        if endpoint["conditions"]["ready"]
    ]


def own_address() -> str:
    """Return a non-loopback address of this machine; EndpointSlices must not have loopback ones.

    Raises OSError if there is none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # No packet is sent: the call only asks the kernel for the source address.
        probe.connect(("198.51.100.1", 9))
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        raise OSError("this machine has no address but loopback")
    return address
