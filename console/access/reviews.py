"""The user of a token, and the rights of a user, by reviews of the API server.

The account of the console may create TokenReviews and SubjectAccessReviews, and write nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kube.client.client import Client
from kube.client.resources import SUBJECT_ACCESS_REVIEWS, Resource

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
_AT_ONCE: Final = 8
"""Concurrent reviews of tokens and rights."""


@dataclass(frozen=True, slots=True)
class User:
    """A user as the API server knows them; `extra` comes from its authenticator."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Right:
    """The right to list a resource or get an object; without `namespace` in all namespaces."""

    resource: str
    group: str = ""
    namespace: str = ""
    verb: str = "list"
    name: str = ""


class _UserInfo(msgspec.Struct):
    username: str
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo | None = None


class Reviews:
    """Client for reviews, with a limit of concurrent requests."""

    def __init__(self, client: Client) -> None:
        """Store the console's own client: viewers' tokens are never used for requests."""
        self._client = client
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def user(self, token: str) -> User | None:
        """Return the user of a token; None if the API server rejects it. Raises KubeError."""
        response = await self._ask(TOKEN_REVIEWS, {"token": token})
        try:
            status = msgspec.convert(response.get("status") or {}, _TokenStatus)
        except msgspec.ValidationError:
            return None
        found = status.user
        if not status.authenticated or found is None or not found.username:
            return None
        extra = tuple((key, tuple(values)) for key, values in sorted((found.extra or {}).items()))
        return User(found.username, found.uid, tuple(found.groups or ()), extra)

    async def allows(self, user: User, right: Right) -> bool:
        """Return true if the user has the right. Raises KubeError."""
        about = {
            "verb": right.verb,
            "resource": right.resource,
            "group": right.group,
            "namespace": right.namespace,
            "name": right.name,
        }
        spec: dict[str, Any] = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": {key: value for key, value in about.items() if value},
        }
        status = (await self._ask(SUBJECT_ACCESS_REVIEWS, spec)).get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True

    async def _ask(self, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        async with self._limit:
            return await self._client.create(resource, body)
