"""The amounts of each resource that nodes offer and have free, and that pods request.

A resource has an index (along R) as long as some node offers it. The use of other resources is only
recorded per node, so a name that no node offers needs no array.

Arithmetic is int64 and never overflows. Amounts above LARGEST count as LARGEST for nodes, and as
one more for pods, which then do not fit any node. Large amounts in use are summed up exactly
outside of the arrays, which contain the sum only up to a limit. So releasing restores exactly what
was free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

PODS: Final = "pods"
"""The number of pods is a resource like any other: every pod requests one."""

LARGEST: Final = 1 << 53
"""Largest amount of one resource of a node; a thousand times as much still fits an int64."""

BY_DEVICES: Final = LARGEST + 1
"""Amount that a node has of a resource that it does not offer and that devices replace."""

_MOST_PODS: Final = (1 << 31) - 1
"""Largest number of pods of a node, so that pods can be added up over all nodes."""

_LARGE: Final = 1 << 42
"""Amount above which sums are kept outside of the arrays.

A million smaller ones cannot overflow.
"""

_MOST_USED: Final = 1 << 61
"""Limit up to which the arrays contain the sum of large amounts."""

_FIRST: Final = 8
"""Resources for which the arrays have rows at first. They grow."""


class ResourceTable:
    """The resources of nodes by row, in arrays (R, N); `indices` are those of the resources.

    `epoch` changes with `indices`. Amounts outside of the arrays are recorded per row and name:
    those of resources without an index, and the exact sums of large amounts. If devices replace a
    resource, a node that does not offer it has BY_DEVICES of it, provided the resource has an
    index. `devices_version` changes with the nodes for which that is so.
    """

    def __init__(self, capacity: int) -> None:
        self.indices: dict[str, int] = {PODS: 0}
        self.epoch = 0
        self.allocatable: Ints = np.zeros((_FIRST, capacity), np.int64)
        self.free: Ints = np.zeros((_FIRST, capacity), np.int64)
        self.devices_version = 0
        self._by_devices: set[str] = set()
        self._nodes = np.zeros(capacity, np.bool_)
        self._vacant: list[int] = []
        self._offering: Counter[str] = Counter()
        self._without_index: dict[int, Counter[str]] = {}
        self._large: dict[int, Counter[str]] = {}
        self.computed: WeakSet[Request] = WeakSet()
        """Requests that have computed what holds for this epoch."""
        self._requests = WeakValueDictionary[tuple[tuple[tuple[str, int], ...], int], Request]()

    @property
    def names(self) -> dict[int, str]:
        """Names of the resources by index."""
        return {index: name for name, index in self.indices.items()}

    def __len__(self) -> int:
        """Return the number of resources with an index and of amounts outside of the arrays."""
        apart = (*self._without_index.values(), *self._large.values())
        return len(self.indices) + sum(map(len, apart))

    def request(self, amounts: Iterable[tuple[str, int]], *, pods: int = 1) -> Request:
        """Return the load of pods with these requests, which count as `pods` of the node's pods.

        Returns the same object for the same amounts, while any shape has it.
        """
        key = (tuple(amounts), pods)
        known = self._requests.get(key)
        if known is None:
            known = self._requests[key] = Request(self, *key)
        return known

    def _begin_epoch(self) -> None:
        self.epoch += 1
        # Only these: a node may have hundreds of resources, and each begins an epoch.
        for request in self.computed:
            request.drop()
        self.computed.clear()

    def grow(self) -> None:
        """Double the number of rows."""
        wide = ((0, 0), (0, self.free.shape[1]))
        self.allocatable = np.pad(self.allocatable, wide)
        self.free = np.pad(self.free, wide)
        self._nodes = np.pad(self._nodes, wide[1])

    def set_node(self, row: int, before: Mapping[str, int], now: Mapping[str, int]) -> None:
        """Change the amounts that a node offers; its pods keep theirs."""
        self._nodes[row] = True
        offered = self._set_offered(row, before, now)
        # Device plugins and DRA may serve the same name: the node's own amount counts.
        for name in self._by_devices.intersection(self.indices).difference(offered):
            self._set(self.indices[name], row, BY_DEVICES)
            self.devices_version += 1

    def is_by_devices(self, name: str) -> bool:
        """Return True if devices replace the resource on nodes that do not offer it."""
        return name in self._by_devices

    def set_by_devices(self, name: str, *, by_devices: bool) -> None:
        """Set whether devices replace the resource on nodes that do not offer it."""
        if by_devices:
            self._by_devices.add(name)
        else:
            self._by_devices.discard(name)
        # `Request.missing` depends on it.
        self._begin_epoch()
        if name in self.indices:
            self._set_offered_by_devices(self.indices[name], by_devices=by_devices)

    def _set_offered_by_devices(self, index: int, *, by_devices: bool) -> None:
        """Let devices replace the resource on nodes that do not offer it, or stop that."""
        before = 0 if by_devices else BY_DEVICES
        # Vacant rows offer nothing, whatever devices there are.
        rows = self._nodes & (self.allocatable[index] == before)
        now = BY_DEVICES - before
        self.free[index, rows] += now - before
        self.allocatable[index, rows] = now
        self.devices_version += 1

    def _set_offered(
        self, row: int, before: Mapping[str, int], now: Mapping[str, int]
    ) -> Mapping[str, int]:
        old, new = _offered(before), _offered(now)
        for name, amount in new.items():
            if name not in old:
                self._offering[name] += 1
                if name not in self.indices:
                    self._add(name)
            self._set(self.indices[name], row, amount)
        for name in old.keys() - new.keys():
            self._set(self.indices[name], row, 0)
            self._offering[name] -= 1
            # Extended resources come and go; an index for each former name would waste memory.
            if not self._offering[name]:
                del self._offering[name]
                self._remove(name)
        return new

    def remove_node(self, row: int, before: Mapping[str, int]) -> None:
        """Remove a node and all that was taken from it."""
        self.allocatable[:, row] = 0
        self.release_all(row)
        self._nodes[row] = False
        self._set_offered(row, before, {})

    def release_all(self, row: int) -> None:
        """Forget all that was taken from a node."""
        self._without_index.pop(row, None)
        self._large.pop(row, None)
        self.free[:, row] = self.allocatable[:, row]

    def take(self, rows: Ints, counts: Ints, request: Request) -> None:
        """Put `counts[i]` pods on node `rows[i]`; negative counts remove them."""
        indices, amounts = request.in_arrays
        # Rows must be distinct: numpy subtracts only once for repeated indices.
        self.free[indices[:, None], rows] -= amounts[:, None] * counts
        if request.apart:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self._take_apart(row, count, request)

    def take_one(self, row: int, count: int, request: Request) -> None:
        """Take resources like `take`, for one node."""
        amounts = request.from_first
        self.free[: len(amounts), row] -= amounts * count
        if request.apart:
            self._take_apart(row, count, request)

    def _set(self, index: int, row: int, amount: int) -> None:
        self.free[index, row] += amount - self.allocatable[index, row]
        self.allocatable[index, row] = amount

    def _take_apart(self, row: int, count: int, request: Request) -> None:
        for name, amount in request.apart:
            if amount > _LARGE:
                before = _add_to(self._large, row, name, amount * count)
                index = self.indices.get(name)
                # The array has the sum up to the limit, so change it by the capped difference.
                if index is not None:
                    after = before + amount * count
                    self.free[index, row] += min(before, _MOST_USED) - min(after, _MOST_USED)
            else:
                _add_to(self._without_index, row, name, amount * count)

    def _add(self, name: str) -> None:
        """Give the resource an index, and move amounts that were recorded by name to the arrays."""
        index = self._vacant.pop() if self._vacant else len(self.indices)
        if index == len(self.free):
            more = ((0, len(self.free)), (0, 0))
            self.allocatable = np.pad(self.allocatable, more)
            self.free = np.pad(self.free, more)
        self.indices[name] = index
        self._begin_epoch()
        # A list, because `_add_to` removes rows without amounts.
        for row in [row for row, used in self._without_index.items() if name in used]:
            used = self._without_index[row][name]
            _add_to(self._without_index, row, name, -used)
            self.free[index, row] -= used
        for row, large in self._large.items():
            self.free[index, row] -= min(large[name], _MOST_USED)
        if name in self._by_devices:
            self._set_offered_by_devices(index, by_devices=True)

    def _remove(self, name: str) -> None:
        """Remove the resource's index, and record what pods use of it by name."""
        # Every pod requests one, so the index of pods is always needed.
        if name == PODS:
            return
        index = self.indices.pop(name)
        if name in self._by_devices:
            # First, so that BY_DEVICES does not count as used by pods.
            self._set_offered_by_devices(index, by_devices=False)
        self._vacant.append(index)
        self._begin_epoch()
        for row in np.flatnonzero(self.free[index]).tolist():
            # No node offers the resource now, so `free` is the negated use.
            large = self._large[row][name] if row in self._large else 0
            used = -int(self.free[index, row]) - min(large, _MOST_USED)
            _add_to(self._without_index, row, name, used)
        self.free[index] = 0


