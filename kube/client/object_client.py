"""The methods of `Client` for single objects as interfaces, as narrow as their users need."""

from __future__ import annotations

from typing import Protocol

from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource


class Getter(Protocol):
    """Get one object. Raises kube.base.errors, NotFound among them."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...


class Creator(Protocol):
    """Create objects; return them as stored. Raises kube.base.errors: AlreadyExists, Invalid."""

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json: ...


class Patcher(Protocol):
    """Send JSON patches, and return the object. Raises NotFound, Conflict, Invalid."""

    async def patch(
        self, resource: Resource, name: str, ops: PatchBuilder, namespace: str | None = None
    ) -> Json: ...


class StatusPatcher(Protocol):
    """Send JSON patches of objects and of subresources."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json: ...


class Deleter(Protocol):
    """Delete one object, with a UID only that one. Raises kube.base.errors."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
    ) -> None: ...


class ObjectClient(Getter, Creator, Patcher, Protocol):
    """Get, create and patch objects. Raises kube.base.errors."""
