"""The disks of volumes without a claim, as the filters of kube-scheduler see them."""

from typing import Any

import msgspec
import pytest

from scheduler.core.values.model import Attachment, Disk, PodInfo
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_pod


def pod(*volumes: dict[str, Any], scheduler: str = "muster-scheduler") -> PodInfo:
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "c"}],
        "volumes": [{"name": f"v{at}", **volume} for at, volume in enumerate(volumes)],
    }
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    return decode.pod_info(decode_pod(msgspec.json.encode({"metadata": meta, "spec": spec})))


def gce(name: str, **fields: Any) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, **fields}}


def aws(name: str, **fields: Any) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, **fields}}


def iscsi(iqn: str, **fields: Any) -> dict[str, Any]:
    return {"iscsi": {"iqn": iqn, "targetPortal": "10.0.0.1", "lun": 0, **fields}}


def rbd(image: str, *monitors: str, **fields: Any) -> dict[str, Any]:
    return {"rbd": {"image": image, "monitors": monitors, **fields}}


def azure(uri: str, kind: str) -> dict[str, Any]:
    return {"azureDisk": {"diskURI": uri, "kind": kind}}


GCE, AWS = "gcePersistentDisk", "awsElasticBlockStore"


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        pytest.param([gce("x")], [Disk(GCE, "x")], id="a GCE disk"),
        pytest.param([gce("x", readOnly=True)], [Disk(GCE, "x", shared=True)], id="only read"),
        pytest.param(
            [gce("x", partition=1)], [Disk(GCE, "x")], id="a partition is the whole disk"
        ),
        pytest.param([aws("x")], [Disk(AWS, "x")], id="an EBS volume"),
        pytest.param([aws("x", readOnly=True)], [Disk(AWS, "x")], id="not even readers share it"),
        pytest.param(
            [iscsi("x", lun=3, readOnly=True)], [Disk("iscsi", "x", shared=True)],
            id="an iSCSI target, whatever its portal and LUN are",
        ),
        pytest.param(
            [rbd("x", "a", "b", pool="p", readOnly=True)],
            [Disk("rbd", "x", ("p", at), shared=True) for at in "ab"],
            id="an rbd image, for each monitor",
        ),
        pytest.param([rbd("x", "a")], [Disk("rbd", "x", ("rbd", "a"))], id="the default pool"),
        pytest.param([rbd("x")], [], id="no monitor, no disk"),
        pytest.param(
            [gce("x") | {"rbd": None, "persistentVolumeClaim": None, "iscsi": None}, {GCE: None}],
            [Disk(GCE, "x")],
            id="kinds that are null",
        ),
        pytest.param(
            [gce("x", readOnly=True), gce("x"), gce("x", readOnly=True)], [Disk(GCE, "x")],
            id="named more than once: written",
        ),
        pytest.param(
            [rbd("x", "a", "a"), rbd("x", "a", "b", readOnly=True)],
            [Disk("rbd", "x", ("rbd", "a")), Disk("rbd", "x", ("rbd", "b"), shared=True)],
            id="an image twice",
        ),
        pytest.param(
            [{"azureDisk": {"diskName": "n", "diskURI": "u"}}, {"cinder": {"volumeID": "c"}}], [],
            id="kinds that are not compared",
        ),
    ],
)  # fmt: skip
def test_disks(volumes: list[dict[str, Any]], want: list[Disk], scheduler: str) -> None:
    assert pod(*volumes, scheduler=scheduler).requirements.disks == tuple(want)


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
@pytest.mark.parametrize(
    ("volumes", "want"),
    [
        pytest.param([gce("x")], {("pd.csi.storage.gke.io", "x")}, id="a GCE disk"),
        pytest.param(
            [aws("vol-1"), aws("aws://zone/vol-1"), aws("aws:///vol-2")],
            {("ebs.csi.aws.com", "vol-1"), ("ebs.csi.aws.com", "vol-2")},
            id="an EBS volume in its three forms",
        ),
        pytest.param(
            [aws("aws://vol-1"), aws("aws://zone/a/vol-1"), aws("aws://zone/x")], set(),
            id="an EBS address without a volume",
        ),
        pytest.param(
            [azure("u", "Managed"), azure("v", "Shared")], {("disk.csi.azure.com", "u")},
            id="an Azure disk, if the driver manages it",
        ),
        pytest.param(
            [{"cinder": {"volumeID": "c"}}], {("cinder.csi.openstack.org", "c")}, id="Cinder"
        ),
        pytest.param(
            [{"portworxVolume": {"volumeID": "c"}}], {("pxd.portworx.com", "c")}, id="Portworx"
        ),
        pytest.param(
            [iscsi("x"), rbd("x", "a"), {"vsphereVolume": {"volumePath": "p"}}], set(),
            id="kinds that no driver attaches",
        ),
    ],
)  # fmt: skip
def test_attachments(
    volumes: list[dict[str, Any]], want: set[tuple[str, str]], scheduler: str
) -> None:
    found = pod(*volumes, scheduler=scheduler).requirements.attachments

    assert found == tuple(Attachment(*each) for each in sorted(want))