class Request:
    """The load of a pod by resource, from the table's `request`.

    `amounts` are (resource name, amount), pods included, whether a node offers it or not. `demands`
    are (resource index, amount) for each resource that some node offers; `scored` those by which
    full nodes differ from empty ones: the number of pods is among them only if the pod requests
    nothing else. Resources that no node offers, and that no devices replace, are `missing`.
    `in_arrays` are indices and amounts, of equal length, that are added up in the arrays;
    `from_first` are the same amounts as a row of all resources up to the last one that is
    requested, since for one node a slice is cheaper than indices. `apart` are (name, amount) of
    what is added up outside of the arrays.

    All but `amounts` hold for one epoch of the table, and are computed on first use.
    """

    __slots__ = (
        "__weakref__", "_resources", "amounts", "apart", "demands", "from_first", "in_arrays",
        "missing", "scored",
    )  # fmt: skip

    demands: tuple[tuple[int, int], ...]
    scored: tuple[tuple[int, int], ...]
    missing: tuple[str, ...]
    in_arrays: tuple[Ints, Ints]
    from_first: Ints
    apart: tuple[tuple[str, int], ...]

    def __init__(
        self, resources: ResourceTable, amounts: Iterable[tuple[str, int]], pods: int = 1
    ) -> None:
        total = Counter({PODS: pods})
        for name, amount in amounts:
            # A negative request would add to the node's free resources.
            total[name] += max(0, amount)
        self._resources = resources
        # One more than any node has: an absurd request must not overflow the arithmetic.
        self.amounts = tuple((name, min(amount, LARGEST + 1)) for name, amount in (+total).items())

    def drop(self) -> None:
        """Drop what holds for one epoch, as another one begins."""
        for name in _OF_AN_EPOCH:
            delattr(self, name)

    if not TYPE_CHECKING:  # or any name would pass for an attribute

        def __getattr__(self, name: str) -> object:
            # Called only for an attribute that has no value.
            if name not in _OF_AN_EPOCH:
                raise AttributeError(name)
            self._compute()
            return getattr(self, name)

    def _compute(self) -> None:
        self._resources.computed.add(self)
        indices, by_devices = self._resources.indices, self._resources.is_by_devices
        offered = [(indices[name], amount) for name, amount in self.amounts if name in indices]
        small = np.array([each for each in offered if each[1] <= _LARGE], np.int64).reshape(-1, 2)
        self.demands = tuple(offered)
        self.scored = self.demands[1:] or self.demands
        self.in_arrays = (small[:, 0].copy(), small[:, 1].copy())
        self.from_first = np.zeros(int(small[:, 0].max(initial=-1)) + 1, np.int64)
        self.from_first[small[:, 0]] = small[:, 1]
        self.missing = tuple(
            name for name, _ in self.amounts if name not in indices and not by_devices(name)
        )
        self.apart = tuple(
            (name, amount)
            for name, amount in self.amounts
            if amount > _LARGE or name not in indices
        )


_OF_AN_EPOCH: Final = ("demands", "scored", "missing", "in_arrays", "from_first", "apart")
"""Fields of a request that depend on the resources that nodes offer."""


def total(amounts: Ints) -> int:
    """Return the exact sum of amounts up to LARGEST, which over all nodes may exceed an int64."""
    # The sums of 32-bit halves stay far below 2**63.
    high, low = int((amounts >> 32).sum()), int((amounts & 0xFFFFFFFF).sum())
    return (high << 32) + low


def _offered(allocatable: Mapping[str, int]) -> dict[str, int]:
    """Return what is offered, within the limits and without zeros."""
    return {
        name: min(amount, _MOST_PODS if name == PODS else LARGEST)
        for name, amount in allocatable.items()
        if amount > 0
    }


def _add_to(sums: dict[int, Counter[str]], row: int, name: str, amount: int) -> int:
    """Add to a sum of the row and return what it was before; sums of 0 are removed."""
    of_row = sums.setdefault(row, Counter())
    before = of_row[name]
    of_row[name] = before + amount
    if not of_row[name]:
        del of_row[name]
        if not of_row:
            del sums[row]
    return before
