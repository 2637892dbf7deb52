"""The kinds that an API server serves."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kube.base.errors import NotFound, ServerError
from kube.client.client import Client
from kube.client.resources import Resource

Object = dict[str, Any]


async def served(client: Client) -> list[Resource]:
    """Return every kind whose objects can be listed and deleted, once, in its preferred version.

    A group whose own server does not respond is left out. Raises kube errors.
    """
    found: dict[tuple[str, str], Resource] = {}
    paths = ["/api/v1", *await _paths(client)]
    for resources in await asyncio.gather(*(_resources(client, path) for path in paths)):
        for resource in resources:
            found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())


async def _paths(client: Client) -> list[str]:
    """Return `/apis/GROUP/VERSION` for each group, the preferred version first."""
    paths = []
    for group in (await _get(client, "/apis"))["groups"]:
        preferred = group["preferredVersion"]["groupVersion"]
        versions = [version["groupVersion"] for version in group["versions"]]
        paths += sorted((f"/apis/{it}" for it in versions), key=lambda p: not p.endswith(preferred))
    return paths


async def _resources(client: Client, path: str) -> list[Resource]:
    try:
        response = await _get(client, path)
    except (NotFound, ServerError):
        return []
    group, _, version = str(response["groupVersion"]).rpartition("/")
    return [
        Resource(group, version, it["name"], it["kind"], bool(it["namespaced"]))
        for it in response.get("resources") or ()
        if "/" not in it["name"] and {"list", "delete"} <= set(it.get("verbs") or ())
    ]


async def _get(client: Client, path: str) -> Object:
    response: Object = msgspec.json.decode(await client.request("GET", path))
    return response
