"""Volumes as the scheduler watches them: claims, volumes, classes, and what nodes can attach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kube.client import Client
from kube.meta import Key
from kube.quantity import QuantityError, parse_value
from kube.reflector import Reflector
from kube.resources import PVCS, PVS, Resource
from scheduler.core.model import ClaimInfo, Expression, StorageClassInfo, Term, VolumeInfo
from scheduler.core.state import State
from scheduler.watch.event_handlers import unusable
from scheduler.watch.objects import (
    LabelSelector,
    Metadata,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from scheduler.watch.pod_terms import expressions

STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_FILESYSTEM: Final = "Filesystem"


class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class StorageMetadata(_Struct):
    """With annotations, in which claims and volumes carry their state."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Sizes(_Struct):
    """An amount of storage, as a quantity."""

    storage: str | int = 0


class ClaimResources(_Struct):
    """How much a claim asks for."""

    requests: Sizes = msgspec.field(default_factory=Sizes)


class ClaimSpec(_Struct):
    """What a claim asks for."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    resources: ClaimResources = msgspec.field(default_factory=ClaimResources)
    volume_mode: str = _FILESYSTEM
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None


class ClaimStatus(_Struct):
    """Pending, Bound or Lost."""

    phase: str = ""


class Claim(_Struct):
    """A PersistentVolumeClaim."""

    metadata: StorageMetadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class VolumeAffinity(_Struct):
    """The nodes that reach a volume."""

    required: NodeSelector | None = None


class CsiSource(_Struct):
    """A volume of a CSI driver."""

    driver: str = ""


class ClaimRef(_Struct):
    """The claim that a volume is meant for; without a UID any of the name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(_Struct):
    """What a volume is, as far as nodes and claims matter."""

    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None
    storage_class_name: str = ""
    capacity: Sizes = msgspec.field(default_factory=Sizes)
    access_modes: list[str] = []
    volume_mode: str = _FILESYSTEM
    volume_attributes_class_name: str | None = None
    claim_ref: ClaimRef | None = None


class VolumeStatus(_Struct):
    """Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class Volume(_Struct):
    """A PersistentVolume."""

    metadata: StorageMetadata
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class TopologyTerm(_Struct):
    """Labels of the nodes for which a class can provision."""

    match_label_expressions: list[NodeSelectorRequirement] = []


class StorageClass(_Struct):
    """A StorageClass."""

    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: list[TopologyTerm] = []


class DriverLimit(_Struct):
    """How many volumes; None for no limit."""

    count: int | None = None


class Driver(_Struct):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(_Struct):
    """The drivers."""

    drivers: list[Driver] = []


class CsiNode(_Struct):
    """A CSINode; it has the node's name."""

    metadata: Metadata
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


def claim_info(claim: Claim) -> ClaimInfo:
    """A volume's name alone is a wish; only the annotation says that both agree.

    Raises kube.quantity.QuantityError.
    """
    meta, spec = claim.metadata, claim.spec
    bound = _BOUND in meta.annotations
    return ClaimInfo(
        key=(meta.namespace, meta.name),
        volume=spec.volume_name if bound else "",
        storage_class=meta.annotations.get(_CLASS, spec.storage_class_name or ""),
        selected_node=meta.annotations.get(SELECTED_NODE, ""),
        one_pod="ReadWriteOncePod" in spec.access_modes,
        lost=claim.status.phase == "Lost",
        terminating=meta.deletion_timestamp is not None,
        uid=meta.uid,
        requested_volume="" if bound else spec.volume_name,
        size=parse_value(spec.resources.requests.storage),
        access=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode,
        attributes=spec.volume_attributes_class_name or "",
        selector=expressions(spec.selector),
    )


def volume_info(volume: Volume) -> VolumeInfo:
    """Raises kube.quantity.QuantityError."""
    meta, spec = volume.metadata, volume.spec
    required = spec.node_affinity.required if spec.node_affinity else None
    ref = spec.claim_ref
    return VolumeInfo(
        name=meta.name,
        affinity=tuple(_term(t) for t in required.node_selector_terms) if required else None,
        labels=meta.labels,
        driver=spec.csi.driver if spec.csi else "",
        storage_class=meta.annotations.get(_CLASS, spec.storage_class_name),
        size=parse_value(spec.capacity.storage),
        access=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode,
        attributes=spec.volume_attributes_class_name or "",
        claim=(ref.namespace, ref.name) if ref else None,
        claim_uid=ref.uid if ref else "",
        available=volume.status.phase == "Available",
        terminating=meta.deletion_timestamp is not None,
    )


def class_info(storage_class: StorageClass) -> StorageClassInfo:
    return StorageClassInfo(
        name=storage_class.metadata.name,
        provisioner=storage_class.provisioner,
        waits=storage_class.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            Term(tuple(Expression(e.key, "In", tuple(e.values)) for e in t.match_label_expressions))
            for t in storage_class.allowed_topologies
        ),
    )


def limits(node: CsiNode) -> dict[str, int]:
    """The drivers that have a limit there."""
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource, how its objects are read, and where they go in the state's storage."""

    resource: Resource
    decode: Callable[[bytes], Any]
    put: Callable[[Any], None]
    drop: Callable[[Key], None]


@dataclass(frozen=True, slots=True)
class _Sink:
    kind: Kind
    state: State
    changed: Callable[[], None]

    def upsert(self, obj: Any) -> None:
        try:
            self.kind.put(obj)
        except QuantityError as error:
            meta = obj.metadata
            unusable(self.kind.resource.plural, meta.name, error)
            self.kind.drop((meta.namespace, meta.name))
        self._after()

    def delete(self, key: Key) -> None:
        self.kind.drop(key)
        self._after()

    def _after(self) -> None:
        self.state.volumes_changed()
        self.changed()


def kinds(state: State) -> tuple[Kind, ...]:
    """All four kinds."""
    storage = state.volumes
    return (
        Kind(
            PVCS,
            msgspec.json.Decoder(Claim).decode,
            lambda claim: storage.set_claim(claim_info(claim)),
            storage.remove_claim,
        ),
        Kind(
            PVS,
            msgspec.json.Decoder(Volume).decode,
            lambda volume: storage.set_volume(volume_info(volume)),
            lambda key: storage.remove_volume(key[1]),
        ),
        Kind(
            STORAGE_CLASSES,
            msgspec.json.Decoder(StorageClass).decode,
            lambda made: storage.set_class(class_info(made)),
            lambda key: storage.remove_class(key[1]),
        ),
        Kind(
            CSI_NODES,
            msgspec.json.Decoder(CsiNode).decode,
            lambda node: storage.set_limits(node.metadata.name, limits(node)),
            lambda key: storage.remove_limits(key[1]),
        ),
    )


def reflectors(
    client: Client, state: State, changed: Callable[[], None]
) -> Sequence[Reflector[Any]]:
    """Watches of all four kinds into the state's storage."""
    return [
        Reflector(client, kind.resource, _Sink(kind, state, changed), decode=kind.decode)
        for kind in kinds(state)
    ]


def _term(term: NodeSelectorTerm) -> Term:
    return Term(
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_expressions),
        tuple(Expression(e.key, e.operator, tuple(e.values)) for e in term.match_fields),
    )
