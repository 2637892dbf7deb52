"""Decoding of slices, device classes and resource claims to the decision core's values."""

import copy
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.values.device_asks import (
    NANO,
    Ask,
    DeviceConfig,
    DeviceConstraint,
    DeviceOption,
    DeviceRequest,
    DeviceToleration,
)
from scheduler.core.values.devices import (
    AllocatedDevice,
    Allocation,
    Attribute,
    Capacity,
    CapacityPolicy,
    DeviceClassInfo,
    DeviceInfo,
    DeviceTaint,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import Expression, NodeTerm
from scheduler.decoding.device_decode import (
    NotUnderstoodError,
    ask_of,
    device_class_info,
    resource_claim_info,
    slice_info,
)
from scheduler.decoding.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)

GIB = 2**30 * NANO

ON_GPU_NODES = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]}
    ]
}
GPU_NODES = (NodeTerm((Expression("gpu", "In", ("yes",)),)),)

DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100"},
        "index": {"int": 0},
        "nvlink": {"bool": False},
        "driver": {"version": "1.2.3"},
        "example.com/root": {"string": ""},
    },
    "capacity": {
        "memory": {
            "value": "80Gi",
            "requestPolicy": {
                "default": "1Gi",
                "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"},
            },
        },
        "cores": {"value": "3500m", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    },
    "consumesCounters": [{"counterSet": "slices", "counters": {"memory": {"value": "10"}}}],
    "taints": [
        {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-11-22T20:00:00Z"}
    ],
    "bindsToNode": True,
    "bindingConditions": ["Attached"],
    "bindingFailureConditions": ["Failed"],
    "allowMultipleAllocations": True,
}

SLICE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "n1-gpu", "uid": "u"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2},
        "nodeName": "n1",
        "devices": [DEVICE, {"name": "gpu-1"}],
        "sharedCounters": [{"name": "slices", "counters": {"memory": {"value": "80"}}}],
    },
}

CLASS: dict[str, Any] = {
    "metadata": {"name": "gpu"},
    "spec": {
        "selectors": [{"cel": {"expression": "true"}}],
        "config": [
            {"opaque": {"driver": "gpu.example.com", "parameters": {"a": [1, {"b": None}]}}}
        ],
        "extendedResourceName": "example.com/gpu",
    },
}

CLAIM: dict[str, Any] = {
    "metadata": {
        "name": "c",
        "namespace": "ns",
        "uid": "claim",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod", "controller": True}
        ],
    },
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "one",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "selectors": [{"cel": {"expression": "device.driver == 'd'"}}],
                        "allocationMode": "ExactCount",
                        "count": 2,
                        "adminAccess": True,
                        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
                        "capacity": {"requests": {"memory": "1Gi"}},
                    },
                },
                {
                    "name": "two",
                    "firstAvailable": [
                        {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
                        {"name": "less", "deviceClassName": "mig", "count": 1},
                    ],
                },
            ],
            "constraints": [
                {"requests": ["one"], "matchAttribute": "d/root"},
                {"distinctAttribute": "d/uuid"},
            ],
            "config": [{"requests": ["one"], "opaque": {"driver": "d", "parameters": {}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "two/less",
                        "driver": "d",
                        "pool": "p",
                        "device": "x",
                        "adminAccess": True,
                        "shareID": "s-1",
                        "consumedCapacity": {"memory": "1Gi"},
                        "bindingConditions": ["Attached"],
                        "bindingFailureConditions": ["Failed"],
                        "tolerations": [{"key": "k", "operator": "Exists"}],
                    }
                ]
            },
            "nodeSelector": ON_GPU_NODES,
            "allocationTimestamp": "2026-11-22T20:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod"}],
        "devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": []}],
    },
}


def raw(value: object) -> bytes:
    return msgspec.json.encode(value)


