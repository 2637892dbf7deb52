"""What the scheduler needs of an API server, as narrow as its parts use it."""

from __future__ import annotations

from typing import Protocol

from kube.client.meta import Json
from kube.client.object_client import Creator, Deleter, Getter, StatusPatcher
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource
from kube.events.events import EventType, ObjectReference
from scheduler.core.values.extended_devices import ContainerDevices


class ReservationApi(Creator, Deleter, Protocol):
    """Stores, lists and deletes Reservations. Raises kube.base.errors."""

    async def list(self, resource: Resource, namespace: str | None = None) -> Json: ...


class PodDeleter(Getter, Deleter, Protocol):
    """Gets and deletes pods. Raises kube.base.errors."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None: ...


class BinderApi(PodDeleter, ReservationApi, Protocol):
    """Binds pods, gets one, deletes one; and Reservations. Raises kube.base.errors."""

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None: ...


class VolumeBinderApi(Getter, StatusPatcher, Protocol):
    """Gets and patches claims and volumes. Raises kube.base.errors."""


class ClaimApi(Getter, Creator, StatusPatcher, Deleter, Protocol):
    """Gets, creates, patches and deletes ResourceClaims. Raises kube.base.errors."""

    async def patch_unread(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> bytes: ...


class ContainersOfPods(Protocol):
    """What waiting pods say of extended resources."""

    def containers_of(self, uid: str) -> tuple[ContainerDevices, ...]: ...

    def claim_said(self, uid: str) -> str: ...


class EvictorApi(PodDeleter, StatusPatcher, Protocol):
    """Gets and marks pods and groups, deletes pods. Raises kube.base.errors."""


class EventRecorder(Protocol):
    """Takes events; never blocks."""

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None: ...
