"""The objects that a review needs in addition to its own: a lister, and the informers behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from api import features
from api.constants import COMPOSITE_POD_GROUP, NATIVE_POD_GROUP, POD_GROUP, WORKLOAD
from api.features import Feature, FeatureGates
from api.integration.common.native import MUSTER_ONLY, GroupsApi, NativeApi
from api.integration.common.workloads import OwnerName
from api.membership import NO_OWNERS, Owners, belongs, current_name, known_as
from api.ownership import OwnerId, created_for
from api.priority import DEFAULT_PREEMPTION_POLICY, PriorityClass
from api.scheduler_names import USUAL, SchedulerNames
from kube.base.clock import Clock, SystemClock
from kube.client.client import Client
from kube.client.decoding import Decoder
from kube.client.discovery import PROBE_SECONDS, Discovery
from kube.client.meta import Identity
from kube.client.resources import PRIORITY_CLASSES
from kube.informers.cache import Cache
from kube.informers.quarantine import Quarantine
from kube.informers.reflector import Delivery, Reflector
from webhooks.cache.kept_fields import KeptFields
from webhooks.cache.workloads import NotedMeta, WorkloadCache, decode_workload


class Lister(Protocol):
    """Reads from the informer caches, which may be slightly behind the API server."""

    @property
    def scheduler_names(self) -> SchedulerNames:
        """The configured names of Muster's scheduler."""

    @property
    def gates(self) -> FeatureGates:
        """The features that are on."""

    @property
    def native(self) -> bool:
        """True if `spec.schedulingGroup` of a pod names a PodGroup of Kubernetes' own."""

    @property
    def native_api(self) -> NativeApi:
        """The choice between Muster's groups and Kubernetes' own for new owners."""

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

    def composite(self, namespace: str, name: str) -> GroupObject | None:
        """Return a CompositePodGroup; None if it is missing."""

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        """Return True if a PodGroup is being deleted to which pods with these claims belong."""

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        """Return True if another owner than `owner` (kind, name) has the group of this name."""

    def shared_claims(self, namespace: str, pod_group: str) -> Mapping[str, str]:
        """Return the ResourceClaimTemplates of a PodGroup's claims by entry, if it exists."""


class _PriorityClass(msgspec.Struct, rename="camel", gc=False):
    metadata: Identity
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PriorityClassObject(msgspec.Struct, gc=False):
    """A `scheduling.k8s.io/v1` PriorityClass with its used fields."""

    metadata: Identity
    used: PriorityClass


class _ClaimEntry(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resource_claim_template_name: str | None = None


class _WorkloadReference(msgspec.Struct, rename="camel", gc=False):
    template_name: str = ""


class _GroupSpec(msgspec.Struct, rename="camel", gc=False):
    workload_ref: _WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    resource_claims: list[_ClaimEntry] = []


class _RawGroup(msgspec.Struct, gc=False):
    metadata: NotedMeta
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)


class GroupObject(msgspec.Struct, gc=False):
    """The used fields of a PodGroup or CompositePodGroup.

    `owner` is the one for which Muster created it. `claims` has the ResourceClaimTemplates of the
    claims that its pods share, by entry. `current_name` is another than its name if an earlier
    version of Muster named it: its pods give this one.
    """

    metadata: Identity
    owner: OwnerId | None
    deleting: bool
    parent: str
    claims: Mapping[str, str]
    current_name: str = ""


_NO_CLAIMS: Final[Mapping[str, str]] = {}
_decode_class: Final = Decoder(_PriorityClass)
_decode_group: Final = Decoder(_RawGroup)


_BY_CURRENT_NAME: Final = "current name"
"""The index of PodGroups whose pods name them differently."""


def _current_name_key(group: GroupObject) -> list[Hashable]:
    differs = group.current_name != group.metadata.name
    return [(group.metadata.namespace, group.current_name)] if differs else []


def decode_class(data: bytes) -> PriorityClassObject:
    """Decode a PriorityClass. Raises msgspec.DecodeError."""
    raw = _decode_class(data)
    policy = raw.preemption_policy or DEFAULT_PREEMPTION_POLICY
    used = PriorityClass(raw.metadata.name, raw.value, raw.global_default, policy)
    return PriorityClassObject(raw.metadata, used)


def decode_group(data: bytes) -> GroupObject:
    """Decode a PodGroup or CompositePodGroup. Raises msgspec.DecodeError."""
    raw = _decode_group(data)
    meta, spec = raw.metadata, raw.spec
    entries = ((it.name, it.resource_claim_template_name) for it in spec.resource_claims)
    return GroupObject(
        meta.identity(),
        created_for(meta),
        meta.deletion_timestamp is not None,
        spec.parent_composite_pod_group_name or "",
        # Few PodGroups share claims, so the others take no memory here.
        {name: template for name, template in entries if template} or _NO_CLAIMS,
        current_name(meta, meta.name, spec.workload_ref.template_name if spec.workload_ref else ""),
    )


