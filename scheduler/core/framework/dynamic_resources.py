"""DynamicResources: nodes whose devices can be allocated to a pod's claims.

What pods of a shape ask for is a `Demand` for each node. A named claim without an allocation is
allocated with the first of its pods: that pod is placed alone, and decides where the others can go.
Or it is allocated before any of them, if the search looks for a place for pods of several shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import ClassVar, Final

import numpy as np

from scheduler.core.devices.allocator import Pick
from scheduler.core.devices.kinds import Kind
from scheduler.core.devices.layouts import Layout, Usage
from scheduler.core.devices.matching import matches
from scheduler.core.devices.requests import ResolvedAsk, Wanted
from scheduler.core.devices.results import allocations, is_local
from scheduler.core.devices.states import Put
from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework.claim_quotas import ClaimQuotas, named
from scheduler.core.framework.device_demand import Demand, Demands, DeviceDemands
from scheduler.core.framework.equal_devices import EqualDevices
from scheduler.core.framework.events import NODE_EVENTS, Event, Events, Reach
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import Allocation, DeviceKey
from scheduler.core.values.extended_devices import mappings
from scheduler.core.values.model import ClaimKey

NOT_AVAILABLE: Final = "resourceclaim not available on the node"


_WEIGHT: Final = 2000
"""kube-scheduler's weight of 2 for this plug-in, in thousandths of a node's utilisation."""


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """Which devices pods of a shape can take, and how many each takes at least.

    `able` has per node (N,) their positions as a mask, of which `free` (N,) are not in use.
    """

    least: int
    able: list[int]
    free: Ints


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """A claim that has to be allocated for a pod; `key` None: one of its own.

    `resources` are the extended resources that its requests stand for, by the request's name.
    """

    key: ClaimKey | None
    ask: ResolvedAsk
    resources: Mapping[str, str] = field(default_factory=dict)


class DynamicResources(Plugin):
    """Filter and reserve for shapes that ask for devices. Others cost nothing."""

    name = "DynamicResources"
    events: ClassVar[Events] = {
        **NODE_EVENTS,
        Event.NOMINATION_DELETE: Reach.NODES,
        Event.DEVICES: Reach.NODES,
    }
    by_claims = True

    def __init__(self, nodes: NodeTable, table: DeviceTable) -> None:
        self._nodes = nodes
        self._table = table
        self.quotas = ClaimQuotas(nodes, table)
        self._demands = DeviceDemands(nodes, table, self.quotas)
        self._equal = EqualDevices(table)
        self._given: dict[tuple[Shape, int], list[tuple[Allocation, ...]]] = {}

    def key(self, shape: Shape) -> object:
        """See Plugin."""
        return self._demands.key(shape)[:3] if shape.requirements.needs_devices else None

    def room(
        self, shape: Shape, rows: Ints | slice, permitted: Bools, room: Ints | None, *, empty: bool
    ) -> Ints:
        """See Plugin."""
        assert room is not None
        if not shape.requirements.needs_devices:
            return room
        at = self._empty_copies if empty else self.copies
        return np.minimum(room, at(shape, rows))

    def copies(self, shape: Shape, rows: Ints | slice) -> Ints:
        """For how many pods of the shape each row has devices, (len(rows),)."""
        demands = self._demands.of(shape)
        at = np.arange(self._nodes.size)[rows]
        found = self._equal.copies(demands, at, self._table.states_of(rows))
        admitted = demands.admitted
        return found if admitted is None else np.where(admitted[rows], found, 0)

    def _empty_copies(self, shape: Shape, rows: Ints | slice) -> Ints:
        """The same as if nothing were in use."""
        at = np.arange(self._nodes.size)[rows]
        return self._equal.copies(self._demands.of(shape), at, np.zeros(len(at), np.int64))

    def lacking(self, shape: Shape, room: Ints) -> Iterator[tuple[str, Bools]]:
        """See Plugin."""
        if not shape.requirements.needs_devices:
            return
        demands, size = self._demands.of(shape), self._nodes.size
        rest = np.ones(size, np.bool_)
        found: dict[str, Bools] = {}
        rows = np.arange(size)
        for demand, of in demands.parts(rows):
            if demand.flaw:
                found.setdefault(demand.flaw, np.zeros(size, np.bool_))[of] = True
                rest[of] = False
                continue
            for layout, state, where in self._equal.groups(demand, of):
                devices, at = self._equal.room(demand, layout, state), of[where]
                if devices.reason:
                    nodes = found.setdefault(devices.reason, np.zeros(size, np.bool_))
                    nodes[at[room[at] >= devices.count]] = True
                    if not devices.count:
                        rest[at] = False
        # As in kube-scheduler, of a pod with several claims this is said last.
        if demands.admitted is not None:
            yield NOT_AVAILABLE, ~demands.admitted & rest
        yield from found.items()

    def one_at_a_time(self, shape: Shape) -> bool:
        """Whether the devices of one pod affect on which nodes the next finds some."""
        if not shape.requirements.needs_devices:
            return False
        return any(demand.apart for demand in self._demands.of(shape).demands)

    def order_matters(self, shape: Shape) -> bool:
        """Whether devices of one pod are not for the next, or its claims have others' consumers."""
        if not shape.requirements.needs_devices:
            return False
        return bool(named(shape)) or self.one_at_a_time(shape)

    def is_local(self, shape: Shape) -> bool:
        """See Plugin."""
        return not shape.requirements.needs_devices

    def only_counts(self, shape: Shape) -> bool:
        """See Plugin."""
        return not shape.requirements.needs_devices

    def left(self, shape: Shape) -> int | None:
        """How many more pods may use the claims that it names."""
        return self.quotas.left(shape)

    def undecided(self, shape: Shape) -> tuple[ClaimKey, ...]:
        """The claims that its pods name and that have no allocation yet."""
        if not named(shape):
            return ()
        return tuple(key for _, key in self._demands.of(shape).undecided)

    def choices(self, key: ClaimKey, rows: Ints) -> Iterator[tuple[Allocation, Ints, bool]]:
        """What an undecided claim would be given on equal rows, with these rows.

        That is the first choice of each row and, where that is of devices that the node alone
        reaches, the first choice without those: for these the third value is true.
        """
        demand = self._demands.of_claim(key)
        if demand.flaw:
            return
        for layout, state, at in self._equal.groups(demand, rows):
            put = self._first_put(demand, layout, state)
            if put is None:
                continue
            first = int(rows[at[0]])
            if not is_local(self._results(demand.first, put, first)[0]):
                yield from self._by_devices(demand, put, rows[at])
                continue
            yield self._results(demand.first, put, first)[0], rows[at], False
            if not self.wide():
                continue
            mask = self._local_devices(first)
            put = self._first_put(demand, layout, state, mask)
            if put is not None:
                equal = [row for row in rows[at].tolist() if self._local_devices(row) == mask]
                for allocation, same, _ in self._by_devices(demand, put, np.array(equal)):
                    yield allocation, same, True

    def _by_devices(
        self, demand: Demand, put: Put, rows: Ints
    ) -> Iterator[tuple[Allocation, Ints, bool]]:
        """Nodes of one layout may see other devices, which other nodes reach."""
        equal: dict[tuple[DeviceKey, ...], list[int]] = {}
        for row in rows.tolist():
            equal.setdefault(self._devices_of(put, row), []).append(row)
        for same in equal.values():
            yield self._results(demand.first, put, same[0])[0], np.array(same, np.int64), False

    def _local_devices(self, row: int) -> int:
        """The positions of the devices that only this node sees, as a mask."""
        wide, keys = self._table.groups.wide_pools, self._table.view(row).keys
        return sum(1 << at for at, key in enumerate(keys) if key[:2] not in wide)

    def allocate(self, key: ClaimKey, row: int, *, wide: bool = False) -> bool:
        """Allocate an undecided claim on the row, before any of its pods, in the open trial.

        It is given devices that other nodes reach as well, if it is to be `wide`.
        """
        demand = self._demands.of_claim(key)
        without = self._local_devices(row) if wide else 0
        return not demand.flaw and self._decide(None, demand, row, without)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """How early in firstAvailable lists its devices are, weighted; None without such a list."""
        if not shape.requirements.needs_devices or not any(
            request.listed for ask in _own(shape) for request in ask.requests
        ):
            return None
        scores = np.zeros(len(rows), np.int64)
        for demand, of in self._demands.of(shape).parts(rows):
            for layout, state, at in self._equal.groups(demand, rows[of]):
                scores[of[at]] = self._table.states.room(layout, state, demand.own).score
        return scores * _WEIGHT // max(1, int(scores.max(initial=0)))

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int | None:
        """See Plugin."""
        if not shape.requirements.needs_devices:
            return None
        demands = self._demands.of(shape)
        undecided = demands.undecided
        if not undecided or count == 1:
            return 0
        alone = np.flatnonzero(room >= count)
        if len(alone):
            return int(alone[0])
        tried: set[tuple[DeviceKey, ...]] = set()
        for index, row in enumerate(rows.tolist()):
            demand = demands.at(row)
            put = self._first_put(demand, *self._equal.at(demand, row))
            devices = () if put is None else self._devices_of(put, row)
            if put is None or devices in tried:
                continue
            tried.add(devices)
            results = self._results(demand.first, put, row)
            reached = [self._table.admitted(results[at].nodes)[rows] for at, _ in undecided]
            if int(room[np.logical_and.reduce(reached)].sum()) >= count:
                return index
        return 0

    def needs(self, shape: Shape) -> DeviceNeeds | None:
        """What a pod of the shape takes at least; None if it may share devices, or needs none.

        None also if it does not ask for the same on all nodes.
        """
        if not shape.requirements.needs_devices or len(self._demands.of(shape).demands) > 1:
            return None
        demand = self._demands.of(shape).main
        if demand.flaw or not demand.asks:
            return None
        asks = self._table.states.asks(demand.first if demand.undecided else demand.own)
        options = [o for ask in asks for request in ask.requests for o in request.options]
        if any(wanted.option.admin for wanted in options):
            return None
        able, free = [0] * self._nodes.size, np.zeros(self._nodes.size, np.int64)
        rows = np.arange(self._nodes.size)
        for layout, state, where in self._equal.groups(demand, rows):
            mask = reduce(or_, (matches(layout, wanted).tolerated for wanted in options))
            if mask & layout.shared:
                return None
            free[where] = (mask & ~self._table.states.all[state].after.used).bit_count()
            for row in where.tolist():
                able[row] = mask
        return DeviceNeeds(sum(ask.least for ask in asks), able, free)

    def layouts(self, shapes: Iterable[Shape], rows: Ints) -> list[int]:
        """A number per row; equal ones stand for devices that are equal for all of the shapes."""
        needing = [self._demands.of(shape) for shape in shapes if shape.requirements.needs_devices]
        if not needing:
            return [0] * len(rows)
        watched = reduce(or_, (demand.watched for demands in needing for demand in demands.demands))
        numbers: list[int] = self._table.sorting(watched).column[rows].tolist()
        return numbers

    def states(self, shapes: Iterable[Shape], rows: Ints) -> list[int]:
        """The device state of each row, as a number; 0 if no shape asks for devices."""
        if not any(shape.requirements.needs_devices for shape in shapes):
            return [0] * len(rows)
        numbers: list[int] = self._table.states_of(rows).tolist()
        return numbers

    def state_with(self, shape: Shape, row: int, state: int) -> int | None:
        """The state with one pod of the shape more on the row; None if devices are lacking."""
        demand = self._demands.of(shape).at(row) if shape.requirements.needs_devices else Demand()
        if not demand.asks:
            return None if demand.flaw else state
        layout = self._equal.layout(demand, row, state)
        after = self._table.states.step(layout, state, demand.own)
        return after if isinstance(after, int) else None

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        """See Plugin."""
        if not shape.requirements.needs_devices:
            return True
        self.quotas.count(shape, int(counts.sum()))
        return self._reserve(shape, rows, counts)

    def _reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        demands = self._demands.of(shape)
        if not len(rows) or demands.flawed:
            return not demands.flawed
        if demands.undecided and counts[0] > 0:
            decided = self._decide(shape, demands.at(int(rows[0])), int(rows[0]))
            rest = counts - (np.arange(len(rows)) == 0)
            return decided and self._reserve(shape, rows[rest > 0], rest[rest > 0])
        complete = True
        for demand, of in demands.parts(rows):
            if demand.flaw:
                complete = False
            elif demand.asks and counts[0] < 0:
                self._take_off(demand, rows[of], -counts[of])
            elif demand.asks:
                complete = self._put(demand, rows[of], counts[of]) and complete
        return complete

    def allocations(
        self, pods: Iterable[tuple[Shape, int, Sequence[ClaimKey]]]
    ) -> Mapping[ClaimKey, Allocation]:
        """What the claims of these pods (shape, row, claims) are given by the open trial."""
        found: dict[ClaimKey, Allocation] = {}
        puts: dict[tuple[int, int], list[Put]] = {}
        given = {key: list(each) for key, each in self._given.items()}
        rows: set[int] = set()
        demands: dict[Shape, Demands] = {}
        assumed = self._table.assumed
        for shape, row, keys in pods:
            known = demands.get(shape) or demands.setdefault(shape, self._demands.of(shape))
            demand = known.at(row)
            found |= {key: assumed[key] for key in keys if key in assumed} if assumed else {}
            if not demand.places:
                continue
            ready = given.get((shape, row))
            if ready:
                results: tuple[Allocation, ...] = ready.pop(0)
            else:
                if row not in rows:
                    rows.add(row)
                    for put in self._state_of(row):
                        puts.setdefault((row, put.asks), []).append(put)
                put = puts[row, demand.own].pop(0)
                results = self._results(demand.own, put, row)
            found |= {keys[at]: each for at, each in zip(demand.places, results, strict=True)}
            if demand.extended is not None:
                key = keys[demand.places[-1]]
                found[key] = replace(found[key], ask=demand.extended)
        return found

    # What is told of devices

    def asked(self, shape: Shape) -> list[AskedClaim]:
        """The claims that have to be allocated for a pod of the shape, in the order of its spec.

        On those nodes where they are most.
        """
        demand = self._demands.of(shape).main if shape.requirements.needs_devices else Demand()
        if demand.flaw or not demand.asks:
            return []
        keys = dict(demand.undecided)
        asks = self._table.states.asks(demand.first)
        found = [AskedClaim(keys.get(at), ask) for at, ask in enumerate(asks)]
        if demand.extended is not None:
            uses = mappings(shape.requirements.extended, demand.extended)
            resources = {use.request: use.resource for use in uses}
            found[-1] = replace(found[-1], resources=resources)
        return found

    def equal_rows(self, shape: Shape, rows: Ints) -> Iterator[tuple[Layout, Usage, Ints]]:
        """Rows with equal devices in equal use, of those where `asked` has to be allocated."""
        demands, states = self._demands.of(shape), self._table.states
        for demand, of in demands.parts(rows):
            if demand is demands.main:
                at = rows[of]
                for layout, state, where in self._equal.groups(demand, at):
                    yield layout, states.all[state].after, at[where]

    def admitted(self, allocation: Allocation) -> Bools:
        """Nodes (N,) that can use the allocation."""
        return self._table.admitted(allocation.nodes)

    def wide(self) -> bool:
        """Whether several nodes see one pool."""
        return self._table.use.wide()

    def device_name(self, row: int, position: int) -> str:
        """`driver/pool/device`."""
        return "/".join(self._table.view(row).keys[position])

    def deselecting(self, kind: Kind, wanted: Wanted) -> str:
        """The first selector that does not take devices of the kind; empty if all do."""
        judge = self._table.sortings.judge
        for selector in wanted.selectors:
            if judge(selector.expression, kind.driver, kind.sample) is not True:
                return selector.source
        return ""

    def forget(self, shape: Shape) -> None:
        """No pod of the shape waits."""
        self._demands.forget(shape)

    # Reserve

    def _put(self, demand: Demand, rows: Ints, counts: Ints) -> bool:
        states, before = self._table.states, self._table.states_of(rows)
        after, complete, own = before.copy(), True, demand.own
        for layout, state, where in self._equal.groups(demand, rows, before):
            for count in np.unique(counts[where]).tolist():
                same = where[counts[where] == count]
                after[same], missing = states.put(layout, state, own, count, fix=demand.apart)
                complete = complete and not missing
        self._table.set_states(rows, after)
        if demand.apart:
            for row, state, now in zip(rows.tolist(), before.tolist(), after.tolist(), strict=True):
                self._tell_others(row, states.all[now].fixed[len(states.all[state].fixed) :])
        return complete

    def _take_off(self, demand: Demand, rows: Ints, counts: Ints) -> None:
        before = self._table.states_of(rows).tolist()
        after = [
            self._table.states.without(state, demand.own, count)
            for state, count in zip(before, counts.tolist(), strict=True)
        ]
        self._table.set_states(rows, np.array(after, np.int64))

    def _decide(self, shape: Shape | None, demand: Demand, row: int, without: int = 0) -> bool:
        """Put the pod there that allocates its named claims; these are assumed from then on.

        Without a shape there is no pod, but the claims alone. They get none of the devices of the
        mask `without`.
        """
        layout, state = self._equal.at(demand, row)
        states = self._table.states
        after = states.step(layout, state, demand.first, fix=True, without=without)
        if not isinstance(after, int):
            return False
        put = states.all[after].fixed[-1]
        self._table.set_states(np.array([row]), np.array([after]))
        self._tell_others(row, (put,))
        results = self._results(demand.first, put, row)
        shared = {at for at, _ in demand.undecided}
        for at, key in demand.undecided:
            self._table.assume(key, results[at])
        if shape is None:
            return True
        own = tuple(each for at, each in enumerate(results) if at not in shared)
        given = self._given.setdefault((shape, row), [])
        given.append(own)
        self._nodes.undo_by(partial(self._take_back, (shape, row)))
        return True

    def _take_back(self, place: tuple[Shape, int]) -> None:
        self._given[place].pop()
        if not self._given[place]:
            del self._given[place]

    def _tell_others(self, row: int, puts: Iterable[Put]) -> None:
        """Devices that other nodes see, too, are in use there as well."""
        view = self._table.view(row)
        for put in puts:
            for pick in put.picks:
                if not pick.wanted.option.admin:
                    self._tell_of_pick(row, view.keys[pick.position], pick)

    def _tell_of_pick(self, row: int, key: DeviceKey, pick: Pick) -> None:
        table = self._table
        for group in table.groups.seeing(key[:2]):
            position, rows = group.view.positions.get(key), group.array()
            if row in group.rows:
                rows = rows[rows != row]
            if position is None or not len(rows):
                continue
            numbers, at = np.unique(table.states_of(rows), return_inverse=True)
            after = [
                table.states.taken_elsewhere(number, position, pick.consumed)
                for number in numbers.tolist()
            ]
            table.set_states(rows, np.array(after, np.int64)[at])

    # Results

    def _first_put(
        self, demand: Demand, layout: Layout, state: int, without: int = 0
    ) -> Put | None:
        """What the pod that allocates the undecided claims gets; None if it cannot."""
        states = self._table.states
        after = states.step(layout, state, demand.first, fix=True, without=without)
        return states.all[after].fixed[-1] if isinstance(after, int) else None

    def _devices_of(self, put: Put, row: int) -> tuple[DeviceKey, ...]:
        keys = self._table.view(row).keys
        return tuple(keys[pick.position] for pick in put.picks)

    def _results(self, asks: int, put: Put, row: int) -> tuple[Allocation, ...]:
        name, view = self._nodes.name_of(row), self._table.view(row)
        return allocations(self._table.states.asks(asks), put.picks, view, name)

    def _state_of(self, row: int) -> Iterable[Put]:
        number = int(self._table.states_of(np.array([row]))[0])
        return self._table.states.all[number].puts


def _own(shape: Shape) -> Iterator[Ask]:
    """What the pods of the shape ask for by themselves."""
    return (entry for entry in shape.requirements.asks if isinstance(entry, Ask))
