"""The pools of devices that one node sees, as kube-scheduler gathers them.

A pool is complete if all slices of its generation are there, wherever they count. Only the highest
generation among the slices that count for the node is looked at: what is stale elsewhere is found
out only where slices are missing. That is upstream's answer, and its tests keep it.

One difference: a slice with nothing but counters counts only where a device of its pool does. So an
incomplete pool of another node fails no request for all devices here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from scheduler.core.values.device_asks import Amounts
from scheduler.core.values.devices import DeviceInfo, PoolKey, SliceInfo


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as one node sees it. `slices` are those of its generation with devices, by name.

    `seen` are the names of those that count for the node. A pool with a `flaw` gives no devices;
    `incomplete` means that slices are missing, else it is invalid.
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
        """In order: by slice, then as listed."""
        return ((each, device) for each in self.slices for device in each.devices)


def gather(
    seen: Iterable[SliceInfo], whole_pool: Callable[[PoolKey], Iterable[SliceInfo]]
) -> list[Pool]:
    """The pools of the slices that count for a node, in the order in which devices are tried.

    `whole_pool` has all slices of a pool, of every generation and for every node.
    """
    newest: dict[PoolKey, list[SliceInfo]] = {}
    for each in seen:
        same = newest.setdefault(each.pool_key, [])
        if same and each.generation > same[0].generation:
            same.clear()
        if not same or each.generation == same[0].generation:
            same.append(each)
    pools = (_pool(key, slices, whole_pool) for key, slices in newest.items())
    return sorted((pool for pool in pools if pool is not None), key=_order)


def _order(pool: Pool) -> tuple[bool, bytes, bytes]:
    binding = pool.usable and any(
        device.binding_conditions for each, device in pool.devices() if each.name in pool.seen
    )
    return (binding, pool.key[0].encode(), pool.key[1].encode())


def _pool(
    key: PoolKey, slices: list[SliceInfo], whole_pool: Callable[[PoolKey], Iterable[SliceInfo]]
) -> Pool | None:
    """The pool; None if the node sees only an old generation of it."""
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
        incomplete=wanted not in (len(slices), len(current)),
        invalid=_double_names(slices, counters)
        or _wrong_counters(slices if len(slices) == wanted else current, counters),
    )


def _double_names(slices: Iterable[SliceInfo], counters: tuple[tuple[str, Amounts], ...]) -> str:
    """Which name of the slices that count for the node is there twice; empty if none is."""
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
    """Which device takes from counters that are not there; empty if none does."""
    sets = {name: {counter for counter, _ in amounts} for name, amounts in counters}
    for each in slices:
        for device in each.devices:
            for name, amounts in device.counters:
                if not {counter for counter, _ in amounts} <= sets.get(name, set()):
                    return f"device {device.name} uses counters of {name} that are not there"
    return ""