def test_a_slice() -> None:
    info, hidden = slice_info(decode_resource_slice(raw(SLICE)))

    assert hidden == ()
    assert info == SliceInfo(
        name="n1-gpu",
        driver="gpu.example.com",
        pool="n1",
        scope=NodeScope(name="n1"),
        generation=3,
        slices=2,
        counters=(("slices", (("memory", 80 * NANO),)),),
        devices=(
            DeviceInfo(
                name="gpu-0",
                attributes=(
                    ("driver", Attribute("version", "1.2.3")),
                    ("example.com/root", Attribute("string", "")),
                    ("index", Attribute("int", 0)),
                    ("model", Attribute("string", "A100")),
                    ("nvlink", Attribute("bool", False)),
                ),
                capacity=(
                    Capacity(
                        "cores",
                        3_500_000_000,
                        CapacityPolicy(default=NANO, values=(NANO, 2 * NANO)),
                    ),
                    Capacity("memory", 80 * GIB, CapacityPolicy(GIB, GIB, 40 * GIB, GIB)),
                ),
                taints=(DeviceTaint("k", "v", "NoExecute"),),
                counters=(("slices", (("memory", 10 * NANO),)),),
                shared=True,
                binds_to_node=True,
                binding_conditions=("Attached",),
                binding_failures=("Failed",),
            ),
            DeviceInfo(name="gpu-1"),
        ),
    )


@pytest.mark.parametrize(
    ("said", "scope"),
    [
        ({"nodeName": "n"}, NodeScope(name="n")),
        ({"nodeSelector": ON_GPU_NODES}, NodeScope(terms=GPU_NODES)),
        ({"allNodes": True}, NodeScope(everywhere=True)),
    ],
)
def test_the_nodes_of_a_slice_or_of_a_device(said: dict[str, Any], scope: NodeScope) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": "d", "pool": pool, **said, "devices": [{"name": "a"}]}
    single = {
        "driver": "d",
        "pool": pool,
        "perDeviceNodeSelection": True,
        "devices": [{"name": "a", **said}],
    }

    slices = [
        slice_info(decode_resource_slice(raw({"metadata": {}, "spec": spec})))[0]
        for spec in (whole, single)
    ]

    assert [each.scope for each in slices] == [scope, None]
    assert [each.devices[0].scope for each in slices] == [None, scope]


