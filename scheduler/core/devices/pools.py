"""Pools of devices that one node sees, as kube-scheduler gathers them.

A pool is complete if all slices of its generation exist, for whichever nodes. Only the highest
generation among the slices for this node is inspected: a newer generation elsewhere is only noticed
if slices are missing here. Upstream does the same, and its tests require it.

One difference: a slice that has only counters counts for a node only if the node sees a device of
its pool. So an incomplete pool of another node does not fail requests for all devices here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import DeviceInfo, PoolKey, SliceInfo


@dataclass(frozen=True, slots=True)
class Pool:
    """Pool as one node sees it. `slices` are those of its generation with devices, by name.

    `seen` has the names of the slices for this node. A pool that is `incomplete` (slices are
    missing) or `invalid` (with the reason) provides no devices.
    """

    key: PoolKey
    slices: tuple[SliceInfo, ...]
    seen: frozenset[str]
    counters: tuple[tuple[str, Amounts], ...] = ()
    incomplete: bool = False
    invalid: str = ""

    @property
    def usable(self) -> bool:
        return not (self.incomplete or self.invalid)

    def devices(self) -> Iterator[tuple[SliceInfo, DeviceInfo]]:
        """Return the devices in order: by slice, then as listed."""
        return ((each, device) for each in self.slices for device in each.devices)


def gather(
    seen: Iterable[SliceInfo], whole_pool: Callable[[PoolKey], Iterable[SliceInfo]]
) -> list[Pool]:
    """Return the pools of a node's slices, in the order in which the allocator tries devices.

    `whole_pool` returns all slices of a pool, of every generation and for every node.
    """
    newest: dict[PoolKey, list[SliceInfo]] = {}
    for each in seen:
        same = newest.setdefault(each.pool_key, [])
        # As upstream, slices of older generations do not count, even if they are complete.
        if same and each.generation > same[0].generation:
            same.clear()
        if not same or each.generation == same[0].generation:
            same.append(each)
    pools = (_pool(key, slices, whole_pool) for key, slices in newest.items())
    return sorted((pool for pool in pools if pool is not None), key=_order)


def _order(pool: Pool) -> tuple[bool, bytes, bytes]:
    # As in kube-scheduler 1.36: pools with binding conditions last, only if the node can use such a
    # device; then by driver and name, compared as bytes.
    binding = pool.usable and any(
        device.binding_conditions for each, device in pool.devices() if each.name in pool.seen
    )
    return (binding, pool.key[0].encode(), pool.key[1].encode())


def _pool(
    key: PoolKey, slices: list[SliceInfo], whole_pool: Callable[[PoolKey], Iterable[SliceInfo]]
) -> Pool | None:
    """Return the pool, or None if the node sees only an old generation of it."""
    generation, wanted = slices[0].generation, slices[0].slices
    whole = list(whole_pool(key))
    if len(slices) != wanted and any(each.generation > generation for each in whole):
        return None
    current = [each for each in whole if each.generation == generation]
    counters = tuple(group for each in current for group in each.counters)
    # Devices elsewhere in the pool matter only where they take from the same counters.
    kept = current if counters else slices
    return Pool(
        key,
        tuple(sorted((each for each in kept if each.devices), key=lambda each: each.name)),
        frozenset(each.name for each in slices),
        counters,
        # The node's own slices may complete the pool, or those of all nodes together.
        incomplete=wanted not in (len(slices), len(current)),
        invalid=_double_names(slices, counters)
        or _wrong_counters(slices if len(slices) == wanted else current, counters),
    )


def _double_names(slices: Iterable[SliceInfo], counters: tuple[tuple[str, Amounts], ...]) -> str:
    """Return a message about a name that the node's slices have twice, or an empty string."""
    if len(dict(counters)) < len(counters):
        return "a counter set is there twice"
    names: set[str] = set()
    for each in slices:
        for device in each.devices:
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
    return ""


def _wrong_counters(slices: Iterable[SliceInfo], counters: tuple[tuple[str, Amounts], ...]) -> str:
    """Return a message about a device that uses an unknown counter, or an empty string."""
    sets = {name: {counter for counter, _ in amounts} for name, amounts in counters}
    for each in slices:
        for device in each.devices:
            for name, amounts in device.counters:
                if not {counter for counter, _ in amounts} <= sets.get(name, set()):
                    return f"device {device.name} uses counters of {name} that are not there"
    return ""
