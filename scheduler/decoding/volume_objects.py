"""Watched storage objects of the scheduler, decoded with only the fields in use."""

from __future__ import annotations

from typing import Final

import msgspec

from kube.client.decoding import Decoder
from scheduler.decoding.objects import (
    LabelSelector,
    Metadata,
    NodeSelector,
    NodeSelectorRequirement,
)

_FILESYSTEM: Final = "Filesystem"


class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class Sizes(_Struct):
    """A resource list with storage only."""

    storage: str | int = 0


class ClaimResources(_Struct):
    """The storage that a claim requests."""

    requests: Sizes = msgspec.field(default_factory=Sizes)


class ClaimSpec(_Struct):
    """The requirements of a claim."""

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

    metadata: Metadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class VolumeAffinity(_Struct):
    """The nodes from which a volume is accessible."""

    required: NodeSelector | None = None


class CsiSource(_Struct):
    """The CSI driver of a volume."""

    driver: str = ""


class ClaimRef(_Struct):
    """The claim that a volume is reserved for. Without a UID it is any claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(_Struct):
    """The fields of a volume that decide which nodes and claims can use it."""

    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None
    # Kinds of removed cloud providers: `inline_volumes` decodes the one that is set.
    aws_elastic_block_store: msgspec.Raw = msgspec.Raw()
    azure_disk: msgspec.Raw = msgspec.Raw()
    cinder: msgspec.Raw = msgspec.Raw()
    gce_persistent_disk: msgspec.Raw = msgspec.Raw()
    portworx_volume: msgspec.Raw = msgspec.Raw()
    vsphere_volume: msgspec.Raw = msgspec.Raw()
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

    metadata: Metadata
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class TopologyTerm(_Struct):
    """Labels of the nodes for which a StorageClass can provision volumes."""

    match_label_expressions: list[NodeSelectorRequirement] = []


class StorageClass(_Struct):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: list[TopologyTerm] = []


class DriverLimit(_Struct):
    """The number of volumes that a driver can attach, None for no limit."""

    count: int | None = None


class Driver(_Struct):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CsiDriverSpec(_Struct):
    """Whether pods with its volumes may only go to nodes that have the driver (KEP-5030).

    With `storage_capacity`, only to nodes with space for them (KEP-1472).
    """

    prevent_pod_scheduling_if_missing: bool = False
    storage_capacity: bool = False


class CsiDriver(_Struct):
    """A CSIDriver."""

    metadata: Metadata
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CsiNodeSpec(_Struct):
    """The CSI drivers of a node."""

    drivers: list[Driver] = []


class CsiNode(_Struct):
    """A CSINode. It has the node's name."""

    metadata: Metadata
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiStorageCapacity(_Struct):
    """A CSIStorageCapacity. Without `node_topology` no node can use it."""

    metadata: Metadata
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None


# Each raises msgspec.DecodeError.
decode_claim: Final = Decoder(Claim)
decode_class: Final = Decoder(StorageClass)
decode_csi_driver: Final = Decoder(CsiDriver)
decode_csi_node: Final = Decoder(CsiNode)
decode_storage_capacity: Final = Decoder(CsiStorageCapacity)
decode_volume: Final = Decoder(Volume)
