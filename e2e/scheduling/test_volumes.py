"""Claims that wait for their first consumer: Muster says the volume, or the node where to make it.

The volume controller is kube-controller-manager's own; the test is the provisioner of the class,
which makes a volume once the controller asks it to, or the person who makes volumes beforehand.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from e2e.scheduling.test_leaders import BIND, SECOND, Step, leads, none_reserved, two_schedulers
from e2e.scheduling.test_leaders import FIRST as LEADER
from e2e.suite.groups import members
from e2e.suite.objects import POD_GROUPS, Json, pod, pod_group
from e2e.suite.stage import Stage
from kube.patch import PatchBuilder, pointer
from kube.resources import NODES, PODS, PVCS, PVS, STORAGE_CLASSES
from scheduler.watch.volume_decode import SELECTED_NODE

PROVISIONER = "provisioner.test.muster.dev"
ASKED = "volume.kubernetes.io/storage-provisioner"
HOST = "kubernetes.io/hostname"
DISK = "test.muster.dev/disk"


@pytest.fixture
async def late_class(stage: Stage, server_kind: str) -> AsyncIterator[str]:
    """The name of a class that binds late, on nodes with a disk."""
    terms = [{"matchLabelExpressions": [{"key": DISK, "values": [stage.name]}]}]
    async with waiting_class(stage, server_kind, PROVISIONER, allowedTopologies=terms) as name:
        yield name


@pytest.fixture
async def hand_class(stage: Stage, server_kind: str) -> AsyncIterator[str]:
    """The name of a class whose volumes are made by hand."""
    async with waiting_class(stage, server_kind, "kubernetes.io/no-provisioner") as name:
        yield name


@asynccontextmanager
async def waiting_class(
    stage: Stage, server_kind: str, provisioner: str, **more: object
) -> AsyncIterator[str]:
    if server_kind != "real":
        pytest.skip("needs kube-controller-manager's volume controller, and simulated nodes")
    name = f"{stage.name}-late"
    made = {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
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


async def test_each_of_a_gang_goes_to_a_volume_of_its_own(stage: Stage, hand_class: str) -> None:
    nodes = [await stage.add_node(cpu=8) for _ in range(3)]
    for index, node in enumerate(nodes):
        await local_volume(stage, f"disk-{index}", hand_class, node)
        await claim(stage, f"data-{index}", hand_class)
    await gang_with_claims(stage, 3)

    await stage.runs_whole(members("gang"), 3)

    assert await volumes_are_where_their_pods_are(stage) == set(nodes)


async def test_a_gang_waits_for_the_last_volume_and_starts_when_it_comes(
    stage: Stage, hand_class: str
) -> None:
    nodes = [await stage.add_node(cpu=8) for _ in range(3)]
    for index, node in enumerate(nodes):
        await claim(stage, f"data-{index}", hand_class)
        if index < 2:
            await local_volume(stage, f"disk-{index}", hand_class, node)
    await gang_with_claims(stage, 3)

    blocker = await stage.waits("gang", needed=1, free=0)
    missing = f"no ReadWriteOnce volume of class {hand_class} with >= 1Gi is left on 3 of "
    assert missing in blocker["summary"]
    for index in range(2):
        volume = await stage.client.get(PVS, f"{stage.name}-disk-{index}")
        assert "claimRef" not in volume["spec"]

    await local_volume(stage, "disk-2", hand_class, nodes[2])

    await stage.runs_whole(members("gang"), 3)
    assert await volumes_are_where_their_pods_are(stage) == set(nodes)


async def test_a_volume_that_is_there_comes_before_one_that_would_be_made(
    stage: Stage, late_class: str
) -> None:
    disk = await stage.add_node(cpu=2, labels={DISK: stage.name})
    await local_volume(stage, "disk", late_class, disk)
    for index in range(2):
        await claim(stage, f"data-{index}", late_class)
    await gang_with_claims(stage, 2)

    taken: list[str] = []

    async def one_is_bound() -> bool:
        found = [await claim_of(stage, f"data-{index}") for index in range(2)]
        taken[:] = [c["metadata"]["name"] for c in found if c["spec"].get("volumeName")]
        return len(taken) == 1

    await stage.until("one claim to get the volume", one_is_bound)
    (other,) = {"data-0", "data-1"} - set(taken)
    await asked(stage, other, disk)
    await provision(stage, other, late_class, disk)

    await stage.runs_whole(members("gang"), 2)
    assert SELECTED_NODE not in (await claim_of(stage, taken[0]))["metadata"]["annotations"]


GIVEN = {
    "when the second volume is given": Step(
        lambda method, path: method == "PATCH" and "/persistentvolumes/" in path, nth=2, sent=True
    ),
    "before the first Binding": Step(BIND),
}


@pytest.mark.parametrize("step", GIVEN)
async def test_the_next_leader_finishes_a_gang_whose_volumes_were_given(
    stage: Stage, hand_class: str, tmp_path: Path, step: str
) -> None:
    nodes = [await stage.add_node(cpu=8) for _ in range(3)]
    for index, node in enumerate(nodes):
        await local_volume(stage, f"disk-{index}", hand_class, node)
        await claim(stage, f"data-{index}", hand_class)
    stop_at = GIVEN[step]
    async with two_schedulers(stage, tmp_path) as gate:
        stop = gate.stop_at(stop_at.rule, nth=stop_at.nth, sent=stop_at.sent)
        await gang_with_claims(stage, 3)
        await stop.reached.wait()

        stage.muster.kill(LEADER)
        stop.release(drop=True)

        await stage.until("the second to lead", lambda: leads(stage, SECOND))
        await stage.runs_whole(members("gang"), 3)
        await stage.until("the Reservations to be gone", lambda: none_reserved(stage))
    assert await volumes_are_where_their_pods_are(stage) == set(nodes)


async def volumes_are_where_their_pods_are(stage: Stage) -> set[str]:
    """Each pod's claim has a volume of its own on the pod's node; all these nodes."""
    nodes: set[str] = set()
    volumes: set[str] = set()
    for one in await stage.pods(members("gang")):
        (volume,) = [v for v in one["spec"]["volumes"] if v["name"] == "data"]
        found = await claim_of(stage, volume["persistentVolumeClaim"]["claimName"])
        assert found["status"]["phase"] == "Bound"
        name = found["spec"]["volumeName"]
        bound = await stage.client.get(PVS, name)
        (term,) = bound["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [one["spec"]["nodeName"]]
        volumes.add(name)
        nodes.add(one["spec"]["nodeName"])
    assert len(volumes) == 3
    return nodes


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
    ref = {
        "apiVersion": PVCS.api_version,
        "kind": PVCS.kind,
        "namespace": stage.name,
        "name": name,
        "uid": found["metadata"]["uid"],
    }
    annotations = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
    await _volume(stage, name, storage_class, node, annotations, claimRef=ref)


async def local_volume(stage: Stage, name: str, storage_class: str, node: str) -> None:
    """What a person does: a volume on that node, for anybody."""
    await _volume(stage, name, storage_class, node, {})


async def _volume(
    stage: Stage, name: str, storage_class: str, node: str, annotations: Json, **more: Json
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
    metadata = {"name": f"{stage.name}-{name}", "annotations": annotations}
    head = {"apiVersion": PVS.api_version, "kind": PVS.kind}
    await stage.client.create(PVS, head | {"metadata": metadata, "spec": spec})
