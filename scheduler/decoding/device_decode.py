"""Decoding of slices, device classes and resource claims to values of the decision core.

Decoding is strict. A claim or class with an unknown field is refused with the field's name. A slice
with one is omitted, which makes its pool incomplete; a device with one is hidden. Nothing that a
tenant can write raises an unexpected error here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Final, Literal

import msgspec

from scheduler.cel.errors import EvaluationError
from scheduler.cel.quantities import parse_quantity
from scheduler.core.devices.taint_rules import DeviceTaintRule
from scheduler.core.values.device_asks import (
    Amounts,
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
    DeviceClaimInfo,
    DeviceClassInfo,
    DeviceInfo,
    DeviceTaint,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.extended_devices import CLASS_PREFIX, may_be_mapped
from scheduler.core.values.model import NodeTerm, Release
from scheduler.decoding.device_objects import (
    AllocationTaken,
    Amount,
    AttributeWritten,
    CapacityWritten,
    ClaimStatusTaken,
    ConstraintWritten,
    CounterWritten,
    DeviceClass,
    DeviceSelector,
    DeviceTaintWritten,
    DeviceWritten,
    ExactRequest,
    Opaque,
    RequestWritten,
    ResourceClaim,
    ResourceSlice,
    ResultTaken,
    SliceSpec,
    SubRequest,
    TaintRule,
    TaintRuleSelector,
    TolerationWritten,
    decode_claim_spec,
    decode_class_spec,
    decode_device,
    decode_slice_spec,
    decode_taint_rule_spec,
)
from scheduler.decoding.label_selectors import node_selector_term
from scheduler.decoding.objects import NodeSelector, TolerationSpec

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"

_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$(.*)`)?")
_ELSEWHERE: Final = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_LONG: Final = 16 * 1024
"""Bytes of a claim's spec that is cached; longer ones are decoded each time."""

_NAME: Final = itemgetter(0)

_SHOWN: Final = 300
"""Characters of user input that a message repeats; the rest is cut."""


class NotUnderstoodError(Exception):
    """The object has something that Muster does not know. The text names the field."""


def device_class_info(device_class: DeviceClass, *, implicit: bool = False) -> DeviceClassInfo:
    """Decode a class; `implicit`: its name's resource is mapped, too. Raises NotUnderstoodError."""
    try:
        spec = decode_class_spec(device_class.spec)
    except msgspec.DecodeError as error:
        raise _not_understood("spec", error) from None
    meta, resource = device_class.metadata, spec.extended_resource_name
    resources = (resource,) if resource and may_be_mapped(resource) else ()
    return DeviceClassInfo(
        name=meta.name,
        selectors=_expressions("spec", spec.selectors),
        config=tuple(_config("spec", each.opaque, ()) for each in spec.config),
        resources=(*resources, CLASS_PREFIX + meta.name) if implicit else resources,
        created=meta.creation_timestamp,
    )


def device_taint_rule(rule: TaintRule, release: Release) -> DeviceTaintRule | None:
    """Decode a DeviceTaintRule; return None if it taints nothing. Raises NotUnderstoodError.

    Without a selector it taints nothing since Kubernetes 1.37, and all devices before.
    """
    try:
        spec = decode_taint_rule_spec(rule.spec)
    except msgspec.DecodeError as error:
        raise _not_understood("spec", error) from None
    if spec.device_selector is None and release >= (1, 37):
        return None
    wanted = spec.device_selector or TaintRuleSelector()
    return DeviceTaintRule(
        name=rule.metadata.name,
        taint=_taint(spec.taint),
        driver=wanted.driver,
        pool=wanted.pool,
        device=wanted.device,
        device_class=wanted.device_class_name,
        selectors=_expressions("spec.deviceSelector", wanted.selectors),
    )


