"""What may be asked of `Client` about single objects, as narrow as its users need it."""

from __future__ import annotations

from typing import Protocol

from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource


class Getter(Protocol):
    """Gets one object. Raises kube.base.errors, NotFound among them."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...


class Creator(Protocol):
    """Creates objects; gives them as stored. Raises kube.base.errors: AlreadyExists, Invalid."""

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json: ...


class Patcher(Protocol):
    """Sends JSON patches; gives the object. Raises NotFound, Conflict, Invalid."""

    async def patch(
        self, resource: Resource, name: str, ops: PatchBuilder, namespace: str | None = None
    ) -> Json: ...


class StatusPatcher(Protocol):
    """The same, of sub-resources too."""

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
    """Deletes one object; with a UID only that one. Raises kube.base.errors."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
    ) -> None: ...


class ObjectClient(Getter, Creator, Patcher, Protocol):
    """Gets, creates and patches objects. Raises kube.base.errors."""
