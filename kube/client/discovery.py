"""Discovery: which of some resources an API server serves.

An administrator turns APIs on and off by gates of the API server, so this changes while it runs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from kube.base.clock import Clock
from kube.base.errors import STARTING, Forbidden, KubeError, NotFound
from kube.client.client import Client
from kube.client.decoding import Decoder
from kube.client.resources import Resource

PROBE_SECONDS: Final = 60.0
"""Seconds between two discoveries."""

_RETRY_SECONDS: Final = 1.0
"""Seconds between two requests after an error of the API server, until the first response."""

_MISSED: Final = 3
"""Probes in a row that do not find a resource before it is gone: one of several API servers may
lack it while all of them restart."""

_log = structlog.get_logger()


class _ServedResource(msgspec.Struct):
    name: str = ""


class _ServedResources(msgspec.Struct):
    resources: list[_ServedResource] = []


_decode: Final = Decoder(_ServedResources)


class Discovery:
    """The resources that are served, by a key that the caller chose."""

    def __init__(self, client: Client, resources: Mapping[str, Resource], clock: Clock) -> None:
        """Probe for these resources; none of them has been found yet."""
        self._client = client
        self._resources = resources
        self._clock = clock
        self._served: set[str] = set()
        self._missed: Counter[str] = Counter()

    async def probe(self) -> frozenset[str]:
        """Return the keys of the resources that are served. Wait while the API server is down."""
        found = await self._found()
        for key in self._resources:
            if key in found:
                self._served.add(key)
                self._missed.pop(key, None)
            elif key in self._served:
                self._missed[key] += 1
                if self._missed[key] >= _MISSED:
                    self._served.discard(key)
        return frozenset(self._served)

    async def _found(self) -> set[str]:
        while True:
            try:
                return {key for key, one in self._resources.items() if await self._serves(one)}
            except (KubeError, msgspec.DecodeError) as error:
                _log.warning("failed to discover what the API server serves", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _serves(self, resource: Resource) -> bool:
        # Discovery, not a list: a resource is served even if the role does not allow to read it.
        path = f"/apis/{resource.group}/{resource.version}"
        try:
            found = _decode(await get(self._client, path, self._clock))
        except NotFound:
            return False
        except Forbidden as error:
            _log.error("may not read from the API server", path=path, error=str(error))
            return False
        return any(each.name == resource.plural for each in found.resources)


async def get(client: Client, path: str, clock: Clock, **params: str) -> bytes:
    """Return the response. Raises KubeErrors, Forbidden only if it lasts `STARTING` seconds.

    An API server that is starting responds with 403 for a moment.
    """
    starts_until = clock.monotonic() + STARTING
    while True:
        try:
            return await client.request("GET", path, params=params)
        except Forbidden:
            if clock.monotonic() >= starts_until:
                raise
        await asyncio.sleep(_RETRY_SECONDS)
