"""Claims of a pod are bound before the pod is."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kube.base.errors import Conflict, KubeError, NotFound, ServerError
from kube.client.quantity import QuantityError
from kube.client.resources import PVCS, PVS
from kube.leader.election import Fence
from scheduler.core.framework.events import Event
from scheduler.core.values.model import (
    ClaimInfo,
    PodInfo,
    Requirements,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.decoding.volume_decode import SELECTED_NODE
from scheduler.decoding.volume_objects import decode_volume
from scheduler.watch.object_handlers import volume_handler
from tests.scheduler.binding.test_recovery import lead, left_behind
from tests.scheduler.core.framework.cluster import DATA, claim, disk, user
from tests.scheduler.harness import Harness
from tests.scheduler.state_builder import requests

HOST = "kubernetes.io/hostname"


def prepared(nodes: str = "a b", **options: Any) -> Harness:
    harness = Harness(**options)
    for name in nodes.split():
        harness.builder.node(name, labels={HOST: name})
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "csi.example")):
        storage = harness.builder.state.volumes
        storage.set_class(StorageClassInfo(name, provisioner, waits=True))
    return harness


def given(harness: Harness) -> list[str]:
    """Return the volumes that got a claim's reference, in order."""
    return [name for kind, name, _ in harness.api.patches if kind == PVS.kind]


async def decided(harness: Harness, seconds: float = 5) -> None:
    async with harness.leading():
        await harness.settle(seconds)


REF = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data",
    "uid": "u-data",
}  # fmt: skip
AT = {"op": "replace", "path": "/metadata/resourceVersion", "value": "2"}


async def test_the_volume_gets_its_claim_ref_before_the_pod_is_bound() -> None:
    harness = prepared()
    harness.api.binds_volumes = False
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    info = user(harness.builder, "data")
    storage = harness.builder.state.volumes

    async with harness.leading():
        await harness.settle(5)
        before = dict(harness.api.bound)
        storage.set_claim(replace(storage.claims[DATA], volume="disk"))
        await harness.settle()

    (patch,) = [ops for kind, _, ops in harness.api.patches if kind == PVS.kind]
    annotation = "/metadata/annotations/pv.kubernetes.io~1bound-by-controller"
    assert patch == [
        AT,
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": annotation, "value": "yes"},
        {"op": "add", "path": "/spec/claimRef", "value": REF},
    ]
    assert (before, harness.api.bound) == ({}, {info.name: "b"})


async def test_a_volume_reserved_for_the_claim_gets_its_uid_and_no_annotation() -> None:
    harness = prepared()
    disk(harness.builder, "disk", "b", claim=DATA)
    claim(harness.builder)
    user(harness.builder, "data")

    await decided(harness)

    (patch,) = [ops for kind, _, ops in harness.api.patches if kind == PVS.kind]
    assert patch == [AT, {"op": "add", "path": "/spec/claimRef", "value": REF}]


async def test_a_volume_with_the_claim_ref_is_not_written() -> None:
    harness = prepared()
    disk(harness.builder, "disk", "b", claim=DATA, claim_uid="u-data")
    claim(harness.builder)
    info = user(harness.builder, "data")
    storage = harness.builder.state.volumes

    async with harness.leading():
        await harness.settle(2)
        storage.set_claim(replace(storage.claims[DATA], volume="disk"))
        await harness.settle()

    assert given(harness) == []
    assert harness.api.bound == {info.name: "b"}


async def test_pods_that_share_a_claim_are_bound_after_one_write() -> None:
    harness = prepared()
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    harness.builder.gang("g", 2)
    for _ in range(2):
        user(harness.builder, "data", group="g")

    await decided(harness)

    assert given(harness) == ["disk"]
    assert list(harness.api.bound.values()) == ["b", "b"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"claim": ("ns", "other"), "claim_uid": "u"}, id="another claim's"),
        pytest.param({"claim": DATA, "claim_uid": "u"}, id="a namesake's"),
        pytest.param({"terminating": True}, id="about to go"),
    ],
)
async def test_another_volume_is_chosen_if_the_first_is_taken_when_it_is_written(
    change: dict[str, Any],
) -> None:
    harness = prepared()
    disk(harness.builder, "disk", "a")
    disk(harness.builder, "later", "b", size=9 << 30)
    claim(harness.builder)
    info = user(harness.builder, "data")
    get, storage = harness.api.get, harness.builder.state.volumes

    async def taken(resource: Any, name: str, namespace: str | None = None) -> Any:
        if name == "disk":
            disk(harness.builder, "disk", "a", **change)
            harness.builder.state.happened(Event.VOLUME)
        return await get(resource, name, namespace)

    harness.api.get = taken  # type: ignore[method-assign]
    await decided(harness)

    assert given(harness) == ["later"]
    assert harness.api.bound == {info.name: "b"}
    assert storage.claims[DATA].volume == "later"


