"""What the scheduler needs of the world outside, as narrow as its parts use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from kube.errors import (
    ConfigError,
    LeaseLost,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kube.events import EventType, ObjectReference
from kube.meta import Json
from kube.patch import Operation, PatchBuilder
from kube.resources import Resource

LATER: Final = (Unreachable, ServerError, TooManyRequests, Unauthorized, ConfigError, LeaseLost)
"""Not the fault of what was asked: the same again may do, as long as the lease is held."""


class Stores(Protocol):
    """Objects of one's own, whole. Raises kube.errors."""

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json: ...

    async def list(self, resource: Resource, namespace: str | None = None) -> Json: ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
    ) -> None: ...


class Binds(Stores, Protocol):
    """Binding pods, looking one up, deleting one. Raises kube.errors."""

    async def bind(
        self, namespace: str, pod: str, uid: str, node: str, *, throttle_retries: int = 0
    ) -> None: ...

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...


class Patches(Protocol):
    """JSON patches. Raises kube.errors."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json: ...


class Evicts(Patches, Protocol):
    """Looking at objects, marking them, deleting pods. Raises kube.errors."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
    ) -> None: ...


class Tells(Protocol):
    """Events; never blocks."""

    def event(
        self, regarding: ObjectReference, event_type: EventType, reason: str, message: str
    ) -> None: ...
