"""The objects of `resource.k8s.io/v1` that the scheduler watches, decoded strictly.

What decides where a pod may run has every field that Kubernetes 1.34 to 1.36 has there and Muster
knows. An unknown field raises msgspec.ValidationError, because its meaning cannot be guessed.
Metadata and the status of claims have only the fields in use: of a status that others wrote, only
the devices in use matter.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kube.client.decoding import Decoder
from scheduler.decoding.objects import Metadata, NodeSelector, TolerationSpec

Amount = str | int
"""A quantity as written."""


class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


# For specs that decide where a pod may run: an unknown field is an error.
class _Strict(msgspec.Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    pass


class CelSelector(_Strict):
    """An expression in CEL."""

    expression: str = ""


class DeviceSelector(_Strict):
    """A selector of devices; CEL is the only kind so far."""

    cel: CelSelector | None = None


class TolerationWritten(_Strict):
    """A toleration of device taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(_Strict):
    """The amounts that a request needs of a device's capacities."""

    requests: dict[str, Amount] = {}


class SubRequest(_Strict):
    """One alternative of firstAvailable."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = ""
    count: int = 0
    tolerations: list[TolerationWritten] = []
    capacity: CapacityRequirements | None = None


class ExactRequest(_Strict):
    """The only alternative of a request."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: list[TolerationWritten] = []
    capacity: CapacityRequirements | None = None


class RequestWritten(_Strict):
    """A request; one of `exactly` and `first_available` is set."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: list[SubRequest] = []


class ConstraintWritten(_Strict):
    """A constraint; one of the attributes is set."""

    requests: list[str] = []
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class Opaque(_Strict):
    """Configuration that only the driver understands."""

    driver: str = ""
    # Bytes keep nulls and unknown fields: only the driver knows their meaning.
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class ConfigWritten(_Strict):
    """Configuration of a claim, for some of its requests or for all."""

    requests: list[str] = []
    opaque: Opaque | None = None


class DeviceClaimWritten(_Strict):
    """The requests, constraints and configuration of a claim."""

    requests: list[RequestWritten] = []
    constraints: list[ConstraintWritten] = []
    config: list[ConfigWritten] = []


class ClaimSpecWritten(_Strict):
    """The spec of a ResourceClaim, and of the claims of a template."""

    devices: DeviceClaimWritten = msgspec.field(default_factory=DeviceClaimWritten)


class PodClaimEntry(_Strict):
    """An entry of a pod's `spec.resourceClaims`: the name of a claim or of a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


# Not strict: a device is in use, whatever else the status says about it.
class ResultTaken(_Struct):
    """A device allocated to a claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[TolerationSpec] = []
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    # Camel case would be shareId.
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Amount] = {}


class ResultsTaken(_Struct):
    """The devices allocated to a claim."""

    results: list[ResultTaken] = []


class AllocationTaken(_Struct):
    """An allocation, and the nodes that can use it (None: all nodes)."""

    devices: ResultsTaken = msgspec.field(default_factory=ResultsTaken)
    node_selector: NodeSelector | None = None


class Consumer(_Struct):
    """A consumer of a claim. A pod has no API group, and the resource `pods`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ConditionOfDevice(_Struct):
    """A condition that the driver wrote."""

    type: str = ""
    status: str = ""


class DeviceStatus(_Struct):
    """The driver's status of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: list[ConditionOfDevice] = []


class ClaimStatusTaken(_Struct):
    """The status of a claim."""

    allocation: AllocationTaken | None = None
    reserved_for: list[Consumer] = []
    devices: list[DeviceStatus] = []


# The spec is decoded on its own: an unknown field must not hide the devices of the status.
class ResourceClaim(_Struct):
    """A ResourceClaim. Its spec is kept as bytes, because equal specs are decoded once."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: ClaimStatusTaken | None = None


class TemplateSpec(_Struct):
    """The part of a template that its claims copy."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


class ClaimTemplate(_Struct):
    metadata: Metadata
    spec: TemplateSpec = msgspec.field(default_factory=TemplateSpec)


class ClassConfig(_Strict):
    opaque: Opaque | None = None


class ClassSpec(_Strict):
    selectors: list[DeviceSelector] = []
    config: list[ClassConfig] = []
    extended_resource_name: str | None = None


# `device_decode` decodes the spec strictly, and names an unknown field.
class DeviceClass(_Struct):
    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class AttributeWritten(_Strict):
    """An attribute; one of the values is set."""

    whole: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    text: str | None = msgspec.field(default=None, name="string")
    version: str | None = None


class RangeWritten(_Strict):
    """The amounts that a request may take."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class PolicyWritten(_Strict):
    """The rules by which requests consume a capacity."""

    default: Amount | None = None
    valid_values: list[Amount] = []
    valid_range: RangeWritten | None = None


class CapacityWritten(_Strict):
    value: Amount = "0"
    request_policy: PolicyWritten | None = None


class CounterWritten(_Strict):
    value: Amount = "0"


class CounterSetWritten(_Strict):
    """Counters that devices of a pool share."""

    name: str = ""
    counters: dict[str, CounterWritten] = {}


class ConsumptionWritten(_Strict):
    """The counters of a set that a device consumes."""

    counter_set: str = ""
    counters: dict[str, CounterWritten] = {}


class DeviceTaintWritten(_Strict):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class DeviceWritten(_Strict):
    name: str = ""
    attributes: dict[str, AttributeWritten] = {}
    capacity: dict[str, CapacityWritten] = {}
    consumes_counters: list[ConsumptionWritten] = []
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaintWritten] = []
    binds_to_node: bool | None = None
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool | None = None


class PoolWritten(_Strict):
    """The pool of a slice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(_Strict):
    """The spec of a ResourceSlice. Devices stay bytes, so that an unknown one hides only itself."""

    driver: str = ""
    pool: PoolWritten = msgspec.field(default_factory=PoolWritten)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[msgspec.Raw] = []
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSetWritten] = []


class TaintRuleSelector(_Strict):
    """The devices that a rule taints. Only Kubernetes 1.34 and earlier have class and selectors."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: list[DeviceSelector] = []


class TaintRuleSpec(_Strict):
    device_selector: TaintRuleSelector | None = None
    taint: DeviceTaintWritten = msgspec.field(default_factory=DeviceTaintWritten)


class TaintRule(_Struct):
    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class ResourceSlice(_Struct):
    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


# Each raises msgspec.DecodeError, the base of msgspec.ValidationError.
decode_resource_claim: Final = Decoder(ResourceClaim)
decode_claim_template: Final = Decoder(ClaimTemplate)
decode_device_class: Final = Decoder(DeviceClass)
decode_resource_slice: Final = Decoder(ResourceSlice)
decode_taint_rule: Final = Decoder(TaintRule)
decode_taint_rule_spec: Final = Decoder(TaintRuleSpec)
decode_pod_claim: Final = Decoder(PodClaimEntry)
decode_claim_spec: Final = Decoder(ClaimSpecWritten)
decode_class_spec: Final = Decoder(ClassSpec)
decode_slice_spec: Final = Decoder(SliceSpec)
decode_device: Final = Decoder(DeviceWritten)
