"""Allocations of both schedulers in one format, to compare them field by field.

Share IDs are random, and the time of an allocation is kube-scheduler's own: neither is compared.
"""

from typing import Any

from scheduler.cel.quantities import parse_quantity
from scheduler.claims.claim_patches import allocation_json
from scheduler.core.values.devices import Allocation

Json = dict[str, Any]


def theirs(allocation: Json) -> Json:
    """Convert `status.allocation` of a claim."""
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
    """Convert the decision core's allocation as it would be written."""
    return theirs(allocation_json(allocation, ""))
