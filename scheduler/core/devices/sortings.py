"""Sortings: the layout of each node, for a set of selectors and constraints.

A sorting is built in steps. What was evaluated and sorted before an exception stays, and the next
call continues from there.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.core.devices.allowance import DeviceAllowance
from scheduler.core.devices.contents import Contents, Seen
from scheduler.core.devices.kinds import (
    DeviceKind,
    SelectorEvaluator,
    Verdict,
    Watched,
    attributes_read,
    verdict,
)
from scheduler.core.devices.layouts import DeviceLayout, DeviceView, layout_of
from scheduler.core.nodes.node_table import Ints

MOST_SORTINGS: Final = 64
"""Limit of cached sortings; the least recently used are dropped first."""

MOST_PARTS: Final = 1 << 17
"""Limit of evaluated devices and layouts in all sortings together, plus four for each device.

The sortings with the most are dropped first.
"""

_NO_VIEW: Final = DeviceView.of((), lambda _scope: False)


class Sorting:
    """Layouts of all nodes for one set of selectors and constraints.

    `column` (capacity,) has the number of each row's layout.
    """

    def __init__(
        self,
        watched: Watched,
        contents: Contents,
        evaluate: SelectorEvaluator,
        allowance: DeviceAllowance,
        numbers: Iterator[int],
    ) -> None:
        """Create an empty sorting; `numbers` yields indices that no other sorting uses."""
        self.column: Ints = np.zeros(0, np.int64)
        self.stale: set[int] = set()
        self.layouts: dict[int, DeviceLayout] = {}
        self._contents = contents
        self._evaluate = evaluate
        self._allowance = allowance
        self._numbers = numbers
        self._chains = sorted(watched.chains)
        self._compared = sorted(watched.compared)
        self._attributes_read = attributes_read(watched.chains)
        self._kind_of: list[DeviceKind] = []
        self._evaluated: dict[object, DeviceKind] = {}
        self._kinds: dict[object, DeviceKind] = {}
        self._known: dict[object, DeviceLayout] = {}

    def __len__(self) -> int:
        """Return the number of evaluated devices and created layouts."""
        return len(self._evaluated) + len(self._known)

    def refresh(self, seen_of: Mapping[int, Seen], size: int) -> None:
        """Update the layouts of the rows whose views changed."""
        if size > len(self.column):
            self.stale.update(range(len(self.column), size))
            self.column = np.pad(self.column, (0, size - len(self.column)))
        nothing = self._contents.seen(_NO_VIEW)
        columns = self._columns()
        known: dict[int, int] = {}
        for row in sorted(self.stale):
            seen = seen_of.get(row, nothing)
            # Nodes of one group share the object: identity finds equal nodes without comparing.
            if id(seen) not in known:
                known[id(seen)] = self._layout(seen, columns).index
            self.column[row] = known[id(seen)]
            # Row by row, so that a postponed decision continues with the rest.
            self.stale.discard(row)

    def layout(self, seen: Seen) -> DeviceLayout:
        """Return the layout of the devices that a node sees."""
        return self._layout(seen, self._columns())

    def _columns(self) -> list[list[int]]:
        """Assign a kind to each device, and return the columns of compared attributes."""
        self._sort_devices()
        return [self._contents.compared(name) for name in self._compared]

    def _sort_devices(self) -> None:
        contents, start = self._contents, len(self._kind_of)
        if start == len(contents):
            return
        # A selector is evaluated once for devices that are equal in what it can read.
        parts = [contents.fixed]
        if self._attributes_read is None:
            parts.append(list(range(len(contents))))
        else:
            parts += (contents.named(name) for name in sorted(self._attributes_read))
        keys = zip(*parts, strict=True)
        for number, key in enumerate(itertools.islice(keys, start, None), start):
            kind = self._evaluated.get(key)
            if kind is None:
                kind = self._evaluated[key] = self._kind(number)
            self._kind_of.append(kind)

    def _kind(self, number: int) -> DeviceKind:
        """Return the kind of a device by its verdicts; an exception leaves no partial verdicts."""
        self._allowance.check()
        driver, device = self._contents.drivers[number], self._contents.samples[number]
        verdicts: dict[tuple[str, ...], Verdict] = {}
        for chain in self._chains:
            verdicts[chain] = verdict(chain, driver, device, self._evaluate)
            self._allowance.charge(len(chain))
        key = (self._contents.fixed[number], tuple(verdicts.values()))
        return self._kinds.setdefault(key, DeviceKind(len(self._kinds), driver, device, verdicts))

    def _layout(self, seen: Seen, columns: list[list[int]]) -> DeviceLayout:
        kinds = tuple(self._kind_of[number] for number in seen.contents)
        values = tuple(_places(column, seen.contents) for column in columns)
        key = (seen.frame.number, tuple(kind.index for kind in kinds), values)
        layout = self._known.get(key)
        # Interned, so that equal nodes have one index and share the allocator's caches.
        if layout is None:
            self._allowance.check()
            frame, compared = seen.frame, dict(zip(self._compared, values, strict=True))
            layout = layout_of(next(self._numbers), frame.view, frame.pools, kinds, compared)
            self._known[key] = self.layouts[layout.index] = layout
            self._allowance.charge(1)
        return layout


def _places(column: list[int], contents: tuple[int, ...]) -> tuple[int, ...]:
    """Number values by their first position; 0 without a value.

    So nodes whose devices agree in the same positions share a layout, whatever the values are.
    """
    places = {0: 0}
    return tuple(places.setdefault(column[number], len(places)) for number in contents)


class Sortings:
    """Cache of the sortings that were used last."""

    def __init__(self, evaluate: SelectorEvaluator, allowance: DeviceAllowance) -> None:
        self.contents = Contents()
        self.all: OrderedDict[Watched, Sorting] = OrderedDict()
        self.evaluate = evaluate
        self._allowance = allowance
        self._numbers = itertools.count()

    def of(self, watched: Watched, seen_of: Mapping[int, Seen], size: int) -> Sorting:
        """Return the refreshed sorting. Raises PostponedError, and what the judge raises."""
        found = self.all.get(watched)
        if found is None:
            found = self.all[watched] = Sorting(
                watched, self.contents, self.evaluate, self._allowance, self._numbers
            )
        self.all.move_to_end(watched)
        if found.stale or size > len(found.column):
            try:
                found.refresh(seen_of, size)
            finally:
                # Even after an exception: what is sorted so far counts towards the limits.
                self._forget(watched)
        return found

    def stale(self, rows: set[int]) -> None:
        """Record that the devices of these rows changed."""
        for each in self.all.values():
            each.stale |= rows

    def clear(self) -> None:
        """Drop all devices, including those that no longer exist."""
        self.contents = Contents()
        self.all.clear()

    def _forget(self, kept: Watched) -> None:
        if len(self.all) > MOST_SORTINGS:
            self.all.popitem(last=False)
        most = MOST_PARTS + 4 * len(self.contents)
        while sum(map(len, self.all.values())) > most and len(self.all) > 1:
            # By size, not by age: one tenant's large sortings must not displace the others'.
            sizes = {watched: len(each) for watched, each in self.all.items() if watched != kept}
            del self.all[max(sizes, key=sizes.__getitem__)]
