"""Reads and patches ResourceClaims, one writer of a claim at a time, and takes in the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from kube.errors import NotFound
from kube.freeze import Freeze
from kube.meta import Json
from kube.patch import PatchBuilder
from kube.resources import RESOURCE_CLAIMS
from scheduler.api_protocols import ClaimApi
from scheduler.core.model import ClaimKey
from scheduler.watch.device_handlers import ResourceClaimHandler
from scheduler.watch.device_objects import decode_resource_claim


class UnusableError(Exception):
    """The claim cannot be what it was decided to be; the text says why."""


class ClaimAccess:
    """What all that write to claims share. `claims` has them as they were last seen."""

    def __init__(self, api: ClaimApi, claims: ResourceClaimHandler, freeze: Freeze) -> None:
        """Nothing is taken in during a `freeze`."""
        self.claims = claims
        self.freeze = freeze
        self._api = api
        self._locks: dict[ClaimKey, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def locked(self, key: ClaimKey) -> AsyncIterator[None]:
        """Nobody else writes to the claim inside. Locks that nobody needs are not kept."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = (lock, users - 1)

    async def patch(self, key: ClaimKey, patch: PatchBuilder, subresource: str | None) -> None:
        """Write to the claim. Raises kube.errors: Conflict, Invalid, NotFound."""
        answer = await self._api.patch(
            RESOURCE_CLAIMS, key[1], patch, key[0], subresource=subresource
        )
        await self._learn(answer)

    async def read(self, key: ClaimKey) -> bool:
        """Take in what others wrote; whether that was news.

        Raises UnusableError if the claim is gone, or another one has its name.
        """
        seen = self.claims.observed.get(key)
        try:
            answer = await self._api.get(RESOURCE_CLAIMS, key[1], key[0])
        except NotFound:
            raise UnusableError(f"resourceclaim {key[1]} is gone") from None
        if seen is None or answer["metadata"].get("uid") != seen.uid:
            raise UnusableError(f"resourceclaim {key[1]} is another one by now")
        await self._learn(answer)
        return self.claims.observed.get(key) != seen

    async def _learn(self, answer: Json) -> None:
        """What the server answered is so, whether the watch has delivered it or not."""
        await self.freeze.over()
        self.claims.written(decode_resource_claim(msgspec.json.encode(answer)))
