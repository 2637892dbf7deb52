"""Layouts: the devices of a node by position, with kinds in place of names.

Nodes with equal devices share a layout, however many nodes there are. A position is a device's
index in the order in which devices are tried. Which devices are in use is no part of a layout: that
is its `Usage`, in which a device is a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.devices.counters import CounterLedger
from scheduler.core.devices.kinds import Kind
from scheduler.core.devices.pools import Pool
from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import DeviceInfo, DeviceKey, NodeScope, SliceInfo

Shares = tuple[tuple[Amounts, int], ...]
"""(consumed amounts, mask of the shared devices of which somebody has so much), by amounts."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Which positions of a layout are in use: a bit mask, and of shared devices how much.

    Devices of which equal amounts are taken are one entry, however many they are.
    """

    used: int = 0
    shares: Shares = ()

    @property
    def shared(self) -> int:
        """The shared devices that somebody has, as a mask."""
        return sum(mask for _, mask in self.shares)

    def share(self, position: int) -> Amounts | None:
        """How much of the device is taken by those that share it; None if nobody does."""
        for amounts, mask in self.shares:
            if mask >> position & 1:
                return amounts
        return None

    def with_shares(self, changes: Mapping[int, Amounts | None]) -> Usage:
        """The same, but of these positions so much is taken; None: nothing."""
        if not changes:
            return self
        kept = ~sum(1 << position for position in changes)
        masks = {amounts: mask & kept for amounts, mask in self.shares}
        for position, amounts in changes.items():
            if amounts is not None:
                masks[amounts] = masks.get(amounts, 0) | 1 << position
        return Usage(self.used, tuple(sorted(each for each in masks.items() if each[1])))

    def take(self, position: int, consumed: Amounts | None) -> Usage:
        """The usage with one device more, or with so much more of one that is shared."""
        if consumed is None:
            return Usage(self.used | 1 << position, self.shares)
        return self.with_shares({position: added(self.share(position), consumed)})


FREE = Usage()
"""Nothing is in use."""


def added(amounts: Amounts | None, more: Amounts) -> Amounts:
    """What is taken with so much more."""
    if not amounts:
        return more
    sums = dict(amounts)
    for name, amount in more:
        sums[name] = sums.get(name, 0) + amount
    return tuple(sorted(sums.items()))


@dataclass(frozen=True, slots=True)
class View:
    """The devices that a node sees, by position. `visible` are the positions that it can use.

    Others are there because they take from the same counters. Pools with a flaw have no devices.
    `sources` has the slice and the device of each position.
    """

    pools: tuple[Pool, ...]
    sources: tuple[tuple[SliceInfo, DeviceInfo], ...]
    keys: tuple[DeviceKey, ...]
    positions: dict[DeviceKey, int]
    visible: int

    @property
    def flaws(self) -> tuple[str, ...]:
        """Which pools cannot be used."""
        return tuple(_flaw(pool) for pool in self.pools if not pool.usable)

    @property
    def invalid(self) -> bool:
        """True if a pool breaks the rules, and is not just being updated."""
        return any(not (pool.usable or pool.incomplete) for pool in self.pools)

    @classmethod
    def of(cls, pools: Iterable[Pool], admits: Callable[[NodeScope], bool]) -> View:
        """The view of these pools; `admits` says of a device's own scope if the node is in it."""
        gathered = tuple(pools)
        sources: list[tuple[SliceInfo, DeviceInfo]] = []
        keys: list[DeviceKey] = []
        visible = 0
        for pool in gathered:
            for each, device in pool.devices() if pool.usable else ():
                scope = device.scope if each.scope is None else None
                if each.name in pool.seen and (scope is None or admits(scope)):
                    visible |= 1 << len(keys)
                keys.append((*pool.key, device.name))
                sources.append((each, device))
        positions = {key: at for at, key in enumerate(keys)}
        return cls(gathered, tuple(sources), tuple(keys), positions, visible)


@dataclass(frozen=True, slots=True)
class Layout:
    """Per position its kind, pool and twin number; positions with one twin number are alike.

    `flaws` say which pools cannot be used; `invalid`: one of them breaks the rules. `counters` is
    what each pool shares, by pool, counter set and counter. `values` has for each attribute that a
    constraint compares a number per position: equal for equal values, 0 where there is none.
    `matches`, `ledger` and `masks` are the allocator's, which looks up there what it found out
    before.
    """

    index: int
    kinds: tuple[Kind, ...]
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
        """The positions that are like this one, itself among them, as a mask."""
        return self._masks("", self.twins)[self.twins[position]]

    def with_value(self, attribute: str, value: int) -> int:
        """The positions with this value of an attribute that is compared, as a mask."""
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
    view: View,
    pools: Sequence[int],
    kinds: Sequence[Kind],
    values: Mapping[str, tuple[int, ...]],
) -> Layout:
    """The layout of what a node sees, given the pool and the kind of each position."""
    numbers: dict[object, int] = {}
    twins: list[int] = []
    shared = 0
    for at, (kind, pool) in enumerate(zip(kinds, pools, strict=True)):
        compared = tuple(of[at] for of in values.values())
        alike = (kind.index, pool if kind.sample.counters else -1, compared)
        twins.append(numbers.setdefault(alike, len(numbers)))
        shared |= kind.sample.shared << at
    counters = {
        (number, name, counter): amount
        for number, pool in enumerate(view.pools)
        for name, of_set in pool.counters
        for counter, amount in of_set
    }
    return Layout(
        index, tuple(kinds), tuple(pools), tuple(twins), view.visible, shared, view.flaws,
        view.invalid, counters, values,
        CounterLedger(kinds, pools, counters),
    )  # fmt: skip


def _flaw(pool: Pool) -> str:
    state = "being updated" if pool.incomplete else "invalid"
    return f"{pool.key[0]}/{pool.key[1]} is currently {state}"
