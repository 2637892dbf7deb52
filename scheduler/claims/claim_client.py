"""Reads and writes of ResourceClaims: one writer per claim, and responses update the cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import RESOURCE_CLAIMS
from kube.concurrency.freeze import Freeze
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.device_objects import ResourceClaim, decode_resource_claim
from scheduler.watch.device_handlers import ResourceClaimHandler


class UnusableError(Exception):
    """The claim cannot be used as decided. The text has the reason."""


class ClaimClient:
    """The shared part of all writers of claims. `claims` has them as they were last seen."""

    def __init__(self, api: Client, claims: ResourceClaimHandler, freeze: Freeze) -> None:
        """Start with no locks. Responses are not applied during a `freeze`."""
        self.claims = claims
        self.freeze = freeze
        self._api = api
        self._locks: dict[ClaimKey, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def locked(self, key: ClaimKey) -> AsyncIterator[None]:
        """Be the only writer of the claim inside. Locks without users are dropped."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        # Counted before the wait, so that the lock is not dropped while others queue for it.
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = (lock, users - 1)

    async def patch(self, key: ClaimKey, patch: PatchBuilder, subresource: str | None) -> None:
        """Write to the claim. Raises kube.base.errors: Conflict, Invalid, NotFound."""
        response = await self._api.patch_unread(
            RESOURCE_CLAIMS, key[1], patch, key[0], subresource=subresource
        )
        await self._learn(decode_resource_claim(response))

    async def create(self, claim: Json) -> None:
        """Create a claim. Raises kube.base.errors: AlreadyExists, Invalid, Forbidden."""
        response = await self._api.create(RESOURCE_CLAIMS, claim)
        await self.freeze.over()
        self.claims.created(_decoded(response))

    async def read_existing(self, key: ClaimKey, owner: str) -> None:
        """Read a claim that is not known yet. Raises UnusableError unless it is the owner's."""
        try:
            response = await self._api.get(RESOURCE_CLAIMS, key[1], key[0])
        except NotFound:
            raise UnusableError(f"resourceclaim {key[1]} is gone") from None
        claim = _decoded(response)
        controller = claim.metadata.controller
        # The name can be computed from the pod, so any user may have created a claim of this name.
        if controller is None or controller.uid != owner:
            raise UnusableError(f"resourceclaim {key[1]} was made for another: delete it")
        await self.freeze.over()
        self.claims.created(claim, by_others=True)

    async def forget(self, key: ClaimKey) -> None:
        """Record that no claim has the name. The watch may have reported that too early."""
        await self.freeze.over()
        # A response can overtake the watch: the deletion arrived before the claim was known.
        self.claims.delete(key)

    async def delete(self, key: ClaimKey, uid: str) -> None:
        """Delete the claim. Raises kube.base.errors: Conflict if another claim has the name."""
        await self._api.delete(RESOURCE_CLAIMS, key[1], key[0], uid=uid)

    async def read(self, key: ClaimKey) -> bool:
        """Read what others wrote. True if anything has changed.

        Raises UnusableError if the claim was deleted, or another one has its name.
        """
        # Before the request: what the watch delivers during it counts as a change, too.
        seen = self.claims.observed.get(key)
        try:
            response = await self._api.get(RESOURCE_CLAIMS, key[1], key[0])
        except NotFound:
            raise UnusableError(f"resourceclaim {key[1]} is gone") from None
        if seen is None or response["metadata"].get("uid") != seen.uid:
            raise UnusableError(f"resourceclaim {key[1]} is another one by now")
        await self._learn(_decoded(response), by_others=True)
        return self.claims.observed.get(key) != seen

    async def _learn(self, claim: ResourceClaim, *, by_others: bool = False) -> None:
        """Apply the response of the server, whether the watch has delivered it or not."""
        await self.freeze.over()
        self.claims.written(claim, by_others=by_others)


def _decoded(response: Json) -> ResourceClaim:
    return decode_resource_claim(msgspec.json.encode(response))
