"""The objects that a review needs in addition to its own: a lister, and the informers behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from api import features
from api.constants import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    WORKLOAD,
)
from api.features import FeatureGates
from api.integration.common.workloads import OwnerName
from api.membership import NOBODY, Owners, belongs, known_as
from api.ownership import OwnerId, made_for
from api.priority import DEFAULT_PREEMPTION_POLICY, PriorityClass
from api.scheduler_names import USUAL, SchedulerNames
from kube.client.client import Client
from kube.client.decoding import Decoder
from kube.client.meta import Key, ObjectMeta
from kube.client.resources import PRIORITY_CLASSES, Resource
from kube.informers.quarantine import Quarantine
from kube.informers.reflector import Delivery, Reflector
from webhooks.cache.workloads import WorkloadCache, decode_workload


@dataclass(frozen=True, slots=True)
class Composite:
    """The used fields of a CompositePodGroup; `parent` is empty for a root."""

    parent: str = ""
    deleting: bool = False


class Lister(Protocol):
    """Reads from the informer caches, which may be slightly behind the API server."""

    @property
    def scheduler_names(self) -> SchedulerNames:
        """The configured names of Muster's scheduler."""

    @property
    def gates(self) -> FeatureGates:
        """The features that are on."""

    def priority_classes(self) -> Sequence[PriorityClass]:
        """Return all PriorityClasses."""

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the `spec` of a Workload in an otherwise empty object; None if it is missing."""

    def workload_of_user(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """Return the Workload, as above, that a user created for the owner.

        Returns None if there is none, or several.
        """

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """Return the first Workload by name for the owner, of any creator; None without one."""

    def composite(self, namespace: str, name: str) -> Composite | None:
        """Return a CompositePodGroup; None if it is missing."""

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        """Return True if a PodGroup is being deleted to which pods with these claims belong."""

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        """Return True if another owner than `owner` (kind, name) has the group of this name."""

    def shared_claims(self, namespace: str, pod_group: str) -> Mapping[str, str]:
        """Return the ResourceClaimTemplates of a PodGroup's claims by entry, if it exists."""


class HasObjectMeta(Protocol):
    """An object that is decoded with its complete metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


class PriorityClassObject(msgspec.Struct, rename="camel", gc=False):
    """The used fields of a `scheduling.k8s.io/v1` PriorityClass."""

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
        """Return all PriorityClasses."""
        # Built once for each change, as classes change rarely and each review of a group reads
        # them.
        return self._all

    def upsert(self, obj: PriorityClassObject) -> None:
        """Store the current state of a class."""
        self._by_name[obj.metadata.name] = PriorityClass(
            obj.metadata.name,
            obj.value,
            obj.global_default,
            obj.preemption_policy or DEFAULT_PREEMPTION_POLICY,
        )
        self._all = tuple(self._by_name.values())

    def delete(self, key: Key) -> None:
        """Remove a deleted class."""
        self._by_name.pop(key[1], None)
        self._all = tuple(self._by_name.values())


class DeletingObjects:
    """Sink of any kind that records which objects are being deleted."""

    def __init__(self) -> None:
        self._keys: set[Key] = set()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def upsert(self, obj: HasObjectMeta) -> None:
        """Record whether an object is being deleted."""
        # Deletion cannot be undone, but a new object may have the name.
        if obj.metadata.deletion_timestamp is None:
            self._keys.discard(obj.metadata.key)
        else:
            self._keys.add(obj.metadata.key)

    def delete(self, key: Key) -> None:
        """Remove a deleted object."""
        self._keys.discard(key)


class GroupOwners(DeletingObjects):
    """Sink of groups that also records the owner for which each group was created."""

    def __init__(self) -> None:
        super().__init__()
        self._owners: dict[Key, OwnerId | None] = {}

    def upsert(self, obj: HasObjectMeta) -> None:
        """Record a group of Muster's or of another client."""
        super().upsert(obj)
        self._owners[obj.metadata.key] = made_for(obj.metadata)

    def delete(self, key: Key) -> None:
        """Remove a deleted group."""
        super().delete(key)
        self._owners.pop(key, None)

    def is_taken(self, key: Key, owner: tuple[str, str]) -> bool:
        """Return True if another owner than this one has the group of this name."""
        # Compare kind and name without the UID: at its own creation an owner has no UID yet.
        owner_id = self._owners.get(key)
        return key in self._owners and (owner_id is None or owner_id[1:3] != owner)

    def has_members(self, key: Key, claims: Owners) -> bool:
        """Return True if pods with these claims belong to the group of this name."""
        owner_id = self._owners.get(key)
        return belongs(claims, known_as(owner_id) if owner_id is not None else NOBODY)


class ClaimEntry(msgspec.Struct, rename="camel", gc=False):
    """An entry of a PodGroup's `spec.resourceClaims`."""

    name: str = ""
    resource_claim_template_name: str | None = None


class PodGroupSpec(msgspec.Struct, rename="camel", gc=False):
    """The only used field of a PodGroup's spec."""

    resource_claims: list[ClaimEntry] = []


class PodGroupObject(msgspec.Struct, gc=False):
    """A PodGroup as it is watched."""

    metadata: ObjectMeta
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)


