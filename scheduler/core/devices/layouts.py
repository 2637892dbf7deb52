"""Layouts: the devices of a node by position, with kinds in place of names.

Nodes with equal devices share a layout, however many nodes there are. A position is a device's
index in the order in which devices are tried. Which devices are in use is no part of a layout: that
is its `Usage`, in which a device is a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.core.devices.asks import Amounts
from scheduler.core.devices.kinds import Kind
from scheduler.core.devices.model import DeviceInfo, DeviceKey, NodeScope, SliceInfo
from scheduler.core.devices.pools import Pool

_UPDATED: Final = "being updated"
_INVALID: Final = "invalid"

Shares = tuple[tuple[int, Amounts], ...]
"""(position, consumed amounts) of the shared devices that somebody has, by position."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Which positions of a layout are in use: a bit mask, and of shared devices how much."""

    used: int = 0
    shares: Shares = ()


FREE = Usage()
"""Nothing is in use."""


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
    `matches` is the allocator's, which looks up there what it found out before.
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
    matches: dict[object, Any] = field(default_factory=dict, compare=False)


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
        any(flaw.endswith(_INVALID) for flaw in view.flaws), counters, values,
    )  # fmt: skip


def _flaw(pool: Pool) -> str:
    state = _UPDATED if pool.incomplete else _INVALID
    return f"{pool.key[0]}/{pool.key[1]} is currently {state}"


def bits(mask: int) -> list[int]:
    """The positions in a mask, in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
