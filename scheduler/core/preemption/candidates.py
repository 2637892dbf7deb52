"""Candidates: sets of units whose eviction suffices, the cheapest part of the cluster first.

Estimates from the node table only order the candidates; the dry run decides if a set suffices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Floats, Ints, NodeTable
from scheduler.core.nodes.resource_table import LARGEST, total
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import DryRun

NONE: Final[Ints] = np.zeros(0, np.int64)

_MOST_KEYS: Final = 8
"""Topology keys of a tree that are tried: the first ones."""

_FEW: Final = 64
"""Domains per key that are estimated: those with the most capacity."""


class EvictionScopes:
    """Estimates per node for one root: slots now, slots that eviction gains, units per slot."""

    def __init__(self, dry_run: DryRun, candidates: Ints) -> None:
        self._dry_run = dry_run
        self._candidates = candidates
        self._units = dry_run.state.units
        self._slots = self._units.slots_of(candidates)
        wanted = demand(dry_run)
        # The estimates are for one shape, the one of most pods.
        self._shape = max(wanted, key=lambda s: (wanted[s], -s.index))
        self._wide = bool(self._shape.needs_devices) and dry_run.state.devices.use.wide()
        self._count = sum(wanted.values())
        nodes, framework = dry_run.state.nodes, dry_run.state.framework
        with dry_run.without(NONE):
            # A copy: `renew` writes to it, and the framework's arrays are shared.
            self._now = framework.slots(self._shape).copy()
            self._needs = framework.plugins.dynamic_resources.needs(self._shape)
            self._held = self._devices_held()
            self._price = self._prices(nodes)
            dry_run.pause()
            self._set_unit_facts()
            dry_run.pause()
            # Last, because all estimates above are about the nodes with the candidates in place.
            self._units.release(self._slots)
            self._gain = np.maximum(framework.slots(self._shape) - self._now, 0)

    def scopes(self) -> Iterator[tuple[int, Ints]]:
        """Yield (estimated victims, candidates that suffice), the cheapest part first."""
        for _, rows in zip(range(self._dry_run.effort.scopes), self._places(), strict=False):
            scope = self._within(rows)
            if scope is not None:
                yield (int(self._estimate(rows)[0] / 1000), scope)

    def least(self) -> int:
        """Return a lower bound on the number of victims: fewer do not free enough of a resource."""
        # Only pods that are needed in any case, or the bound could exceed the real number.
        wanted = self._certain()
        units, nodes = self._units, self._dry_run.state.nodes
        owners = units.owners[self._slots]
        least = 1
        for resource in {r for shape in wanted for r, _ in shape.request.demands}:
            self._dry_run.pause()
            amount = sum(dict(s.request.demands).get(resource, 0) * n for s, n in wanted.items())
            with self._dry_run.without(NONE):
                free = np.maximum(nodes.free[resource][: nodes.size], 0)
            held = np.bincount(owners, weights=units.released(self._slots, resource))
            missing = float(amount - self._most_free(free))
            least = max(least, _fewest(held, missing))
        # The devices of `_needs` are those of one shape: the bound holds for no other shapes.
        if self._needs is not None and wanted.keys() == {self._shape}:
            by_unit = np.bincount(owners, weights=self._held)
            amount = self._needs.least * wanted[self._shape]
            least = max(least, _fewest(by_unit, float(amount - int(self._needs.free.sum()))))
        if wanted.keys() == {self._shape} and self._slots_add_up(wanted[self._shape]):
            self._dry_run.pause()
            least = max(least, self._least_by_nodes(wanted[self._shape]))
        return least

    @property
    def any_capacity(self) -> bool:
        """True if a node has a slot without any eviction."""
        return bool((self._now > 0).any())

    def cheapest(self) -> int | None:
        """Return the node to use first; None if none gains a slot."""
        rows = np.flatnonzero(self._gain > 0)
        # The order of `_order`, but without sorting all nodes for each pod of a batch.
        for values in (self._price, self._size, -self._young):
            if len(rows):
                rows = rows[values[rows] == values[rows].min()]
        return int(rows[0]) if len(rows) else None

    def least_of_one(self) -> int:
        """Return `least` for one slot, by the lowest cost of a slot on each node."""
        price = int(self._least[self._gain > 0].min(initial=LARGEST))
        # One unit may free slots on several nodes.
        return -(-price // (1000 * self._most_nodes))

    def renew(self, row: int, slots: Ints) -> None:
        """Update one node, which changed in an open trial.

        The candidates of these slots, single pods, remain there.

        Only for shapes that need nothing but resources.
        """
        units, shape = self._units, self._shape
        nodes, at = self._dry_run.state.nodes, np.array([row])
        framework = self._dry_run.state.framework
        now = int(framework.slots_in(shape, at)[0])
        with nodes.trial():
            units.release(slots)
            gain = max(0, int(framework.slots_in(shape, at)[0]) - now)
        self._now[row], self._gain[row] = now, gain
        self._price[row], self._least[row] = 1, 0
        for resource, amount in shape.request.demands:
            free = int(nodes.free[resource][row])
            missing = min(amount - (free - now * amount), LARGEST)
            largest = int(units.released(slots, resource).max(initial=0))
            price = missing * 1000 // max(largest, 1)
            self._price[row] = max(int(self._price[row]), price)
            if missing <= amount:
                self._least[row] = max(int(self._least[row]), price)
        self._size[row] = 1 if len(slots) else np.iinfo(np.int64).max
        self._young[row] = units.youth[slots].max(initial=-np.inf)
        self._extras[row] = int(units.extras(slots).sum())

    def _slots_add_up(self, wanted: int) -> bool:
        """Return True if pods of the shape need one slot each, and open no slots for each other.

        They open slots if they count for each other. A single pod has its volumes to itself.
        """
        shape, selectors = self._shape, self._dry_run.state.selectors
        if not shape.self_interacting:
            return True
        return wanted == 1 and not selectors.any_pods(shape.filter_match_ids)

    def _least_by_nodes(self, wanted: int) -> int:
        """Return `least` by the lowest cost of slots per node; a unit helps on its own nodes."""
        missing = wanted - int(self._now.sum())
        if missing <= 0:
            return 1
        order = np.argsort(self._least, kind="stable")
        order = order[self._gain[order] > 0]
        gained = self._gain[order]
        bought = np.clip(missing - (np.cumsum(gained) - gained), 0, gained)
        price = int((bought * self._least[order]).sum())
        return -(-price // (1000 * self._most_nodes))

    def _devices_held(self) -> Ints:
        """Return how many devices that the shape can use the pod of each slot keeps at most."""
        if self._needs is None:
            return np.zeros(len(self._slots), np.int64)
        return self._units.devices_held(self._slots, self._needs.able)

    def _certain(self) -> dict[Shape, int]:
        """Return the pods that the root needs in any case; none if it has a choice.

        Also none for pods with a stage, which may fit in the capacity kept for others of their
        tree.
        """
        root = self._dry_run.root
        if isinstance(root, Group) and (root.composite or len(root.pending) != 1):
            return {}
        wanted = demand(self._dry_run)
        return {} if any(shape.requirements.stage for shape in wanted) else wanted

    def _most_free(self, free: Ints) -> int:
        own, _ = _keys(self._dry_run.root)
        if own is None:
            return total(free)
        sums = self._dry_run.state.topologies.of_groups(own).sums(free, None)
        return int(sums.max(initial=0))

    def _within(self, rows: Ints) -> Ints | None:
        """Return the candidates on the cheapest nodes of a part, more nodes until the root fits.

        Doubles the number of nodes each time.

        Returns None if it never fits or the effort is exhausted.
        """
        useful = rows[(self._gain[rows] > 0) | (self._now[rows] > 0)]
        useful = useful[self._order(useful)]
        total = np.cumsum(self._now[useful] + self._gain[useful])
        # Start with as many nodes as the estimate needs: small sets need fewer dry runs to reduce.
        enough = int(np.searchsorted(total, self._count)) + 1
        while True:
            scope = self._on(useful[:enough])
            if len(scope) and self._dry_run.fits(scope) is not None:
                return scope
            if enough >= len(useful) or self._dry_run.exhausted:
                return None
            enough *= 2

    def _on(self, rows: Ints) -> Ints:
        """Return the candidates with a pod on one of those nodes that gain slots."""
        there = np.zeros(len(self._now), np.bool_)
        there[rows[self._gain[rows] > 0]] = True
        slots = self._slots[there[self._units.rows[self._slots]]]
        # Evicting a pod elsewhere may free devices that these nodes see.
        if self._wide:
            slots = np.concatenate((slots, self._units.seen_from(self._slots, there)))
        scope: Ints = np.unique(self._units.owners[slots])
        return scope

    def _order(self, rows: Ints) -> Ints:
        """Sort nodes: those that gain nothing first, then by price per slot.

        Ties go to the node with the smallest unit, then to the one with the latest started pod.
        """
        price = np.where(self._gain[rows] == 0, 0, self._price[rows])
        order: Ints = np.lexsort((-self._young[rows], self._size[rows], price))
        return order

    def _set_unit_facts(self) -> None:
        """Set per node (N,) the size of the smallest unit, the latest start, and the extras."""
        units, rows = self._units, self._units.rows[self._slots]
        owners = units.owners[self._slots]
        # Evicting a small unit disrupts less, and a young pod has done less work.
        sizes = np.bincount(owners, minlength=1)[owners]
        self._size = np.full(len(self._now), np.iinfo(np.int64).max)
        np.minimum.at(self._size, rows, sizes)
        self._young = np.full(len(self._now), -np.inf)
        np.maximum.at(self._young, rows, units.youth[self._slots])
        extras = rows[units.extras(self._slots)]
        self._extras: Ints = np.bincount(extras, minlength=len(self._now))

    def _places(self) -> list[Ints]:
        """Return parts of the cluster, cheapest first.

        If the root requires one domain, only domains with capacity for it. Otherwise the domains of
        all topology keys in its tree, and the complete cluster last.
        """
        parts: list[Ints] = []
        own, lower = _keys(self._dry_run.root)
        for key in [own] if own else lower[:_MOST_KEYS]:
            if self._dry_run.exhausted:
                break
            self._dry_run.pause()
            domains = self._dry_run.state.topologies.of_groups(key)
            capacity = domains.sums(self._now + self._gain, None)
            # Only a required domain needs capacity for all pods. The others say where to begin.
            parts.extend(
                domains.rows(code, None)
                for code in np.argsort(-capacity, kind="stable")[:_FEW].tolist()
                if capacity[code] >= self._count or not own
            )
        # Parts that lack slots come last, however cheap their slots are.
        parts.sort(key=self._rank)
        return parts if own else [*parts, np.arange(len(self._now))]

    def _rank(self, rows: Ints) -> tuple[bool, float, int, int, int]:
        self._dry_run.pause()
        price, missing, needed = self._estimate(rows)
        # Ties go to the part with the fewest slots: it keeps larger ones for larger groups.
        slots = int((self._now + self._gain)[rows].sum())
        return (missing > 0, price, missing, needed, slots)

    def _estimate(self, rows: Ints) -> tuple[float, int, int]:
        """Return the price of the needed slots, in thousandths of a unit, and the missing slots.

        Also returns how many slots have to come from pods that their gangs need.
        """
        rows = rows[self._order(rows)]
        slots = (self._now + self._gain)[rows]
        used = np.clip(self._count - (np.cumsum(slots) - slots), 0, slots)
        bought = np.maximum(used - self._now[rows], 0)
        price = float((bought * self._price[rows]).sum())
        needed = np.maximum(bought - self._extras[rows], 0)
        return (price, self._count - int(used.sum()), int(needed.sum()))

    def _prices(self, nodes: NodeTable) -> Ints:
        """Return per node (N,) the estimated price of one more slot, in thousandths of a unit.

        Sets `_least`, a lower bound where several slots are needed. It ignores what a unit keeps
        besides resources, which may open several slots at once, on other nodes as well. Also sets
        `_most_nodes`, the number of nodes that one unit runs on.
        """
        size = len(self._now)
        rows = self._units.rows[self._slots]
        # One number for each pair of a unit and a node: a unit's pods leave the node together.
        pairs, where = np.unique(self._units.owners[self._slots] * size + rows, return_inverse=True)
        self._most_nodes = int(np.bincount(pairs // size).max(initial=1))
        price = np.ones(size, np.int64)
        self._least = np.zeros(size, np.int64)
        conflicts = self._dry_run.state.framework.conflicts(self._shape)
        # Any unit on the node may have the port or disk, so a slot costs about one unit.
        if conflicts is not None:
            price[conflicts] = 1000
        for resource, amount in self._shape.request.demands:
            self._dry_run.pause()
            free = nodes.free[resource][:size]
            missing = np.minimum(amount - (free - self._now * amount), LARGEST)
            released = self._units.released(self._slots, resource)
            by_unit = np.minimum(np.bincount(where, weights=released), LARGEST).astype(np.int64)
            of_resource = self._prices_by_unit(pairs % size, by_unit, missing)
            price = np.maximum(price, of_resource)
            # On an overcommitted node, only the first slot costs more than it takes.
            of_resource[missing > amount] = 0
            self._least = np.maximum(self._least, of_resource)
        if self._needs is not None:
            missing = self._needs.least - (self._needs.free - self._now * self._needs.least)
            by_unit = np.bincount(where, weights=self._held).astype(np.int64)
            price = np.maximum(price, self._prices_by_unit(pairs % size, by_unit, missing))
        return price

    def _prices_by_unit(self, rows: Ints, by_unit: Ints, missing: Ints) -> Ints:
        """Return the price per node (N,) of the missing amount, by the amounts of its units."""
        largest = np.zeros(len(self._now), np.int64)
        np.maximum.at(largest, rows, by_unit)
        found: Ints = missing * 1000 // np.maximum(largest, 1)
        return found


def _fewest(held: Ints | Floats, missing: float) -> int:
    """Return how many units must be evicted at least to gain the missing amount.

    `held` is the amount of each unit.
    """
    most = np.cumsum(np.sort(held)[::-1])
    return int(np.searchsorted(most, missing)) + 1


def demand(dry_run: DryRun) -> dict[Shape, int]:
    """Return how many pods of each shape the root needs at most."""
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
    """Return the topology key that the root requires, or None, and all keys in its tree."""
    if not isinstance(root, Group):
        return (None, [])
    own = root.spec.topology if root.spec else None
    lower = {g.topology.key for g in root.walk() if g.topology}
    # The domains of slices are of use if one slice is enough. Several are seldom in one domain.
    lower |= {
        leaf.slicing.key
        for leaf in root.leaves()
        if leaf.slicing and (leaf.minimum or 0) - leaf.running <= leaf.slicing.size
    }
    return (own.key if own and not own.preferred else None, sorted(lower))
