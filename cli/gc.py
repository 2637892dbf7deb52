"""`muster gc`: looks for what deletions left over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cli.leftovers import Finding, leftovers
from controllers.remains import GENERATED, OWNERS
from controllers.world import World
from kube.client import Client
from kube.errors import NotFound
from kube.resources import PODS, Resource


async def check(client: Client, namespace: str | None = None) -> list[Finding]:
    """What is left over in a namespace, or in all. Raises kube errors."""
    world = World()
    # Dependents first: an owner made meanwhile is then known, one that went is not missed.
    for resource in (*GENERATED, PODS, *OWNERS[1:]):
        cache, decode = world.feeds[resource]
        for item in await _items(client, resource, namespace):
            cache.upsert(decode(msgspec.json.encode(item)))
    return leftovers(world, datetime.now(UTC))


async def check_with(kubeconfig: Path | None, namespace: str | None) -> list[Finding]:
    """The same on the cluster of a kubeconfig. Raises kube errors."""
    async with await Client.connect(kubeconfig, user_agent="muster-gc") as client:
        return await check(client, namespace)


async def _items(client: Client, resource: Resource, namespace: str | None) -> list[dict[str, Any]]:
    try:
        answer = await client.list(resource, namespace)
    except NotFound:  # the kind is not installed
        return []
    return list(answer["items"])
