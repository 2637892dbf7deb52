"""In-line disks: the disks that a pod's volumes name without a claim.

VolumeRestrictions compares four kinds of them as written. CSI drivers attach the kinds of removed
cloud providers; NodeVolumeLimits counts those by the driver's own handle
(k8s.io/csi-translation-lib).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

import msgspec

from kube.client.decoding import Decoder
from scheduler.core.values.model import Attachment, Disk

Volume = Mapping[str, msgspec.Raw]

_GCE: Final = "gcePersistentDisk"
_AWS: Final = "awsElasticBlockStore"
_AWS_PREFIX: Final = "aws://"
_POOL: Final = "rbd"
"""The default pool of an rbd volume."""

NOT_FILTERED: Final = frozenset({
    "name", "azureFile", "cephfs", "configMap", "csi", "downwardAPI", "emptyDir", "fc",
    "flexVolume", "flocker", "gitRepo", "glusterfs", "hostPath", "image", "nfs",
    "photonPersistentDisk", "projected", "quobyte", "scaleIO", "secret", "storageos",
    "vsphereVolume",
})  # fmt: skip
"""The kinds that no filter reads."""

KNOWN: Final = NOT_FILTERED | {
    "awsElasticBlockStore", "azureDisk", "cinder", "ephemeral", "gcePersistentDisk", "iscsi",
    "persistentVolumeClaim", "portworxVolume", "rbd",
}  # fmt: skip
"""All kinds of Kubernetes 1.36. A later kind may concern a filter, so its pods are refused."""


class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class _GceDisk(_Struct):
    pd_name: str = ""
    read_only: bool = False


class _Iscsi(_Struct):
    iqn: str = ""
    read_only: bool = False


class _Rbd(_Struct):
    image: str = ""
    pool: str = ""
    monitors: list[str] = []
    read_only: bool = False


class _AzureDisk(_Struct):
    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str = ""


class _VolumeId(_Struct):
    volume_id: str = msgspec.field(name="volumeID", default="")


_gce: Final = Decoder(_GceDisk)
_iscsi: Final = Decoder(_Iscsi)
_rbd: Final = Decoder(_Rbd)
_azure: Final = Decoder(_AzureDisk)
_volume_id: Final = Decoder(_VolumeId)


def disks(volumes: Iterable[Volume]) -> tuple[Disk, ...]:
    """Return the disks that VolumeRestrictions compares, sorted; the stronger use of each.

    A pod does not conflict with itself. It shares a disk if all of its volumes do.
    """
    found = {disk for volume in volumes for disk in _disks(volume)}
    # An exclusive use sorts before a shared one of the same disk: groupby's first is stronger.
    by_strength = sorted(found, key=lambda disk: (disk.key, disk.shared))
    return tuple(next(same) for _, same in groupby(by_strength, key=lambda disk: disk.key))


def attachments(volumes: Iterable[Volume]) -> tuple[Attachment, ...]:
    """Return the attachments that NodeVolumeLimits counts, sorted."""
    found = {attachment for volume in volumes for attachment in _attachments(volume)}
    # Sorted, so that pods that name the same disks in another order share a shape.
    return tuple(sorted(found, key=lambda it: (it.driver, it.handle)))


def _disks(volume: Volume) -> Iterator[Disk]:
    if _GCE in volume:
        gce = _gce(volume[_GCE])
        yield Disk(_GCE, gce.pd_name, shared=gce.read_only)
    elif _AWS in volume:
        aws = _volume_id(volume[_AWS])
        # As in VolumeRestrictions, not even readers share it.
        yield Disk(_AWS, aws.volume_id)
    elif "iscsi" in volume:
        iscsi = _iscsi(volume["iscsi"])
        yield Disk("iscsi", iscsi.iqn, shared=iscsi.read_only)
    elif "rbd" in volume:
        rbd = _rbd(volume["rbd"])
        # Two rbd volumes are the same if they have one monitor in common.
        for monitor in rbd.monitors:
            location = (rbd.pool or _POOL, monitor)
            yield Disk("rbd", rbd.image, location, shared=rbd.read_only)


def _attachments(volume: Volume) -> Iterator[Attachment]:
    for kind, (driver, read) in _ATTACHED.items():
        if kind in volume:
            handle = read(volume[kind])
            if handle:
                yield Attachment(driver, handle)


def _aws_handle(raw: msgspec.Raw) -> str:
    """Return the volume's ID, also from `aws://zone/vol-1`; empty if the address has none."""
    name = _volume_id(raw).volume_id
    if not name.startswith(_AWS_PREFIX):
        return name
    handle = name.removeprefix(_AWS_PREFIX).partition("/")[2].strip("/")
    return handle if handle.startswith("vol-") and "/" not in handle else ""


def _azure_handle(raw: msgspec.Raw) -> str:
    """Return the disk's URI, empty for an unmanaged disk, which the driver does not attach."""
    disk = _azure(raw)
    return disk.disk_uri if disk.kind.lower() == "managed" else ""


_ATTACHED: Final[Mapping[str, tuple[str, Callable[[msgspec.Raw], str]]]] = {
    _GCE: (
        "pd.csi.storage.gke.io",
        lambda raw: _gce(raw).pd_name,
    ),
    _AWS: ("ebs.csi.aws.com", _aws_handle),
    "azureDisk": ("disk.csi.azure.com", _azure_handle),
    "cinder": (
        "cinder.csi.openstack.org",
        lambda raw: _volume_id(raw).volume_id,
    ),
    "portworxVolume": (
        "pxd.portworx.com",
        lambda raw: _volume_id(raw).volume_id,
    ),
}
"""By kind: the CSI driver that replaces it, and the function that reads the disk's handle."""
