"""Lists of the objects from which the trees are drawn."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from api import constants
from cli.trees.tree import Objects
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS, NODES, PODS, Resource

WORKLOADS = Resource(*constants.WORKLOAD)
POD_GROUPS = Resource(*constants.POD_GROUP)
COMPOSITE_POD_GROUPS = Resource(*constants.COMPOSITE_POD_GROUP)
DRAWN: Final = (JOBSETS, JOBS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)


async def list_objects(
    client: Client, namespace: str | None = None, *, nodes: bool = True
) -> Objects:
    """List JobSets, Jobs, groups, pods (of `namespace`, or of all) and `nodes` concurrently.

    A kind that the cluster does not serve (JobSet not installed) counts as empty.
    """
    resources = (*DRAWN, *((NODES,) if nodes else ()))
    lists = await asyncio.gather(*(list_items(client, it, namespace) for it in resources))
    return Objects(*lists)


async def list_items(
    client: Client, resource: Resource, namespace: str | None
) -> list[dict[str, Any]]:
    """List the items of one kind; none for a kind that the cluster does not serve."""
    try:
        answer = await client.list(resource, namespace if resource.namespaced else None)
    except NotFound:
        return []
    return list(answer["items"])
