"""The objects of the cluster, by watches that all lives share; each life sees its namespace."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS, Json
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.resources import JOBS, JOBSETS, PODS, Resource
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector

KINDS = (JOBSETS, JOBS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)
_BY_NAMESPACE = "namespace"

Listener = Callable[[Resource, Json | None, Json | None], None]
"""Callback with a kind and an object before and after a change; None means absent."""


class Watched:
    """The objects of all lives as delivered by the watches."""

    def __init__(self) -> None:
        self._caches: dict[Resource, Cache[RawObject]] = {kind: Cache() for kind in KINDS}
        self._listeners: dict[str, Listener] = {}
        self._changed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        for kind, cache in self._caches.items():
            cache.add_index(_BY_NAMESPACE, lambda each: (each.metadata.namespace,))
            cache.subscribe(self._listener(kind))

    @asynccontextmanager
    async def followed(self, client: Client) -> AsyncIterator["Watched"]:
        """Keep the objects synced during the block."""
        reflectors = [
            Reflector(client, kind, cache, decode=decode_raw)
            for kind, cache in self._caches.items()
        ]
        tasks = [asyncio.ensure_future(each.run()) for each in reflectors]
        try:
            await asyncio.gather(*(each.synced.wait() for each in reflectors))
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def listen(self, namespace: str, listener: Listener) -> None:
        self._listeners[namespace] = listener

    def forget(self, namespace: str) -> None:
        self._listeners.pop(namespace, None)
        self._changed.pop(namespace, None)

    def there(self, kind: Resource, namespace: str) -> Iterator[Json]:
        for each in self._caches[kind].by_index(_BY_NAMESPACE, namespace):
            yield each.raw

    def get(self, kind: Resource, namespace: str, name: str) -> Json | None:
        found = self._caches[kind].get(namespace, name)
        return None if found is None else found.raw

    async def changes(self, namespace: str, seconds: float) -> bool:
        """Wait up to that long for the next change in the namespace.

        Return True if there was one.
        """
        event = self._changed[namespace]
        event.clear()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    def _listener(self, kind: Resource) -> Callable[[RawObject | None, RawObject | None], None]:
        def note(old: RawObject | None, new: RawObject | None) -> None:
            either = new or old
            if either is None:
                return
            namespace = either.metadata.namespace
            if listener := self._listeners.get(namespace):
                listener(kind, None if old is None else old.raw, None if new is None else new.raw)
            if namespace in self._changed:
                self._changed[namespace].set()

        return note
