"""Layouts: the devices of a node by position, with kinds instead of names.

Nodes with equal devices share a layout, however many nodes there are. A position is a device's
index in the order in which the allocator tries devices. A layout does not contain which devices are
in use: that is its `DeviceUsage`, in which a device is a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.devices.counters import CounterLedger
from scheduler.core.devices.kinds import DeviceKind
from scheduler.core.devices.pools import Pool
from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import DeviceInfo, DeviceKey, NodeScope, SliceInfo

Shares = tuple[tuple[Amounts, int], ...]
"""Pairs of (consumed amounts, mask of the shared devices with this consumption), by amounts."""


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """Positions of a layout in use: a bit mask, and the amounts consumed of shared devices.

    Devices with equal consumption are one entry, however many they are.
    """

    used: int = 0
    shares: Shares = ()

    @property
    def shared(self) -> int:
        """Mask of the shared devices that are in use."""
        return sum(mask for _, mask in self.shares)

    def share(self, position: int) -> Amounts | None:
        """Return the amounts consumed of a shared device, or None if no claim shares it."""
        for amounts, mask in self.shares:
            if mask >> position & 1:
                return amounts
        return None

    def with_shares(self, changes: Mapping[int, Amounts | None]) -> DeviceUsage:
        """Return a copy with this consumption of the positions; None means not in use."""
        # Most devices are not shared, so most changes have no shares.
        if not changes:
            return self
        kept = ~sum(1 << position for position in changes)
        masks = {amounts: mask & kept for amounts, mask in self.shares}
        for position, amounts in changes.items():
            if amounts is not None:
                masks[amounts] = masks.get(amounts, 0) | 1 << position
        # Sorted, so that equal use is an equal value: usages are dictionary keys.
        return DeviceUsage(self.used, tuple(sorted(each for each in masks.items() if each[1])))

    def take(self, position: int, consumed: Amounts | None) -> DeviceUsage:
        """Return the usage with one more device, or with `consumed` more of a shared one."""
        if consumed is None:
            return DeviceUsage(self.used | 1 << position, self.shares)
        return self.with_shares({position: added(self.share(position), consumed)})


FREE = DeviceUsage()
"""Usage of a node without devices in use."""


def added(amounts: Amounts | None, more: Amounts) -> Amounts:
    """Return the sum of both amounts, sorted by name."""
    if not amounts:
        return more
    sums = dict(amounts)
    for name, amount in more:
        sums[name] = sums.get(name, 0) + amount
    return tuple(sorted(sums.items()))


@dataclass(frozen=True, slots=True)
class DeviceView:
    """Devices that a node sees, by position. `visible` is the mask of those that it can use.

    The others are there because they use the same counters. Incomplete and invalid pools have no
    devices. `sources` has the slice and the device of each position.
    """

    pools: tuple[Pool, ...]
    sources: tuple[tuple[SliceInfo, DeviceInfo], ...]
    keys: tuple[DeviceKey, ...]
    positions: dict[DeviceKey, int]
    visible: int

    @property
    def flaws(self) -> tuple[str, ...]:
        """Messages about the pools that cannot be used."""
        return tuple(_flaw(pool) for pool in self.pools if not pool.usable)

    @property
    def invalid(self) -> bool:
        """True if a pool breaks the rules, and is not just being updated."""
        return any(not (pool.usable or pool.incomplete) for pool in self.pools)

    @classmethod
    def of(cls, pools: Iterable[Pool], admits: Callable[[NodeScope], bool]) -> DeviceView:
        """Create the view of these pools; `admits` is True if a scope contains the node."""
        gathered = tuple(pools)
        sources: list[tuple[SliceInfo, DeviceInfo]] = []
        keys: list[DeviceKey] = []
        visible = 0
        for pool in gathered:
            for each, device in pool.devices() if pool.usable else ():
                # A slice has no scope if it sets perDeviceNodeSelection: then each device has one.
                scope = device.scope if each.scope is None else None
                if each.name in pool.seen and (scope is None or admits(scope)):
                    visible |= 1 << len(keys)
                keys.append((*pool.key, device.name))
                sources.append((each, device))
        positions = {key: at for at, key in enumerate(keys)}
        return cls(gathered, tuple(sources), tuple(keys), positions, visible)


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """Kind, pool and twin number of each position; positions with equal twin numbers are equal.

    `flaws` are messages about the pools that cannot be used; `invalid` is True if one of these is
    invalid and not only incomplete. `counters` has the amounts that each pool shares, by pool,
    counter set and counter. `values` has a number for each position and each attribute that a
    constraint compares: equal for equal values, 0 without a value. `matches`, `ledger` and `masks`
    are the allocator's caches.
    """

    index: int
    kinds: tuple[DeviceKind, ...]
    pools: tuple[int, ...]
    twins: tuple[int, ...]
    visible: int
    shared: int
    flaws: tuple[str, ...]
    invalid: bool
    counters: dict[tuple[int, str, str], int]
    values: Mapping[str, tuple[int, ...]]
    ledger: CounterLedger
    matches: dict[object, Any] = field(default_factory=dict, compare=False)
    masks: dict[str, dict[int, int]] = field(default_factory=dict, compare=False)

    def twins_of(self, position: int) -> int:
        """Return the mask of the positions that are equal to this one, including it."""
        return self._masks("", self.twins)[self.twins[position]]

    def with_value(self, attribute: str, value: int) -> int:
        """Return the mask of the positions with this value of a compared attribute."""
        return self._masks(attribute, self.values[attribute]).get(value, 0)

    def _masks(self, name: str, numbers: tuple[int, ...]) -> dict[int, int]:
        found = self.masks.get(name)
        if found is None:
            found = self.masks[name] = {}
            for position, number in enumerate(numbers):
                found[number] = found.get(number, 0) | 1 << position
        return found


def layout_of(
    index: int,
    view: DeviceView,
    pools: Sequence[int],
    kinds: Sequence[DeviceKind],
    values: Mapping[str, tuple[int, ...]],
) -> DeviceLayout:
    """Create the layout of a node's view from the pool and the kind of each position."""
    numbers: dict[object, int] = {}
    twins: list[int] = []
    shared = 0
    for at, (kind, pool) in enumerate(zip(kinds, pools, strict=True)):
        compared = tuple(of[at] for of in values.values())
        # The pool matters only for its counters, so equal devices of two pools are twins otherwise.
        alike = (kind.index, pool if kind.sample.counters else -1, compared)
        twins.append(numbers.setdefault(alike, len(numbers)))
        shared |= kind.sample.shared << at
    counters = {
        (number, name, counter): amount
        for number, pool in enumerate(view.pools)
        for name, of_set in pool.counters
        for counter, amount in of_set
    }
    return DeviceLayout(
        index, tuple(kinds), tuple(pools), tuple(twins), view.visible, shared, view.flaws,
        view.invalid, counters, values,
        CounterLedger(kinds, pools, counters),
    )  # fmt: skip


def _flaw(pool: Pool) -> str:
    state = "being updated" if pool.incomplete else "invalid"
    return f"{pool.key[0]}/{pool.key[1]} is currently {state}"
