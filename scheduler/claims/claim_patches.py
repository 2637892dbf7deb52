"""Allocations as JSON of a ResourceClaim's status, and the patches that write them. No I/O."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

import msgspec

from api.constants import NATIVE_GROUP, NATIVE_POD_GROUP
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS
from scheduler.core.groups.forest import Pod
from scheduler.core.values.device_asks import NANO, Amounts, Ask, DeviceToleration
from scheduler.core.values.devices import AllocatedConfig, AllocatedDevice, Allocation
from scheduler.core.values.model import ClaimKey, Expression, NodeTerm
from scheduler.decoding.device_objects import Consumer
from scheduler.watch.device_handlers import ObservedClaim

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Protects a claim with an allocation from deletion. kube-controller-manager removes it."""


def finalizer_patch(claim: ObservedClaim) -> PatchBuilder:
    """Add the finalizer to a claim that lacks it."""
    patch = _patch(claim)
    if claim.finalizers:
        return patch.add("/metadata/finalizers/-", FINALIZER)
    return patch.add("/metadata/finalizers", [FINALIZER])


def consumer_of(pod: Pod, key: ClaimKey) -> Consumer:
    """Return the consumer for which the claim is reserved: the pod, or its group."""
    info = pod.info
    shared = info.consumer
    if shared is not None and key in shared.claims:
        return Consumer(NATIVE_GROUP, NATIVE_POD_GROUP.plural, info.group or "", shared.uid)
    return Consumer("", PODS.plural, info.name, info.uid)


def allocation_patch(
    claim: ObservedClaim, allocation: Allocation, consumers: Iterable[Consumer], moment: str
) -> PatchBuilder:
    """Write the allocation and all its consumers together, to an unallocated claim's status."""
    patch = _patch(claim)
    # JSON Patch fails below a parent that does not exist.
    if not claim.has_status:
        patch.add("/status", {})
    patch.add("/status/allocation", allocation_json(allocation, moment))
    return patch.add("/status/reservedFor", _consumers((*claim.consumers, *consumers)))


def consumers_patch(claim: ObservedClaim, consumers: Iterable[Consumer]) -> PatchBuilder:
    """Add consumers of an allocated claim."""
    return _patch(claim).add("/status/reservedFor", _consumers((*claim.consumers, *consumers)))


def release_patch(claim: ObservedClaim, left: list[Consumer]) -> PatchBuilder:
    """Remove consumers, and with the last one the allocation; others are `left`."""
    patch = _patch(claim)
    if left:
        return patch.replace("/status/reservedFor", _consumers(left))
    return patch.remove("/status/allocation").remove("/status/reservedFor")


def claim_spec(ask: Ask) -> Json:
    """Return the spec of a claim that asks for numbers of devices of classes only."""
    requests = [
        {
            "name": option.name,
            "exactly": {
                "deviceClassName": option.device_class,
                "allocationMode": "ExactCount",
                "count": option.count,
            },
        }
        for request in ask.requests
        for option in request.options
    ]
    return {"devices": {"requests": requests}}


def _patch(claim: ObservedClaim) -> PatchBuilder:
    # The patch must not hit another claim of this name, nor overwrite consumers of others.
    return PatchBuilder().of_uid(claim.uid).at_version(str(claim.version))


def _consumers(consumers: Iterable[Consumer]) -> list[Json]:
    # By UID: a repeated write may find the entries of the first one, and a group has many pods.
    entries: dict[str, Json] = {}
    for each in consumers:
        group = {"apiGroup": each.api_group} if each.api_group else {}
        entry = {**group, "resource": each.resource, "name": each.name, "uid": each.uid}
        entries.setdefault(each.uid, entry)
    return list(entries.values())


def allocation_json(allocation: Allocation, moment: str) -> Json:
    """Return `status.allocation` with this timestamp (RFC 3339). Shares get their IDs."""
    devices: Json = {"results": [_result(each) for each in allocation.devices]}
    if allocation.config:
        devices["config"] = [_config(each) for each in allocation.config]
    written: Json = {"devices": devices, "allocationTimestamp": moment}
    if allocation.nodes is not None:
        written["nodeSelector"] = {"nodeSelectorTerms": [_term(each) for each in allocation.nodes]}
    return written


def _result(device: AllocatedDevice) -> Json:
    driver, pool, name = device.key
    written: Json = {"request": device.request, "driver": driver, "pool": pool, "device": name}
    if device.admin:
        written["adminAccess"] = True
    if device.tolerations:
        written["tolerations"] = [_toleration(each) for each in device.tolerations]
    if device.share is not None:
        # Created as late as the write: a decision that is not written needs none.
        written["shareID"] = device.share or str(uuid.uuid4())
    if device.consumed:
        written["consumedCapacity"] = _amounts(device.consumed)
    if device.binding_conditions:
        written["bindingConditions"] = list(device.binding_conditions)
    if device.binding_failures:
        written["bindingFailureConditions"] = list(device.binding_failures)
    return written


def _toleration(toleration: DeviceToleration) -> Json:
    said = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    written: Json = {name: value for name, value in said.items() if value}
    if toleration.seconds is not None:
        written["tolerationSeconds"] = toleration.seconds
    return written


def _config(config: AllocatedConfig) -> Json:
    written: Json = {"source": "FromClass" if config.of_class else "FromClaim"}
    if config.config.requests:
        written["requests"] = list(config.config.requests)
    parameters: Json = msgspec.json.decode(config.config.text)
    return written | parameters


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {name: _quantity(amount) for name, amount in amounts}


def _quantity(nano: int) -> str:
    """Return a quantity in full units if exact. The API server writes its shortest form."""
    whole, rest = divmod(nano, NANO)
    return f"{nano}n" if rest else str(whole)


def _term(term: NodeTerm) -> Json:
    written: Json = {}
    if term.expressions:
        written["matchExpressions"] = [_expression(each) for each in term.expressions]
    if term.fields:
        written["matchFields"] = [_expression(each) for each in term.fields]
    return written


def _expression(expression: Expression) -> Json:
    written: Json = {"key": expression.key, "operator": expression.operator}
    if expression.values:
        written["values"] = list(expression.values)
    return written