@pytest.mark.parametrize(
    ("error", "writes"),
    [
        pytest.param(Conflict(409, "Conflict", "another version"), 2, id="written meanwhile"),
        pytest.param(KubeError("connection reset"), 0, id="refused"),
    ],
)
async def test_a_write_that_fails(error: KubeError, writes: int) -> None:
    harness = prepared()
    harness.builder.gang("g", 2)
    for index, node in enumerate("ab"):
        disk(harness.builder, f"disk-{node}", node)
        claim(harness.builder, f"data-{index}")
        user(harness.builder, f"data-{index}", group="g")
    errors = {"disk-a": [error], "disk-b": [error]}
    harness.api.fail_patch = lambda name: errors[name].pop() if errors[name] else None

    async with harness.leading():
        # Less time than the backoff of a failed root.
        await harness.settle(0.5)
        soon = len(given(harness))
        await harness.settle(5)

    assert soon == writes
    assert len(harness.api.bound) == 2


async def test_a_claim_that_is_not_bound_in_time_releases_its_volume() -> None:
    harness = prepared(timeout=10)
    harness.api.binds_volumes = False
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    user(harness.builder, "data")

    async with harness.leading():
        await harness.settle(9)
        waits = harness.activity.busy
        harness.builder.node("b", unschedulable=True, labels={HOST: "b"})
        await harness.settle(3)

    assert waits
    assert not harness.activity.busy
    assert harness.api.bound == {}
    assert list(harness.builder.state.volumes.assumed) == []


async def test_a_claim_is_bound_once_its_volume_is_seen() -> None:
    harness = prepared("a")
    claim(harness.builder, storage_class="made")
    info = user(harness.builder, "data")
    storage = harness.builder.state.volumes

    async with harness.leading():
        await harness.settle(1)
        storage.set_claim(replace(storage.claims[DATA], volume="made"))
        await harness.settle(1)
        before = dict(harness.api.bound)
        disk(harness.builder, "made", "a", claim=DATA, claim_uid="u-data")
        await harness.settle()

    assert (before, harness.api.bound) == ({}, {info.name: "a"})


async def test_no_volume_is_written_after_the_lease() -> None:
    harness = prepared()
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    user(harness.builder, "data")
    get = harness.api.get

    async def late(resource: Any, name: str, namespace: str | None = None) -> Any:
        harness.fence.revoke()
        return await get(resource, name, namespace)

    harness.api.get = late  # type: ignore[method-assign]
    await decided(harness, 1)

    assert given(harness) == []


async def test_no_pod_waits_for_a_claim_longer_than_the_lease() -> None:
    harness = prepared()
    harness.fence = Fence(harness.clock, 1, harness.clock.monotonic() + 3)
    harness.api.binds_volumes = False
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    user(harness.builder, "data")

    async with harness.leading():
        await harness.settle(2)
        waits = harness.activity.busy
        await harness.settle(2)

    assert (waits, harness.activity.busy) == (True, False)


@pytest.mark.parametrize("what", ["the pod", "the node", "the claim"])
async def test_waiting_for_a_claim_ends_when_what_it_needs_is_deleted(what: str) -> None:
    harness = prepared()
    harness.api.binds_volumes = False
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    info = user(harness.builder, "data")
    state = harness.builder.state

    async with harness.leading():
        await harness.settle(1)
        waits = harness.activity.busy
        if what == "the pod":
            state.remove_pod(info.uid)
        elif what == "the node":
            state.remove_node("b")
        else:
            state.volumes.remove_claim(DATA)
        await harness.settle(1)

    assert waits
    assert not harness.activity.busy
    assert harness.api.bound == {}


async def test_waiting_for_a_claim_ends_when_the_controller_removes_the_claim_ref() -> None:
    harness = prepared()
    harness.api.binds_volumes = False
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    user(harness.builder, "data")

    async with harness.leading():
        await harness.settle(1)
        harness.builder.node("b", unschedulable=True, labels={HOST: "b"})
        disk(harness.builder, "disk", "b", available=False)
        await harness.settle(1)

    assert not harness.activity.busy


