"""Allocations of both in one form, to be compared field by field.

Share IDs are random, and the time of an allocation is kube-scheduler's own: neither is compared.
"""

import json
from collections.abc import Iterable
from typing import Any

from scheduler.core.devices.asks import DeviceToleration
from scheduler.core.devices.model import AllocatedConfig, AllocatedDevice, Allocation
from scheduler.core.model import Expression, Term
from scheduler.selectors.quantities import parse_quantity

Json = dict[str, Any]


def theirs(allocation: Json) -> Json:
    """From `status.allocation` of a claim."""
    devices = allocation["devices"]
    return {
        "results": [_result(each) for each in devices["results"]],
        "config": devices.get("config", []),
        "nodeSelector": allocation.get("nodeSelector"),
    }


def _result(written: Json) -> Json:
    consumed = written.get("consumedCapacity", {})
    return {
        "bindingConditions": [],
        "bindingFailureConditions": [],
        "tolerations": [],
        **written,
        "adminAccess": bool(written.get("adminAccess")),
        "shareID": "shareID" in written,
        "consumedCapacity": {name: parse_quantity(text).nano for name, text in consumed.items()},
    }


def ours(allocation: Allocation) -> Json:
    """From what the decision core answers."""
    nodes = allocation.nodes
    terms = None if nodes is None else {"nodeSelectorTerms": [_term(term) for term in nodes]}
    return {
        "results": [_device(each) for each in allocation.devices],
        "config": [_config(each) for each in allocation.config],
        "nodeSelector": terms,
    }


def _device(device: AllocatedDevice) -> Json:
    driver, pool, name = device.key
    return {
        "request": device.request,
        "driver": driver,
        "pool": pool,
        "device": name,
        "adminAccess": device.admin,
        "tolerations": [_toleration(each) for each in device.tolerations],
        "shareID": device.share is not None,
        "consumedCapacity": dict(device.consumed),
        "bindingConditions": list(device.binding_conditions),
        "bindingFailureConditions": list(device.binding_failures),
    }


def _toleration(each: DeviceToleration) -> Json:
    found: Json = {
        "key": each.key,
        "operator": each.operator,
        "value": each.value,
        "effect": each.effect,
        "tolerationSeconds": each.seconds,
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def _config(each: AllocatedConfig) -> Json:
    named = {"requests": list(each.config.requests)} if each.config.requests else {}
    source = "FromClass" if each.of_class else "FromClaim"
    return {"source": source, **named, **json.loads(each.config.text)}


def _term(term: Term) -> Json:
    parts = {"matchExpressions": term.expressions, "matchFields": term.fields}
    return {name: _expressions(part) for name, part in parts.items() if part}


def _expressions(written: Iterable[Expression]) -> list[Json]:
    return [{"key": e.key, "operator": e.operator, "values": list(e.values)} for e in written]
