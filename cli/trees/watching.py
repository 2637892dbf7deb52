"""The objects from which the trees are drawn, while they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cli.trees.listing import DRAWN, NATIVE
from cli.trees.tree import Objects
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector

_CALM_SECONDS: Final = 0.5
"""Seconds for which changes are collected before they are shown together."""


async def watch_objects(
    client: Client, namespace: str | None, show: Callable[[Objects], None]
) -> None:
    """Call `show` with the same objects without nodes, and again after changes, until cancelled.

    A kind that the cluster does not serve at first counts as empty. Raises kube errors of the first
    requests; later, watches survive errors.
    """
    changed = asyncio.Event()
    caches: list[Cache[RawObject]] = []
    following = []
    synced = []
    for resource in DRAWN:
        cache = Cache[RawObject]()
        cache.subscribe(lambda _old, _new: changed.set())
        caches.append(cache)
        try:
            await client.request("GET", resource.path(namespace), params={"limit": "1"})
        except NotFound:
            continue
        except Forbidden:
            if resource in NATIVE:
                continue
            raise
        one = Reflector(client, resource, cache, decode=decode_raw, namespace=namespace)
        synced.append(one.synced)
        following.append(asyncio.create_task(one.run()))
    try:
        for event in synced:
            await event.wait()
        while True:
            changed.clear()
            show(Objects(*([obj.raw for obj in cache.values()] for cache in caches)))
            await changed.wait()
            await asyncio.sleep(_CALM_SECONDS)
    finally:
        for task in following:
            task.cancel()