class ClusterInformers:
    """The `Lister` over the webhook's own informers."""

    def __init__(
        self,
        client: Client,
        quarantine: Quarantine | None = None,
        scheduler_names: SchedulerNames = USUAL,
        gates: FeatureGates = features.USUAL,
        clock: Clock | None = None,
        *,
        groups_api: GroupsApi = GroupsApi.MUSTER,
        namespace: str = "muster-system",
    ) -> None:
        """Create the informers; without `quarantine`, undecodable objects are only logged.

        `groups_api` is the API in which new owners get groups. Dry runs of native groups are
        requested in `namespace`.
        """
        self.scheduler_names = scheduler_names
        self.gates = gates
        self.native = False
        self._groups_api = groups_api
        clock = clock or SystemClock()
        self._kept = KeptFields(client, namespace, clock)
        self._discovery = Discovery(client, {"native": NATIVE_POD_GROUP}, clock)
        # Undecodable objects are skipped. One of them must not keep a cache incomplete, and so stop
        # admission.
        delivery = Delivery(Quarantine() if quarantine is None else quarantine)
        self._classes: Cache[PriorityClassObject] = Cache()
        self._pod_groups: Cache[GroupObject] = Cache()
        self._pod_groups.add_index(_BY_CURRENT_NAME, _current_name_key)
        self._workloads = WorkloadCache()
        self._composites: Cache[GroupObject] = Cache()
        self._reflectors: dict[str, Reflector[Any]] = {
            resource.plural: Reflector(client, resource, sink, decode=decode, delivery=delivery)
            for resource, sink, decode in (
                (PRIORITY_CLASSES, self._classes, decode_class),
                (WORKLOAD, self._workloads, decode_workload),
                (COMPOSITE_POD_GROUP, self._composites, decode_group),
                (POD_GROUP, self._pod_groups, decode_group),
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
            # No owner is admitted before the caches are complete, and its choice is final.
            if self._groups_api is not GroupsApi.MUSTER:
                await self._discover()
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())
            if Feature.NATIVE_GROUPS in self.gates:
                group.create_task(self._follow_native())

    async def _follow_native(self) -> None:
        while True:
            await self._discover()
            await asyncio.sleep(PROBE_SECONDS)

    async def _discover(self) -> None:
        native = bool(await self._discovery.probe())
        if native and self._groups_api is not GroupsApi.MUSTER:
            await self._kept.probe()
        self.native = native

    @property
    def native_api(self) -> NativeApi:
        # Most clusters have Muster's groups only, where no list of classes is needed.
        if self._groups_api is GroupsApi.MUSTER:
            return MUSTER_ONLY
        classes = self.priority_classes()
        return NativeApi(self._groups_api, self.native, self._kept.fields, classes)

    def priority_classes(self) -> Sequence[PriorityClass]:
        return [it.used for it in self._classes.values()]

    def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._workloads.named(namespace, name)

    def workload_of_user(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        return self._workloads.of_user(namespace, owner)

    def workload_of_owner(self, namespace: str, owner: OwnerName) -> Mapping[str, Any] | None:
        return self._workloads.of_owner(namespace, owner)

    def composite(self, namespace: str, name: str) -> GroupObject | None:
        return self._composites.get(namespace, name)

    def pod_group_is_deleting(self, namespace: str, name: str, claims: Owners) -> bool:
        found = self._named(namespace, name)
        if found is None or not found.deleting:
            return False
        return belongs(claims, known_as(found.owner) if found.owner is not None else NO_OWNERS)

    def group_is_taken(self, kind: str, namespace: str, name: str, owner: tuple[str, str]) -> bool:
        composite = kind == COMPOSITE_POD_GROUP.kind
        found = (self._composites if composite else self._pod_groups).get(namespace, name)
        # Compare kind and name without the UID: at its own creation an owner has no UID yet.
        return found is not None and (found.owner is None or found.owner[1:3] != owner)

    def shared_claims(self, namespace: str, pod_group: str) -> Mapping[str, str]:
        found = self._named(namespace, pod_group)
        return _NO_CLAIMS if found is None else found.claims

    def _named(self, namespace: str, name: str) -> GroupObject | None:
        """Return the PodGroup that pods name so."""
        earlier = self._pod_groups.by_index(_BY_CURRENT_NAME, (namespace, name))
        return next(iter(earlier), None) or self._pod_groups.get(namespace, name)
