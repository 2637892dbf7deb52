"""Sortings: the layout of each node, where certain selectors and constraints tell devices apart.

They are made in steps: what was judged and sorted before an exception stays, and the next call goes
on from there.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.core.devices.allowance import Allowance
from scheduler.core.devices.contents import Contents, Seen
from scheduler.core.devices.kinds import Judge, Kind, Verdict, Watched, looked_at, verdict
from scheduler.core.devices.layouts import Layout, View, layout_of
from scheduler.core.nodes.node_table import Ints

MOST_SORTINGS: Final = 64
"""So many are kept; those asked for the longest ago give way."""

MOST_PARTS: Final = 1 << 17
"""Devices judged and layouts that all sortings keep together, beside four for each device there is;
those with the most give way."""

_NO_VIEW: Final = View.of((), lambda _scope: False)


class Sorting:
    """`column` (capacity,) has the number of each row's layout."""

    def __init__(
        self,
        watched: Watched,
        contents: Contents,
        judge: Judge,
        allowance: Allowance,
        numbers: Iterator[int],
    ) -> None:
        """`numbers` gives the layouts' indices, so that several sortings have none in common."""
        self.column: Ints = np.zeros(0, np.int64)
        self.stale: set[int] = set()
        self.layouts: dict[int, Layout] = {}
        self._contents = contents
        self._judge = judge
        self._allowance = allowance
        self._numbers = numbers
        self._chains = sorted(watched.chains)
        self._compared = sorted(watched.compared)
        self._looked_at = looked_at(watched.chains)
        self._kind_of: list[Kind] = []
        self._judged: dict[object, Kind] = {}
        self._kinds: dict[object, Kind] = {}
        self._known: dict[object, Layout] = {}

    def __len__(self) -> int:
        """How many devices it had judged, and layouts it made."""
        return len(self._judged) + len(self._known)

    def refresh(self, seen_of: Mapping[int, Seen], size: int) -> None:
        """Sort the devices of the rows whose views changed."""
        if size > len(self.column):
            self.stale.update(range(len(self.column), size))
            self.column = np.pad(self.column, (0, size - len(self.column)))
        nothing = self._contents.seen(_NO_VIEW)
        columns = self._columns()
        known: dict[int, int] = {}
        for row in sorted(self.stale):
            seen = seen_of.get(row, nothing)
            if id(seen) not in known:
                known[id(seen)] = self._layout(seen, columns).index
            self.column[row] = known[id(seen)]
            self.stale.discard(row)

    def layout(self, seen: Seen) -> Layout:
        """The layout of what a node sees."""
        return self._layout(seen, self._columns())

    def _columns(self) -> list[list[int]]:
        """Give each device a kind. Returns what constraints compare, by attribute."""
        self._sort_devices()
        return [self._contents.compared(name) for name in self._compared]

    def _sort_devices(self) -> None:
        contents, start = self._contents, len(self._kind_of)
        if start == len(contents):
            return
        parts = [contents.fixed]
        if self._looked_at is None:
            parts.append(list(range(len(contents))))
        else:
            parts += (contents.named(name) for name in sorted(self._looked_at))
        keys = zip(*parts, strict=True)
        for number, key in enumerate(itertools.islice(keys, start, None), start):
            kind = self._judged.get(key)
            if kind is None:
                kind = self._judged[key] = self._kind(number)
            self._kind_of.append(kind)

    def _kind(self, number: int) -> Kind:
        """The kind of a device by the verdicts, which are found out all or not at all."""
        self._allowance.check()
        driver, device = self._contents.drivers[number], self._contents.samples[number]
        verdicts: dict[tuple[str, ...], Verdict] = {}
        for chain in self._chains:
            verdicts[chain] = verdict(chain, driver, device, self._judge)
            self._allowance.charge(len(chain))
        key = (self._contents.fixed[number], tuple(verdicts.values()))
        return self._kinds.setdefault(key, Kind(len(self._kinds), driver, device, verdicts))

    def _layout(self, seen: Seen, columns: list[list[int]]) -> Layout:
        kinds = tuple(self._kind_of[number] for number in seen.contents)
        values = tuple(_places(column, seen.contents) for column in columns)
        key = (seen.frame.number, tuple(kind.index for kind in kinds), values)
        layout = self._known.get(key)
        if layout is None:
            self._allowance.check()
            frame, compared = seen.frame, dict(zip(self._compared, values, strict=True))
            layout = layout_of(next(self._numbers), frame.view, frame.pools, kinds, compared)
            self._known[key] = self.layouts[layout.index] = layout
            self._allowance.charge(1)
        return layout


def _places(column: list[int], contents: tuple[int, ...]) -> tuple[int, ...]:
    """The values by their first places, so that other nodes' values are equal to them; 0: none."""
    places = {0: 0}
    return tuple(places.setdefault(column[number], len(places)) for number in contents)


class Sortings:
    """The sortings that were asked for last."""

    def __init__(self, judge: Judge, allowance: Allowance) -> None:
        self.contents = Contents()
        self.all: OrderedDict[Watched, Sorting] = OrderedDict()
        self.judge = judge
        self._allowance = allowance
        self._numbers = itertools.count()

    def of(self, watched: Watched, seen_of: Mapping[int, Seen], size: int) -> Sorting:
        """The sorting, up to date. Raises PostponedError, and what the judge raises."""
        found = self.all.get(watched)
        if found is None:
            found = self.all[watched] = Sorting(
                watched, self.contents, self.judge, self._allowance, self._numbers
            )
        self.all.move_to_end(watched)
        if found.stale or size > len(found.column):
            try:
                found.refresh(seen_of, size)
            finally:
                self._forget(watched)
        return found

    def stale(self, rows: set[int]) -> None:
        """The devices of these rows are others."""
        for each in self.all.values():
            each.stale |= rows

    def clear(self) -> None:
        """Forget all devices, also those that are gone."""
        self.contents = Contents()
        self.all.clear()

    def _forget(self, kept: Watched) -> None:
        if len(self.all) > MOST_SORTINGS:
            self.all.popitem(last=False)
        most = MOST_PARTS + 4 * len(self.contents)
        while sum(map(len, self.all.values())) > most and len(self.all) > 1:
            sizes = {watched: len(each) for watched, each in self.all.items() if watched != kept}
            del self.all[max(sizes, key=sizes.__getitem__)]
