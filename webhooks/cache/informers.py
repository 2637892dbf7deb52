"""What a webhook knows besides the review itself: a lister, and the informers behind it."""

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
    """A CompositePodGroup, the facts in use; `parent` is "" for a root."""

    parent: str = ""
    deleting: bool = False


class Lister(Protocol):
    """Reads from the informer caches, which may be slightly behind the API server."""

    @property
    def scheduler_names(self) -> SchedulerNames:
        """Whose pods are Muster's, as configured."""

    @property
    def gates(self) -> FeatureGates:
        """What is on."""

    def priority_classes(self) -> Sequence[PriorityClass]:
        """All PriorityClasses."""

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The `spec` of a Workload inside an otherwise empty object; None if it is not there."""

    def workload_of_user(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """The Workload (as above) that a user made for the owner; None without, or with several."""

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """The first Workload by name that is for the owner, whoever made it; None without one."""

    def composite(self, namespace: str, name: str) -> Composite | None:
        """A CompositePodGroup; None if it is not there."""

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        """Whether a PodGroup is there and being deleted, to which pods with these claims belong."""

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        """Whether a group of this kind is there that was not made for the owner (kind, name)."""

    def shared_claims(self, namespace: str, pod_group: str) -> Mapping[str, str]:
        """The ResourceClaimTemplates of a PodGroup's claims, by entry; empty if it is not there."""


class HasObjectMeta(Protocol):
    """Anything decoded with its whole metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


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

    def upsert(self, obj: HasObjectMeta) -> None:
        """An object is there; deletion cannot be taken back, but the name can be used again."""
        if obj.metadata.deletion_timestamp is None:
            self._keys.discard(obj.metadata.key)
        else:
            self._keys.add(obj.metadata.key)

    def delete(self, key: Key) -> None:
        """An object is gone."""
        self._keys.discard(key)


class GroupOwners(DeletingObjects):
    """The same, and the owner that each group was made for: a name may belong to another one."""

    def __init__(self) -> None:
        super().__init__()
        self._owners: dict[Key, OwnerId | None] = {}

    def upsert(self, obj: HasObjectMeta) -> None:
        """A group exists: one of ours, made for a Job or JobSet, or one of somebody else's."""
        super().upsert(obj)
        self._owners[obj.metadata.key] = made_for(obj.metadata)

    def delete(self, key: Key) -> None:
        """A group is gone."""
        super().delete(key)
        self._owners.pop(key, None)

    def is_taken(self, key: Key, owner: tuple[str, str]) -> bool:
        """Whether a group of this name exists that was not made for an owner of this name."""
        owner_id = self._owners.get(key)
        return key in self._owners and (owner_id is None or owner_id[1:3] != owner)

    def has_members(self, key: Key, claims: Owners) -> bool:
        """Whether pods with these claims belong to the group of this name."""
        owner_id = self._owners.get(key)
        return belongs(claims, known_as(owner_id) if owner_id is not None else NOBODY)


class ClaimEntry(msgspec.Struct, rename="camel", gc=False):
    """An entry of a PodGroup's `spec.resourceClaims`."""

    name: str = ""
    resource_claim_template_name: str | None = None


class PodGroupSpec(msgspec.Struct, rename="camel", gc=False):
    """The one field of a PodGroup's spec in use."""

    resource_claims: list[ClaimEntry] = []


class PodGroupObject(msgspec.Struct, gc=False):
    """A PodGroup as it is watched."""

    metadata: ObjectMeta
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)


class PodGroups:
    """Sink of PodGroups: the owner that each was made for, and the claims that its pods share."""

    def __init__(self) -> None:
        self.owners = GroupOwners()
        self._claims: dict[Key, dict[str, str]] = {}

    def shared_claims(self, key: Key) -> Mapping[str, str]:
        """The templates of its claims, by entry."""
        return self._claims.get(key, {})

    def upsert(self, obj: PodGroupObject) -> None:
        """A PodGroup is there, as it is now."""
        self.owners.upsert(obj)
        found = ((it.name, it.resource_claim_template_name) for it in obj.spec.resource_claims)
        claims = {name: template for name, template in found if template}
        if claims:
            self._claims[obj.metadata.key] = claims
        else:
            self._claims.pop(obj.metadata.key, None)

    def delete(self, key: Key) -> None:
        """A PodGroup is gone."""
        self.owners.delete(key)
        self._claims.pop(key, None)


class CompositeSpec(msgspec.Struct, rename="camel", gc=False):
    """The one field of a composite's spec in use."""

    parent_composite_pod_group_name: str | None = None


class CompositeObject(msgspec.Struct, gc=False):
    """A CompositePodGroup as it is watched."""

    metadata: ObjectMeta
    spec: CompositeSpec = msgspec.field(default_factory=CompositeSpec)


class Composites:
    """Sink of CompositePodGroups: their parents, and the owner that each was made for."""

    def __init__(self) -> None:
        self._parents: dict[Key, str] = {}
        self._owners = GroupOwners()

    def get(self, key: Key) -> Composite | None:
        """What is known of one; None if it is not there."""
        parent = self._parents.get(key)
        return None if parent is None else Composite(parent, key in self._owners)

    def is_taken(self, key: Key, owner: tuple[str, str]) -> bool:
        """Whether a composite of this name exists that was not made for an owner of this name."""
        return self._owners.is_taken(key, owner)

    def upsert(self, obj: CompositeObject) -> None:
        """A composite is there, as it is now."""
        self._owners.upsert(obj)
        self._parents[obj.metadata.key] = obj.spec.parent_composite_pod_group_name or ""

    def delete(self, key: Key) -> None:
        """A composite is gone."""
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
        """Without `quarantine`, objects that are left out are logged only."""
        self.scheduler_names = scheduler_names
        self.gates = gates
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
        """For each resource (its plural): set once the first list of it is known.

        Before that no object of it may be taken for missing, or for not being deleted.
        """
        return {plural: reflector.synced for plural, reflector in self._reflectors.items()}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    def priority_classes(self) -> Sequence[PriorityClass]:
        """All PriorityClasses."""
        return self._classes.all()

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The `spec` of a Workload inside an otherwise empty object; None if it is not there."""
        return self._workloads.named(namespace, name)

    def workload_of_user(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """The Workload that a user made for the owner; None without, or with several."""
        return self._workloads.of_user(namespace, owner)

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        """The first Workload by name that is for the owner, whoever made it; None without one."""
        return self._workloads.of_owner(namespace, owner)

    def composite(self, namespace: str, name: str) -> Composite | None:
        """A CompositePodGroup; None if it is not there."""
        return self._composites.get((namespace, name))

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        """Whether a PodGroup is there and being deleted, to which pods with these claims belong."""
        key = (namespace, name)
        return key in self._pod_groups.owners and self._pod_groups.owners.has_members(key, claims)

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        """Whether a group of this kind is there that was not made for the owner (kind, name)."""
        if kind == COMPOSITE_POD_GROUP.kind:
            return self._composites.is_taken((namespace, name), owner)
        return self._pod_groups.owners.is_taken((namespace, name), owner)

    def shared_claims(self, namespace: str, pod_group: str) -> Mapping[str, str]:
        """The ResourceClaimTemplates of a PodGroup's claims, by entry; empty if it is not there."""
        return self._pod_groups.shared_claims((namespace, pod_group))
