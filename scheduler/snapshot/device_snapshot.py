"""What a snapshot shows of device classes, claims and allocations.

Drivers' parameters are left out, as nothing that is decided depends on them and they are tenants'
own: a digest stands for each, so that what differed still differs.
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
    """The devices of each claim, as `request: driver/pool/device`."""
    return {
        "/".join(key): [f"{each.request}: {'/'.join(each.key)}" for each in allocation.devices]
        for key, allocation in sorted(devices.items())
    }


def shown_requirements(wants: Requirements) -> Requirements:
    """Without the parameters of drivers."""
    if not wants.asks:
        return wants
    asks = tuple(_ask(each) if isinstance(each, Ask) else each for each in wants.asks)
    return replace(wants, asks=asks)


def shown_pod(info: PodInfo) -> PodInfo:
    """Without the parameters of drivers."""
    if not info.requirements.asks:
        return info
    return replace(info, requirements=shown_requirements(info.requirements))


def shown_class(info: DeviceClassInfo) -> DeviceClassInfo:
    """Without the parameters of drivers."""
    return replace(info, config=tuple(map(_config, info.config)))


def shown_claim(info: DeviceClaimInfo) -> DeviceClaimInfo:
    """Without the parameters of drivers."""
    allocation = None if info.allocation is None else shown_allocation(info.allocation)
    return replace(info, ask=_ask(info.ask), allocation=allocation)


def shown_allocation(allocation: Allocation) -> Allocation:
    """Without the parameters of drivers."""
    config = tuple(replace(each, config=_config(each.config)) for each in allocation.config)
    return replace(allocation, config=config)


@lru_cache(maxsize=1024)
def _ask(ask: Ask) -> Ask:
    return replace(ask, config=tuple(map(_config, ask.config)))


def _config(config: DeviceConfig) -> DeviceConfig:
    return replace(config, text=hashlib.sha256(config.text.encode()).hexdigest()[:16])