async def test_a_pod_is_not_bound_where_its_volume_cannot_be_used() -> None:
    harness = prepared()
    harness.api.binds_volumes = False
    disk(harness.builder, "disk", "a", storage_class="made")
    claim(harness.builder, storage_class="made")
    info = user(harness.builder, "data")
    storage = harness.builder.state.volumes

    async with harness.leading():
        await harness.settle(1)
        disk(harness.builder, "elsewhere", "b", claim=DATA, claim_uid="u-data")
        storage.set_claim(replace(storage.claims[DATA], volume="elsewhere"))
        harness.builder.state.happened(Event.VOLUME)
        await harness.settle(5)

    assert harness.api.bound == {info.name: "b"}


async def test_a_claim_with_the_selected_node_is_not_written_again() -> None:
    harness = prepared("a")
    claim(harness.builder, storage_class="made")
    user(harness.builder, "data")
    get = harness.api.get

    async def told(resource: Any, name: str, namespace: str | None = None) -> Any:
        found = await get(resource, name, namespace)
        if resource == PVCS:
            found["metadata"]["annotations"] = {SELECTED_NODE: "a"}
        return found

    harness.api.get = told  # type: ignore[method-assign]
    await decided(harness, 2)

    assert [kind for kind, _, _ in harness.api.patches if kind == PVCS.kind] == []


def gang_on_disks(harness: Harness) -> list[tuple[PodInfo, str]]:
    """Create three members, which an earlier leader decided for c, b and a."""
    harness.builder.gang("g", 3)
    members = []
    for index, node in enumerate("cba"):
        disk(harness.builder, f"disk-{node}", node)
        claim(harness.builder, f"data-{index}")
        members.append((user(harness.builder, f"data-{index}", group="g"), node))
    return members


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("bound", [False, True], ids=["given", "bound"])
async def test_the_next_leader_completes_volumes_with_a_claim_ref(count: int, bound: bool) -> None:
    harness = prepared("a b c")
    members = gang_on_disks(harness)
    storage = harness.builder.state.volumes
    for index in range(count):
        key, node = ("ns", f"data-{index}"), members[index][1]
        disk(harness.builder, f"disk-{node}", node, claim=key, claim_uid=f"u-data-{index}")
        if bound:
            storage.set_claim(replace(storage.claims[key], volume=f"disk-{node}"))
    left_behind(harness, *members)
    volume_controller(harness)

    await lead(harness)

    assert harness.api.bound == {info.name: node for info, node in members}
    assert len(given(harness)) == 3 - count
    assert harness.api.reservations == {}


async def test_a_claim_ref_stays_when_the_decision_cannot_be_completed() -> None:
    harness = prepared("a b c")
    members = gang_on_disks(harness)
    disk(harness.builder, "disk-c", "c", claim=("ns", "data-0"), claim_uid="u-data-0")
    left_behind(harness, members[0], members[1], (members[2][0], "gone"))
    volume_controller(harness)

    await lead(harness)

    assert harness.api.bound[members[0][0].name] == "c"
    assert set(harness.api.bound.values()) == {"a", "b", "c"}


def volume_controller(harness: Harness) -> None:
    """Bind claims to volumes that have their reference, as soon as a binder waits for them."""
    get, storage = harness.api.get, harness.builder.state.volumes

    async def bind(resource: Any, name: str, namespace: str | None = None) -> Any:
        found = await get(resource, name, namespace)
        if resource == PVS and "claimRef" in found["spec"]:
            ref = found["spec"]["claimRef"]
            known = storage.claims[ref["namespace"], ref["name"]]
            storage.set_claim(replace(known, volume=name))
        return found

    harness.api.get = bind  # type: ignore[method-assign]


async def test_a_volume_deleted_before_it_is_written_is_replaced() -> None:
    harness = prepared()
    disk(harness.builder, "disk", "a")
    disk(harness.builder, "later", "b", size=9 << 30)
    claim(harness.builder)
    info = user(harness.builder, "data")
    get = harness.api.get

    async def gone(resource: Any, name: str, namespace: str | None = None) -> Any:
        if name == "disk":
            harness.builder.state.volumes.remove_volume(name)
            harness.builder.state.happened(Event.VOLUME)
            raise NotFound(404, "NotFound", name)
        return await get(resource, name, namespace)

    harness.api.get = gone  # type: ignore[method-assign]
    await decided(harness)

    assert harness.api.bound == {info.name: "b"}


