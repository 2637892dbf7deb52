"""Decoding of claims, volumes, StorageClasses and CSI objects to values of the decision core."""

from __future__ import annotations

from typing import Final

from kube.client.quantity import parse_value
from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    NodeTerm,
    StorageCapacityInfo,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.volumes.volume_table import UNLIMITED
from scheduler.decoding.inline_volumes import attachments
from scheduler.decoding.label_selectors import label_expressions, node_selector_term
from scheduler.decoding.volume_objects import (
    Claim,
    CsiNode,
    CsiStorageCapacity,
    StorageClass,
    Volume,
    VolumeSpec,
)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
# Raw of a field that is absent, and of one that a Go client wrote as nil.
_ABSENT: Final = (b"", b"null")
_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def claim_info(claim: Claim) -> ClaimInfo:
    """Decode a claim. It is bound to `volume` only with the annotation of the volume controller.

    Without the annotation the volume is merely requested. Raises
    kube.client.quantity.QuantityError.
    """
    meta, spec = claim.metadata, claim.spec
    # A claim may name a volume in advance. Only the volume controller sets the annotation.
    bound = _BIND_COMPLETED in meta.annotations
    return ClaimInfo(
        key=(meta.namespace, meta.name),
        volume=spec.volume_name if bound else "",
        # As in Kubernetes, the annotation of the beta takes precedence over the field.
        storage_class=meta.annotations.get(_STORAGE_CLASS, spec.storage_class_name or ""),
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
        selector=label_expressions(spec.selector),
    )


def volume_info(volume: Volume) -> VolumeInfo:
    """Decode a volume. Raises kube.client.quantity.QuantityError."""
    meta, spec = volume.metadata, volume.spec
    required = spec.node_affinity.required if spec.node_affinity else None
    ref = spec.claim_ref
    return VolumeInfo(
        name=meta.name,
        affinity=tuple(node_selector_term(t) for t in required.node_selector_terms)
        if required
        else None,
        labels=meta.labels,
        driver=spec.csi.driver if spec.csi else _migrated_driver(spec),
        storage_class=meta.annotations.get(_STORAGE_CLASS, spec.storage_class_name),
        size=parse_value(spec.capacity.storage),
        access=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode,
        attributes=spec.volume_attributes_class_name or "",
        claim=(ref.namespace, ref.name) if ref else None,
        claim_uid=ref.uid if ref else "",
        available=volume.status.phase == "Available",
        terminating=meta.deletion_timestamp is not None,
    )


def _migrated_driver(spec: VolumeSpec) -> str:
    """Return the CSI driver of a volume of a removed cloud provider, empty for other kinds."""
    # `inline_volumes` does not count this kind, so its driver is named here.
    if bytes(spec.vsphere_volume) not in _ABSENT:
        return "csi.vsphere.vmware.com"
    sources = {
        "awsElasticBlockStore": spec.aws_elastic_block_store,
        "azureDisk": spec.azure_disk,
        "cinder": spec.cinder,
        "gcePersistentDisk": spec.gce_persistent_disk,
        "portworxVolume": spec.portworx_volume,
    }
    there = {kind: it for kind, it in sources.items() if bytes(it) not in _ABSENT}
    return next((each.driver for each in attachments([there])), "") if there else ""


def class_info(storage_class: StorageClass) -> StorageClassInfo:
    return StorageClassInfo(
        name=storage_class.metadata.name,
        provisioner=storage_class.provisioner,
        waits=storage_class.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            NodeTerm(
                tuple(Expression(e.key, "In", tuple(e.values)) for e in t.match_label_expressions)
            )
            for t in storage_class.allowed_topologies
        ),
    )


def storage_capacity_info(capacity: CsiStorageCapacity) -> StorageCapacityInfo | None:
    """Decode a capacity; None if no volume is possible. Raises kube.client.quantity.QuantityError.

    As upstream, `maximumVolumeSize` takes precedence over `capacity`.
    """
    meta, topology = capacity.metadata, label_expressions(capacity.node_topology)
    sizes = (capacity.maximum_volume_size, capacity.capacity)
    size = next((each for each in sizes if each is not None), None)
    if topology is None or size is None:
        return None
    key, largest = (meta.namespace, meta.name), parse_value(size)
    return StorageCapacityInfo(key, capacity.storage_class_name, largest, topology)


def attach_limits(node: CsiNode) -> dict[str, int]:
    """Return the number of volumes that the node can attach, by each of its drivers."""
    return {
        driver.name: UNLIMITED
        if driver.allocatable is None or driver.allocatable.count is None
        else driver.allocatable.count
        for driver in node.spec.drivers
    }
