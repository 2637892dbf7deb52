"""DynamicResources: extended resources that nodes offer, or that devices provide."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.core.devices.results import NODE_NAME
from scheduler.core.explain.explain import explain, reasons
from scheduler.core.explain.free_capacity import free_amounts
from scheduler.core.nodes.resource_table import ResourceTable
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.devices import AllocatedDevice, Allocation, DeviceClassInfo
from scheduler.core.values.extended_devices import CLASS_PREFIX
from scheduler.core.values.model import Expression, NodeTerm, PodInfo, Requirements
from tests.scheduler.devices.builders import CLASS, DRIVER, ask, gpu
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.devices.mapped_cluster import GPU, NIC, MappedCluster
from tests.scheduler.state_builder import requests


def node_of(made: DeviceCluster, decision: Placement | Refusal) -> str:
    assert isinstance(decision, Placement), decision
    return made.state.nodes.name_of(decision.rows[0])


def test_a_pod_gets_devices_where_the_node_does_not_offer_the_resource() -> None:
    made = MappedCluster()
    made.gpu_node("n", count=3)
    first, second = made.wants(count=2), made.wants(count=2)

    decision = made.write(made.place_single(first))

    (allocation,) = (decision.devices or {}).values()
    assert {each.request for each in allocation.devices} == {"container-0-request-1"}
    assert made.devices_of(first.device_claims) == ["n:gpu-0", "n:gpu-1"]
    assert isinstance(made.place_single(second), Refusal)
    assert reasons(made.state.framework, made.single(second).shape) == (
        ("cannot allocate all claims", 1),
    )
    assert made.complaints() == []


def test_a_node_that_offers_the_resource_counts_it_and_gives_no_device() -> None:
    made = MappedCluster()
    made.gpu_node("n", count=8)
    made.offers("n", **{GPU: 1})
    first, second = made.wants(), made.wants()

    decision = made.write(made.place_single(first))

    assert not decision.devices
    assert len(made.table.use) == 0
    assert isinstance(made.place_single(second), Refusal)
    assert reasons(made.state.framework, made.single(second).shape) == (
        ("Insufficient example.com/gpu", 1),
    )


def test_a_node_that_offers_none_of_it_gets_devices() -> None:
    made = MappedCluster()
    made.gpu_node("n", count=1)
    made.offers("n", **{GPU: 0})

    assert made.write(made.place_single(made.wants())).devices


def test_a_gang_uses_both_ways_in_one_cluster_and_no_more_than_there_is() -> None:
    made = MappedCluster()
    made.gpu_node("devices", count=2)
    made.offers("native", **{GPU: 2})
    made.gang("five", 5)
    made.gang("four", 4)
    for _ in range(5):
        made.wants("five")
    for _ in range(4):
        made.wants("four")

    assert isinstance(made.place("five"), Refusal)
    decision = made.write(made.place("four"))

    nodes = [made.state.nodes.name_of(row) for row in decision.rows]
    assert sorted(nodes) == ["devices", "devices", "native", "native"]
    assert len(made.table.use) == 2
    assert made.complaints() == []
    assert reasons(made.state.framework, next(iter(made.state.pods.values())).shape) == (
        ("Insufficient example.com/gpu", 1),
        ("cannot allocate all claims", 1),
    )


def test_of_two_resources_a_node_may_offer_either() -> None:
    made = MappedCluster(GPU, NIC)
    for name, offered in (("none", {}), ("gpu", {GPU: 1}), ("nic", {NIC: 1})):
        made.gpu_node(name, count=1)
        made.offers(name, **offered)
    made.gpu_node("both", count=0)
    made.offers("both", **{GPU: 1, NIC: 1})
    pods = [made.wants(more={NIC: 1}) for _ in range(4)]

    placed = {}
    for pod in pods:
        decision = made.place_single(pod)
        if isinstance(decision, Placement):
            made.write(decision)
            given = [a.devices for a in (decision.devices or {}).values()]
            placed[node_of(made, decision)] = [each.request for it in given for each in it]

    # One device is not enough for both resources.
    assert placed == {
        "gpu": ["container-0-request-2"],
        "nic": ["container-0-request-1"],
        "both": [],
    }
    assert made.complaints() == []


def test_a_claim_of_its_own_comes_beside() -> None:
    """kube-scheduler never binds such a pod to a node that offers the resource (DRA faults)."""
    made = MappedCluster()
    made.gpu_node("native", count=1)
    made.offers("native", **{GPU: 1})
    made.gpu_node("devices", count=2)
    claims: list[PodInfo] = []
    for _ in range(3):
        pod = made.wants()
        own = made.claim(f"{pod.name}-0", ask(gpu()), owner=pod.uid)
        wants = replace(pod.requirements, asks=(ask(gpu()),))
        pod = replace(pod, requirements=wants, device_claims=(own, *pod.device_claims))
        made.state.set_pod(pod)
        claims.append(pod)

    given = []
    for pod in claims[:2]:
        decision = made.write(made.place_single(pod))
        given.append((node_of(made, decision), len(decision.devices or {})))

    assert sorted(given) == [("devices", 2), ("native", 1)]
    assert isinstance(made.place_single(claims[2]), Refusal)
    assert made.complaints() == []


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_claim_of_its_own_that_is_allocated_keeps_the_pod_there(where: str) -> None:
    made = MappedCluster()
    made.gpu_node("a", count=1)
    made.gpu_node("b", count=3)
    made.offers("native", **{GPU: 5})
    key = made.claim("held", ask(gpu()))
    terms = (NodeTerm((), (Expression(NODE_NAME, "In", (where,)),)),)
    held = Allocation((AllocatedDevice("gpu", (DRIVER, where, "gpu-0")),), nodes=terms)
    made.table.set_claim(replace(made.table.claims[key], allocation=held))
    pod = made.wants()
    wants = replace(pod.requirements, asks=(key,))
    made.state.set_pod(replace(pod, requirements=wants, device_claims=(key, *pod.device_claims)))

    decision = made.place_single(pod)

    if where == "a":  # the claim uses its only device
        assert isinstance(decision, Refusal)
    else:
        assert node_of(made, decision) == "b"


def test_a_mapping_that_comes_and_goes() -> None:
    made = DeviceCluster()
    made.gpu_node("n", count=2)
    mapped = MappedCluster.wants(made, None)  # type: ignore[arg-type]
    assert isinstance(made.place_single(mapped), Refusal)

    MappedCluster.map(made, GPU)  # type: ignore[arg-type]
    assert made.write(made.place_single(mapped)).devices

    MappedCluster.map(made)  # type: ignore[arg-type]
    late = MappedCluster.wants(made, None)  # type: ignore[arg-type]
    assert isinstance(made.place_single(late), Refusal)
    assert reasons(made.state.framework, made.single(late).shape) == (
        ("Insufficient example.com/gpu", 1),
    )


def test_a_device_plugin_that_takes_over_and_goes_again() -> None:
    made = MappedCluster()
    made.gpu_node("n", count=1)
    made.gpu_node("other", count=0)
    made.offers("n", **{GPU: 1})
    made.offers("n")
    first = made.place_single(made.wants())
    made.offers("n", **{GPU: 4})
    second = made.place_single(made.wants())
    made.state.remove_node("n")
    third = made.place_single(made.wants())

    assert isinstance(first, Placement)
    assert first.devices
    assert isinstance(second, Placement)
    assert not second.devices
    assert isinstance(third, Refusal)


def test_of_two_classes_for_one_resource_the_newest_counts() -> None:
    made = MappedCluster()
    of = made.table.extended.class_of
    made.map(GPU, created="2026-01-01T00:00:00Z", name="b")
    assert of(GPU) == "b"
    made.map(GPU, created="2026-01-01T00:00:00Z", name="a")
    assert of(GPU) == "a"
    made.map(GPU, created="2025-01-01T00:00:00Z", name="old")
    assert of(GPU) == "a"

    made.table.remove_class("a")
    assert of(GPU) == "b"
    made.table.remove_class("b")
    made.table.remove_class(CLASS)
    assert of(GPU) == "old"
    made.table.remove_class("old")
    assert of(GPU) is None


@pytest.mark.parametrize("resource", ["cpu", "memory", "pods", "requests.example.com/gpu"])
def test_no_class_stands_for_a_resource_of_the_core(resource: str) -> None:
    made = MappedCluster(resource)
    made.gpu_node("n", count=8)
    made.offers("n", cpu=1)
    pod = made.pod(requirements=Requirements(requests(2)))

    assert made.table.extended.class_of(resource) is None
    assert isinstance(made.place_single(pod), Refusal)


def test_thousands_of_classes_cost_no_node_anything() -> None:
    made = MappedCluster()
    for at in range(3000):
        names = (f"example.com/r{at}", f"{CLASS_PREFIX}c{at}")
        made.table.set_class(DeviceClassInfo(f"c{at}", resources=names))
    made.gpu_node("n", count=1)

    assert len(made.state.nodes.resources.indices) == 3
    assert made.write(made.place_single(made.wants())).devices


def test_more_devices_than_a_claim_can_have_are_refused_where_no_node_offers_them() -> None:
    made = MappedCluster()
    made.gpu_node("devices", count=40)
    made.offers("native", **{GPU: 33})

    assert node_of(made, made.place_single(made.wants(count=33))) == "native"
    made.state.remove_node("native")
    pod = made.wants(count=33)
    assert isinstance(made.place_single(pod), Refusal)
    assert reasons(made.state.framework, made.single(pod).shape) == (
        ("number of requested devices 33 exceeds the claim limit of 32", 1),
    )


@pytest.mark.parametrize("amount", [1 << 43, 1 << 54, (1 << 63) - 1])
def test_amounts_that_no_node_has_fit_nowhere(amount: int) -> None:
    made = MappedCluster()
    made.gpu_node("devices", count=4)
    made.offers("native", **{GPU: 1})

    assert isinstance(made.place_single(made.wants(count=amount)), Refusal)


def test_a_trial_that_is_not_kept_leaves_no_trace() -> None:
    made = MappedCluster()
    made.gpu_node("devices", count=2)
    made.offers("native", **{GPU: 1})
    made.gang("g", 4)
    for _ in range(4):
        made.wants("g")
    before = made.state.nodes.free.copy()
    states = made.table.states_of(slice(None)).copy()

    for _ in range(3):
        assert isinstance(made.place("g"), Refusal)

    assert np.array_equal(made.state.nodes.free, before)
    assert np.array_equal(made.table.states_of(slice(None)), states)


def test_metrics_do_not_show_what_devices_stand_for() -> None:
    made = MappedCluster()
    made.gpu_node("devices", count=2)
    made.offers("native", **{GPU: 3})

    (found,) = [each for each in free_amounts(made.state.nodes) if each.resource == GPU]
    assert (found.free, found.allocatable) == (3, 3)


def test_resources_come_back_exactly() -> None:
    """The arrays equal those of a table that saw only the last state of each node."""
    offers: list[Any] = [{}, {GPU: 2}, {GPU: 0}, {GPU: 7, NIC: 1}, {NIC: 2}]
    rng = np.random.default_rng(7)
    table = ResourceTable(4)
    before: list[dict[str, int]] = [{} for _ in range(4)]
    for row in range(4):
        table.set_node(row, {}, {})
    for _ in range(300):
        match int(rng.integers(4)):
            case 0:
                table.set_by_devices(GPU, by_devices=bool(rng.integers(2)))
            case 1:
                row = int(rng.integers(4))
                table.remove_node(row, before[row])
                before[row] = {}
                table.set_node(row, {}, {})
            case _:
                row, now = int(rng.integers(4)), offers[int(rng.integers(len(offers)))]
                table.set_node(row, before[row], now)
                before[row] = now
        fresh = ResourceTable(4)
        fresh.set_by_devices(GPU, by_devices=table.is_by_devices(GPU))
        for row, now in enumerate(before):
            fresh.set_node(row, {}, now)
        for name, index in fresh.indices.items():
            if name == "pods":
                continue
            other = table.indices[name]
            for row in range(4):
                assert table.free[other, row] == fresh.free[index, row], (name, row)
                assert table.allocatable[other, row] == fresh.allocatable[index, row]


def test_a_refusal_says_in_numbers_which_way_lacks_what() -> None:
    made = MappedCluster()
    made.gpu_node("a", count=2)
    made.gpu_node("b", count=1)
    made.offers("native", **{GPU: 1})
    made.gang("g", 5)
    for _ in range(5):
        made.wants("g")

    refused = made.place("g")
    assert isinstance(refused, Refusal)
    text = explain(made.state, refused).summary

    assert "1 Insufficient example.com/gpu" in text
    assert "2 cannot allocate all claims" in text
    assert "Resource example.com/gpu needs 1 device of class gpu for each of 4 pods; 3 free" in text