def resource_claim_info(claim: ResourceClaim) -> tuple[DeviceClaimInfo, str]:
    """Decode a claim; also return why its spec is not understood, or an empty text.

    The devices that it has are decoded in any case, so that no other claim gets them.
    """
    meta, status = claim.metadata, claim.status or ClaimStatusTaken()
    ask, problem = ask_of(bytes(claim.spec))
    owner = meta.controller
    # reservedFor may name other kinds. Muster does not watch those, but the claim is in use.
    pods = [it for it in status.reserved_for if it.resource == "pods" and not it.api_group]
    allocation = None
    if status.allocation is not None:
        allocation, trouble = _allocation(status.allocation)
        problem = problem or trouble
    info = DeviceClaimInfo(
        key=(meta.namespace, meta.name),
        uid=meta.uid,
        ask=ask,
        owner=owner.uid if owner is not None else "",
        terminating=meta.deletion_timestamp is not None,
        allocation=allocation,
        reserved=frozenset(each.uid for each in pods),
        reserved_elsewhere=len(pods) < len(status.reserved_for),
    )
    return info, problem


def ask_of(spec: bytes) -> tuple[Ask, str]:
    """Decode a claim's spec; also return why it is not understood, or an empty text."""
    # All claims of a template have equal specs. Long ones of a tenant could fill the memory.
    return _remembered_ask(spec) if len(spec) <= _LONG else _ask_or_problem(spec)


def _ask_or_problem(spec: bytes) -> tuple[Ask, str]:
    try:
        return _ask(spec), ""
    except NotUnderstoodError as error:
        return Ask(()), str(error)


# Errors are cached, too: the claim is decoded again with each of its events.
_remembered_ask = functools.lru_cache(maxsize=1024)(_ask_or_problem)


def slice_info(resource_slice: ResourceSlice) -> tuple[SliceInfo, tuple[str, ...]]:
    """Decode a slice; also return why devices of it are hidden. Raises NotUnderstoodError."""
    try:
        spec = decode_slice_spec(resource_slice.spec)
    except msgspec.DecodeError as error:
        raise _not_understood("spec", error) from None
    hidden: list[str] = []
    devices: list[DeviceInfo] = []
    for at, raw in enumerate(spec.devices):
        try:
            devices.append(_device(decode_device(raw)))
        except msgspec.DecodeError as error:
            # One device with an unknown field must not cost the node all the others of the slice.
            hidden.append(str(_not_understood(f"spec.devices[{at}]", error)))
        except NotUnderstoodError as error:
            hidden.append(f"spec.devices[{at}].{error}")
    info = SliceInfo(
        name=resource_slice.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        devices=tuple(devices),
        # Otherwise each device has a scope of its own.
        scope=None if spec.per_device_node_selection else _scope(spec),
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        counters=tuple(
            (each.name, _counters("spec.sharedCounters", each.counters))
            for each in spec.shared_counters
        ),
    )
    return info, tuple(hidden)


def _not_understood(where: str, error: msgspec.DecodeError) -> NotUnderstoodError:
    text = str(error)
    # msgspec reports fields in its error text only.
    if found := _UNKNOWN_FIELD.fullmatch(text):
        field = f"{where}{found[2] or ''}.{found[1]}"
        return NotUnderstoodError(f"uses {field[:_SHOWN]}, which Muster does not know")
    if found := _ELSEWHERE.fullmatch(text):
        return NotUnderstoodError(f"{where}{found[2]}: {found[1]}"[:_SHOWN])
    return NotUnderstoodError(f"{where}: {text}"[:_SHOWN])


def _ask(spec: bytes) -> Ask:
    try:
        written = decode_claim_spec(spec).devices
    except msgspec.DecodeError as error:
        raise _not_understood("spec", error) from None
    where = "spec.devices"
    return Ask(
        requests=tuple(
            _request(f"{where}.requests[{at}]", each) for at, each in enumerate(written.requests)
        ),
        constraints=tuple(
            _constraint(f"{where}.constraints[{at}]", each)
            for at, each in enumerate(written.constraints)
        ),
        config=tuple(
            _config(f"{where}.config[{at}]", each.opaque, tuple(each.requests))
            for at, each in enumerate(written.config)
        ),
    )


