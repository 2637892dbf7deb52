"""Claims that wait for their first consumer: Muster says the node, Kubernetes binds the volume.

The volume controller is kube-controller-manager's own; the test is the provisioner of the class,
which makes a volume once the controller asks it to.
"""

from collections.abc import AsyncIterator

import pytest

from e2e.suite.groups import members
from e2e.suite.objects import POD_GROUPS, Json, pod, pod_group
from e2e.suite.stage import Stage
from kube.patch import PatchBuilder, pointer
from kube.resources import NODES, PODS, PVCS, PVS
from scheduler.storage import SELECTED_NODE, STORAGE_CLASSES

PROVISIONER = "provisioner.test.muster.dev"
ASKED = "volume.kubernetes.io/storage-provisioner"
HOST = "kubernetes.io/hostname"
DISK = "test.muster.dev/disk"


@pytest.fixture
async def late_class(stage: Stage, server_kind: str) -> AsyncIterator[str]:
    """The name of a class that binds late, on nodes with a disk."""
    if server_kind != "real":
        pytest.skip("needs kube-controller-manager's volume controller, and simulated nodes")
    name = f"{stage.name}-late"
    terms = [{"matchLabelExpressions": [{"key": DISK, "values": [stage.name]}]}]
    made = {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": name},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": terms,
    }
    await stage.client.create(STORAGE_CLASSES, made)
    yield name
    await stage.client.delete(STORAGE_CLASSES, name)
    for volume in (await stage.client.list(PVS))["items"]:
        if volume["spec"].get("storageClassName") == name:
            await stage.client.delete(PVS, volume["metadata"]["name"])


async def test_a_gang_waits_for_volumes_that_are_made_where_it_goes(
    stage: Stage, late_class: str
) -> None:
    await stage.add_node(cpu=8)
    disk = await stage.add_node(cpu=3, labels={DISK: stage.name})
    for index in range(3):
        await claim(stage, f"data-{index}", late_class)
    # One claim that nobody uses stays as it is.
    await claim(stage, "spare", late_class)
    await gang_with_claims(stage, 3)

    for index in range(3):
        await asked(stage, f"data-{index}", disk)
    assert await stage.bound() == 0
    for index in range(3):
        await provision(stage, f"data-{index}", late_class, disk)

    await stage.runs_whole(members("gang"), 3)
    assert {pod["spec"]["nodeName"] for pod in await stage.pods()} == {disk}
    for index in range(3):
        assert (await claim_of(stage, f"data-{index}"))["status"]["phase"] == "Bound"
    spare = await claim_of(stage, "spare")
    assert SELECTED_NODE not in spare["metadata"].get("annotations", {})


async def test_a_gang_goes_elsewhere_once_the_provisioner_gives_its_node_back(
    stage: Stage, late_class: str
) -> None:
    first = await stage.add_node(cpu=2, labels={DISK: stage.name})
    for index in range(2):
        await claim(stage, f"data-{index}", late_class)
    await gang_with_claims(stage, 2)
    for index in range(2):
        await asked(stage, f"data-{index}", first)

    cordon = PatchBuilder().add("/spec/unschedulable", True)
    await stage.client.patch(NODES, first, cordon)
    second = await stage.add_node(cpu=2, labels={DISK: stage.name})
    for index in range(2):
        back = PatchBuilder().remove(pointer("metadata", "annotations", SELECTED_NODE))
        await stage.client.patch(PVCS, f"data-{index}", back, stage.name)

    for index in range(2):
        await asked(stage, f"data-{index}", second)
        await provision(stage, f"data-{index}", late_class, second)
    await stage.runs_whole(members("gang"), 2)


async def test_a_gang_whose_disks_have_no_room_starts_no_volume(
    stage: Stage, late_class: str
) -> None:
    await stage.add_node(cpu=8)
    await stage.add_node(cpu=2, labels={DISK: stage.name})
    for index in range(3):
        await claim(stage, f"data-{index}", late_class)
    await gang_with_claims(stage, 3)

    # Each pod has a shape of its own by its claim: two have their place, the third has none.
    await stage.waits("gang", needed=1, free=0)

    for index in range(3):
        found = await claim_of(stage, f"data-{index}")
        assert SELECTED_NODE not in found["metadata"].get("annotations", {})


async def gang_with_claims(stage: Stage, pods: int) -> None:
    """Each pod has a claim of its own, called by its number."""
    await stage.create(POD_GROUPS, pod_group("gang", pods))
    for index in range(pods):
        member = pod(f"gang-{index}", stage.name, group="gang")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{index}"}}
        member["spec"]["volumes"] = [volume]
        await stage.create(PODS, member)


async def claim(stage: Stage, name: str, storage_class: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    head = {"apiVersion": PVCS.api_version, "kind": PVCS.kind}
    await stage.create(PVCS, head | {"metadata": {"name": name}, "spec": spec})


async def claim_of(stage: Stage, name: str) -> Json:
    return await stage.client.get(PVCS, name, stage.name)


async def asked(stage: Stage, name: str, node: str) -> None:
    """Wait until the volume controller asks for a volume of this claim on this node."""

    async def probe() -> bool:
        said: Json = (await claim_of(stage, name))["metadata"].get("annotations", {})
        return bool(said.get(ASKED) == PROVISIONER and said.get(SELECTED_NODE) == node)

    await stage.until(f"a volume for {name} to be asked for on {node}", probe)


async def provision(stage: Stage, name: str, storage_class: str, node: str) -> None:
    """What a provisioner does: a volume on that node, meant for that claim."""
    found = await claim_of(stage, name)
    host = {"key": HOST, "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {
            "apiVersion": PVCS.api_version,
            "kind": PVCS.kind,
            "namespace": stage.name,
            "name": name,
            "uid": found["metadata"]["uid"],
        },
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
    }
    metadata = {
        "name": f"{stage.name}-{name}",
        "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
    }
    head = {"apiVersion": PVS.api_version, "kind": PVS.kind}
    await stage.client.create(PVS, head | {"metadata": metadata, "spec": spec})
