"""Where making room is cheap: sets of units to look at, the most promising part of a cluster first.

Estimates only, by arithmetic on the node table: they order the search and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.core.forest import Group
from scheduler.core.node_table import Ints, NodeTable
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.shapes import Shape

_FEW: Final = 64
"""Of more domains than this only the ones with most room are estimated."""


class EvictionScopes:
    """For one root and the units it may take; per node slots now and to gain, and their price."""

    def __init__(self, dry_run: DryRun, candidates: Ints) -> None:
        self._dry_run = dry_run
        self._candidates = candidates
        self._units = dry_run.state.units
        self._slots = self._units.slots_of(candidates)
        wanted = demand(dry_run)
        # One shape stands for all: the one that most pods have.
        self._shape = max(wanted, key=lambda s: (wanted[s], -s.index))
        self._count = sum(wanted.values())
        nodes, framework = dry_run.state.nodes, dry_run.state.framework
        with nodes.trial():
            dry_run.release(np.zeros(0, np.int64))
            self._now = framework.slots(self._shape).copy()
            self._price = self._prices(nodes)
            self._tell_apart()
            self._units.release(self._slots)
            self._gain = np.maximum(framework.slots(self._shape) - self._now, 0)

    def scopes(self) -> Iterator[tuple[int, Ints]]:
        """Sets of candidates that are enough, cheapest first, and how many may have to go."""
        for _, rows in zip(range(self._dry_run.effort.scopes), self._places(), strict=False):
            scope = self._within(rows)
            if scope is not None:
                yield (int(self._estimate(rows)[0] / 1000), scope)

    def least(self) -> int:
        """So many units have to go at least: fewer do not free as much as is missing anywhere."""
        wanted = self._certain()
        units, nodes = self._units, self._dry_run.state.nodes
        owners = units.owners[self._slots]
        least = 1
        for resource in {r for shape in wanted for r, _ in shape.demands}:
            amount = sum(dict(s.demands).get(resource, 0) * n for s, n in wanted.items())
            with nodes.trial():
                self._dry_run.release(np.zeros(0, np.int64))
                free = np.maximum(nodes.free[resource][: nodes.size], 0)
            held = np.bincount(owners, weights=units.released(self._slots, resource))
            most = np.cumsum(np.sort(held)[::-1])
            missing = amount - self._most_free(free)
            least = max(least, int(np.searchsorted(most, missing)) + 1)
        return least

    def _certain(self) -> dict[Shape, int]:
        """What is needed in any case; nothing where the root has a choice."""
        root = self._dry_run.root
        if not isinstance(root, Group):
            return {root.shape: 1}
        if root.composite or len(root.pending) != 1:
            return {}
        return demand(self._dry_run)

    def _most_free(self, free: Ints) -> int:
        own, _ = _keys(self._dry_run.root)
        if own is None:
            return int(free.sum())
        sums = self._dry_run.state.topologies.domains(own).sums(free, None)
        return int(sums.max(initial=0))

    def _within(self, rows: Ints) -> Ints | None:
        """The candidates on the cheapest nodes of a part: the fewest nodes that are enough."""
        useful = rows[(self._gain[rows] > 0) | (self._now[rows] > 0)]
        useful = useful[self._order(useful)]
        total = np.cumsum(self._now[useful] + self._gain[useful])
        enough = int(np.searchsorted(total, self._count)) + 1
        while True:
            scope = self._on(useful[:enough])
            if len(scope) and self._dry_run.fits(scope) is not None:
                return scope
            if enough >= len(useful) or self._dry_run.exhausted:
                return None
            enough *= 2

    def _on(self, rows: Ints) -> Ints:
        """The candidates with a pod on one of these nodes."""
        there = np.zeros(len(self._now), np.bool_)
        there[rows[self._gain[rows] > 0]] = True
        slots = self._slots[there[self._units.rows[self._slots]]]
        scope: Ints = np.unique(self._units.owners[slots])
        return scope

    def _order(self, rows: Ints) -> Ints:
        """Nodes with room first, then by units for each slot gained, their size and their age."""
        price = np.where(self._gain[rows] == 0, 0, self._price[rows])
        order: Ints = np.lexsort((-self._young[rows], self._size[rows], price))
        return order

    def _tell_apart(self) -> None:
        """Per node the smallest unit, and when the youngest pod started."""
        units, rows = self._units, self._units.rows[self._slots]
        owners = units.owners[self._slots]
        sizes = np.bincount(owners, minlength=1)[owners]
        self._size = np.full(len(self._now), np.iinfo(np.int64).max)
        np.minimum.at(self._size, rows, sizes)
        self._young = np.zeros(len(self._now))
        np.maximum.at(self._young, rows, units.started[self._slots])

    def _places(self) -> list[Ints]:
        """Parts of the cluster, cheapest first; at last all of it, unless the root is tied."""
        parts: list[Ints] = []
        own, lower = _keys(self._dry_run.root)
        for key in [own] if own else lower:
            domains = self._dry_run.state.topologies.domains(key)
            room = domains.sums(self._now + self._gain, None)
            parts.extend(
                domains.rows(code, None)
                for code in np.argsort(-room, kind="stable")[:_FEW].tolist()
                if room[code] >= self._count or not own
            )
        parts.sort(key=self._estimate)
        return parts if own else [*parts, np.arange(len(self._now))]

    def _estimate(self, rows: Ints) -> tuple[float, int]:
        """Slots that cannot be had there, and units for those that can."""
        order = self._order(rows)
        slots = (self._now + self._gain)[rows][order]
        used = np.clip(self._count - (np.cumsum(slots) - slots), 0, slots)
        bought = np.maximum(used - self._now[rows][order], 0)
        price = float((bought * self._price[rows][order]).sum())
        return (price, self._count - int(used.sum()))

    def _prices(self, nodes: NodeTable) -> Ints:
        """Per node, in thousandths, the units at least that one more slot costs."""
        size = len(self._now)
        rows = self._units.rows[self._slots]
        pairs, where = np.unique(self._units.owners[self._slots] * size + rows, return_inverse=True)
        price = np.ones(size, np.int64)
        for resource, amount in self._shape.demands:
            free = nodes.free[resource][:size]
            missing = amount - (free - self._now * amount)
            released = self._units.released(self._slots, resource)
            by_unit = np.bincount(where, weights=released).astype(np.int64)
            largest = np.zeros(size, np.int64)
            np.maximum.at(largest, pairs % size, by_unit)
            price = np.maximum(price, missing * 1000 // np.maximum(largest, 1))
        return price


def demand(dry_run: DryRun) -> dict[Shape, int]:
    """How many pods of each shape the root needs at most."""
    root = dry_run.root
    if not isinstance(root, Group):
        return {root.shape: 1}
    counts: dict[Shape, int] = {}
    for leaf in root.leaves():
        need = max(1, (leaf.minimum or 0) - leaf.running)
        for shape, pods in leaf.pending.items():
            counts[shape] = counts.get(shape, 0) + min(need, len(pods))
    return counts


def _keys(root: object) -> tuple[str | None, list[str]]:
    """The label that ties the whole root, and those that tie parts of it."""
    if not isinstance(root, Group):
        return (None, [])
    own = root.spec.topology if root.spec else None
    lower = {g.spec.topology.key for g in root.walk() if g.spec and g.spec.topology}
    return (own.key if own and not own.preferred else None, sorted(lower))
