"""Muster's device allocations that differ from kube-scheduler's, for reasons in docs/filters.md.

If one of these fails, kube-scheduler may have changed: then `device_scenarios` can include it, too.
"""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.harness.controlplane.places import before
from e2e.kubernetes.scheduler import device_answers as answers
from e2e.kubernetes.scheduler.device_answers import Json, Ours
from e2e.kubernetes.scheduler.device_scenarios import DeviceScenario
from e2e.kubernetes.scheduler.kube_scheduler import kube_scheduler

GPU, NIC = "gpu.example.com", "nic.example.com"
TWO: Json = {"counters": {"memory": {"value": "2"}}}
TAKES_TWO: Json = {"consumesCounters": [{"counterSet": "set", **TWO}]}
HAS_TWO: list[Json] = [{"name": "set", **TWO}]


def node_slice(name: str, node: str, driver: str = GPU, count: int = 1, **content: Any) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": driver, "nodeName": node, "pool": pool, **content}
    return {"metadata": {"name": name}, "spec": spec}


def _device(name: str, rail: int | None = None, **more: Any) -> Json:
    attributes = {} if rail is None else {"rail": {"int": rail}}
    return {"name": name, "attributes": attributes, **more}


def _request(name: str = "req", driver: str = GPU, **exactly: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": driver, **exactly}}


def _counters_of_two_drivers() -> tuple[list[Json], Json]:
    """Return pools with the same name; kube-scheduler counts both against the first."""
    slices = [
        node_slice(f"{driver}-{part}", "n0", driver, 2, **content)
        for driver in (GPU, NIC)
        for part, content in (
            ("devices", {"devices": [_device("dev", **TAKES_TWO)]}),
            ("sets", {"sharedCounters": HAS_TWO}),
        )
    ]
    return slices, {"requests": [_request("one"), _request("two", NIC)]}


def _distinct_values_of_three() -> tuple[list[Json], Json]:
    """Return a case in which kube-scheduler compares a device only with the request's last one."""
    devices = [_device("a", 0), _device("b", 1), _device("c", 0)]
    constraint = {"distinctAttribute": f"{GPU}/rail"}
    claim = {"requests": [_request(count=3)], "constraints": [constraint]}
    return [node_slice("gpu", "n0", devices=devices)], claim


def _share_of_a_device_with_counters() -> tuple[list[Json], Json]:
    """Return a used share of the one device, which has no capacity: its counters are used."""
    devices = [_device("shared", allowMultipleAllocations=True, **TAKES_TWO)]
    slices = [
        node_slice("devices", "n0", count=2, devices=devices),
        node_slice("sets", "n0", count=2, sharedCounters=HAS_TWO),
    ]
    return slices, {"requests": [_request()]}


def _incomplete_counters_elsewhere() -> tuple[list[Json], Json]:
    """Return a pool of n1 without one slice; none of its devices can be used on n0."""
    slices = [
        node_slice("gpu", "n0", devices=[_device("a")]),
        node_slice("sets", "n1", count=2, sharedCounters=HAS_TWO),
    ]
    return slices, {"requests": [_request(allocationMode="All")]}


def _error_on_one_node() -> tuple[list[Json], Json]:
    """Return a device of n1 without the attribute that the selector reads."""
    slices = [
        node_slice("good", "n0", devices=[_device("a", 0)]),
        node_slice("bad", "n1", devices=[_device("a")]),
    ]
    expression = f'device.attributes["{GPU}"].rail == 0'
    return slices, {"requests": [_request(selectors=[{"cel": {"expression": expression}}])]}


Fault = Callable[[], tuple[list[Json], Json]]
Differences = dict[Fault, tuple[set[str], set[str], str]]

FAULTS: Differences = {
    _incomplete_counters_elsewhere: ({"n0"}, set(), "n1 is currently being updated"),
    _error_on_one_node: ({"n0"}, set(), "CEL runtime error: no such key: rail"),
}
"""The nodes of Muster and of kube-scheduler, and kube-scheduler's message."""

FIXED: Differences = {
    _counters_of_two_drivers: ({"n0"}, set(), "cannot allocate all claims"),
    _distinct_values_of_three: (set(), {"n0"}, "noted"),
    _share_of_a_device_with_counters: ({"n0"}, set(), "cannot allocate all claims"),
}
"""The same of faults that Kubernetes 1.37 has no more: there, kube-scheduler decides as Muster."""


async def test_known_differences_are_still_there(server_kind: str) -> None:
    if server_kind != "real":
        pytest.skip("kube-scheduler needs a real control plane")
    faults = FAULTS | FIXED if before("1.37") else FAULTS
    found = {}
    async with kube_scheduler() as (_, rest, extender), answers.decisions(rest) as seen:
        for number, fault in enumerate(faults):
            made = scenario(f"fault-{number}", *fault())
            await answers.create(rest, made)
            ours = Ours(rest, made.namespace)
            await ours.read()
            (pod,) = made.candidates
            here = await ours.answer(pod)
            await answers.theirs(rest, extender, seen, pod)  # its caches are up to date then
            there = await answers.theirs(rest, extender, seen, pod)
            said = faults[fault][2]
            told = said if said in there.message else there.message
            found[fault] = (set(here.nodes), set(there.nodes), told)
            await answers.clear(rest, made)

    assert found == faults


def scenario(namespace: str, slices: list[Json], asked: Json) -> DeviceScenario:
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "10"}
    nodes = [
        {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
        for name in ("n0", "n1")
    ]
    classes = [
        {
            "metadata": {"name": driver},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
        }
        for driver in (GPU, NIC)
    ]
    claims = [{"metadata": {"name": "asked"}, "spec": {"devices": asked}}]
    if any("allowMultipleAllocations" in device for device in _devices(slices)):
        claims.append(_taken_share())
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "entry", "resourceClaimName": "asked"}],
    }
    pod = {"metadata": {"name": "pod", "namespace": namespace}, "spec": spec}
    return DeviceScenario(namespace, nodes, classes, slices, claims, [pod])


def _devices(slices: list[Json]) -> list[Json]:
    return [device for each in slices for device in each["spec"].get("devices", ())]


def _taken_share() -> Json:
    uid = "00000000-0000-4000-8000-000000000001"
    device = {"driver": GPU, "pool": "n0", "device": "shared"}
    result = {"request": "req", "shareID": uid, **device}
    return {
        "metadata": {"name": "taken"},
        "spec": {"devices": {"requests": [_request()]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "somebody", "uid": uid}],
        },
    }
