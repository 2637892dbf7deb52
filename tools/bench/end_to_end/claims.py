"""Devices and claims of the cases that have any, created before scheduling starts.

Claims of single pods are created as kube-controller-manager does from a template: the pod is their
owner, and the pod's status names them. That happens beforehand, so that only scheduling counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.bench.end_to_end.cases import Case, Claims
from tools.bench.end_to_end.wire import MERGE_PATCH, Wire, request

Json = dict[str, Any]

NAMESPACE = "bench"
DRIVER = "gpu.example.com"
CLASS = "gpu"
EMPTY_CLASS = "other"
ENTRY = "devices"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_POOL = "dra.example.com/pool"
_TAINT = "example.com/taint"


def entry(claims: Claims, pod: str) -> Json:
    """Return the entry of the pod's spec.resourceClaims."""
    if claims.own:
        return {"name": ENTRY, "resourceClaimTemplateName": "template"}
    return {"name": ENTRY, "resourceClaimName": claim_of(claims, pod)}


def claim_of(claims: Claims, pod: str) -> str:
    """Return the name of a pod's claim; the pod's name ends with its index in the gang."""
    lot, _, index = pod.rpartition("-")
    return f"{pod}-{ENTRY}" if claims.own else f"{lot}-claim-{int(index) // claims.sharers}"


async def prepare(wire: Wire, case: Case) -> None:
    """Create devices, classes, and claims of others that are already allocated."""
    claims = case.claims
    assert claims is not None
    await wire.post(CLASSES, [_class(CLASS, DRIVER), _class(EMPTY_CLASS, "none.example.com")])
    await wire.post(SLICES, list(slices(case)))
    taken = list(_taken(case))
    await wire.post(CLAIMS, [_claim(name, claims) for name, _ in taken])
    await wire.send(
        request(wire.access, "PATCH", f"{CLAIMS}/{name}/status", {"status": status}, MERGE_PATCH)
        for name, status in taken
    )


async def give(wire: Wire, case: Case, pods: Sequence[str]) -> None:
    """Create the claims of these existing pods."""
    claims = case.claims
    assert claims is not None
    if not claims.own:
        names = dict.fromkeys(claim_of(claims, pod) for pod in pods)
        await wire.post(CLAIMS, [_claim(name, claims) for name in names])
        return
    found = json.loads(await wire.get(PODS))["items"]
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
    await wire.post(CLAIMS, [_own(pod, uids[pod], claims) for pod in pods])
    told = ({"name": ENTRY, "resourceClaimName": claim_of(claims, pod)} for pod in pods)
    await wire.send(
        request(
            wire.access,
            "PATCH",
            f"{PODS}/{pod}/status",
            {"status": {"resourceClaimStatuses": [one]}},
            MERGE_PATCH,
        )
        for pod, one in zip(pods, told, strict=True)
    )


async def take_away(wire: Wire, pods: Sequence[str]) -> None:
    """Delete these pods, and their own claims as Kubernetes' controllers would."""
    access = wire.access
    names = [f"{pod}-{ENTRY}" for pod in pods]
    none = {"allocation": None, "reservedFor": None}
    # As Kubernetes' controllers do: deallocate, remove the finalizer, then delete the claim.
    await wire.send(request(access, "DELETE", f"{PODS}/{pod}") for pod in pods)
    await wire.send(
        request(access, "PATCH", f"{CLAIMS}/{name}/status", {"status": none}, MERGE_PATCH)
        for name in names
    )
    bare = {"metadata": {"finalizers": None}}
    await wire.send(
        request(access, "PATCH", f"{CLAIMS}/{name}", bare, MERGE_PATCH) for name in names
    )
    await wire.send(request(access, "DELETE", f"{CLAIMS}/{name}") for name in names)


def allocation(node: str, device: int, count: int = 1) -> Json:
    """Return an allocation of a node's devices from a number on, as a scheduler writes it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    results = [
        {"request": "req-0", "driver": DRIVER, "pool": node, "device": f"gpu-{device + at}"}
        for at in range(count)
    ]
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }


def consumers(names: Mapping[str, str]) -> list[Json]:
    """Return status.reservedFor for these pods, UIDs by name."""
    return [{"resource": "pods", "name": name, "uid": uid} for name, uid in names.items()]


def slices(case: Case) -> Iterator[Json]:
    """Yield a pool of equal devices on each node, or what the claims' content needs instead."""
    claims = case.claims
    assert claims is not None
    if claims.content == "network":
        devices = [{"name": f"channel-{at}"} for at in range(claims.devices)]
        yield _slice("network", 1, allNodes=True, devices=devices)
        return
    if claims.content in ("partitions", "shares"):
        yield from _pools_of_all(case, claims)
        return
    for index in range(case.nodes):
        devices = [_device(claims, at) for at in range(claims.devices)]
        yield _slice(f"n{index}", 1, nodeName=f"n{index}", devices=devices)


