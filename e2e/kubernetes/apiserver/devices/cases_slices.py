"""Slices and their devices."""

from typing import Any

from e2e.kubernetes.apiserver.devices.builders import NONE, SLICE_SPEC, Case, device, resource_slice

TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
SELECTOR = {"nodeSelectorTerms": [TERM]}
COUNTERS = [{"name": "set", "counters": {"mem": {"value": "80Gi"}}}]
CONSUMES = [{"counterSet": "set", "counters": {"mem": {"value": "1024Mi"}}}]


def devices(number: int, **more: object) -> list[dict[str, object]]:
    return [{"name": f"gpu-{index}", **more} for index in range(number)]


def counters(number: int) -> dict[str, Any]:
    return {f"c{index}": {"value": "1"} for index in range(number)}


def attributes(number: int) -> dict[str, Any]:
    return {f"a{index}": {"int": index} for index in range(number)}


def _shared(name: str, sets: object) -> Case:
    return resource_slice(name, ("devices", NONE), ("sharedCounters", sets))


def _policy(name: str, **policy: object) -> Case:
    capacity = {"mem": {"value": "8Gi", "requestPolicy": policy}}
    return device(f"policy: {name}", ("allowMultipleAllocations", True), ("capacity", capacity))


def _attribute(name: str, **value: object) -> Case:
    return device(f"attribute: {name}", ("attributes", {"x": value}))


def _key(name: str, key: str) -> Case:
    return device(f"attribute: {name}", ("attributes", {key: {"int": 1}}))


def _taint(name: str, **taint: object) -> Case:
    return device(f"taint: {name}", ("taints", [taint]))