def _request(where: str, written: RequestWritten) -> DeviceRequest:
    if written.exactly is not None:
        option = _option(f"{where}.exactly", written.name, written.exactly)
        return DeviceRequest(written.name, (option,))
    if not written.first_available:
        raise NotUnderstoodError(
            f"{where} has neither exactly nor firstAvailable, which is all that Muster knows"
        )
    options = tuple(
        _option(f"{where}.firstAvailable[{at}]", f"{written.name}/{each.name}", each)
        for at, each in enumerate(written.first_available)
    )
    return DeviceRequest(written.name, options, listed=True)


def _option(where: str, name: str, written: ExactRequest | SubRequest) -> DeviceOption:
    mode = written.allocation_mode or EXACT_COUNT
    if mode not in (EXACT_COUNT, ALL):
        raise NotUnderstoodError(
            f"uses {where}.allocationMode {mode[:64]!r}, which Muster does not know"
        )
    wanted = written.capacity.requests if written.capacity is not None else {}
    return DeviceOption(
        name=name,
        device_class=written.device_class_name,
        selectors=_expressions(where, written.selectors),
        count=written.count or 1,
        every=mode == ALL,
        # Alternatives of firstAvailable have no adminAccess.
        admin=isinstance(written, ExactRequest) and bool(written.admin_access),
        tolerations=tuple(map(_toleration, written.tolerations)),
        capacity=_amounts(f"{where}.capacity.requests", wanted),
    )