@pytest.mark.parametrize("devices", [{}, {"devices": None}, {"devices": []}])
def test_a_slice_without_devices(devices: dict[str, Any]) -> None:
    """Kubernetes 1.34 writes null."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "allNodes": True, "pool": pool, **devices}

    info, hidden = slice_info(decode_resource_slice(raw({"metadata": {}, "spec": spec})))

    assert (info.devices, hidden) == ((), ())


def test_a_class() -> None:
    parameters = '{"opaque":{"driver":"gpu.example.com","parameters":{"a":[1,{"b":null}]}}}'

    assert device_class_info(decode_device_class(raw(CLASS))) == DeviceClassInfo(
        "gpu", ("true",), (DeviceConfig(parameters),), ("example.com/gpu",)
    )


@pytest.mark.parametrize(
    ("name", "implicit", "want"),
    [
        (None, False, ()),
        (None, True, ("deviceclass.resource.kubernetes.io/c",)),
        ("example.com/gpu", False, ("example.com/gpu",)),
        ("example.com/gpu", True, ("example.com/gpu", "deviceclass.resource.kubernetes.io/c")),
        ("cpu", False, ()),
        ("", False, ()),
    ],
)
def test_the_extended_resources_of_a_class(
    name: str | None, want: tuple[str, ...], *, implicit: bool
) -> None:
    created = "2026-01-01T00:00:00Z"
    body = {
        "metadata": {"name": "c", "creationTimestamp": created},
        "spec": {"extendedResourceName": name},
    }

    info = device_class_info(decode_device_class(raw(body)), implicit=implicit)

    assert (info.resources, info.created) == (want, created)


def test_a_claim() -> None:
    info, problem = resource_claim_info(decode_resource_claim(raw(CLAIM)))

    assert problem == ""
    assert info.key == ("ns", "c")
    assert (info.uid, info.owner, info.terminating) == ("claim", "pod", False)
    assert (info.reserved, info.reserved_elsewhere) == (frozenset({"pod"}), False)
    assert info.ask == Ask(
        requests=(
            DeviceRequest(
                "one",
                (
                    DeviceOption(
                        name="one",
                        device_class="gpu",
                        selectors=("device.driver == 'd'",),
                        count=2,
                        admin=True,
                        tolerations=(DeviceToleration("k", "Exists", seconds=5),),
                        capacity=(("memory", GIB),),
                    ),
                ),
            ),
            DeviceRequest(
                "two",
                (
                    DeviceOption("two/all", "gpu", every=True),
                    DeviceOption("two/less", "mig"),
                ),
                listed=True,
            ),
        ),
        constraints=(
            DeviceConstraint("d/root", ("one",)),
            DeviceConstraint("d/uuid", distinct=True),
        ),
        config=(DeviceConfig('{"opaque":{"driver":"d","parameters":{}}}', ("one",)),),
    )
    assert info.allocation == Allocation(
        (
            AllocatedDevice(
                request="two/less",
                key=("d", "p", "x"),
                admin=True,
                tolerations=(DeviceToleration("k", "Exists"),),
                share="s-1",
                consumed=(("memory", GIB),),
                binding_conditions=("Attached",),
                binding_failures=("Failed",),
            ),
        ),
        nodes=GPU_NODES,
    )


def test_a_claim_that_somebody_else_uses() -> None:
    claim = copy.deepcopy(CLAIM)
    claim["status"]["reservedFor"].append(
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group"}
    )
    claim["metadata"]["deletionTimestamp"] = "2026-11-22T20:00:00Z"

    info, _ = resource_claim_info(decode_resource_claim(raw(claim)))

    assert info.reserved == frozenset({"pod"})
    assert info.reserved_elsewhere
    assert info.terminating


def with_field(value: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a copy with a field of the last name at the path; numbers are list indexes."""
    changed = copy.deepcopy(value)
    *steps, last = path.split(".")
    at: Any = changed
    for step in steps:
        at = at[int(step)] if step.isdigit() else at[step]
    at[last] = {"a": 1}
    return changed


@pytest.mark.parametrize(
    "path",
    [
        "spec.shiny",
        "spec.devices.shiny",
        "spec.devices.requests.0.shiny",
        "spec.devices.requests.0.exactly.shiny",
        "spec.devices.requests.0.exactly.tolerations.0.shiny",
        "spec.devices.requests.0.exactly.capacity.shiny",
        "spec.devices.requests.0.exactly.selectors.0.shiny",
        "spec.devices.requests.0.exactly.selectors.0.cel.shiny",
        "spec.devices.requests.1.firstAvailable.1.adminAccess",
        "spec.devices.constraints.0.shiny",
        "spec.devices.config.0.shiny",
        "spec.devices.config.0.opaque.shiny",
    ],
)
def test_an_unknown_field_of_a_claim_is_named(path: str) -> None:
    info, problem = resource_claim_info(decode_resource_claim(raw(with_field(CLAIM, path))))

    field = re.sub(r"\.(\d+)", r"[\1]", path)
    assert problem == f"uses {field}, which Muster does not know"
    assert info.ask == Ask(())
    assert info.allocation is not None
    assert info.allocation.devices[0].key == ("d", "p", "x")


@pytest.mark.parametrize("path", ["spec.shiny", "spec.selectors.0.shiny", "spec.config.0.shiny"])
def test_an_unknown_field_of_a_class_is_named(path: str) -> None:
    with pytest.raises(NotUnderstoodError, match=r"uses spec\..*shiny, which Muster does not know"):
        device_class_info(decode_device_class(raw(with_field(CLASS, path))))


