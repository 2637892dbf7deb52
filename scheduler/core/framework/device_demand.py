"""Demands: the devices that pods of a shape need on each node, by the current claims and classes.

A pod's claims come in the order of its spec: an `Ask` for a claim of its own without an allocation,
or the key of a claim that is shared or allocated. An allocated claim can be used on the nodes of
its allocation. A shared one without an allocation is allocated with the first of its pods.

The demand may depend on the node: if a node does not offer an extended resource itself, one more
claim asks for devices that provide it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.devices.allocator import PodAsks
from scheduler.core.devices.claim_consumers import MOST_CONSUMERS
from scheduler.core.devices.kinds import NOTHING, Watched, watched_by
from scheduler.core.devices.layouts import DeviceLayout, DeviceView
from scheduler.core.devices.masks import bits
from scheduler.core.devices.matching import matches
from scheduler.core.devices.requests import ResolvedAsk, resolve
from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework.claim_quotas import ClaimQuotas
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.nodes.resource_table import BY_DEVICES
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import PoolKey
from scheduler.core.values.extended_devices import ask_for, resources_of
from scheduler.core.values.model import ClaimKey


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of a shape at present. `flaw` is the reason why no node can meet it, or empty.

    `own` is the number of the asks of each pod's own claims. `first` is the number of the asks of a
    pod that also allocates the `undecided` claims, which have their indices. `places` are the
    indices of the own claims; the last is the claim for `extended` resources, if there is one.
    `watched` distinguishes devices for these asks. `admitted` (N,) are the nodes that can use the
    allocated claims, or None for all. `apart` means that a pod's devices affect other nodes or the
    next pods.
    """

    flaw: str = ""
    own: int = 0
    first: int = 0
    asks: tuple[Ask, ...] = ()
    watched: Watched = NOTHING
    undecided: tuple[tuple[int, ClaimKey], ...] = ()
    places: tuple[int, ...] = ()
    admitted: Bools | None = None
    apart: bool = False
    extended: Ask | None = None


@dataclass(frozen=True, slots=True)
class Demands:
    """Demands of a shape on all rows: `demands` indexed by `column` (N,), or the only one."""

    demands: tuple[Demand, ...]
    column: Ints | None = None

    def at(self, row: int) -> Demand:
        return self.demands[0 if self.column is None else int(self.column[row])]

    def parts(self, rows: Ints) -> Iterator[tuple[Demand, Ints]]:
        """Yield each demand on some of the rows, with the indices into `rows`."""
        if self.column is None:
            yield self.demands[0], np.arange(len(rows))
            return
        column = self.column[rows]
        for number in np.unique(column).tolist():
            yield self.demands[number], np.flatnonzero(column == number)

    @property
    def flawed(self) -> bool:
        """True if no node can meet its demand."""
        return all(demand.flaw for demand in self.demands)

    @property
    def admitted(self) -> Bools | None:
        """Nodes (N,) that can use the allocated claims, or None for all nodes."""
        return next(
            (demand.admitted for demand in self.demands if demand.admitted is not None), None
        )

    @property
    def undecided(self) -> tuple[tuple[int, ClaimKey], ...]:
        """Named claims without an allocation, with their indices."""
        return next((demand.undecided for demand in self.demands if demand.undecided), ())

    @property
    def main(self) -> Demand:
        """Demand with the most asks."""
        return max(self.demands, key=lambda demand: len(demand.asks))


