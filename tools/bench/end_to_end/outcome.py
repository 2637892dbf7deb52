"""The result of a run with claims, checked independently of any scheduler.

Each device exists and is usable on the pod's node, the selectors match it, the constraints are met,
no device is allocated twice, counters and capacities suffice, and every running pod is a consumer.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from scheduler.cel.selectors import Selectors
from scheduler.decoding.device_decode import device_class_info, resource_claim_info, slice_info
from scheduler.decoding.device_objects import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)
from tests.scheduler.devices.checker import Checker
from tools.bench.end_to_end.claims import CLAIMS, CLASSES, PODS, SLICES
from tools.bench.end_to_end.wire import Wire

Json = dict[str, Any]

MADE_BEFORE = "taken-"
"""Prefix of claims that the benchmark itself allocated."""


async def complaints(wire: Wire) -> list[str]:
    """Return the faults. Raises WireError."""
    claims = [resource_claim_info(decode_resource_claim(it))[0] for it in await _raw(wire, CLAIMS)]
    classes = [device_class_info(decode_device_class(it)) for it in await _raw(wire, CLASSES)]
    slices = [slice_info(decode_resource_slice(it))[0] for it in await _raw(wire, SLICES)]
    nodes = await _items(wire, "/api/v1/nodes")
    labels = {it["metadata"]["name"]: it["metadata"].get("labels") or {} for it in nodes}
    bound = [it for it in await _items(wire, PODS) if it["spec"].get("nodeName")]
    where = {it["metadata"]["uid"]: it["spec"]["nodeName"] for it in bound}
    used_on = {it.uid: [where[uid] for uid in it.reserved if uid in where] for it in claims}
    checker = Checker(slices, {it.name: it for it in classes}, Selectors().evaluate, labels)
    found = checker.complaints(claims, used_on)
    consumers = frozenset[str]().union(*(it.reserved for it in claims))
    return [
        *(text for text in found if f"/{MADE_BEFORE}" not in text.partition(":")[0]),
        *(f"pod {uid} runs without devices" for uid in sorted(where.keys() - consumers)),
    ]


async def _raw(wire: Wire, path: str) -> list[bytes]:
    return [msgspec.json.encode(it) for it in await _items(wire, path)]


async def _items(wire: Wire, path: str) -> list[Json]:
    found: list[Json] = json.loads(await wire.get(path))["items"]
    return found