SLICES = [
    resource_slice("one device"),
    resource_slice("no devices", ("devices", NONE)),
    resource_slice("no driver", ("driver", "")),
    resource_slice("a driver with capitals", ("driver", "GPU.example.com")),
    resource_slice("a driver that is none", ("driver", "gpu_x")),
    resource_slice("a driver that is too long", ("driver", "x" * 64)),
    resource_slice("no pool", ("pool.name", "")),
    resource_slice("a pool of several parts", ("pool.name", "rack-1/node-1")),
    resource_slice("a pool that is none", ("pool.name", "rack_1//x")),
    resource_slice("a pool that is too long", ("pool.name", "x" * 254)),
    resource_slice("a negative generation", ("pool.generation", -1)),
    resource_slice("no slices", ("pool.resourceSliceCount", 0)),
    resource_slice("no nodes", ("nodeName", NONE)),
    resource_slice("a node without name", ("nodeName", "")),
    resource_slice("a node that is none", ("nodeName", "A b")),
    resource_slice("all nodes", ("nodeName", NONE), ("allNodes", True)),
    resource_slice("not all nodes", ("nodeName", NONE), ("allNodes", False)),
    resource_slice("a selector", ("nodeName", NONE), ("nodeSelector", SELECTOR)),
    resource_slice(
        "a selector of two terms",
        ("nodeName", NONE),
        ("nodeSelector", {"nodeSelectorTerms": [TERM, TERM]}),
    ),
    resource_slice(
        "a selector without terms", ("nodeName", NONE), ("nodeSelector", {"nodeSelectorTerms": []})
    ),
    resource_slice("a node and all nodes", ("allNodes", True), ("nodeSelector", SELECTOR)),
    resource_slice("nodes by device that are not", ("perDeviceNodeSelection", False)),
    resource_slice("128 devices", ("devices", devices(128))),
    resource_slice("129 devices", ("devices", devices(129))),
    resource_slice(
        "64 devices that use counters", ("devices", devices(64, consumesCounters=CONSUMES))
    ),
    resource_slice(
        "65 devices that use counters", ("devices", devices(65, consumesCounters=CONSUMES))
    ),
    resource_slice(
        "65 devices with taints", ("devices", devices(65, taints=[{"key": "a", "effect": "None"}]))
    ),
    resource_slice("a device twice", ("devices", [{"name": "a"}, {"name": "a"}])),
    resource_slice("counters and devices", ("sharedCounters", COUNTERS)),
    _shared("counters", COUNTERS),
    _shared("counters twice", [*COUNTERS, *COUNTERS]),
    _shared("8 sets", [{"name": f"s{n}", "counters": counters(1)} for n in range(8)]),
    _shared("9 sets", [{"name": f"s{n}", "counters": counters(1)} for n in range(9)]),
    _shared("a set without name", [{"counters": counters(1)}]),
    _shared("a set without counters", [{"name": "a"}]),
    _shared("a set of 32", [{"name": "a", "counters": counters(32)}]),
    _shared("a set of 33", [{"name": "a", "counters": counters(33)}]),
    _shared("a counter that is no name", [{"name": "a", "counters": {"A b": {"value": "1"}}}]),
    resource_slice("no change", update={}),
    resource_slice("a change is counted", update={"spec": {**SLICE_SPEC, "devices": devices(2)}}),
    resource_slice("another node", update={"spec": {**SLICE_SPEC, "nodeName": "node-2"}}),
    resource_slice("another driver", update={"spec": {**SLICE_SPEC, "driver": "x.example.com"}}),
    resource_slice(
        "another pool",
        update={"spec": {**SLICE_SPEC, "pool": {**SLICE_SPEC["pool"], "name": "other"}}},
    ),
    resource_slice(
        "another generation",
        update={"spec": {**SLICE_SPEC, "pool": {**SLICE_SPEC["pool"], "generation": 2}}},
    ),
    device("a device without name", ("name", "")),
    device("a device that is no name", ("name", "GPU_0")),
    _attribute("a number", int=1),
    _attribute("a flag", bool=True),
    _attribute("a text", string="a"),
    _attribute("a version", version="1.2.3-rc.1+b"),
    _attribute("a text of 64", string="a" * 64),
    _attribute("a text of 65", string="a" * 65),
    _attribute("a version that is none", version="1.2"),
    _attribute("a version that is too long", version="1.2.3-" + "a" * 60),
    _attribute("nothing"),
    _attribute("two values", int=1, bool=True),
    _attribute("a list, which is off", ints=[1, 2]),
    _attribute("a number too large", int=2**63),
    _key("a domain", "a.b/c"),
    _key("an empty domain", "/c"),
    _key("an empty name", "a.b/"),
    _key("a name that is none", "a-b"),
    _key("a name that is too long", "a" * 33),
    device("32 attributes", ("attributes", attributes(32))),
    device(
        "33 attributes and capacities",
        ("attributes", attributes(32)),
        ("capacity", {"m": {"value": 1}}),
    ),
    device("capacity", ("capacity", {"mem": {"value": "1024Mi"}, "a.b/cores": {"value": 1.5}})),
    device("capacity that is no quantity", ("capacity", {"mem": {"value": "much"}})),
    device("capacity with two points", ("capacity", {"mem": {"value": "1.2.3"}})),
    device(
        "a policy without sharing",
        ("capacity", {"m": {"value": 1, "requestPolicy": {"default": 1}}}),
    ),
    _policy("a default", default="1024Mi"),
    _policy("values", default="1Gi", validValues=["1Gi", "2048Mi"]),
    _policy("values without default", validValues=["1Gi"]),
    _policy("values without the default", default="3Gi", validValues=["1Gi", "2Gi"]),
    _policy("values out of order", default="1Gi", validValues=["2Gi", "1Gi"]),
    _policy("values twice", default="1Gi", validValues=["1Gi", "1Gi"]),
    _policy("values beyond", default="1Gi", validValues=["1Gi", "9Gi"]),
    _policy("values too many", default="1", validValues=[str(n) for n in range(1, 12)]),
    _policy("a range", default="1Gi", validRange={"min": "1Gi", "max": "4Gi", "step": "1Gi"}),
    _policy("a range without default", validRange={"min": "1Gi"}),
    _policy("a range without min", default="1Gi", validRange={"max": "2Gi"}),
    _policy("a range beyond", default="9Gi", validRange={"min": "9Gi", "max": "10Gi"}),
    _policy("a range upside down", default="2Gi", validRange={"min": "2Gi", "max": "1Gi"}),
    _policy(
        "a default outside of the range", default="4Gi", validRange={"min": "1Gi", "max": "2Gi"}
    ),
    _policy(
        "a step that does not fit", default="3", validRange={"min": "1", "max": "6", "step": "2"}
    ),
    _policy("a step beyond", default="1Gi", validRange={"min": "1Gi", "step": "8Gi"}),
    _policy("both", default="1", validValues=["1"], validRange={"min": "1"}),
    _taint("one", key="a.b/c", value="x", effect="NoSchedule", timeAdded="2026-01-01T00:00:00Z"),
    _taint("an effect of none", key="a", effect="None"),
    _taint("no key", effect="NoExecute"),
    _taint("no effect", key="a"),
    _taint("an unknown effect", key="a", effect="Prefer"),
    _taint("a value that is none", key="a", value="b c", effect="NoExecute"),
    device("16 taints", ("taints", [{"key": f"a{n}", "effect": "None"} for n in range(16)])),
    device("17 taints", ("taints", [{"key": f"a{n}", "effect": "None"} for n in range(17)])),
    device("counters used", ("consumesCounters", CONSUMES)),
    device("counters used twice", ("consumesCounters", [*CONSUMES, *CONSUMES])),
    device(
        "three sets used",
        ("consumesCounters", [{**CONSUMES[0], "counterSet": f"s{n}"} for n in range(3)]),
    ),
    device("a set without name used", ("consumesCounters", [{"counters": counters(1)}])),
    device("a set without counters used", ("consumesCounters", [{"counterSet": "a"}])),
    device(
        "32 counters used", ("consumesCounters", [{"counterSet": "a", "counters": counters(32)}])
    ),
    device(
        "33 counters used", ("consumesCounters", [{"counterSet": "a", "counters": counters(33)}])
    ),
    device("its own node without being asked", ("nodeName", "node-1")),
    resource_slice(
        "nodes by device",
        ("nodeName", NONE),
        ("perDeviceNodeSelection", True),
        (
            "devices",
            [
                {"name": "a", "nodeName": "n"},
                {"name": "b", "nodeSelector": SELECTOR},
                {"name": "c", "allNodes": True},
            ],
        ),
    ),
    resource_slice(
        "nodes by device that are wrong",
        ("nodeName", NONE),
        ("perDeviceNodeSelection", True),
        (
            "devices",
            [
                {"name": "a"},
                {"name": "b", "nodeName": "n", "allNodes": True},
                {"name": "c", "allNodes": False},
                {"name": "d", "nodeName": ""},
            ],
        ),
    ),
    device("bound to its node", ("bindsToNode", True)),
    device("binding conditions", ("bindingConditions", ["a"]), ("bindingFailureConditions", ["b"])),
    device("binding conditions alone", ("bindingConditions", ["a"])),
    device(
        "node resources, which are off",
        ("nodeAllocatableResourceMappings", {"cpu": {"capacityKey": "m"}}),
    ),
]
