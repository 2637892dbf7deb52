"""DynamicResources: nodes whose devices can be allocated to a pod's claims.

A `Demand` describes the claims of a shape's pods on each node. A named claim without an allocation
is allocated with the first of its pods: that pod is placed alone, and decides where the others can
go. If pods of several shapes share the claim, the search allocates it before any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import ClassVar, Final

import numpy as np

from scheduler.core.devices.allocator import Pick
from scheduler.core.devices.kinds import DeviceKind
from scheduler.core.devices.layouts import DeviceLayout, DeviceUsage
from scheduler.core.devices.matching import matches
from scheduler.core.devices.requests import RequestOption, ResolvedAsk
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


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """Devices that pods of a shape can take, and the least number that each takes.

    `able` has the mask of their positions for each node (N,); `free` (N,) is the number of them
    that are not in use.
    """

    least: int
    able: list[int]
    free: Ints


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """Claim that must be allocated for a pod; `key` is None for one of its own.

    `resources` are the extended resources that its requests provide, by the request's name.
    """

    key: ClaimKey | None
    ask: ResolvedAsk
    resources: Mapping[str, str] = field(default_factory=dict)


class DynamicResources(Plugin):
    """Filter, score and reserve for shapes with claims; other shapes cost nothing."""

    name = "DynamicResources"
    weight = 2000
    events: ClassVar[Events] = {
        # No POD_DELETE: claims hold devices, and DEVICES follows when they are released.
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
        # The framework's key has the nodes' generation already, and a changed slice marks its rows.
        return self._demands.key(shape)[:3] if shape.needs_devices else None

    def capacity(
        self,
        shape: Shape,
        rows: Ints | slice,
        permitted: Bools,
        capacity: Ints | None,
        *,
        empty: bool,
    ) -> Ints:
        assert capacity is not None
        if not shape.needs_devices:
            return capacity
        at = self._empty_copies if empty else self.copies
        return np.minimum(capacity, at(shape, rows))

    def copies(self, shape: Shape, rows: Ints | slice) -> Ints:
        """Return the number of the shape's pods for which each row has devices, (len(rows),)."""
        demands = self._demands.of(shape)
        at = np.arange(self._nodes.size)[rows]
        found = self._equal.copies(demands, at, self._table.states_of(rows))
        admitted = demands.admitted
        return found if admitted is None else np.where(admitted[rows], found, 0)

    def _empty_copies(self, shape: Shape, rows: Ints | slice) -> Ints:
        """Return the pods for which each row has devices if none are in use, (len(rows),)."""
        at = np.arange(self._nodes.size)[rows]
        return self._equal.copies(self._demands.of(shape), at, np.zeros(len(at), np.int64))

    def insufficient(self, shape: Shape, capacity: Ints) -> Iterator[tuple[str, Bools]]:
        if not shape.needs_devices:
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
                devices, at = self._equal.capacity(demand, layout, state), of[where]
                if devices.reason:
                    nodes = found.setdefault(devices.reason, np.zeros(size, np.bool_))
                    nodes[at[capacity[at] >= devices.count]] = True
                    if not devices.count:
                        rest[at] = False
        # As in kube-scheduler, too few devices for the pod's other claims are the reason instead.
        if demands.admitted is not None:
            yield NOT_AVAILABLE, ~demands.admitted & rest
        yield from found.items()

    def one_at_a_time(self, shape: Shape) -> bool:
        """Return True if the devices of one pod affect on which nodes the next one finds any."""
        if not shape.needs_devices:
            return False
        return any(demand.apart for demand in self._demands.of(shape).demands)

    def order_matters(self, shape: Shape) -> bool:
        """Return True if pods of the shape share claims, or devices of several nodes."""
        if not shape.needs_devices:
            return False
        return bool(named(shape)) or self.one_at_a_time(shape)

    def is_local(self, shape: Shape) -> bool:
        return not shape.needs_devices

    def only_counts(self, shape: Shape) -> bool:
        return not shape.needs_devices

    def remaining_pods(self, shape: Shape) -> int | None:
        """Return the number of further pods that may use the named claims, or None for any."""
        return self.quotas.remaining_pods(shape)

    def undecided(self, shape: Shape) -> tuple[ClaimKey, ...]:
        """Return the claims that the shape's pods name and that have no allocation yet."""
        if not named(shape):
            return ()
        return tuple(key for _, key in self._demands.of(shape).undecided)

    def choices(self, key: ClaimKey, rows: Ints) -> Iterator[tuple[Allocation, Ints, bool]]:
        """Yield possible allocations of an undecided claim, each with the rows that choose it.

        They are the first choice of each row and, if only its node reaches those devices, the first
        choice without them: then the third value is True.
        """
        demand = self._demands.of_claim(key)
        if demand.flaw:
            return
        for layout, state, at in self._equal.groups(demand, rows):
            put = self._first_put(demand, layout, state)
            if put is None:
                continue
            first = int(rows[at[0]])
            # Other nodes reach these devices: rows with equal ones are one choice.
            if not is_local(self._results(demand.first, put, first)[0]):
                yield from self._by_devices(demand, put, rows[at])
                continue
            yield self._results(demand.first, put, first)[0], rows[at], False
            # A gang that does not fit on this node alone may fit on nodes that share other devices.
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
        """Yield the allocations of rows with one layout, by their devices.

        Nodes of one layout may see different devices, which different nodes reach.
        """
        equal: dict[tuple[DeviceKey, ...], list[int]] = {}
        for row in rows.tolist():
            equal.setdefault(self._devices_of(put, row), []).append(row)
        for same in equal.values():
            yield self._results(demand.first, put, same[0])[0], np.array(same, np.int64), False

    def _local_devices(self, row: int) -> int:
        """Return the mask of the devices that only this node sees."""
        wide, keys = self._table.groups.wide_pools, self._table.view(row).keys
        return sum(1 << at for at, key in enumerate(keys) if key[:2] not in wide)

    def allocate(self, key: ClaimKey, row: int, *, wide: bool = False) -> bool:
        """Allocate an undecided claim on the row, before any of its pods, in the open trial.

        With `wide`, it gets only devices that other nodes reach as well.
        """
        demand = self._demands.of_claim(key)
        without = self._local_devices(row) if wide else 0
        return not demand.flaw and self._decide(None, demand, row, without)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """Return the weighted score of firstAvailable options, or None without such a list.

        As in kube-scheduler, nodes that can serve earlier options score higher.
        """
        if not shape.needs_devices or not any(
            request.listed for ask in _own(shape) for request in ask.requests
        ):
            return None
        scores = np.zeros(len(rows), np.int64)
        for demand, of in self._demands.of(shape).parts(rows):
            for layout, state, at in self._equal.groups(demand, rows[of]):
                scores[of[at]] = self._table.states.capacity(layout, state, demand.own).score
        return scores * self.weight // max(1, int(scores.max(initial=0)))

    def start(self, shape: Shape, rows: Ints, capacity: Ints, count: int) -> int | None:
        if not shape.needs_devices:
            return None
        demands = self._demands.of(shape)
        undecided = demands.undecided
        if not undecided or count == 1:
            return 0
        # A node with room for all pods needs no devices that other nodes reach.
        alone = np.flatnonzero(capacity >= count)
        if len(alone):
            return int(alone[0])
        tried: set[tuple[DeviceKey, ...]] = set()
        for index, row in enumerate(rows.tolist()):
            demand = demands.at(row)
            put = self._first_put(demand, *self._equal.at(demand, row))
            devices = () if put is None else self._devices_of(put, row)
            # Rows that would get the same devices reach the same nodes.
            if put is None or devices in tried:
                continue
            tried.add(devices)
            results = self._results(demand.first, put, row)
            reached = [self._table.admitted(results[at].nodes)[rows] for at, _ in undecided]
            if int(capacity[np.logical_and.reduce(reached)].sum()) >= count:
                return index
        return 0

    def needs(self, shape: Shape) -> DeviceNeeds | None:
        """Return the least devices that a pod of the shape takes.

        Return None if it needs none, may share devices, or has different demands on different
        nodes.
        """
        if not shape.needs_devices or len(self._demands.of(shape).demands) > 1:
            return None
        demand = self._demands.of(shape).main
        if demand.flaw or not demand.asks:
            return None
        asks = self._table.states.asks(demand.first if demand.undecided else demand.own)
        options = [o for ask in asks for request in ask.requests for o in request.options]
        # adminAccess takes no device from others, so there is no least number.
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
        """Return a number for each row; equal numbers mean equal devices for all of the shapes."""
        needing = [self._demands.of(shape) for shape in shapes if shape.needs_devices]
        if not needing:
            return [0] * len(rows)
        watched = reduce(or_, (demand.watched for demands in needing for demand in demands.demands))
        numbers: list[int] = self._table.sorting(watched).column[rows].tolist()
        return numbers

    def states(self, shapes: Iterable[Shape], rows: Ints) -> list[int]:
        """Return the number of each row's device state, or 0 if no shape asks for devices."""
        if not any(shape.needs_devices for shape in shapes):
            return [0] * len(rows)
        numbers: list[int] = self._table.states_of(rows).tolist()
        return numbers

    def state_with(self, shape: Shape, row: int, state: int) -> int | None:
        """Return the state with one more pod of the shape on the row, or None without devices."""
        demand = self._demands.of(shape).at(row) if shape.needs_devices else Demand()
        if not demand.asks:
            return None if demand.flaw else state
        layout = self._equal.layout(demand, row, state)
        after = self._table.states.step(layout, state, demand.own)
        return after if isinstance(after, int) else None

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        if not shape.needs_devices:
            return True
        self.quotas.count(shape, int(counts.sum()))
        return self._reserve(shape, rows, counts)

    def _reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        demands = self._demands.of(shape)
        if not len(rows) or demands.flawed:
            return not demands.flawed
        # The first pod allocates the named claims; the others depend on where that is.
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
        """Return the open trial's allocations for claims of these pods: (shape, row, claims)."""
        found: dict[ClaimKey, Allocation] = {}
        puts: dict[tuple[int, int], list[Put]] = {}
        # Copied, because the loop removes entries and the trial may continue.
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
                    # The state knows picks by asks, not by pod: equal pods take them in turn.
                    for put in self._state_of(row):
                        puts.setdefault((row, put.asks), []).append(put)
                put = puts[row, demand.own].pop(0)
                results = self._results(demand.own, put, row)
            found |= {keys[at]: each for at, each in zip(demand.places, results, strict=True)}
            if demand.extended is not None:
                key = keys[demand.places[-1]]
                found[key] = replace(found[key], ask=demand.extended)
        return found

    # For explanations

    def asked(self, shape: Shape) -> list[AskedClaim]:
        """Return the claims to allocate for a pod of the shape, in the order of its spec.

        They are those of the nodes on which the pod needs the most claims.
        """
        demand = self._demands.of(shape).main if shape.needs_devices else Demand()
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

    def equal_rows(
        self, shape: Shape, rows: Ints
    ) -> Iterator[tuple[DeviceLayout, DeviceUsage, Ints]]:
        """Yield groups of rows with equal devices in equal use, where `asked` must be allocated."""
        demands, states = self._demands.of(shape), self._table.states
        for demand, of in demands.parts(rows):
            if demand is demands.main:
                at = rows[of]
                for layout, state, where in self._equal.groups(demand, at):
                    yield layout, states.all[state].after, at[where]

    def admitted(self, allocation: Allocation) -> Bools:
        """Return the nodes (N,) that can use the allocation."""
        return self._table.admitted(allocation.nodes)

    def wide(self) -> bool:
        """Return True if several nodes see one pool."""
        return self._table.use.wide()

    def device_name(self, row: int, position: int) -> str:
        """Return the name of a device as `driver/pool/device`."""
        return "/".join(self._table.view(row).keys[position])

    def deselecting(self, kind: DeviceKind, wanted: RequestOption) -> str:
        """Return the source of the first selector that rejects the kind, or an empty string."""
        # Evaluated again, because verdicts do not keep which selector rejected the kind.
        evaluate = self._table.sortings.evaluate
        for selector in wanted.selectors:
            if evaluate(selector.expression, kind.driver, kind.sample) is not True:
                return selector.source
        return ""

    def rejects(self, shape: Shape) -> str:
        return self._demands.of(shape).main.flaw if shape.requirements.asks else ""

    def forget(self, shape: Shape) -> None:
        """Drop the demands of a shape that no pending pod has."""
        self._demands.forget(shape)

    # Reserve

    def _put(self, demand: Demand, rows: Ints, counts: Ints) -> bool:
        states, before = self._table.states, self._table.states_of(rows)
        after, complete, own = before.copy(), True, demand.own
        for layout, state, where in self._equal.groups(demand, rows, before):
            # Rows in one state that get equally many pods change together.
            for count in np.unique(counts[where]).tolist():
                same = where[counts[where] == count]
                after[same], missing = states.put(layout, state, own, count, fix=demand.apart)
                complete = complete and not missing
        self._table.set_states(rows, after)
        if demand.apart:
            for row, state, now in zip(rows.tolist(), before.tolist(), after.tolist(), strict=True):
                # Pools of several nodes: the devices must not be free on the other nodes.
                self._notify_viewers(row, states.all[now].fixed[len(states.all[state].fixed) :])
        return complete

    def _take_off(self, demand: Demand, rows: Ints, counts: Ints) -> None:
        before = self._table.states_of(rows).tolist()
        after = [
            self._table.states.without(state, demand.own, count)
            for state, count in zip(before, counts.tolist(), strict=True)
        ]
        self._table.set_states(rows, np.array(after, np.int64))

    def _decide(self, shape: Shape | None, demand: Demand, row: int, without: int = 0) -> bool:
        """Put a pod on the row that allocates its named claims, and assume their allocations.

        Without a shape, only the claims are allocated. They get no device of the mask `without`.
        """
        layout, state = self._equal.at(demand, row)
        states = self._table.states
        after = states.step(layout, state, demand.first, fix=True, without=without)
        if not isinstance(after, int):
            return False
        put = states.all[after].fixed[-1]
        self._table.set_states(np.array([row]), np.array([after]))
        self._notify_viewers(row, (put,))
        results = self._results(demand.first, put, row)
        shared = {at for at, _ in demand.undecided}
        for at, key in demand.undecided:
            self._table.assume(key, results[at])
        if shape is None:
            return True
        # Kept here, because the state has this pod under `demand.first`, with the named claims.
        own = tuple(each for at, each in enumerate(results) if at not in shared)
        given = self._given.setdefault((shape, row), [])
        given.append(own)
        self._nodes.undo_by(partial(self._take_back, (shape, row)))
        return True

    def _take_back(self, place: tuple[Shape, int]) -> None:
        self._given[place].pop()
        if not self._given[place]:
            del self._given[place]

    def _notify_viewers(self, row: int, puts: Iterable[Put]) -> None:
        """Put the devices in use on all other nodes that see them."""
        view = self._table.view(row)
        for put in puts:
            for pick in put.picks:
                if not pick.wanted.option.admin:
                    self._record_pick(row, view.keys[pick.position], pick)

    def _record_pick(self, row: int, key: DeviceKey, pick: Pick) -> None:
        table = self._table
        for group in table.groups.seeing(key[:2]):
            position, rows = group.view.positions.get(key), group.array()
            if row in group.rows:
                rows = rows[rows != row]
            if position is None or not len(rows):
                continue
            # Many nodes may see the pool, but few states differ: one step for each state.
            numbers, at = np.unique(table.states_of(rows), return_inverse=True)
            after = [
                table.states.taken_elsewhere(number, position, pick.consumed)
                for number in numbers.tolist()
            ]
            table.set_states(rows, np.array(after, np.int64)[at])

    # Results

    def _first_put(
        self, demand: Demand, layout: DeviceLayout, state: int, without: int = 0
    ) -> Put | None:
        """Return the picks of a pod that allocates the undecided claims, or None if it cannot."""
        states = self._table.states
        after = states.step(layout, state, demand.first, fix=True, without=without)
        return states.all[after].fixed[-1] if isinstance(after, int) else None

    def _devices_of(self, put: Put, row: int) -> tuple[DeviceKey, ...]:
        keys = self._table.view(row).keys
        return tuple(keys[pick.position] for pick in put.picks)

    def _results(self, asks: int, put: Put, row: int) -> tuple[Allocation, ...]:
        table, name = self._table, self._nodes.name_of(row)
        return allocations(table.states.asks(asks), put.picks, table.view(row), name, table.release)

    def _state_of(self, row: int) -> Iterable[Put]:
        number = int(self._table.states_of(np.array([row]))[0])
        return self._table.states.all[number].puts


def _own(shape: Shape) -> Iterator[Ask]:
    """Return the asks of the own claims of the shape's pods."""
    return (entry for entry in shape.requirements.asks if isinstance(entry, Ask))