def _pools_of_all(case: Case, claims: Claims) -> Iterator[Json]:
    """Yield pools that every node sees, one for each pod, as upstream's cases do."""
    for index in range(case.pods):
        pool = f"p{index}"
        if claims.content == "shares":
            policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
            memory = {"memory": {"value": "80Gi", "requestPolicy": policy}}
            device = {"name": "shared", "allowMultipleAllocations": True, "capacity": memory}
            yield _slice(pool, 1, allNodes=True, devices=[device])
            continue
        counters = {f"counter{at}": {"value": "1"} for at in range(4)}
        sets = [{"name": "set", "counters": counters}]
        yield _slice(pool, 2, "sets", allNodes=True, sharedCounters=sets)
        parts = [("01",), ("23",), ("0", "1", "2", "3")]
        devices = [
            {
                "name": f"part-{part}",
                "attributes": {_POOL: {"int": index}, "size": {"int": len(part)}},
                "consumesCounters": [
                    {"counterSet": "set", "counters": {f"counter{c}": {"value": "1"} for c in part}}
                ],
            }
            for group in parts
            for part in group
        ]
        yield _slice(pool, 2, "devices", allNodes=True, devices=devices)


def _slice(pool: str, count: int, part: str = "", **content: Any) -> Json:
    of = {"name": pool, "generation": 1, "resourceSliceCount": count}
    name = f"{pool}-{part or 'devices'}"
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": of, **content}}


def _device(claims: Claims, at: int) -> Json:
    device: Json = {
        "name": f"gpu-{at}",
        "attributes": {"model": {"string": "a100"}, "rail": {"int": at // 2}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    if claims.content == "tolerations":
        device["taints"] = [{"key": _TAINT, "value": "tainted", "effect": "NoSchedule"}]
    return device


def _class(name: str, driver: str) -> Json:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def _taken(case: Case) -> Iterator[tuple[str, Json]]:
    """Yield claims that already have the first devices of every node, with their statuses."""
    claims = case.claims
    assert claims is not None
    if claims.content == "partitions":
        # Only the smallest parts fit together then, and these are found last.
        for index in range(case.pods):
            pool, name = f"p{index}", f"taken-{index}"
            one = {"request": "req-0", "driver": DRIVER, "pool": pool, "device": "part-01"}
            given = {"devices": {"results": [one]}}
            yield name, {"allocation": given, "reservedFor": consumers({"other": name})}
        return
    each, left = round(claims.devices * claims.taken), claims.devices * case.nodes
    if claims.free:
        each, left = claims.devices, left - claims.free
    for index in range(case.nodes):
        for device in range(min(each, left - index * each)):
            name = f"taken-{index}-{device}"
            given = allocation(f"n{index}", device)
            yield name, {"allocation": given, "reservedFor": consumers({"other": name})}


def _claim(name: str, claims: Claims) -> Json:
    return {"metadata": {"name": name}, "spec": {"devices": _asked(claims)}}


def _own(pod: str, uid: str, claims: Claims) -> Json:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
    made = _claim(claim_of(claims, pod), claims)
    made["metadata"]["ownerReferences"] = [owner]
    made["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": ENTRY}
    return made


def _asked(claims: Claims) -> Json:
    exactly: Json = {"deviceClassName": CLASS}
    if claims.content == "list":
        options = [
            {"name": "sub-0", "deviceClassName": EMPTY_CLASS},
            {"name": "sub-1", "deviceClassName": CLASS},
        ]
        return {"requests": [{"name": "req-0", "firstAvailable": options}]}
    if claims.content == "selector":
        expression = f'device.attributes["{DRIVER}"].model == "a100"'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    if claims.content == "tolerations":
        exactly["tolerations"] = [{"key": _TAINT, "operator": "Exists"}]
    if claims.content == "shares":
        exactly["capacity"] = {"requests": {"memory": "40Gi"}}
        return {"requests": [{"name": f"req-{at}", "exactly": exactly} for at in range(2)]}
    if claims.content == "partitions":
        constraint = {"requests": ["req-0"], "matchAttribute": _POOL}
        two = {**exactly, "count": 2}
        return {"requests": [{"name": "req-0", "exactly": two}], "constraints": [constraint]}
    return {"requests": [{"name": "req-0", "exactly": exactly}]}
