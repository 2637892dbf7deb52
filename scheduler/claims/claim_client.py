"""Reads and patches ResourceClaims, one writer of a claim at a time, and takes in the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from kube.base.errors import NotFound
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import RESOURCE_CLAIMS
from kube.concurrency.freeze import Freeze
from scheduler.core.values.model import ClaimKey
from scheduler.decoding.device_objects import ResourceClaim, decode_resource_claim
from scheduler.support.ports import ClaimApi
from scheduler.watch.device_handlers import ResourceClaimHandler


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
        """Write to the claim. Raises kube.base.errors: Conflict, Invalid, NotFound."""
        answer = await self._api.patch_unread(
            RESOURCE_CLAIMS, key[1], patch, key[0], subresource=subresource
        )
        await self._learn(decode_resource_claim(answer))

    async def create(self, claim: Json) -> None:
        """Make a claim. Raises kube.base.errors: AlreadyExists, Invalid, Forbidden."""
        answer = await self._api.create(RESOURCE_CLAIMS, claim)
        await self.freeze.over()
        self.claims.created(_decoded(answer))

    async def take_over(self, key: ClaimKey, owner: str) -> None:
        """Take in a claim that is not known yet. Raises UnusableError unless it is the owner's."""
        try:
            answer = await self._api.get(RESOURCE_CLAIMS, key[1], key[0])
        except NotFound:
            raise UnusableError(f"resourceclaim {key[1]} is gone") from None
        claim = _decoded(answer)
        controller = claim.metadata.controller
        if controller is None or controller.uid != owner:
            raise UnusableError(f"resourceclaim {key[1]} was made for another: delete it")
        await self.freeze.over()
        self.claims.created(claim, by_others=True)

    async def forget(self, key: ClaimKey) -> None:
        """There is none of the name, which the watch may have said before it was known."""
        await self.freeze.over()
        self.claims.delete(key)

    async def delete(self, key: ClaimKey, uid: str) -> None:
        """Delete the claim. Raises kube.base.errors: Conflict if another one has its name."""
        await self._api.delete(RESOURCE_CLAIMS, key[1], key[0], uid=uid)

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
        await self._learn(_decoded(answer), by_others=True)
        return self.claims.observed.get(key) != seen

    async def _learn(self, claim: ResourceClaim, *, by_others: bool = False) -> None:
        """What the server answered is so, whether the watch has delivered it or not."""
        await self.freeze.over()
        self.claims.written(claim, by_others=by_others)


def _decoded(answer: Json) -> ResourceClaim:
    return decode_resource_claim(msgspec.json.encode(answer))
