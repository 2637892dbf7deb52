"""Amounts that the devices in use leave of the counters that their pools share.

A layout is asked about many usages in sequence, and each differs from the previous one in a few
devices. So the ledger only updates these. The result depends on the usage alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.core.devices.kinds import DeviceKind
from scheduler.core.devices.masks import bits

CounterKey = tuple[int, str, str]
"""(pool, counter set, counter)."""


class CounterLedger:
    """Counters of one layout, for the devices in use that `turn_to` received last.

    `left` is the amount left of each counter. `over` are the pools whose devices in use exceed a
    counter. `blocked` is the mask of positions for which too little is left.
    """

    def __init__(
        self, kinds: Sequence[DeviceKind], pools: Sequence[int], counters: Mapping[CounterKey, int]
    ) -> None:
        self.left = dict(counters)
        self.over: set[int] = set()
        self.blocked = 0
        self._kinds = kinds
        self._pools = pools
        self._taken = 0
        self._takers: dict[int, list[int]] = {}
        self._counters: dict[int, list[CounterKey]] = {}
        for key in counters:
            self._counters.setdefault(key[0], []).append(key)
        for at, kind in enumerate(kinds):
            if kind.sample.counters:
                self._takers.setdefault(pools[at], []).append(at)
        # Devices without counters never change the ledger.
        self._some = sum(1 << at for of_pool in self._takers.values() for at in of_pool)
        self._update_visible(self._takers)

    def turn_to(self, taken: int) -> None:
        """Update the ledger to these positions in use; a shared device is charged once."""
        # Usages that differ only in devices without counters keep the ledger as it is.
        taken &= self._some
        if taken == self._taken:
            return
        changed = bits(taken ^ self._taken)
        for at in changed:
            sign = 1 if taken >> at & 1 else -1
            for key, amount in self.charges(at):
                self.left[key] = self.left.get(key, 0) - sign * amount
        self._taken = taken
        self._update_visible({self._pools[at] for at in changed})

    def charges(self, position: int) -> Iterator[tuple[CounterKey, int]]:
        """Yield the amount that a device takes of each counter."""
        pool = self._pools[position]
        for name, amounts in self._kinds[position].sample.counters:
            for counter, amount in amounts:
                yield (pool, name, counter), amount

    def _update_visible(self, pools: Iterable[int]) -> None:
        for pool in pools:
            # Another scheduler may have exceeded a counter. Then the pool gives no device that uses
            # counters, not even one that uses others.
            over = any(self.left[key] < 0 for key in self._counters.get(pool, ()))
            (self.over.add if over else self.over.discard)(pool)
            for at in self._takers[pool]:
                self.blocked &= ~(1 << at)
                self.blocked |= (over or not self._enough(at)) << at

    def _enough(self, position: int) -> bool:
        return all(self.left.get(key, 0) >= amount for key, amount in self.charges(position))
