"""Claims that wait for their first consumer: Muster chooses the volume, or the node for a new one.

The volume controller is kube-controller-manager's own. The test acts as the provisioner of the
class, which creates a volume on the controller's request, or as the person who creates volumes in
advance.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from e2e.harness.environment import Environment
from e2e.harness.groups import members
from e2e.harness.objects import POD_GROUPS, Json, pod, pod_group
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import (
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    NODES,
    PODS,
    PVCS,
    PVS,
    STORAGE_CLASSES,
    Resource,
)
from scheduler.decoding.volume_decode import SELECTED_NODE

PROVISIONER = "provisioner.test.muster.dev"
ASKED = "volume.kubernetes.io/storage-provisioner"
HOST = "kubernetes.io/hostname"
DISK = "test.muster.dev/disk"


@pytest.fixture
async def late_class(env: Environment, server_kind: str) -> AsyncIterator[str]:
    """The name of a class with delayed binding, on nodes with a disk."""
    terms = [{"matchLabelExpressions": [{"key": DISK, "values": [env.name]}]}]
    async with waiting_class(env, server_kind, PROVISIONER, allowedTopologies=terms) as name:
        yield name


@pytest.fixture
async def manual_class(env: Environment, server_kind: str) -> AsyncIterator[str]:
    """The name of a class whose volumes are created by hand."""
    async with waiting_class(env, server_kind, "kubernetes.io/no-provisioner") as name:
        yield name


@asynccontextmanager
async def waiting_class(
    env: Environment, server_kind: str, provisioner: str, **more: object
) -> AsyncIterator[str]:
    if server_kind != "real":
        pytest.skip("needs kube-controller-manager's volume controller, and simulated nodes")
    name = f"{env.name}-late"
    made = {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }
    await env.client.create(STORAGE_CLASSES, made)
    yield name
    await env.client.delete(STORAGE_CLASSES, name)
    for volume in (await env.client.list(PVS))["items"]:
        if volume["spec"].get("storageClassName") == name:
            await env.client.delete(PVS, volume["metadata"]["name"])


async def test_a_gang_waits_for_volumes_that_are_made_where_it_goes(
    env: Environment, late_class: str
) -> None:
    await env.add_node(cpu=8)
    disk = await env.add_node(cpu=3, labels={DISK: env.name})
    for index in range(3):
        await claim(env, f"data-{index}", late_class)
    # An unused claim must remain unchanged.
    await claim(env, "spare", late_class)
    await gang_with_claims(env, 3)

    for index in range(3):
        await asked(env, f"data-{index}", disk)
    assert await env.bound() == 0
    for index in range(3):
        await provision(env, f"data-{index}", late_class, disk)

    await env.runs(members("gang"), 3)
    assert {pod["spec"]["nodeName"] for pod in await env.pods()} == {disk}
    for index in range(3):
        assert (await claim_of(env, f"data-{index}"))["status"]["phase"] == "Bound"
    spare = await claim_of(env, "spare")
    assert SELECTED_NODE not in spare["metadata"].get("annotations", {})


async def test_a_gang_goes_elsewhere_once_the_provisioner_gives_its_node_back(
    env: Environment, late_class: str
) -> None:
    first = await env.add_node(cpu=2, labels={DISK: env.name})
    for index in range(2):
        await claim(env, f"data-{index}", late_class)
    await gang_with_claims(env, 2)
    for index in range(2):
        await asked(env, f"data-{index}", first)

    cordon = PatchBuilder().add("/spec/unschedulable", True)
    await env.client.patch(NODES, first, cordon)
    second = await env.add_node(cpu=2, labels={DISK: env.name})
    for index in range(2):
        back = PatchBuilder().remove(pointer("metadata", "annotations", SELECTED_NODE))
        await env.client.patch(PVCS, f"data-{index}", back, env.name)

    for index in range(2):
        await asked(env, f"data-{index}", second)
        await provision(env, f"data-{index}", late_class, second)
    await env.runs(members("gang"), 2)


async def test_a_gang_whose_disks_have_no_room_starts_no_volume(
    env: Environment, late_class: str
) -> None:
    await env.add_node(cpu=8)
    await env.add_node(cpu=2, labels={DISK: env.name})
    for index in range(3):
        await claim(env, f"data-{index}", late_class)
    await gang_with_claims(env, 3)

    # Each pod has its own shape because of its claim: two have a node, the third has none.
    await env.waits("gang", needed=1, free=0)

    for index in range(3):
        found = await claim_of(env, f"data-{index}")
        assert SELECTED_NODE not in found["metadata"].get("annotations", {})


async def test_a_gang_waits_for_the_space_that_its_driver_publishes(
    env: Environment, late_class: str
) -> None:
    """CSIStorageCapacity, KEP-1472."""
    driver = {"spec": {"storageCapacity": True, "attachRequired": False}}
    await env.client.create(CSI_DRIVERS, described(CSI_DRIVERS, PROVISIONER, driver))
    try:
        small, large = [await env.add_node(cpu=2, labels={DISK: env.name}) for _ in range(2)]
        await publish(env, late_class, small, "100Mi")
        for index in range(2):
            await claim(env, f"data-{index}", late_class)
        await gang_with_claims(env, 2)
        blocker = await env.waits("gang", needed=1, free=0)
        said = "0/2 nodes are available: 2 node(s) did not have enough free storage."
        assert blocker["summary"].startswith(said)

        await publish(env, late_class, large, "5Gi")

        for index in range(2):
            await asked(env, f"data-{index}", large)
            await provision(env, f"data-{index}", late_class, large)
        await env.runs(members("gang"), 2)
    finally:
        await env.client.delete(CSI_DRIVERS, PROVISIONER)


async def test_each_of_a_gang_goes_to_a_volume_of_its_own(
    env: Environment, manual_class: str
) -> None:
    nodes = [await env.add_node(cpu=8) for _ in range(3)]
    for index, node in enumerate(nodes):
        await local_volume(env, f"disk-{index}", manual_class, node)
        await claim(env, f"data-{index}", manual_class)
    await gang_with_claims(env, 3)

    await env.runs(members("gang"), 3)

    assert await volumes_are_where_their_pods_are(env) == set(nodes)


async def test_a_gang_waits_for_the_last_volume_and_starts_when_it_comes(
    env: Environment, manual_class: str
) -> None:
    nodes = [await env.add_node(cpu=8) for _ in range(3)]
    for index, node in enumerate(nodes):
        await claim(env, f"data-{index}", manual_class)
        if index < 2:
            await local_volume(env, f"disk-{index}", manual_class, node)
    await gang_with_claims(env, 3)

    blocker = await env.waits("gang", needed=1, free=0)
    said = blocker["summary"]
    assert said.startswith("0/3 nodes are available: 3 node(s) didn't find available persistent")
    missing = f"a ReadWriteOnce PersistentVolume of class {manual_class} with at least 1Gi"
    assert missing in said
    for index in range(2):
        volume = await env.client.get(PVS, f"{env.name}-disk-{index}")
        assert "claimRef" not in volume["spec"]

    await local_volume(env, "disk-2", manual_class, nodes[2])

    await env.runs(members("gang"), 3)
    assert await volumes_are_where_their_pods_are(env) == set(nodes)


async def test_a_volume_that_is_there_comes_before_one_that_would_be_made(
    env: Environment, late_class: str
) -> None:
    disk = await env.add_node(cpu=2, labels={DISK: env.name})
    await local_volume(env, "disk", late_class, disk)
    for index in range(2):
        await claim(env, f"data-{index}", late_class)
    await gang_with_claims(env, 2)

    taken: list[str] = []

    async def one_is_bound() -> bool:
        found = [await claim_of(env, f"data-{index}") for index in range(2)]
        taken[:] = [c["metadata"]["name"] for c in found if c["spec"].get("volumeName")]
        return len(taken) == 1

    await env.until("one claim to get the volume", one_is_bound)
    (other,) = {"data-0", "data-1"} - set(taken)
    await asked(env, other, disk)
    await provision(env, other, late_class, disk)

    await env.runs(members("gang"), 2)
    assert SELECTED_NODE not in (await claim_of(env, taken[0]))["metadata"]["annotations"]


async def volumes_are_where_their_pods_are(env: Environment) -> set[str]:
    """Check that each claim's volume is on its pod's node, and return all these nodes."""
    nodes: set[str] = set()
    volumes: set[str] = set()
    for one in await env.pods(members("gang")):
        (volume,) = [v for v in one["spec"]["volumes"] if v["name"] == "data"]
        found = await claim_of(env, volume["persistentVolumeClaim"]["claimName"])
        assert found["status"]["phase"] == "Bound"
        name = found["spec"]["volumeName"]
        bound = await env.client.get(PVS, name)
        (term,) = bound["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [one["spec"]["nodeName"]]
        volumes.add(name)
        nodes.add(one["spec"]["nodeName"])
    assert len(volumes) == 3
    return nodes


async def gang_with_claims(env: Environment, pods: int) -> None:
    """Create a gang in which each pod has its own claim, named by its number."""
    await env.create(POD_GROUPS, pod_group("gang", pods))
    for index in range(pods):
        member = pod(f"gang-{index}", env.name, group="gang")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{index}"}}
        member["spec"]["volumes"] = [volume]
        await env.create(PODS, member)


async def publish(env: Environment, storage_class: str, node: str, size: str) -> None:
    """Act as a driver: publish the capacity for volumes of the class on that node."""
    topology = {"matchLabels": {HOST: node}}
    fields = {"storageClassName": storage_class, "nodeTopology": topology, "capacity": size}
    await env.create(
        CSI_STORAGE_CAPACITIES, described(CSI_STORAGE_CAPACITIES, f"space-{node}", fields)
    )


def described(resource: Resource, name: str, fields: Json) -> Json:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": {"name": name}, **fields}


async def claim(env: Environment, name: str, storage_class: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    head = {"apiVersion": PVCS.api_version, "kind": PVCS.kind}
    await env.create(PVCS, head | {"metadata": {"name": name}, "spec": spec})


async def claim_of(env: Environment, name: str) -> Json:
    return await env.client.get(PVCS, name, env.name)


async def asked(env: Environment, name: str, node: str) -> None:
    """Wait until the volume controller requests a volume of this claim on this node."""

    async def probe() -> bool:
        said: Json = (await claim_of(env, name))["metadata"].get("annotations", {})
        return bool(said.get(ASKED) == PROVISIONER and said.get(SELECTED_NODE) == node)

    await env.until(f"a volume for {name} to be asked for on {node}", probe)


async def provision(env: Environment, name: str, storage_class: str, node: str) -> None:
    """Act as a provisioner: create a volume on that node for that claim."""
    found = await claim_of(env, name)
    ref = {
        "apiVersion": PVCS.api_version,
        "kind": PVCS.kind,
        "namespace": env.name,
        "name": name,
        "uid": found["metadata"]["uid"],
    }
    annotations = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
    await _volume(env, name, storage_class, node, annotations, claimRef=ref)


async def local_volume(env: Environment, name: str, storage_class: str, node: str) -> None:
    """Act as an administrator: create a volume on that node for any claim."""
    await _volume(env, name, storage_class, node, {})


async def _volume(
    env: Environment, name: str, storage_class: str, node: str, annotations: Json, **more: Json
) -> None:
    host = {"key": HOST, "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        **more,
    }
    metadata = {"name": f"{env.name}-{name}", "annotations": annotations}
    head = {"apiVersion": PVS.api_version, "kind": PVS.kind}
    await env.client.create(PVS, head | {"metadata": metadata, "spec": spec})
