"""What pods of a shape ask of the devices of each node, as claims and classes are now.

Their claims in the order of the pod's spec: an `Ask` for a claim of its own that has no allocation,
or the key of a claim that others may use, or that is allocated. An allocated claim is usable where
its allocation says; a named one without is allocated with the first of its pods.

It may depend on the node: where that does not offer an extended resource itself, a claim more asks
for devices that stand for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.devices.allocator import PodAsks
from scheduler.core.devices.claim_consumers import MOST_CONSUMERS
from scheduler.core.devices.kinds import NOTHING, Watched, watched_by
from scheduler.core.devices.layouts import Layout, View
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
    """What a shape asks for now. `flaw` says why no node can give it.

    `own` is the number of what each pod asks for by itself, `first` that of a pod that also
    allocates the `undecided` claims, by index. `places` are the indices of the own claims, of which
    the last is that for `extended` resources if there is any. `watched` is what tells devices apart
    for it.
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
    """What a shape asks for on each row: the `demands` by `column` (N,), or the only one."""

    demands: tuple[Demand, ...]
    column: Ints | None = None

    def at(self, row: int) -> Demand:
        return self.demands[0 if self.column is None else int(self.column[row])]

    def parts(self, rows: Ints) -> Iterator[tuple[Demand, Ints]]:
        """What is asked for on some of the rows, with their indices into `rows`."""
        if self.column is None:
            yield self.demands[0], np.arange(len(rows))
            return
        column = self.column[rows]
        for number in np.unique(column).tolist():
            yield self.demands[number], np.flatnonzero(column == number)

    @property
    def flawed(self) -> bool:
        """Whether no node can give what is asked for there."""
        return all(demand.flaw for demand in self.demands)

    @property
    def admitted(self) -> Bools | None:
        """Nodes (N,) that can use the allocated claims, wherever the rest can be had."""
        return next(
            (demand.admitted for demand in self.demands if demand.admitted is not None), None
        )

    @property
    def undecided(self) -> tuple[tuple[int, ClaimKey], ...]:
        """The named claims that have no allocation, with their indices."""
        return next((demand.undecided for demand in self.demands if demand.undecided), ())

    @property
    def main(self) -> Demand:
        """What is asked for where most is."""
        return max(self.demands, key=lambda demand: len(demand.asks))


class DeviceDemands:
    """Knows the demands of each shape until something changes that they depend on."""

    def __init__(self, nodes: NodeTable, table: DeviceTable, quotas: ClaimQuotas) -> None:
        self._nodes = nodes
        self._table = table
        self._quotas = quotas
        self._known: dict[Shape, tuple[object, Demands]] = {}

    def of(self, shape: Shape) -> Demands:
        """What pods of the shape ask for now."""
        key = self.key(shape)
        known = self._known.get(shape)
        if known is None or known[0] != key:
            self._table.refresh()
            known = self._known[shape] = (self.key(shape), self._demands_of(shape))
        return known[1]

    def of_claim(self, key: ClaimKey) -> Demand:
        """What a pod would ask for that names nothing but this claim."""
        self._table.refresh()
        return self._demand_of((key,))

    def forget(self, shape: Shape) -> None:
        """No pod of the shape waits."""
        self._known.pop(shape, None)

    def key(self, shape: Shape) -> tuple[object, ...]:
        """What the demands depend on; equal keys, equal demands."""
        wants, table = shape.requirements, self._table
        named = any(isinstance(each, tuple) for each in wants.asks)
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
            column = np.unique(column * 2 + stands, return_inverse=True)[1]
        demands: list[Demand] = []
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
        """Why a pod cannot use the claim that it names; empty if it can."""
        claim = self._table.claims.get(key)
        if claim is None:
            return f'could not find ResourceClaim "{key[0]}/{key[1]}"'
        if claim.terminating:
            return f'resourceclaim "{key[1]}" is being deleted'
        if self._quotas.consumers(key) >= MOST_CONSUMERS:
            return f'resourceclaim "{key[1]}" has {MOST_CONSUMERS} consumers, which are the most'
        return ""

    def _spread(self, own: PodAsks, watched: Watched) -> bool:
        """Whether it may get devices that several nodes can use."""
        groups = self._table.groups
        wide = groups.wide_pools
        if not wide or not own:
            return False
        sorting = self._table.sorting(watched)
        looked: set[int] = set()
        for group in dict.fromkeys(group for pool in wide for group in groups.seeing(pool)):
            layout = sorting.layouts[int(sorting.column[next(iter(group.rows))])]
            if layout.index not in looked:
                looked.add(layout.index)
                if self._matches_wide(own, layout, group.view, wide):
                    return True
        return False

    def _matches_wide(
        self, own: PodAsks, layout: Layout, view: View, wide: Collection[PoolKey]
    ) -> bool:
        able = 0
        for ask in own:
            for request in ask.requests:
                for wanted in request.options:
                    able |= matches(layout, wanted).selected
        return any(view.keys[at][:2] in wide for at in bits(able))
