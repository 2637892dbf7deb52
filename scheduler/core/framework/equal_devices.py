"""Nodes with equal devices in equal use, as far as a demand tells them apart.

What is found out for one of them holds for all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.core.devices.kinds import Watched
from scheduler.core.devices.layouts import Layout
from scheduler.core.devices.states import PLENTY, Room
from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework.device_demand import Demand, Demands
from scheduler.core.nodes.node_table import Ints


class EqualDevices:
    """Finds the layout and the state of nodes; rows are those of the node table."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table

    def groups(
        self, demand: Demand, rows: Ints, states: Ints | None = None
    ) -> Iterator[tuple[Layout, int, Ints]]:
        """Yield each layout and state with the indices into `rows`; nothing if nothing is asked.

        `states` (len(rows),) are those to go by instead of the present ones.
        """
        if not demand.asks:
            return
        if states is None:
            states = self._table.states_of(rows)
        parts: dict[Watched, list[int]] = {}
        for state in _distinct(states):
            parts.setdefault(self._seen(demand, state), []).append(state)
        for watched, of_part in parts.items():
            sorting = self._table.sorting(watched)
            at = np.arange(len(rows))
            if len(parts) > 1:
                at = np.flatnonzero(np.isin(states, of_part))
            keys = sorting.column[rows[at]] << 32 | states[at]
            if len(keys) and (keys == keys[0]).all():
                yield sorting.layouts[int(keys[0]) >> 32], int(keys[0]) & 0xFFFFFFFF, at
                continue
            order = np.argsort(keys, kind="stable")
            unique, first = np.unique(keys[order], return_index=True)
            for key, where in zip(unique.tolist(), np.split(order, first[1:]), strict=True):
                yield sorting.layouts[key >> 32], key & 0xFFFFFFFF, at[where]

    def at(self, demand: Demand, row: int) -> tuple[Layout, int]:
        """The row's layout and state."""
        state = int(self._table.states_of(np.array([row]))[0])
        return self.layout(demand, row, state), state

    def layout(self, demand: Demand, row: int, state: int) -> Layout:
        """The row's layout as a pod sees it that joins those of the state."""
        sorting = self._table.sorting(self._seen(demand, state))
        return sorting.layouts[int(sorting.column[row])]

    def copies(self, demands: Demands, rows: Ints, states: Ints) -> Ints:
        """For how many pods each of the rows has devices, (len(rows),), in these states."""
        found = np.full(len(rows), PLENTY, np.int64)
        for demand, of in demands.parts(rows):
            if demand.flaw:
                found[of] = 0
            elif demand.asks:
                for layout, state, where in self.groups(demand, rows[of], states[of]):
                    found[of[where]] = self.room(demand, layout, state).count
        return found

    def room(self, demand: Demand, layout: Layout, state: int) -> Room:
        """For how many pods a node with these devices in this state has some, and what lacks."""
        first = demand.first if demand.undecided else None
        return self._table.states.room(layout, state, demand.own, first)

    def _seen(self, demand: Demand, state: int) -> Watched:
        """What the shape looks at, and the pods that it may have to share the node with."""
        return demand.watched | self._table.states.all[state].watched


def _distinct(numbers: Ints) -> list[int]:
    """The numbers, each once, in order."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    found: list[int] = np.unique(numbers).tolist()
    return found
