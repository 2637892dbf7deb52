"""The controllers' access to the cluster: caches, kept current, and the API server."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from localcluster.base.clock import Clock
from localcluster.base.errors import StatusError
from localcluster.controllers.base.api_protocol import Kind, Propagation, Server
from localcluster.controllers.base.cache import Cache
from localcluster.controllers.base.objects import Key, Obj

log = structlog.get_logger(__name__)

RELIST_SECONDS = 0.05  # pause between a watch that ended and the next list


class CachedClient:
    """Caches of the watched kinds, and writes whose results enter them at once."""

    def __init__(self, server: Server, kinds: Iterable[Kind], clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._caches = {kind: Cache() for kind in kinds}
        self._synced = {kind: asyncio.Event() for kind in self._caches}

    def __getitem__(self, kind: Kind) -> Cache:
        """Return the cache of a watched kind."""
        return self._caches[kind]

    async def synced(self) -> None:
        """Wait until every cache has its first list."""
        for event in self._synced.values():
            await event.wait()

    async def run(self) -> None:
        """Keep all caches current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._caches:
                tasks.create_task(self._follow(kind))

    async def get(self, kind: Kind, key: Key) -> Obj | None:
        """Return the server's current object, bypassing the cache."""
        return await self._server.get(kind, *key)

    async def create(self, kind: Kind, namespace: str, obj: Obj) -> Obj:
        """Create and return the object. Raises StatusError if rejected."""
        return self._learn(kind, await self._server.create(kind, namespace, obj))

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace the object or its subresource. Raises StatusError if rejected or stale."""
        return self._learn(kind, await self._server.update(kind, obj, subresource=subresource))

    async def change(
        self,
        kind: Kind,
        key: Key,
        uid: str,
        edit: Callable[[Obj], Obj | None],
        *,
        subresource: str = "",
    ) -> Obj | None:
        """Read, edit and write the object with that UID, retrying on conflicts.

        `edit` returns the new object, or None to leave it unchanged. Returns None if the object no
        longer exists or `edit` left it unchanged.
        """
        while True:
            present = await self._server.get(kind, *key)
            if present is None or present["metadata"]["uid"] != uid:
                return None
            wanted = edit(present)
            if wanted is None:
                return None
            try:
                return await self.update(kind, wanted, subresource=subresource)
            except StatusError as error:
                if error.code not in (404, 409):
                    raise

    async def delete(
        self,
        kind: Kind,
        obj: Obj,
        *,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete the object; it is not an error if it no longer exists."""
        try:
            left = await self._server.delete(
                kind, obj, grace_seconds=grace_seconds, propagation=propagation
            )
        except StatusError as error:
            # 409: another object has that name now, so ours is deleted already.
            if error.code not in (404, 409):
                raise
            left = None
        if left is not None:
            self._learn(kind, left)
        elif kind in self._caches:
            self._caches[kind].forget(obj)

    def _learn(self, kind: Kind, obj: Obj) -> Obj:
        if kind in self._caches:
            self._caches[kind].observe("MODIFIED", obj)
        return obj

    async def _follow(self, kind: Kind) -> None:
        cache = self._caches[kind]
        while True:
            try:
                watch = await self._server.watch(kind)
                cache.replace(watch.items)
                self._synced[kind].set()
                async for change, obj in watch.events:
                    cache.observe(change, obj)
            except StatusError as error:
                log.info("watch broke, listing again", kind=kind.plural, error=str(error))
            await self._clock.sleep(RELIST_SECONDS)