def _expressions(where: str, selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    expressions: list[str] = []
    for at, selector in enumerate(selectors):
        if selector.cel is None:
            raise NotUnderstoodError(
                f"{where}.selectors[{at}] has no cel, which is all that Muster knows"
            )
        expressions.append(selector.cel.expression)
    return tuple(expressions)


def _constraint(where: str, written: ConstraintWritten) -> DeviceConstraint:
    requests = tuple(written.requests)
    if written.match_attribute is not None:
        return DeviceConstraint(written.match_attribute, requests)
    if written.distinct_attribute is not None:
        return DeviceConstraint(written.distinct_attribute, requests, distinct=True)
    raise NotUnderstoodError(
        f"{where} has neither matchAttribute nor distinctAttribute, which is all that Muster knows"
    )


def _config(where: str, opaque: Opaque | None, requests: tuple[str, ...]) -> DeviceConfig:
    if opaque is None:
        raise NotUnderstoodError(f"{where} has no opaque, which is all that Muster knows")
    # Kept as text: only the driver reads it, and text compares and hashes.
    return DeviceConfig(msgspec.json.encode({"opaque": opaque}).decode(), requests)


def _toleration(written: TolerationWritten | TolerationSpec) -> DeviceToleration:
    return DeviceToleration(
        key=written.key,
        operator=written.operator,
        value=written.value,
        effect=written.effect,
        seconds=written.toleration_seconds if isinstance(written, TolerationWritten) else None,
    )


def _taint(written: DeviceTaintWritten) -> DeviceTaint:
    return DeviceTaint(written.key, written.value, written.effect)


def _amount(where: str, written: Amount) -> int:
    try:
        return parse_quantity(str(written)).nano
    except EvaluationError as error:
        raise NotUnderstoodError(f"{where}: {error}") from None


def _amounts(where: str, written: Mapping[str, Amount]) -> Amounts:
    # Sorted, so that equal amounts compare equal whatever the order of the JSON.
    return tuple((name, _amount(f"{where}[{name}]", written[name])) for name in sorted(written))


def _counters(where: str, written: Mapping[str, CounterWritten]) -> Amounts:
    return _amounts(where, {name: counter.value for name, counter in written.items()})


def _allocation(taken: AllocationTaken) -> tuple[Allocation, str]:
    nodes = taken.node_selector
    problem = ""
    devices: list[AllocatedDevice] = []
    for each in taken.devices.results:
        try:
            consumed = _amounts("status.allocation.consumedCapacity", each.consumed_capacity)
        except NotUnderstoodError as error:
            # The device is in use, whatever it consumes; the problem refuses the claim.
            consumed, problem = (), str(error)
        devices.append(_taken(each, consumed))
    return Allocation(tuple(devices), nodes=None if nodes is None else _terms(nodes)), problem


def _taken(result: ResultTaken, consumed: Amounts) -> AllocatedDevice:
    return AllocatedDevice(
        request=result.request,
        key=(result.driver, result.pool, result.device),
        admin=bool(result.admin_access),
        tolerations=tuple(map(_toleration, result.tolerations)),
        share=result.share_id,
        consumed=consumed,
        binding_conditions=tuple(result.binding_conditions),
        binding_failures=tuple(result.binding_failure_conditions),
    )


def _terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    return tuple(node_selector_term(term) for term in selector.node_selector_terms)


def _scope(written: SliceSpec | DeviceWritten) -> NodeScope:
    selector = written.node_selector
    return NodeScope(
        name=written.node_name or "",
        terms=None if selector is None else _terms(selector),
        everywhere=bool(written.all_nodes),
    )


def _device(written: DeviceWritten) -> DeviceInfo:
    # Only a slice with perDeviceNodeSelection has these fields; other devices have the slice's
    # scope.
    elsewhere = written.node_name or written.node_selector is not None or written.all_nodes
    return DeviceInfo(
        name=written.name,
        # Sorted, as capacities: devices that differ in the order only are of one kind, which each
        # selector evaluates once.
        attributes=tuple(
            (name, _attribute(name, written.attributes[name]))
            for name in sorted(written.attributes)
        ),
        capacity=tuple(
            _capacity(name, value) for name, value in sorted(written.capacity.items(), key=_NAME)
        ),
        taints=tuple(map(_taint, written.taints)),
        counters=tuple(
            (each.counter_set, _counters("consumesCounters", each.counters))
            for each in written.consumes_counters
        ),
        shared=bool(written.allow_multiple_allocations),
        scope=_scope(written) if elsewhere else None,
        binds_to_node=bool(written.binds_to_node),
        binding_conditions=tuple(written.binding_conditions),
        binding_failures=tuple(written.binding_failure_conditions),
    )


def _attribute(name: str, written: AttributeWritten) -> Attribute:
    if written.whole is not None:
        return _attribute_value("int", written.whole)
    if written.flag is not None:
        return _attribute_value("bool", written.flag)
    if written.text is not None:
        return _attribute_value("string", written.text)
    if written.version is not None:
        return _attribute_value("version", written.version)
    raise NotUnderstoodError(f"attributes[{name}] has no value that Muster knows")


@functools.lru_cache(maxsize=4096, typed=True)
def _attribute_value(
    kind: Literal["bool", "int", "string", "version"], value: bool | int | str
) -> Attribute:
    """Return an attribute; equal ones of many devices are one object."""
    return Attribute(kind, value)


def _capacity(name: str, written: CapacityWritten) -> Capacity:
    where = f"capacity[{name}]"
    policy = written.request_policy
    if policy is None:
        return Capacity(name, _amount(where, written.value))
    allowed = policy.valid_range
    return Capacity(
        name,
        _amount(where, written.value),
        CapacityPolicy(
            default=_optional(where, policy.default),
            minimum=_optional(where, allowed.min) if allowed is not None else None,
            maximum=_optional(where, allowed.max) if allowed is not None else None,
            step=_optional(where, allowed.step) if allowed is not None else None,
            values=tuple(_amount(where, value) for value in policy.valid_values),
        ),
    )


def _optional(where: str, written: Amount | None) -> int | None:
    return None if written is None else _amount(where, written)
