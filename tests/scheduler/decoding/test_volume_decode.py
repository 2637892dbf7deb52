"""Decoding of claims, volumes, StorageClasses and CSINodes."""

from typing import Any

import msgspec
import pytest

from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    NodeTerm,
    StorageCapacityInfo,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.volumes.volume_table import UNLIMITED
from scheduler.decoding.volume_decode import (
    attach_limits,
    claim_info,
    class_info,
    storage_capacity_info,
    volume_info,
)
from scheduler.decoding.volume_objects import (
    Claim,
    CsiNode,
    StorageClass,
    Volume,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_capacity,
)

SSD = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)


def read(kind: type, **fields: Any) -> Any:
    metadata = {"name": "x", "namespace": "ns", **fields.pop("metadata", {})}
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, **fields}), type=kind)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"spec": {"volumeName": "pv", "storageClassName": "s"}},
            ClaimInfo(("ns", "x"), "", "s", requested_volume="pv"),
            id="a volume wished for",
        ),
        pytest.param(
            {
                "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]},
            },
            ClaimInfo(("ns", "x"), "pv", one_pod=True, access=("ReadWriteOncePod",)),
            id="bound, for one pod",
        ),
        pytest.param(
            {
                "metadata": {
                    "annotations": {
                        "volume.kubernetes.io/selected-node": "n",
                        "volume.beta.kubernetes.io/storage-class": "old",
                    },
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                },
                "status": {"phase": "Lost"},
            },
            ClaimInfo(("ns", "x"), "", "old", "n", lost=True, terminating=True),
            id="its annotations and its phase",
        ),
        pytest.param(
            {
                "metadata": {"uid": "u"},
                "spec": {
                    "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                    "resources": {"requests": {"storage": "2Gi"}},
                    "selector": {"matchLabels": {"tier": "gold"}},
                    "storageClassName": "s",
                    "volumeAttributesClassName": "fast",
                    "volumeMode": "Block",
                },
            },
            ClaimInfo(
                ("ns", "x"),
                storage_class="s",
                uid="u",
                size=2 << 30,
                access=("ReadOnlyMany", "ReadWriteOnce"),
                mode="Block",
                attributes="fast",
                selector=(Expression("tier", "In", ("gold",)),),
            ),
            id="what it asks for",
        ),
    ],
)
def test_reading_a_claim(fields: dict[str, Any], want: ClaimInfo) -> None:
    assert claim_info(read(Claim, **fields)) == want


@pytest.mark.parametrize(
    ("spec", "driver"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://a/vol-1"}}, "ebs.csi.aws.com"),
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io"),
        ({"azureDisk": {"diskURI": "/d", "kind": "Managed"}}, "disk.csi.azure.com"),
        ({"azureDisk": {"diskURI": "/d", "kind": "Dedicated"}}, ""),
        ({"cinder": {"volumeID": "v"}}, "cinder.csi.openstack.org"),
        ({"portworxVolume": {"volumeID": "v"}}, "pxd.portworx.com"),
        ({"vsphereVolume": {"volumePath": "p"}}, "csi.vsphere.vmware.com"),
        ({"csi": {"driver": "d"}, "cinder": {"volumeID": "v"}}, "d"),
        ({"hostPath": {"path": "/"}}, ""),
        ({}, ""),
    ],
)
def test_volumes_of_removed_providers_are_attached_by_their_drivers(
    spec: dict[str, Any], driver: str
) -> None:
    assert volume_info(read(Volume, spec=spec)).driver == driver


def test_reading_volumes_classes_and_limits() -> None:
    expression = {"key": "disk", "operator": "In", "values": ["ssd"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    volume = read(Volume, spec={"nodeAffinity": {"required": terms}, "csi": {"driver": "d"}})
    by_hand = read(
        Volume,
        metadata={
            "labels": {"tier": "gold"},
            "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        spec={
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "u"},
            "storageClassName": "s",
            "volumeAttributesClassName": "fast",
            "volumeMode": "Block",
        },
        status={"phase": "Available"},
    )
    topology = {"matchLabelExpressions": [{"key": "disk", "values": ["ssd"]}]}
    storage_class = read(
        StorageClass,
        provisioner="d",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[topology],
    )
    drivers = [{"name": "d", "allocatable": {"count": 3}}, {"name": "free"}]

    assert volume_info(volume) == VolumeInfo("x", SSD, {}, "d")
    assert volume_info(by_hand) == VolumeInfo(
        "x", None, {"tier": "gold"}, "", "old", 2 << 30, ("ReadWriteOnce",), "Block", "fast",
        ("ns", "data"), "u", available=True, terminating=True,
    )  # fmt: skip
    assert class_info(storage_class) == StorageClassInfo("x", "d", True, SSD)
    assert attach_limits(read(CsiNode, spec={"drivers": drivers})) == {"d": 3, "free": UNLIMITED}


IN_X = (Expression("zone", "In", ("x",)),)


@pytest.mark.parametrize(
    ("fields", "largest", "topology"),
    [
        ({"capacity": "2Gi", "nodeTopology": {}}, 2 << 30, ()),
        ({"capacity": "2Gi", "nodeTopology": {"matchLabels": {"zone": "x"}}}, 2 << 30, IN_X),
        ({"capacity": "2Gi", "maximumVolumeSize": "1Gi", "nodeTopology": {}}, 1 << 30, ()),
        ({"capacity": "2Gi", "maximumVolumeSize": 7, "nodeTopology": {}}, 7, ()),
        ({"capacity": "0", "nodeTopology": {}}, 0, ()),
        ({"capacity": "99999999999999999999Ei", "nodeTopology": {}}, (1 << 63) - 1, ()),
        # Without a topology it is for no node, and without a size nothing is known.
        ({"capacity": "2Gi"}, None, ()),
        ({"capacity": "2Gi", "nodeTopology": None}, None, ()),
        ({"nodeTopology": {}}, None, ()),
    ],
)
def test_the_capacity_of_a_driver_is_the_largest_volume(
    fields: dict[str, object], largest: int | None, topology: tuple[Expression, ...]
) -> None:
    made = {"metadata": {"name": "x"}, "storageClassName": "local", **fields}
    found = storage_capacity_info(decode_storage_capacity(msgspec.json.encode(made)))

    if largest is None:
        assert found is None
    else:
        assert found == StorageCapacityInfo(("", "x"), "local", largest, topology)


@pytest.mark.parametrize(
    ("spec", "measured"),
    [({"storageCapacity": True}, True), ({"storageCapacity": None}, False), ({}, False)],
)
def test_a_driver_publishes_capacities_if_it_says_so(
    spec: dict[str, object], measured: bool
) -> None:
    made = {"metadata": {"name": "x"}, "spec": spec}
    assert decode_csi_driver(msgspec.json.encode(made)).spec.storage_capacity is measured


def test_a_node_without_csi_drivers_as_its_kubelet_writes_it() -> None:
    node = decode_csi_node(b'{"metadata": {"name": "x"}, "spec": {"drivers": null}}')

    assert attach_limits(node) == {}
