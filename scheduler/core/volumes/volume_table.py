"""PersistentVolumeClaims, PersistentVolumes, StorageClasses and the attach limits of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.values.changed_keys import ChangedKeys
from scheduler.core.values.model import (
    Attachment,
    ClaimInfo,
    ClaimKey,
    Requirements,
    StorageClassInfo,
    VolumeInfo,
    VolumeUse,
)
from scheduler.core.volumes.assumed_volumes import AssumedVolumes
from scheduler.core.volumes.storage_capacities import StorageCapacities
from scheduler.core.volumes.volume_matching import VolumeIndex
from scheduler.core.volumes.volume_node_affinity import reached

MIGRATED_PROVISIONERS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""CSI drivers that replaced the in-tree provisioners (k8s.io/csi-translation-lib)."""


@dataclass(slots=True)
class DriverNews:
    """Claims and volumes whose CSI driver may have changed; NodeVolumeLimits reads them."""

    claims: ChangedKeys[ClaimKey] = field(default_factory=ChangedKeys)
    volumes: ChangedKeys[str] = field(default_factory=ChangedKeys)


UNLIMITED: Final = 1 << 40
"""Volumes that a driver without a limit can attach to a node."""


class VolumeTable:
    """Volume objects, updated by events. Each change starts a new version of the node table.

    `changed` is called with a claim when it or its volume changed, or its assumed volume was
    dropped.
    """

    def __init__(self, nodes: NodeTable, changed: Callable[[ClaimKey], None]) -> None:
        self._nodes = nodes
        self._changed = changed
        self.index = VolumeIndex(
            nodes, lambda volume: np.flatnonzero(reached(volume.affinity, nodes))
        )
        self.assumed = AssumedVolumes(nodes, self.index, changed)
        self.claims: dict[ClaimKey, ClaimInfo] = {}
        self.classes: dict[str, StorageClassInfo] = {}
        self.limits: dict[str, Mapping[str, int]] = {}
        self.required_drivers: set[str] = set()
        """CSI drivers without which a node takes no pod that uses their volumes."""
        self.measured_drivers: set[str] = set()
        """CSI drivers that publish how large the volumes are that they can provision."""
        self.capacities = StorageCapacities(nodes)
        self.limits_version = 0
        self.news = DriverNews()

    @property
    def volumes(self) -> Mapping[str, VolumeInfo]:
        """All volumes, by name."""
        return self.index.known

    def set_claim(self, claim: ClaimInfo) -> None:
        # Before `_drop`: the index must not offer and withdraw a volume that stays the same.
        if claim.volume:
            self.index.take(claim.volume)
        self._drop(claim.key)
        self.claims[claim.key] = claim
        if claim.volume:
            self.assumed.end(claim.key)
        self._nodes.touch()
        self.news.claims.add(claim.key)
        self._changed(claim.key)

    def remove_claim(self, key: ClaimKey) -> None:
        self._drop(key)
        self.news.claims.add(key)
        self.assumed.end(key)
        self._nodes.touch()
        self._changed(key)

    def set_volume(self, volume: VolumeInfo) -> None:
        before = self.volumes.get(volume.name)
        # Only these changes affect what NodeVolumeLimits has counted.
        if before is None or before.driver != volume.driver:
            self.news.volumes.add(volume.name)
        self.index.set(volume)
        self._nodes.touch()
        self._notify_claims(before, volume)

    def remove_volume(self, name: str) -> None:
        before = self.volumes.get(name)
        self.news.volumes.add(name)
        self.index.remove(name)
        self._nodes.touch()
        self._notify_claims(before)

    def set_class(self, storage_class: StorageClassInfo) -> None:
        self.classes[storage_class.name] = storage_class
        # Any unbound claim of the class may have another driver now.
        self.news.claims.add_all()
        self._nodes.touch()

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self.news.claims.add_all()
        self._nodes.touch()

    def set_driver(self, name: str, *, required: bool = False, measured: bool = False) -> None:
        """Set whether pods with the driver's volumes need a node that has the driver.

        A `measured` driver provisions volumes only where it has published enough capacity.
        """
        before = (name in self.required_drivers, name in self.measured_drivers)
        if before == (required, measured):
            return
        for drivers, applies in (
            (self.required_drivers, required),
            (self.measured_drivers, measured),
        ):
            (drivers.add if applies else drivers.discard)(name)
        self.limits_version += 1
        self._nodes.touch()

    def set_limits(self, node: str, limits: Mapping[str, int]) -> None:
        """Set the drivers that the node has, with the limit of volumes of each or `UNLIMITED`."""
        self.limits[node] = limits
        self.limits_version += 1
        self._nodes.touch()

    def remove_limits(self, node: str) -> None:
        self.limits.pop(node, None)
        self.limits_version += 1
        self._nodes.touch()

    def unbound(self, requirements: Requirements) -> list[ClaimKey]:
        """Return the known claims to bind for the chosen node before a pod may run there."""
        claims = [self.claims.get(key) for key in requirements.claims]
        return [claim.key for claim in claims if claim is not None and not claim.volume]

    def waits(self, claim: ClaimInfo) -> bool:
        """Return True if the claim waits for its first consumer and names no volume."""
        storage_class = self.classes.get(claim.storage_class)
        waits = storage_class is not None and storage_class.waits
        return waits and not claim.volume and not claim.requested_volume

    def for_one_pod(self, use: VolumeUse) -> bool:
        """Return True for a ReadWriteOncePod claim."""
        claim = None if isinstance(use, Attachment) else self.claims.get(use)
        return claim is not None and claim.one_pod

    def undecided(self, claim: ClaimInfo) -> bool:
        """Return True if it waits without an assumed volume: its next pod decides for all."""
        return self.waits(claim) and claim.key not in self.assumed

    def reaches(self, volume: str, row: int) -> bool:
        """Return True if the node of that row can use the volume."""
        return row in self.index.rows(volume)

    def driver(self, claim: ClaimInfo) -> str:
        """Return the CSI driver of the claim's volume, else its class's provisioner, or ""."""
        if claim.volume:
            volume = self.volumes.get(claim.volume)
            return volume.driver if volume else ""
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None:
            return ""
        # Volumes that are still to be provisioned count for the driver's limit as well.
        return MIGRATED_PROVISIONERS.get(storage_class.provisioner, storage_class.provisioner)

    def _drop(self, key: ClaimKey) -> None:
        old = self.claims.pop(key, None)
        if old is not None and old.volume:
            self.index.give(old.volume)

    def _notify_claims(self, *volumes: VolumeInfo | None) -> None:
        # The claims of the old and the new claimRef: both may fit elsewhere now.
        for key in {volume.claim for volume in volumes if volume is not None}:
            if key is not None:
                self._changed(key)
