"""What the scheduler needs of an API server, as narrow as its parts use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kube.events import EventType, ObjectReference
from kube.meta import Json
from kube.patch import Operation, PatchBuilder
from kube.resources import Resource


class Getter(Protocol):
    """Gets one object. Raises kube.errors."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...


class Patcher(Protocol):
    """Sends JSON patches. Raises kube.errors."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json: ...


class Deleter(Protocol):
    """Deletes one object; with a UID only that one. Raises kube.errors."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
    ) -> None: ...


class ReservationApi(Deleter, Protocol):
    """Stores, lists and deletes Reservations. Raises kube.errors."""

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json: ...

    async def list(self, resource: Resource, namespace: str | None = None) -> Json: ...


class BinderApi(ReservationApi, Getter, Protocol):
    """Binds pods, gets one, deletes one; and Reservations. Raises kube.errors."""

    async def bind(
        self, namespace: str, pod: str, uid: str, node: str, *, throttle_retries: int = 0
    ) -> None: ...


class VolumeBinderApi(Getter, Patcher, Protocol):
    """Gets and patches claims and volumes. Raises kube.errors."""


class EvictorApi(Getter, Patcher, Deleter, Protocol):
    """Gets and marks pods and groups, deletes pods. Raises kube.errors."""


class EventRecorder(Protocol):
    """Takes events; never blocks."""

    def event(
        self, regarding: ObjectReference, event_type: EventType, reason: str, message: str
    ) -> None: ...
