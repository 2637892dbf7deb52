"""Statuses of claims."""

from e2e.kubernetes.apiserver.devices.builders import (
    ALLOCATED,
    ALLOCATION,
    ALTERNATIVES,
    DRIVER,
    RESERVED,
    RESULT,
    allocation,
    changed,
    consumer,
    device_status,
    status,
)

_RESULT = "devices.results.0"
_SELECTOR = "nodeSelector.nodeSelectorTerms"
OTHER = changed(ALLOCATION, [(f"{_RESULT}.device", "gpu-1")])
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Set",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
SHARE = "c4b8a4c6-0d3c-4a0f-9b57-0f6a0b9a3b11"
DEVICE = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
OPAQUE = {"driver": DRIVER, "parameters": {"a": 1}}

STATUSES = [
    status("allocated and reserved", RESERVED),
    status("allocated", ALLOCATED),
    status("allocated and then reserved", ALLOCATED, RESERVED),
    status("reserved without allocation", {"reservedFor": [consumer()]}),
    status("another allocation", RESERVED, {**RESERVED, "allocation": OTHER}),
    status(
        "a timestamp that comes later",
        RESERVED,
        {**RESERVED, "allocation": {**ALLOCATION, "allocationTimestamp": "2026-01-01T00:00:00Z"}},
    ),
    status("the allocation taken away from its consumers", RESERVED, {"reservedFor": [consumer()]}),
    status("given back", RESERVED, {}),
    status("given back and allocated anew", RESERVED, {}, {**RESERVED, "allocation": OTHER}),
    status("256 consumers", {**ALLOCATED, "reservedFor": [consumer(n) for n in range(256)]}),
    status("257 consumers", {**ALLOCATED, "reservedFor": [consumer(n) for n in range(257)]}),
    status("a consumer twice", {**ALLOCATED, "reservedFor": [consumer(1), consumer(1)]}),
    status("a consumer without uid", {**ALLOCATED, "reservedFor": [consumer(uid="")]}),
    status("a consumer without name", {**ALLOCATED, "reservedFor": [consumer(name="")]}),
    status("a consumer without resource", {**ALLOCATED, "reservedFor": [consumer(resource="")]}),
    allocation("no devices", ("devices", {})),
    allocation("no node selector", ("nodeSelector", {"nodeSelectorTerms": []})),
    allocation("a term without anything", (_SELECTOR, [{}])),
    allocation(
        "a term's operator",
        (_SELECTOR, [{"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}]),
    ),
    allocation(
        "a term without values",
        (_SELECTOR, [{"matchExpressions": [{"key": "a", "operator": "In"}]}]),
    ),
    allocation(
        "a term with values",
        (_SELECTOR, [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]),
    ),
    allocation(
        "a term's key",
        (_SELECTOR, [{"matchExpressions": [{"key": "a b", "operator": "Exists"}]}]),
    ),
    allocation(
        "a field that cannot be selected",
        (_SELECTOR, [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["b"]}]}]),
    ),
    allocation(
        "a field's operator",
        (_SELECTOR, [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]),
    ),
    allocation("an unknown request", (f"{_RESULT}.request", "tpu")),
    allocation("a request that has no alternatives", (f"{_RESULT}.request", "gpu/big")),
    allocation("an alternative", (f"{_RESULT}.request", "gpu/big"), spec=ALTERNATIVES),
    allocation("no driver", (f"{_RESULT}.driver", "")),
    allocation("a driver that is none", (f"{_RESULT}.driver", "a b")),
    allocation("no pool", (f"{_RESULT}.pool", "")),
    allocation("a pool that is none", (f"{_RESULT}.pool", "a//B")),
    allocation("no device", (f"{_RESULT}.device", "")),
    allocation("a device that is none", (f"{_RESULT}.device", "GPU")),
    allocation("a share", (f"{_RESULT}.shareID", SHARE)),
    allocation("a share that is none", (f"{_RESULT}.shareID", "abc")),
    allocation("a share in capitals", (f"{_RESULT}.shareID", SHARE.upper())),
    allocation("consumed capacity", (f"{_RESULT}.consumedCapacity", {"mem": "1024Mi"})),
    allocation("access without the label", (f"{_RESULT}.adminAccess", True)),
    allocation(
        "access",
        (f"{_RESULT}.adminAccess", True),
        labels={"resource.kubernetes.io/admin-access": "true"},
    ),
    allocation(
        "binding conditions",
        (f"{_RESULT}.bindingConditions", ["a.b/ready"]),
        (f"{_RESULT}.bindingFailureConditions", ["a.b/failed"]),
    ),
    allocation("binding conditions alone", (f"{_RESULT}.bindingConditions", ["a.b/ready"])),
    allocation("failure conditions alone", (f"{_RESULT}.bindingFailureConditions", ["a.b/failed"])),
    allocation(
        "binding conditions that are also failures",
        (f"{_RESULT}.bindingConditions", ["a", "a", "b c"]),
        (f"{_RESULT}.bindingFailureConditions", ["a", "x", "x"]),
    ),
    allocation(
        "binding conditions too many",
        (f"{_RESULT}.bindingConditions", ["a", "b", "c", "d", "e"]),
        (f"{_RESULT}.bindingFailureConditions", ["f", "g", "h", "i", "j"]),
    ),
    allocation("a device twice", ("devices.results", [RESULT, RESULT])),
    allocation("32 devices", ("devices.results", [RESULT] * 32)),
    allocation("33 devices", ("devices.results", [RESULT] * 33)),
    allocation("a config", ("devices.config", [{"source": "FromClass", "opaque": OPAQUE}])),
    allocation("a config's source", ("devices.config", [{"source": "FromX", "opaque": OPAQUE}])),
    allocation("a config without source", ("devices.config", [{"opaque": OPAQUE}])),
    allocation(
        "a config's request",
        ("devices.config", [{"source": "FromClaim", "requests": ["x"], "opaque": OPAQUE}]),
    ),
    allocation(
        "configs too many",
        ("devices.config", [{"source": "FromClass", "opaque": OPAQUE}] * 65),
    ),
    device_status("a device's status", ("conditions", [CONDITION]), ("data", {"a": 1})),
    device_status("a device that is not allocated", ("device", "gpu-7")),
    device_status("a status of a device's share", ("shareID", SHARE)),
    device_status("a condition without reason", ("conditions", [{**CONDITION, "reason": ""}])),
    device_status("a condition's status", ("conditions", [{**CONDITION, "status": "Maybe"}])),
    device_status(
        "conditions too many", ("conditions", [{**CONDITION, "type": f"T{n}"} for n in range(9)])
    ),
    device_status("data that are too long", ("data", {"a": "x" * 10240})),
    device_status(
        "a network device",
        ("networkData", {"interfaceName": "eth0", "ips": ["10.0.0.1/24"], "hardwareAddress": "x"}),
    ),
    device_status(
        "a network device that is wrong",
        ("networkData", {"interfaceName": "e" * 257, "ips": ["10.0.0.1", "10.0.0.01/24"]}),
    ),
    status("a device's status twice", {**RESERVED, "devices": [DEVICE, DEVICE]}),
    status("devices go with the allocation", {**RESERVED, "devices": [DEVICE]}, {}),
    status(
        "the status leaves the spec and the labels alone",
        RESERVED,
        update={"metadata": {"labels": {"a": "b"}}},
    ),
]
