"""Lists of the objects from which the trees are drawn."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from api import constants
from cli.trees.tree import Objects
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS, NODES, PODS, Resource

WORKLOADS = constants.WORKLOAD
POD_GROUPS = constants.POD_GROUP
COMPOSITE_POD_GROUPS = constants.COMPOSITE_POD_GROUP
NATIVE: Final = constants.NATIVE_GROUP_KINDS
DRAWN: Final = (JOBSETS, JOBS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS, *NATIVE)


async def list_objects(
    client: Client, namespace: str | None = None, *, nodes: bool = True
) -> Objects:
    """List JobSets, Jobs, groups, pods (of `namespace`, or of all) and `nodes` concurrently.

    A kind that the cluster does not serve (JobSet not installed) counts as empty.
    """
    resources = (*DRAWN, *((NODES,) if nodes else ()))
    lists = await asyncio.gather(*(list_items(client, it, namespace) for it in resources))
    return Objects(*lists)


async def get_or_none(
    client: Client, resource: Resource, name: str, namespace: str | None = None
) -> dict[str, Any] | None:
    """Return the object; None if it does not exist, or its kind is not served."""
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


async def list_items(
    client: Client, resource: Resource, namespace: str | None, *, label: str = "", field: str = ""
) -> list[dict[str, Any]]:
    """List the items of one kind, by these selectors; none for a kind that is not served.

    Kubernetes' own groups count as not served if they may not be read.
    """
    where = namespace if resource.namespaced else None
    try:
        response = await client.list(resource, where, label_selector=label, field_selector=field)
    except NotFound:
        return []
    except Forbidden:
        # Roles of earlier versions, and those of many users, do not have Kubernetes' own groups.
        if resource in NATIVE:
            return []
        raise
    return list(response["items"])
