"""Nodes with equal devices in equal use, as far as a demand distinguishes them.

A result for one of them holds for all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.core.devices.kinds import Watched
from scheduler.core.devices.layouts import DeviceLayout
from scheduler.core.devices.states import PLENTY, DeviceCapacity
from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework.device_demand import Demand, Demands
from scheduler.core.nodes.node_table import Ints


class EqualDevices:
    """Lookup of the layout and state of nodes; rows are those of the node table."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table

    def groups(
        self, demand: Demand, rows: Ints, states: Ints | None = None
    ) -> Iterator[tuple[DeviceLayout, int, Ints]]:
        """Yield each layout and state with the indices into `rows`; nothing without asks.

        `states` (len(rows),) replaces the current states.
        """
        if not demand.asks:
            return
        if states is None:
            states = self._table.states_of(rows)
        parts: dict[Watched, list[int]] = {}
        for state in _distinct(states):
            # Pods of a trial may distinguish devices further: such states have their own sorting.
            parts.setdefault(self._seen(demand, state), []).append(state)
        for watched, of_part in parts.items():
            sorting = self._table.sorting(watched)
            at = np.arange(len(rows))
            if len(parts) > 1:
                at = np.flatnonzero(np.isin(states, of_part))
            # Layout and state in one number, so that one sort groups the rows by both.
            keys = sorting.column[rows[at]] << 32 | states[at]
            # The common case of equal nodes needs no sort.
            if len(keys) and (keys == keys[0]).all():
                yield sorting.layouts[int(keys[0]) >> 32], int(keys[0]) & 0xFFFFFFFF, at
                continue
            order = np.argsort(keys, kind="stable")
            unique, first = np.unique(keys[order], return_index=True)
            for key, where in zip(unique.tolist(), np.split(order, first[1:]), strict=True):
                yield sorting.layouts[key >> 32], key & 0xFFFFFFFF, at[where]

    def at(self, demand: Demand, row: int) -> tuple[DeviceLayout, int]:
        """Return the row's layout and state."""
        state = int(self._table.states_of(np.array([row]))[0])
        return self.layout(demand, row, state), state

    def layout(self, demand: Demand, row: int, state: int) -> DeviceLayout:
        """Return the row's layout for a pod that joins the pods of the state."""
        sorting = self._table.sorting(self._seen(demand, state))
        return sorting.layouts[int(sorting.column[row])]

    def copies(self, demands: Demands, rows: Ints, states: Ints) -> Ints:
        """Return the pods for which each row in these states has devices, (len(rows),)."""
        found = np.full(len(rows), PLENTY, np.int64)
        for demand, of in demands.parts(rows):
            if demand.flaw:
                found[of] = 0
            elif demand.asks:
                for layout, state, where in self.groups(demand, rows[of], states[of]):
                    found[of[where]] = self.capacity(demand, layout, state).count
        return found

    def capacity(self, demand: Demand, layout: DeviceLayout, state: int) -> DeviceCapacity:
        """Return the pods for which a node in this state has devices, and what limits them."""
        first = demand.first if demand.undecided else None
        return self._table.states.capacity(layout, state, demand.own, first)

    def _seen(self, demand: Demand, state: int) -> Watched:
        """Return what distinguishes devices for the demand and for the pods of the state."""
        return demand.watched | self._table.states.all[state].watched


def _distinct(numbers: Ints) -> list[int]:
    """Return the distinct numbers in ascending order."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    found: list[int] = np.unique(numbers).tolist()
    return found
