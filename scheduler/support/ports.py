"""The scheduler's interfaces to an API server, each as narrow as its user needs."""

from __future__ import annotations

from typing import Protocol

from kube.client.meta import Json
from kube.client.object_client import Creator, Deleter, Getter, StatusPatcher
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource
from kube.events.events import EventType, ObjectReference
from scheduler.core.values.extended_devices import ContainerDevices, RequestMapping


class ReservationApi(Creator, Deleter, Protocol):
    """Create, list and delete Reservations. Raises kube.base.errors."""

    async def list(self, resource: Resource, namespace: str | None = None) -> Json: ...


class PodDeleter(Getter, Deleter, Protocol):
    """Get and delete pods. Raises kube.base.errors."""

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
    """Bind, get and delete pods; store Reservations. Raises kube.base.errors."""

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None: ...


class VolumeBinderApi(Getter, StatusPatcher, Protocol):
    """Get and patch claims and volumes. Raises kube.base.errors."""


class ClaimApi(Getter, Creator, StatusPatcher, Deleter, Protocol):
    """Get, create, patch and delete ResourceClaims. Raises kube.base.errors."""

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
    """The requests of waiting pods for extended resources."""

    def containers_of(self, uid: str) -> tuple[ContainerDevices, ...]: ...

    def claim_in_status(self, uid: str) -> tuple[str, tuple[RequestMapping, ...]]: ...


class EvictorApi(PodDeleter, StatusPatcher, Protocol):
    """Get pods, patch the status of pods and groups, delete pods. Raises kube.base.errors."""


class EventRecorder(Protocol):
    """A sink for events that never blocks."""

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None: ...