class DeviceDemands:
    """Cache of the demands of each shape, valid until something that they depend on changes."""

    def __init__(self, nodes: NodeTable, table: DeviceTable, quotas: ClaimQuotas) -> None:
        self._nodes = nodes
        self._table = table
        self._quotas = quotas
        self._known: dict[Shape, tuple[object, Demands]] = {}

    def of(self, shape: Shape) -> Demands:
        """Return the current demands of pods of the shape."""
        key = self.key(shape)
        known = self._known.get(shape)
        if known is None or known[0] != key:
            self._table.refresh()
            known = self._known[shape] = (self.key(shape), self._demands_of(shape))
        return known[1]

    def of_claim(self, key: ClaimKey) -> Demand:
        """Return the demand of a pod that names only this claim."""
        self._table.refresh()
        return self._demand_of((key,))

    def forget(self, shape: Shape) -> None:
        """Drop the demands of a shape that no pending pod has."""
        self._known.pop(shape, None)

    def key(self, shape: Shape) -> tuple[object, ...]:
        """Return the key of all that the demands depend on; equal keys mean equal demands."""
        wants, table = shape.requirements, self._table
        named = any(isinstance(each, tuple) for each in wants.asks)
        # Only shapes with named claims depend on claims: other events must not drop their demands.
        claims = (table.claims_version, self._nodes.generation) if named else None
        resources = self._nodes.resources
        by_node = (
            (resources.epoch, resources.devices_version, self._nodes.size)
            if wants.extended
            else None
        )
        return (table.version, claims, by_node, table.slices_version, self._nodes.generation)

    def _demands_of(self, shape: Shape) -> Demands:
        wants = shape.requirements
        if not wants.extended:
            return Demands((self._demand_of(wants.asks),))
        classes = self._table.extended.classes_of(resources_of(wants.extended))
        resources, size = self._nodes.resources, self._nodes.size
        here = {name: resources.indices[name] for name in classes if name in resources.indices}
        column = np.zeros(size, np.int64)
        for index in here.values():
            stands = resources.allocatable[index, :size] == BY_DEVICES
            # Renumbered from 0 for each resource: the numbers index `demands` and cannot overflow.
            column = np.unique(column * 2 + stands, return_inverse=True)[1]
        demands: list[Demand] = []
        # Without nodes there is still one demand, for messages.
        for row in np.unique(column, return_index=True)[1].tolist() or [-1]:
            asked = {
                name: of
                for name, of in classes.items()
                if name not in here or resources.allocatable[here[name], row] == BY_DEVICES
            }
            extended = ask_for(wants.extended, asked) if asked else None
            demands.append(self._demand_of(wants.asks, extended))
        return Demands(tuple(demands), column if len(demands) > 1 else None)

    def _demand_of(self, entries: Sequence[Ask | ClaimKey], extended: Ask | None = None) -> Demand:
        asks: list[Ask] = []
        undecided: list[tuple[int, ClaimKey]] = []
        places: list[int] = []
        admitted: Bools | None = None
        for at, entry in enumerate(entries):
            if isinstance(entry, Ask):
                places.append(at)
                asks.append(entry)
                continue
            claim = self._table.claims.get(entry)
            flaw = self._flaw(entry)
            # One claim that cannot be used blocks the pod on all nodes.
            if flaw or claim is None:
                return Demand(flaw)
            allocation = self._table.allocation(entry)
            if allocation is None:
                undecided.append((len(asks), entry))
                asks.append(claim.ask)
            elif allocation.nodes is not None:
                within = self._table.admitted(allocation.nodes)
                admitted = within if admitted is None else admitted & within
        if extended is not None:
            places.append(len(entries))
            asks.append(extended)
        resolved: list[ResolvedAsk] = []
        for ask in asks:
            # A class may be missing now and exist later; the table's version then changes the key.
            answer = resolve(ask, self._table.classes)
            if isinstance(answer, str):
                return Demand(answer)
            resolved.append(answer)
        shared = {at for at, _ in undecided}
        own = tuple(each for at, each in enumerate(resolved) if at not in shared)
        states, watched = self._table.states, watched_by(resolved)
        return Demand(
            own=states.number_of(own, watched),
            first=states.number_of(tuple(resolved), watched, shared=bool(undecided)),
            asks=tuple(asks),
            watched=watched,
            undecided=tuple(undecided),
            places=tuple(places),
            admitted=admitted,
            apart=bool(undecided) or self._spread(own, watched),
            extended=extended,
        )

    def _flaw(self, key: ClaimKey) -> str:
        """Return the reason why a pod cannot use the claim that it names, or an empty string."""
        claim = self._table.claims.get(key)
        if claim is None:
            return f'could not find ResourceClaim "{key[0]}/{key[1]}"'
        if claim.terminating:
            return f'resourceclaim "{key[1]}" is being deleted'
        if self._quotas.consumers(key) >= MOST_CONSUMERS:
            return f'resourceclaim "{key[1]}" has {MOST_CONSUMERS} consumers, which are the most'
        return ""

    def _spread(self, own: PodAsks, watched: Watched) -> bool:
        """Return True if the pod may get devices that several nodes can use."""
        groups = self._table.groups
        wide = groups.wide_pools
        if not wide or not own:
            return False
        sorting = self._table.sorting(watched)
        looked: set[int] = set()
        for group in dict.fromkeys(group for pool in wide for group in groups.seeing(pool)):
            # All rows of a group see the same devices, so one of them is enough.
            layout = sorting.layouts[int(sorting.column[next(iter(group.rows))])]
            # Groups with one layout match alike, but each view has its own pools.
            if layout.index not in looked:
                looked.add(layout.index)
                if self._matches_wide(own, layout, group.view, wide):
                    return True
        return False

    def _matches_wide(
        self, own: PodAsks, layout: DeviceLayout, view: DeviceView, wide: Collection[PoolKey]
    ) -> bool:
        able = 0
        for ask in own:
            for request in ask.requests:
                for wanted in request.options:
                    able |= matches(layout, wanted).selected
        return any(view.keys[at][:2] in wide for at in bits(able))
