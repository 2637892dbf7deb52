"""Device classes, claims and allocations as a snapshot shows them.

Drivers' parameters are left out: no decision depends on them, and they belong to tenants. A digest
replaces each, so that different parameters still differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from scheduler.core.values.device_asks import Ask, DeviceConfig
from scheduler.core.values.devices import Allocation, DeviceClaimInfo, DeviceClassInfo
from scheduler.core.values.model import ClaimKey, PodInfo, Requirements


def allocated(devices: Mapping[ClaimKey, Allocation]) -> dict[str, list[str]]:
    """Return the devices of each claim, as `request: driver/pool/device`."""
    return {
        "/".join(key): [f"{each.request}: {'/'.join(each.key)}" for each in allocation.devices]
        for key, allocation in sorted(devices.items())
    }


def shown_requirements(wants: Requirements) -> Requirements:
    """Return the requirements without the parameters of drivers."""
    if not wants.asks:
        return wants
    asks = tuple(_ask(each) if isinstance(each, Ask) else each for each in wants.asks)
    return replace(wants, asks=asks)


def shown_pod(info: PodInfo) -> PodInfo:
    """Return the pod without the parameters of drivers."""
    if not info.requirements.asks:
        return info
    return replace(info, requirements=shown_requirements(info.requirements))


def shown_class(info: DeviceClassInfo) -> DeviceClassInfo:
    """Return the class without the parameters of drivers."""
    return replace(info, config=tuple(map(_config, info.config)))


def shown_claim(info: DeviceClaimInfo) -> DeviceClaimInfo:
    """Return the claim without the parameters of drivers."""
    allocation = None if info.allocation is None else shown_allocation(info.allocation)
    return replace(info, ask=_ask(info.ask), allocation=allocation)


def shown_allocation(allocation: Allocation) -> Allocation:
    """Return the allocation without the parameters of drivers."""
    config = tuple(replace(each, config=_config(each.config)) for each in allocation.config)
    return replace(allocation, config=config)


# Pods of one template share one value, so each is digested once.
@lru_cache(maxsize=1024)
def _ask(ask: Ask) -> Ask:
    return replace(ask, config=tuple(map(_config, ask.config)))


def _config(config: DeviceConfig) -> DeviceConfig:
    return replace(config, text=hashlib.sha256(config.text.encode()).hexdigest()[:16])
