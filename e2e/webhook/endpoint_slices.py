"""What a cluster does for a Service: its EndpointSlices say which replicas are ready, and where."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from e2e.support.rest import Object, Rest
from e2e.support.waiting import healthy
from e2e.webhook.balancer import PROBE_SECONDS, Backend

SLICES = "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
READY = "/endpoints/0/conditions/ready"


class EndpointSlices:
    """A slice for each replica, which differ by port as all are on this machine."""

    def __init__(
        self, admin: Path, namespace: str, service: str, backends: Sequence[Backend]
    ) -> None:
        self._admin = admin
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

    async def _watch(self, backend: Backend) -> None:
        async with Rest.open(self._admin) as rest:
            while True:
                ready = await healthy(backend.ready_url)
                if ready != backend.ready:
                    change = [{"op": "replace", "path": READY, "value": ready}]
                    path = f"{self._path}/{self._name(backend)}"
                    (await rest.patch(path, change, "application/json-patch+json")).ok()
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


def own_address() -> str:
    """An address of this machine that is not loopback, which no EndpointSlice may have.

    Raises OSError where there is none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: it only asks the kernel which address would be used.
        probe.connect(("198.51.100.1", 9))
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        raise OSError("this machine has no address but loopback")
    return address
