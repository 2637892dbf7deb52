"""What a webhook may know beside the review itself: the port, and the cluster behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from api.constants import COMPOSITE_POD_GROUP
from api.priority import DEFAULT_PREEMPTION_POLICY, PriorityClass
from kube.client import Client
from kube.meta import Key, ObjectMeta, Partial, decode_partial
from kube.reflector import Reflector
from kube.resources import PRIORITY_CLASSES, Resource


class World(Protocol):
    """The cluster as the webhook's caches have it."""

    def priority_classes(self) -> Sequence[PriorityClass]:
        """All PriorityClasses."""

    def composite_is_deleting(self, namespace: str, name: str) -> bool:
        """Whether a CompositePodGroup is there and being deleted."""


class PriorityClassObject(msgspec.Struct, rename="camel", gc=False):
    """A `scheduling.k8s.io/v1` PriorityClass, the fields in use."""

    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PriorityClasses:
    """Sink of PriorityClasses."""

    def __init__(self) -> None:
        self._by_name: dict[str, PriorityClass] = {}
        self._all: tuple[PriorityClass, ...] = ()

    def all(self) -> Sequence[PriorityClass]:
        """All of them, made once for each change and not for each review."""
        return self._all

    def upsert(self, obj: PriorityClassObject) -> None:
        """A class is there, as it is now."""
        self._by_name[obj.metadata.name] = PriorityClass(
            obj.metadata.name,
            obj.value,
            obj.global_default,
            obj.preemption_policy or DEFAULT_PREEMPTION_POLICY,
        )
        self._all = tuple(self._by_name.values())

    def delete(self, key: Key) -> None:
        """A class is gone."""
        self._by_name.pop(key[1], None)
        self._all = tuple(self._by_name.values())


class DeletingObjects:
    """Sink of any kind that remembers which objects are being deleted."""

    def __init__(self) -> None:
        self._keys: set[Key] = set()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def upsert(self, obj: Partial) -> None:
        """An object is there; deletion cannot be taken back, but the name can be used again."""
        if obj.metadata.deletion_timestamp is None:
            self._keys.discard(obj.metadata.key)
        else:
            self._keys.add(obj.metadata.key)

    def delete(self, key: Key) -> None:
        """An object is gone."""
        self._keys.discard(key)


class ClusterWorld:
    """The cluster, watched."""

    def __init__(self, client: Client) -> None:
        self._classes = PriorityClasses()
        self._deleting = DeletingObjects()
        self._reflector = Reflector(
            client,
            PRIORITY_CLASSES,
            self._classes,
            decode=msgspec.json.Decoder(PriorityClassObject).decode,
        )
        self._composites = Reflector(
            client,
            Resource(*COMPOSITE_POD_GROUP),
            self._deleting,
            decode=decode_partial,
        )

    @property
    def synced(self) -> asyncio.Event:
        """Set once all PriorityClasses are known: before that none may be called unknown.

        Composites do not count: their CRD may come later than this process.
        """
        return self._reflector.synced

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            group.create_task(self._composites.run())

    def priority_classes(self) -> Sequence[PriorityClass]:
        """All PriorityClasses."""
        return self._classes.all()

    def composite_is_deleting(self, namespace: str, name: str) -> bool:
        """Whether a CompositePodGroup is there and being deleted."""
        return (namespace, name) in self._deleting