def test_a_volume_whose_size_cannot_be_read_is_left_out() -> None:
    state = prepared().builder.state
    handler = volume_handler(state, lambda: None)
    body = {"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"}}}
    handler.upsert(decode_volume(msgspec.json.encode(body)))
    seen = list(state.volumes.volumes)
    body["spec"] = {"capacity": {"storage": "much"}}
    with pytest.raises(QuantityError):
        handler.upsert(decode_volume(msgspec.json.encode(body)))
    handler.set_aside(("", "disk"), b"")

    assert (seen, list(state.volumes.volumes)) == (["disk"], [])


@pytest.mark.parametrize(
    "error", [ServerError(500, "InternalError", "webhook"), Conflict(409, "Conflict", "")], ids=str
)
async def test_a_claim_that_can_never_be_written_is_given_up_in_time(error: KubeError) -> None:
    harness = prepared(timeout=20)
    claim(harness.builder, storage_class="made")
    info = user(harness.builder, "data")
    tries = 0

    def fail(_name: str) -> KubeError:
        nonlocal tries
        tries += 1
        return error

    harness.api.fail_patch = fail
    async with harness.leading(unsettled="it is decided again"):
        await harness.settle(19)
        assert harness.builder.single(info).assumed
        await harness.settle(1.5)
        assert not harness.builder.single(info).assumed

    assert 5 <= tries <= 20


async def test_a_namespace_whose_claims_are_never_provisioned_does_not_stop_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.binding.binder._PROVISIONED_AT_ONCE", 10)
    harness = prepared(timeout=30)
    harness.builder.node("big", cpu=100, labels={HOST: "big"})
    never = []
    for number in range(20):
        claim(harness.builder, f"never{number}", storage_class="made")
        never.append(user(harness.builder, f"never{number}"))
    storage = harness.builder.state.volumes

    async with harness.leading(unsettled="nothing is provisioned"):
        await harness.settle(2)
        assert len(selected(harness)) == 7  # two thirds of the maximum in flight
        theirs = ClaimInfo(("other", "data"), "", "made", uid="u")
        storage.set_claim(theirs)
        other = harness.builder.pod(
            namespace="other", requirements=Requirements(requests(1), claims=(theirs.key,))
        )
        await harness.settle(1)
        assert len(selected(harness)) == 8
        storage.set_volume(VolumeInfo("made", claim=theirs.key))
        storage.set_claim(replace(theirs, volume="made"))
        await harness.settle(1)
        assert set(harness.api.bound) == {other.name}

        # The deadline of the queued ones applies as well.
        await harness.settle(27)
        users = [harness.builder.single(info).key for info in never]
        assert {harness.queue.failures(key) for key in users} == {1}


def selected(harness: Harness) -> list[str]:
    """Return the claims with a selected node."""
    return [name for kind, name, _ in harness.api.patches if kind == PVCS.kind]


@pytest.mark.parametrize("ref", [{"name": "data"}, {"namespace": None}, {"kind": "x"}], ids=str)
async def test_a_volume_whose_claim_ref_names_no_claim_is_not_taken(ref: dict[str, Any]) -> None:
    harness = prepared()
    disk(harness.builder, "disk", "a")
    claim(harness.builder)
    info = user(harness.builder, "data")
    get = harness.api.get

    async def odd(resource: Any, name: str, namespace: str | None = None) -> Any:
        obj = await get(resource, name, namespace)
        return obj | {"spec": {"claimRef": ref}} if resource == PVS else obj

    harness.api.get = odd  # type: ignore[method-assign]
    async with harness.leading(unsettled="the volume is tried again"):
        await harness.settle(1)

    assert given(harness) == []
    assert info.name not in harness.api.bound


async def test_whose_a_volume_is_that_others_took_is_not_told() -> None:
    """Conditions, events and blockers do not name objects of another namespace."""
    harness = prepared("a b")
    disk(harness.builder, "disk", "b")
    claim(harness.builder)
    user(harness.builder, "data")
    harness.observe_pods()
    theirs = {"namespace": "acme-merger", "name": "q3-forecast-data", "uid": "other"}
    get = harness.api.get

    async def taken(resource: Any, name: str, namespace: str | None = None) -> Any:
        found = await get(resource, name, namespace)
        return found | {"spec": {"claimRef": theirs}} if name == "disk" else found

    harness.api.get = taken  # type: ignore[method-assign]
    async with harness.leading(unsettled="it is tried again and again"):
        await harness.settle(30)

    said = f"{harness.api.patches} {harness.events.told}"
    assert 'persistentvolume \\"disk\\" is bound to another claim' in json.dumps(said)
    assert not [name for name in ("acme-merger", "q3-forecast-data") if name in said]
