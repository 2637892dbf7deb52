"""`muster gc`: looks for what deletions left over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api import constants
from cli.leftovers import Cluster, Finding, leftovers
from kube.client import Client
from kube.errors import NotFound
from kube.resources import JOBS, JOBSETS, PODS, Resource

_OWNERS = (
    JOBS,
    JOBSETS,
    Resource(*constants.COSCHEDULING),
    Resource(*constants.PLUGINS_POD_GROUP),
)


async def check(client: Client, namespace: str | None = None) -> list[Finding]:
    """What is left over in a namespace, or in all. Raises kube errors."""
    kinds = (constants.WORKLOAD, constants.COMPOSITE_POD_GROUP, constants.POD_GROUP)
    # Dependents first: an owner made meanwhile is then known, one that went is not missed.
    workloads, composites, pod_groups = [
        await _items(client, Resource(*kind), namespace) for kind in kinds
    ]
    pods, *owners = await asyncio.gather(
        *(_items(client, resource, namespace) for resource in (PODS, *_OWNERS))
    )
    made_for = [owner for some in owners for owner in some]
    found = Cluster(made_for, workloads, composites, pod_groups, pods)
    return leftovers(found, datetime.now(UTC))


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