class PodGroups:
    """Sink of PodGroups: the owner of each, and the claims that its pods share."""

    def __init__(self) -> None:
        self.owners = GroupOwners()
        self._claims: dict[Key, dict[str, str]] = {}

    def shared_claims(self, key: Key) -> Mapping[str, str]:
        """Return the templates of a PodGroup's claims by entry."""
        return self._claims.get(key, {})

    def upsert(self, obj: PodGroupObject) -> None:
        """Store the current state of a PodGroup."""
        self.owners.upsert(obj)
        found = ((it.name, it.resource_claim_template_name) for it in obj.spec.resource_claims)
        claims = {name: template for name, template in found if template}
        # Few PodGroups share claims, so the others take no memory here.
        if claims:
            self._claims[obj.metadata.key] = claims
        else:
            self._claims.pop(obj.metadata.key, None)

    def delete(self, key: Key) -> None:
        """Remove a deleted PodGroup."""
        self.owners.delete(key)
        self._claims.pop(key, None)


class CompositeSpec(msgspec.Struct, rename="camel", gc=False):
    """The only used field of a CompositePodGroup's spec."""

    parent_composite_pod_group_name: str | None = None


class CompositeObject(msgspec.Struct, gc=False):
    """A CompositePodGroup as it is watched."""

    metadata: ObjectMeta
    spec: CompositeSpec = msgspec.field(default_factory=CompositeSpec)


class Composites:
    """Sink of CompositePodGroups: their parents, and the owner of each."""

    def __init__(self) -> None:
        self._parents: dict[Key, str] = {}
        self._owners = GroupOwners()

    def get(self, key: Key) -> Composite | None:
        """Return the known fields of a CompositePodGroup; None if it is missing."""
        # None means a missing CompositePodGroup: a root has an empty parent.
        parent = self._parents.get(key)
        return None if parent is None else Composite(parent, key in self._owners)

    def is_taken(self, key: Key, owner: tuple[str, str]) -> bool:
        """Return True if another owner than this one has the CompositePodGroup."""
        return self._owners.is_taken(key, owner)

    def upsert(self, obj: CompositeObject) -> None:
        """Store the current state of a CompositePodGroup."""
        self._owners.upsert(obj)
        self._parents[obj.metadata.key] = obj.spec.parent_composite_pod_group_name or ""

    def delete(self, key: Key) -> None:
        """Remove a deleted CompositePodGroup."""
        self._owners.delete(key)
        self._parents.pop(key, None)


_decode_class: Final = Decoder(PriorityClassObject)
_decode_composite: Final = Decoder(CompositeObject)
decode_pod_group: Final = Decoder(PodGroupObject)


class ClusterInformers:
    """The lister over the webhook's own informers."""

    def __init__(
        self,
        client: Client,
        quarantine: Quarantine | None = None,
        scheduler_names: SchedulerNames = USUAL,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Create the informers; without `quarantine`, undecodable objects are only logged."""
        self.scheduler_names = scheduler_names
        self.gates = gates
        # Undecodable objects are skipped. One of them must not keep a cache incomplete, and so stop
        # admission.
        delivery = Delivery(Quarantine() if quarantine is None else quarantine)
        self._classes = PriorityClasses()
        self._pod_groups = PodGroups()
        self._workloads = WorkloadCache()
        self._composites = Composites()
        self._reflectors: dict[str, Reflector[Any]] = {
            resource.plural: Reflector(client, resource, sink, decode=decode, delivery=delivery)
            for resource, sink, decode in (
                (PRIORITY_CLASSES, self._classes, _decode_class),
                (Resource(*WORKLOAD), self._workloads, decode_workload),
                (Resource(*COMPOSITE_POD_GROUP), self._composites, _decode_composite),
                (Resource(*POD_GROUP), self._pod_groups, decode_pod_group),
            )
        }

    @property
    def synced(self) -> Mapping[str, asyncio.Event]:
        """The event of each resource, by its plural, that is set after its first list.

        Before that, an object that is not in the cache may exist, or be in deletion.
        """
        return {plural: reflector.synced for plural, reflector in self._reflectors.items()}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    def priority_classes(self) -> Sequence[PriorityClass]:
        """Return all PriorityClasses."""
        return self._classes.all()

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the `spec` of a Workload in an otherwise empty object; None if it is missing."""
        return self._workloads.named(namespace, name)

    def workload_of_user(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """Return the Workload that a user created for the owner; None without, or with several."""
        return self._workloads.of_user(namespace, owner)

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """Return the first Workload by name for the owner, of any creator; None without one."""
        return self._workloads.of_owner(namespace, owner)

    def composite(self, namespace: str, name: str) -> Composite | None:
        """Return a CompositePodGroup; None if it is missing."""
        return self._composites.get((namespace, name))

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        """Return True if a PodGroup is being deleted to which pods with these claims belong."""
        key = (namespace, name)
        return key in self._pod_groups.owners and self._pod_groups.owners.has_members(key, claims)

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        """Return True if another owner than `owner` (kind, name) has the group of this name."""
        if kind == COMPOSITE_POD_GROUP.kind:
            return self._composites.is_taken((namespace, name), owner)
        return self._pod_groups.owners.is_taken((namespace, name), owner)

    def shared_claims(self, namespace: str, pod_group: str) -> Mapping[str, str]:
        """Return the ResourceClaimTemplates of a PodGroup's claims by entry, if it exists."""
        return self._pod_groups.shared_claims((namespace, pod_group))
