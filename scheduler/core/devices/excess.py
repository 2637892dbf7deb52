"""Devices, capacities and counters that several claims hold beyond what exists.

No API server compares claims, so two schedulers may allocate one device twice, or together exceed
its capacities or the counters of its pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from scheduler.core.devices.use import DeviceUse, Taken
from scheduler.core.values.devices import (
    AllocatedDevice,
    Allocation,
    DeviceInfo,
    DeviceKey,
    PoolKey,
    SliceInfo,
)
from scheduler.core.values.model import ClaimKey

Counts = Callable[[ClaimKey], bool]
"""Predicate: True if the allocation of another claim counts."""

_Takers = Mapping[ClaimKey, list[Taken]]
"""Other claims that have a device, and the share that each has."""


@dataclass(frozen=True, slots=True)
class Excess:
    """Excess of a device, capacity or counter (`what`), which the `others` hold as well."""

    what: str
    others: frozenset[ClaimKey]


@dataclass(frozen=True, slots=True)
class _PoolContents:
    """Newest generation of a pool: its devices by name, and its counters by set and name.

    `takers` are the devices that draw on each counter set.
    """

    devices: Mapping[str, DeviceInfo]
    counters: Mapping[tuple[str, str], int]
    takers: Mapping[str, list[str]]

    @classmethod
    def of(cls, slices: Collection[SliceInfo]) -> _PoolContents:
        # A driver publishes a generation slice by slice; older slices have the same devices.
        newest = max((each.generation for each in slices), default=0)
        current = [each for each in slices if each.generation == newest]
        devices = {device.name: device for each in current for device in each.devices}
        counters = {
            (name, counter): amount
            for each in current
            for name, amounts in each.counters
            for counter, amount in amounts
        }
        takers: dict[str, list[str]] = {}
        for device in devices.values():
            for name, _ in device.counters:
                takers.setdefault(name, []).append(device.name)
        return cls(devices, counters, takers)

    def taken(self, names: Iterable[str]) -> Counter[tuple[str, str]]:
        """Return the amount that these devices draw from each counter, once for a shared device."""
        found: Counter[tuple[str, str]] = Counter()
        for name in names:
            for of_set, amounts in self.devices[name].counters:
                found.update({(of_set, counter): amount for counter, amount in amounts})
        return found


class DeviceExcess:
    """Comparison of a claim's allocation with those of other claims.

    `use` has the claims that hold each device, `pools` all slices of each pool. A device that its
    driver has removed from the slices is still compared, but uses no capacity or counter.
    """

    def __init__(self, use: DeviceUse, pools: Mapping[PoolKey, Mapping[str, SliceInfo]]) -> None:
        self._use = use
        self._pools = pools
        self._contents: dict[PoolKey, _PoolContents] = {}

    def pool_changed(self, pool: PoolKey) -> None:
        """Drop what is cached of a pool whose slices changed."""
        self._contents.pop(pool, None)

    def of(self, key: ClaimKey, allocation: Allocation, counts: Counts) -> Iterator[Excess]:
        """Yield each excess of the claim's allocation together with the other claims that count."""
        mine: dict[DeviceKey, list[AllocatedDevice]] = {}
        for each in allocation.devices:
            # adminAccess does not put a device in use, so it never conflicts.
            if not each.admin:
                mine.setdefault(each.key, []).append(each)
        new: dict[PoolKey, list[str]] = {}
        for device, taken in mine.items():
            others = self._others(device, key, counts)
            yield from self._of_device(device, taken, others)
            if not others:  # else another claim has charged its counters already
                new.setdefault(device[:2], []).append(device[2])
        for pool, names in new.items():
            yield from self._of_counters(pool, names, key, counts)

    def _others(self, device: DeviceKey, key: ClaimKey, counts: Counts) -> _Takers:
        takers = self._use.takers(device)
        return {other: taken for other, taken in takers.items() if other != key and counts(other)}

    def _of_device(
        self, device: DeviceKey, mine: Iterable[AllocatedDevice], others: _Takers
    ) -> Iterator[Excess]:
        shares = [dict(each.consumed) for each in mine if each.share is not None]
        whole = {other for other, taken in others.items() if None in taken}
        # Without shares on both sides the device itself is allocated twice; shares only add up.
        if others and (whole or not shares):
            yield Excess(f"device {'/'.join(device)}", frozenset(whole or others))
            return
        info = self._of(device[:2]).devices.get(device[2]) if others else None
        for capacity in info.capacity if info else ():
            own = sum(share.get(capacity.name, 0) for share in shares)
            used = {
                other: sum(dict(amounts or ()).get(capacity.name, 0) for amounts in taken)
                for other, taken in others.items()
            }
            if own and own + sum(used.values()) > capacity.value:
                what = f"capacity {capacity.name} of device {'/'.join(device)}"
                yield Excess(what, frozenset(other for other, amount in used.items() if amount))

    def _of_counters(
        self, pool: PoolKey, names: list[str], key: ClaimKey, counts: Counts
    ) -> Iterator[Excess]:
        contents = self._of(pool)
        names = [name for name in names if name in contents.devices]
        own = contents.taken(names) if contents.counters else Counter()
        for of_set in dict.fromkeys(name for (name, _), amount in own.items() if amount):
            others: dict[str, _Takers] = {}
            for name in contents.takers[of_set]:
                if name not in names and (takers := self._others((*pool, name), key, counts)):
                    others[name] = takers
            if not others:
                continue
            # Each device once, however many claims share it, as the allocator charges it.
            used = contents.taken(others)
            for at, amount in own.items():
                if at[0] == of_set and amount and amount + used[at] > contents.counters.get(at, 0):
                    holders = frozenset(each for takers in others.values() for each in takers)
                    what = f"counter {at[1]} of {of_set} in pool {'/'.join(pool)}"
                    yield Excess(what, holders)

    def _of(self, pool: PoolKey) -> _PoolContents:
        if pool not in self._contents:
            self._contents[pool] = _PoolContents.of(self._pools.get(pool, {}).values())
        return self._contents[pool]
