"""Cases of the device kinds: an object to create, and optional changes afterwards."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Change = tuple[str, Any]

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
NONE = object()
"""Sentinel that removes the field."""


@dataclass(frozen=True, slots=True)
class Case:
    """One object, and its changes until the server rejects one.

    `status` are the statuses written one after the other, `update` replaces fields of the stored
    object at the end; `labels` are those of the case's namespace.
    """

    id: str
    plural: str
    obj: Object
    status: tuple[Object, ...] = ()
    update: Object | None = None
    labels: Object | None = None

    @property
    def api_version(self) -> str:
        return "v1" if self.plural == "pods" else GROUP


def changed(base: Object, changes: Sequence[Change]) -> Object:
    """Return a copy of `base` with values at dotted paths; numbers are list indexes."""
    out = copy.deepcopy(base)
    for path, value in changes:
        *parents, last = path.split(".")
        at: Any = out
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if value is NONE:
            del at[last]
        elif isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
    return out


EXACTLY: Object = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
CLAIM_SPEC: Object = {"devices": {"requests": [EXACTLY]}}
ALTERNATIVES: Object = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "big", "deviceClassName": "big.example.com"},
                    {"name": "small", "deviceClassName": "small.example.com", "count": 2},
                ],
            }
        ]
    }
}
POOL: Object = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
SLICE_SPEC: Object = {
    "driver": DRIVER,
    "nodeName": "node-1",
    "pool": POOL,
    "devices": [{"name": "gpu-0"}],
}


def claim(name: str, *changes: Change, spec: Object = CLAIM_SPEC, **more: Any) -> Case:
    """Return a ResourceClaim; paths start at its spec."""
    return Case(f"claim: {name}", "resourceclaims", {"spec": changed(spec, changes)}, **more)


def request(name: str, *changes: Change, **more: Any) -> Case:
    """Return a ResourceClaim with one request; paths start at the request."""
    spec = {"devices": {"requests": [changed(EXACTLY, changes)]}}
    return Case(f"request: {name}", "resourceclaims", {"spec": spec}, **more)


def exactly(name: str, *changes: Change, **more: Any) -> Case:
    """Return a ResourceClaim with one exact request; paths start at `exactly`."""
    return request(name, *((f"exactly.{path}", value) for path, value in changes), **more)


def template(name: str, *changes: Change, **more: Any) -> Case:
    """Return a ResourceClaimTemplate; paths start at its spec."""
    spec = changed({"spec": CLAIM_SPEC}, changes)
    return Case(f"template: {name}", "resourceclaimtemplates", {"spec": spec}, **more)


def device_class(name: str, *changes: Change, **more: Any) -> Case:
    """Return a DeviceClass; paths start at its spec."""
    return Case(f"class: {name}", "deviceclasses", {"spec": changed({}, changes)}, **more)


def resource_slice(name: str, *changes: Change, **more: Any) -> Case:
    """Return a ResourceSlice; paths start at its spec."""
    obj = {"spec": changed(SLICE_SPEC, changes)}
    return Case(f"slice: {name}", "resourceslices", obj, **more)


def device(name: str, *changes: Change, **more: Any) -> Case:
    """Return a ResourceSlice with one device; paths start at the device."""
    return resource_slice(name, *((f"devices.0.{path}", value) for path, value in changes), **more)


RESULT: Object = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
ALLOCATION: Object = {
    "devices": {"results": [RESULT]},
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
        ]
    },
}
ALLOCATED: Object = {"allocation": ALLOCATION}


def consumer(number: int = 0, **more: Any) -> Object:
    """Return an entry of reservedFor that no controller removes, because it is not a pod."""
    uid = f"00000000-0000-0000-0000-{number:012}"
    whom = {"apiGroup": "example.com", "resource": "things", "name": f"thing-{number}", "uid": uid}
    return {**whom, **more}


RESERVED: Object = {"allocation": ALLOCATION, "reservedFor": [consumer()]}


def status(name: str, *statuses: Object, spec: Object = CLAIM_SPEC, **more: Any) -> Case:
    """Return a ResourceClaim with these successive statuses."""
    return Case(f"status: {name}", "resourceclaims", {"spec": spec}, status=statuses, **more)


def allocation(name: str, *changes: Change, **more: Any) -> Case:
    """Return an allocated ResourceClaim; paths start at the allocation."""
    return status(name, {"allocation": changed(ALLOCATION, changes)}, **more)


def device_status(name: str, *changes: Change) -> Case:
    """Return an allocated ResourceClaim with the status of one device, where paths start."""
    one = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
    return status(name, {**RESERVED, "devices": [changed(one, changes)]})


POD_SPEC: Object = {
    "containers": [{"name": "main", "image": "registry.example/main:1"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "absent"}],
}


def pod(name: str, *changes: Change, **more: Any) -> Case:
    """Return a pod with one claim by template; paths start at its spec."""
    return Case(f"pod: {name}", "pods", {"spec": changed(POD_SPEC, changes)}, **more)


def selector(text: str) -> Object:
    """Return a CEL selector."""
    return {"cel": {"expression": text}}