@pytest.mark.parametrize("path", ["spec.shiny", "spec.pool.shiny", "spec.sharedCounters.0.shiny"])
def test_an_unknown_field_of_a_slice_leaves_it_out(path: str) -> None:
    with pytest.raises(NotUnderstoodError, match=r"uses spec\..*shiny, which Muster does not know"):
        slice_info(decode_resource_slice(raw(with_field(SLICE, path))))


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("shiny", "shiny"),
        ("nodeAllocatableResourceMappings", "nodeAllocatableResourceMappings"),
        ("attributes.model.strings", "attributes[...].strings"),
        ("attributes.index.ints", "attributes[...].ints"),
        ("capacity.memory.shiny", "capacity[...].shiny"),
        ("capacity.memory.requestPolicy.shiny", "capacity[...].requestPolicy.shiny"),
        ("consumesCounters.0.shiny", "consumesCounters[0].shiny"),
        ("taints.0.shiny", "taints[0].shiny"),
    ],
)
def test_an_unknown_field_of_a_device_hides_only_that_device(path: str, field: str) -> None:
    changed = with_field(SLICE, f"spec.devices.0.{path}")

    info, hidden = slice_info(decode_resource_slice(raw(changed)))

    assert hidden == (f"uses spec.devices[0].{field}, which Muster does not know",)
    assert [device.name for device in info.devices] == ["gpu-1"]


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"name": "r"}, "spec.devices.requests[0] has neither exactly nor firstAvailable"),
        (
            {"name": "r", "exactly": {"allocationMode": "Half"}},
            "uses spec.devices.requests[0].exactly.allocationMode 'Half'",
        ),
        (
            {"name": "r", "exactly": {"selectors": [{}]}},
            "spec.devices.requests[0].exactly.selectors[0] has no cel",
        ),
        (
            {"name": "r", "exactly": {"capacity": {"requests": {"memory": "x"}}}},
            "spec.devices.requests[0].exactly.capacity.requests[memory]: not a quantity: 'x'",
        ),
        ({"name": 1}, "spec.devices.requests[0].name: Expected `str`, got `int`"),
    ],
)
def test_a_request_that_is_not_understood_says_why(request_: dict[str, Any], problem: str) -> None:
    ask, why = ask_of(raw({"devices": {"requests": [request_]}}))

    assert ask == Ask(())
    assert why.startswith(problem)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"constraints": [{}]}, "spec.devices.constraints[0] has neither matchAttribute nor"),
        ({"config": [{}]}, "spec.devices.config[0] has no opaque"),
    ],
)
def test_a_kind_of_constraint_or_configuration_that_is_not_known(
    part: dict[str, Any], problem: str
) -> None:
    assert ask_of(raw({"devices": part}))[1].startswith(problem)


def test_an_attribute_without_a_value_hides_its_device() -> None:
    spec = {**SLICE["spec"], "devices": [{"name": "a", "attributes": {"x": {}}}, {"name": "b"}]}

    info, hidden = slice_info(decode_resource_slice(raw({"metadata": {}, "spec": spec})))

    assert hidden == ("spec.devices[0].attributes[x] has no value that Muster knows",)
    assert [device.name for device in info.devices] == ["b"]


def test_equal_specs_are_one_ask() -> None:
    spec = raw(CLAIM["spec"])

    assert ask_of(spec)[0] is ask_of(bytes(bytearray(spec)))[0]


def test_what_is_repeated_of_a_long_name_is_short() -> None:
    _, problem = ask_of(raw({"devices": {"x" * 100_000: 1}}))

    assert len(problem) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("devices", "requests", "exactly", "name", "selectors", "cel", "expression"),
                    *("constraints", "config", "count", "capacity", "pool", "driver", "attributes"),
                    *("int", "value", "allocation", "results", "reservedFor", "taints"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_understood_or_refused(value: Any) -> None:
    for read in (
        lambda: resource_claim_info(
            decode_resource_claim(raw({"metadata": {}, "spec": value, "status": value}))
        ),
        lambda: resource_claim_info(decode_resource_claim(raw({"metadata": {}, "spec": value}))),
        lambda: device_class_info(decode_device_class(raw({"metadata": {}, "spec": value}))),
        lambda: slice_info(decode_resource_slice(raw({"metadata": {}, "spec": value}))),
    ):
        try:
            read()
        except (NotUnderstoodError, msgspec.DecodeError) as error:
            assert str(error)  # noqa: PT017 - nearly all are refused
