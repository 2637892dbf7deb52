"""DynamicResources: nodes whose devices can be allocated to a pod's claims.

What a pod asks for are its claims in the order of its spec: an `Ask` for a claim of its own that
has no allocation, or the key of a claim that others may use, or that is allocated. An allocated
claim is usable where its allocation says. A named claim without one is allocated with the first of
its pods: that pod is placed alone, and decides where the others can go. Or it is allocated before
any of them, if the search looks for a place for pods of several shapes.

What a pod asks for may depend on the node: where that does not offer an extended resource itself, a
claim more asks for devices that stand for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import Final

import numpy as np

from scheduler.core.device_table import DeviceTable
from scheduler.core.devices.allocator import Pick, PodAsks
from scheduler.core.devices.asks import Ask
from scheduler.core.devices.extended import ask_for, mappings, resources_of
from scheduler.core.devices.kinds import NOTHING, Kind, Watched, watched_by
from scheduler.core.devices.layouts import Layout, Usage, View
from scheduler.core.devices.masks import bits
from scheduler.core.devices.matching import matches
from scheduler.core.devices.model import Allocation, DeviceKey, PoolKey
from scheduler.core.devices.requests import ResolvedAsk, Wanted, resolve
from scheduler.core.devices.results import allocations, is_local
from scheduler.core.devices.states import PLENTY, Put, Room
from scheduler.core.model import ClaimKey
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.resource_table import BY_DEVICES
from scheduler.core.shapes import Shape

NOT_AVAILABLE: Final = "resourceclaim not available on the node"
MOST_CONSUMERS: Final = 256
"""The most entries in status.reservedFor of a claim."""


@dataclass(frozen=True, slots=True)
class _Look:
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
class _Looks:
    """What a shape asks for on each row: the `looks` by `column` (N,), or the only one."""

    looks: tuple[_Look, ...]
    column: Ints | None = None

    def at(self, row: int) -> _Look:
        return self.looks[0 if self.column is None else int(self.column[row])]

    def parts(self, rows: Ints) -> Iterator[tuple[_Look, Ints]]:
        """What is asked for on some of the rows, with their indices into `rows`."""
        if self.column is None:
            yield self.looks[0], np.arange(len(rows))
            return
        column = self.column[rows]
        for number in np.unique(column).tolist():
            yield self.looks[number], np.flatnonzero(column == number)

    @property
    def flawed(self) -> bool:
        """Whether no node can give what is asked for there."""
        return all(look.flaw for look in self.looks)

    @property
    def admitted(self) -> Bools | None:
        """Nodes (N,) that can use the allocated claims, wherever the rest can be had."""
        return next((look.admitted for look in self.looks if look.admitted is not None), None)

    @property
    def undecided(self) -> tuple[tuple[int, ClaimKey], ...]:
        """The named claims that have no allocation, with their indices."""
        return next((look.undecided for look in self.looks if look.undecided), ())

    @property
    def main(self) -> _Look:
        """What is asked for where most is."""
        return max(self.looks, key=lambda look: len(look.asks))


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


class DynamicResources:
    """Filter and reserve for shapes that ask for devices. Others cost nothing."""

    def __init__(self, nodes: NodeTable, table: DeviceTable) -> None:
        self._nodes = nodes
        self._table = table
        self._looks: dict[Shape, tuple[object, _Looks]] = {}
        self._given: dict[tuple[Shape, int], list[tuple[Allocation, ...]]] = {}
        self._placed: Counter[ClaimKey] = Counter()
        self._standing: dict[ClaimKey, int] = {}

    @contextmanager
    def deciding(self, pods: Iterable[tuple[Shape, Iterable[str]]]) -> Iterator[None]:
        """Decide a root inside of which these pods wait, the UIDs by shape.

        Those that a claim is reserved for already take no other place among its consumers, if it
        can have all that wait: otherwise any of them may be chosen.
        """
        waiting: dict[ClaimKey, set[str]] = {}
        for shape, uids in pods:
            for key in self.named(shape):
                waiting.setdefault(key, set()).update(uids)
        full = False
        for key, of in waiting.items():
            consumers = self._table.consumers.of(key)
            if not consumers.isdisjoint(of) and len(consumers | of) <= MOST_CONSUMERS:
                self._standing[key] = len(consumers & of)
                full = full or len(consumers) == MOST_CONSUMERS
        self._count_otherwise(full=full)
        try:
            yield
        finally:
            self._standing.clear()
            self._count_otherwise(full=full)

    def _count_otherwise(self, *, full: bool) -> None:
        """What is known of pods that name `full` claims does not hold."""
        if full:
            self._table.claims_version += 1
            self._nodes.touch()

    def key(self, shape: Shape) -> object:
        """What answers about the shape depend on besides the rows of nodes; None if on nothing."""
        return self._key(shape)[:3] if shape.requirements.needs_devices else None

    def copies(self, shape: Shape, rows: Ints | slice) -> Ints:
        """For how many pods of the shape each row has devices, (len(rows),)."""
        looks = self._look(shape)
        at = np.arange(self._nodes.size)[rows]
        found = self._copies(looks, at, self._table.states_of(rows))
        admitted = looks.admitted
        return found if admitted is None else np.where(admitted[rows], found, 0)

    def empty_copies(self, shape: Shape, rows: slice) -> Ints:
        """The same as if nothing were in use."""
        at = np.arange(self._nodes.size)[rows]
        return self._copies(self._look(shape), at, np.zeros(len(at), np.int64))

    def lacking(self, shape: Shape, room: Ints) -> Iterator[tuple[str, Bools]]:
        """Yield each reason with the nodes (N,) where it rules out one pod more than `room`."""
        if not shape.requirements.needs_devices:
            return
        looks, size = self._look(shape), self._nodes.size
        rest = np.ones(size, np.bool_)
        found: dict[str, Bools] = {}
        rows = np.arange(size)
        for look, of in looks.parts(rows):
            if look.flaw:
                found.setdefault(look.flaw, np.zeros(size, np.bool_))[of] = True
                rest[of] = False
                continue
            for layout, state, where in self._groups(look, of, self._table.states_of(of)):
                devices, at = self._room(look, layout, state), of[where]
                if devices.reason:
                    nodes = found.setdefault(devices.reason, np.zeros(size, np.bool_))
                    nodes[at[room[at] >= devices.count]] = True
                    if not devices.count:
                        rest[at] = False
        # As in kube-scheduler, of a pod with several claims this is said last.
        if looks.admitted is not None:
            yield NOT_AVAILABLE, ~looks.admitted & rest
        yield from found.items()

    def one_at_a_time(self, shape: Shape) -> bool:
        """Whether the devices of one pod affect on which nodes the next finds some."""
        if not shape.requirements.needs_devices:
            return False
        return any(look.apart for look in self._look(shape).looks)

    def named(self, shape: Shape) -> tuple[ClaimKey, ...]:
        """The claims that its pods name, which others may name as well."""
        asks = shape.requirements.asks
        return tuple(each for each in asks if isinstance(each, tuple)) if asks else ()

    def undecided(self, shape: Shape) -> tuple[ClaimKey, ...]:
        """Those of them that have no allocation yet."""
        if not self.named(shape):
            return ()
        return tuple(key for _, key in self._look(shape).undecided)

    def full_claim(self, shape: Shape) -> tuple[ClaimKey, int] | None:
        """A claim that its pods name and that takes no more consumers.

        With how many it has besides those that the open trial has placed.
        """
        for key in self.named(shape):
            consumers = self._consumers(key)
            if consumers + self._placed[key] >= MOST_CONSUMERS:
                return key, consumers
        return None

    def quota(self, shape: Shape) -> int | None:
        """How many more pods of the shape its named claims can have as consumers; None: any."""
        keys = self.named(shape)
        left = (MOST_CONSUMERS - self._consumers(key) - self._placed[key] for key in keys)
        return min(left, default=None) if keys else None

    def choices(self, key: ClaimKey, rows: Ints) -> Iterator[tuple[Allocation, Ints]]:
        """What an undecided claim would be given on equal rows, with these rows."""
        look = self._alone(key)
        if look.flaw:
            return
        for layout, state, at in self._groups(look, rows, self._table.states_of(rows)):
            put = self._first_put(look, layout, state)
            if put is None:
                continue
            # Nodes of one layout may see other devices, which other nodes reach.
            equal: dict[tuple[DeviceKey, ...], list[int]] = {}
            allocation = self._results(look.first, put, int(rows[at[0]]))[0]
            local = is_local(allocation)
            for row in rows[at].tolist():
                equal.setdefault(() if local else self._devices_of(put, row), []).append(row)
            for same in equal.values():
                yield self._results(look.first, put, same[0])[0], np.array(same, np.int64)

    def allocate(self, key: ClaimKey, row: int) -> bool:
        """Allocate an undecided claim on the row, before any of its pods, in the open trial."""
        look = self._alone(key)
        return not look.flaw and self._decide(None, look, row)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """Per row (len(rows),) how early in firstAvailable lists its devices are; None: no list."""
        if not any(request.listed for ask in _own(shape) for request in ask.requests):
            return None
        scores = np.zeros(len(rows), np.int64)
        for look, of in self._look(shape).parts(rows):
            for layout, state, at in self._groups(look, rows[of], self._table.states_of(rows[of])):
                scores[of[at]] = self._table.states.room(layout, state, look.own).score
        return scores

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int:
        """The index of the row to take the first of `count` pods; rows are best first."""
        looks = self._look(shape)
        undecided = looks.undecided
        if not undecided or count == 1:
            return 0
        alone = np.flatnonzero(room >= count)
        if len(alone):
            return int(alone[0])
        tried: set[tuple[DeviceKey, ...]] = set()
        for index, row in enumerate(rows.tolist()):
            look = looks.at(row)
            put = self._first_put(look, *self._at(look, row))
            devices = () if put is None else self._devices_of(put, row)
            if put is None or devices in tried:
                continue
            tried.add(devices)
            results = self._results(look.first, put, row)
            reached = [self._table.admitted(results[at].nodes)[rows] for at, _ in undecided]
            if int(room[np.logical_and.reduce(reached)].sum()) >= count:
                return index
        return 0

    def needs(self, shape: Shape) -> DeviceNeeds | None:
        """What a pod of the shape takes at least; None if it may share devices, or needs none.

        None also if it does not ask for the same on all nodes.
        """
        if not shape.requirements.needs_devices or len(self._look(shape).looks) > 1:
            return None
        look = self._look(shape).main
        if look.flaw or not look.asks:
            return None
        asks = self._table.states.asks(look.first if look.undecided else look.own)
        options = [o for ask in asks for request in ask.requests for o in request.options]
        if any(wanted.option.admin for wanted in options):
            return None
        able, free = [0] * self._nodes.size, np.zeros(self._nodes.size, np.int64)
        rows = np.arange(self._nodes.size)
        for layout, state, where in self._groups(look, rows, self._table.states_of(rows)):
            mask = reduce(or_, (matches(layout, wanted).tolerated for wanted in options))
            if mask & layout.shared:
                return None
            free[where] = (mask & ~self._table.states.all[state].after.used).bit_count()
            for row in where.tolist():
                able[row] = mask
        return DeviceNeeds(sum(ask.least for ask in asks), able, free)

    def layouts(self, shapes: Iterable[Shape], rows: Ints) -> list[int]:
        """A number per row; equal ones stand for devices that are equal for all of the shapes."""
        needing = [self._look(shape) for shape in shapes if shape.requirements.needs_devices]
        if not needing:
            return [0] * len(rows)
        watched = reduce(or_, (look.watched for looks in needing for look in looks.looks))
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
        look = self._look(shape).at(row) if shape.requirements.needs_devices else _Look()
        if not look.asks:
            return None if look.flaw else state
        layout = self._layout(look, row, state)
        after = self._table.states.step(layout, state, look.own)
        return after if isinstance(after, int) else None

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        """Put pods on rows, or take those off again that the trial put there (negative counts).

        Returns whether there were devices for all of them.
        """
        self._count_consumers(shape, int(counts.sum()))
        return self._reserve(shape, rows, counts)

    def _reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        looks = self._look(shape)
        if not len(rows) or looks.flawed:
            return not looks.flawed
        if looks.undecided and counts[0] > 0:
            decided = self._decide(shape, looks.at(int(rows[0])), int(rows[0]))
            rest = counts - (np.arange(len(rows)) == 0)
            return decided and self._reserve(shape, rows[rest > 0], rest[rest > 0])
        complete = True
        for look, of in looks.parts(rows):
            if look.flaw:
                complete = False
            elif look.asks and counts[0] < 0:
                self._take_off(look, rows[of], -counts[of])
            elif look.asks:
                complete = self._put(look, rows[of], counts[of]) and complete
        return complete

    def allocations(
        self, pods: Iterable[tuple[Shape, int, Sequence[ClaimKey]]]
    ) -> Mapping[ClaimKey, Allocation]:
        """What the claims of these pods (shape, row, claims) are given by the open trial."""
        found: dict[ClaimKey, Allocation] = {}
        puts: dict[tuple[int, int], list[Put]] = {}
        given = {key: list(each) for key, each in self._given.items()}
        rows: set[int] = set()
        looks: dict[Shape, _Looks] = {}
        assumed = self._table.assumed
        for shape, row, keys in pods:
            known = looks.get(shape) or looks.setdefault(shape, self._look(shape))
            look = known.at(row)
            found |= {key: assumed[key] for key in keys if key in assumed} if assumed else {}
            if not look.places:
                continue
            ready = given.get((shape, row))
            if ready:
                results: tuple[Allocation, ...] = ready.pop(0)
            else:
                if row not in rows:
                    rows.add(row)
                    for put in self._state_of(row):
                        puts.setdefault((row, put.asks), []).append(put)
                put = puts[row, look.own].pop(0)
                results = self._results(look.own, put, row)
            found |= {keys[at]: each for at, each in zip(look.places, results, strict=True)}
            if look.extended is not None:
                key = keys[look.places[-1]]
                found[key] = replace(found[key], ask=look.extended)
        return found

    # What is told of devices

    def asked(self, shape: Shape) -> list[AskedClaim]:
        """The claims that have to be allocated for a pod of the shape, in the order of its spec.

        On those nodes where they are most.
        """
        look = self._look(shape).main if shape.requirements.needs_devices else _Look()
        if look.flaw or not look.asks:
            return []
        keys = dict(look.undecided)
        asks = self._table.states.asks(look.first)
        found = [AskedClaim(keys.get(at), ask) for at, ask in enumerate(asks)]
        if look.extended is not None:
            uses = mappings(shape.requirements.extended, look.extended)
            resources = {use.request: use.resource for use in uses}
            found[-1] = replace(found[-1], resources=resources)
        return found

    def equal_rows(self, shape: Shape, rows: Ints) -> Iterator[tuple[Layout, Usage, Ints]]:
        """Rows with equal devices in equal use, of those where `asked` has to be allocated."""
        looks, states = self._look(shape), self._table.states
        for look, of in looks.parts(rows):
            if look is looks.main:
                at = rows[of]
                for layout, state, where in self._groups(look, at, self._table.states_of(at)):
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

    # What a shape asks for

    def _key(self, shape: Shape) -> tuple[object, ...]:
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

    def _look(self, shape: Shape) -> _Looks:
        key = self._key(shape)
        known = self._looks.get(shape)
        if known is None or known[0] != key:
            self._table.refresh()
            known = self._looks[shape] = (self._key(shape), self._fresh_looks(shape))
        return known[1]

    def _fresh_looks(self, shape: Shape) -> _Looks:
        wants = shape.requirements
        if not wants.extended:
            return _Looks((self._fresh(wants.asks),))
        classes = self._table.extended.classes_of(resources_of(wants.extended))
        resources, size = self._nodes.resources, self._nodes.size
        here = {name: resources.indices[name] for name in classes if name in resources.indices}
        column = np.zeros(size, np.int64)
        for index in here.values():
            stands = resources.allocatable[index, :size] == BY_DEVICES
            column = np.unique(column * 2 + stands, return_inverse=True)[1]
        looks: list[_Look] = []
        for row in np.unique(column, return_index=True)[1].tolist() or [-1]:
            asked = {
                name: of
                for name, of in classes.items()
                if name not in here or resources.allocatable[here[name], row] == BY_DEVICES
            }
            extended = ask_for(wants.extended, asked) if asked else None
            looks.append(self._fresh(wants.asks, extended))
        return _Looks(tuple(looks), column if len(looks) > 1 else None)

    def forget(self, shape: Shape) -> None:
        """No pod of the shape waits."""
        self._looks.pop(shape, None)

    def _alone(self, key: ClaimKey) -> _Look:
        """What a pod would ask for that names nothing but this claim."""
        self._table.refresh()
        return self._fresh((key,))

    def _fresh(self, entries: Sequence[Ask | ClaimKey], extended: Ask | None = None) -> _Look:
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
                return _Look(flaw)
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
                return _Look(answer)
            resolved.append(answer)
        shared = {at for at, _ in undecided}
        own = tuple(each for at, each in enumerate(resolved) if at not in shared)
        states, watched = self._table.states, watched_by(resolved)
        return _Look(
            own=states.number_of(own, watched),
            first=states.number_of(tuple(resolved), watched),
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
        if self._consumers(key) >= MOST_CONSUMERS:
            return f'resourceclaim "{key[1]}" has {MOST_CONSUMERS} consumers, which are the most'
        return ""

    def _consumers(self, key: ClaimKey) -> int:
        """How many a claim has besides the waiting pods of the root that is decided."""
        return len(self._table.consumers.of(key)) - self._standing.get(key, 0)

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

    # Devices of rows

    def _copies(self, looks: _Looks, rows: Ints, states: Ints) -> Ints:
        found = np.full(len(rows), PLENTY, np.int64)
        for look, of in looks.parts(rows):
            if look.flaw:
                found[of] = 0
            elif look.asks:
                for layout, state, where in self._groups(look, rows[of], states[of]):
                    found[of[where]] = self._room(look, layout, state).count
        return found

    def _room(self, look: _Look, layout: Layout, state: int) -> Room:
        first = look.first if look.undecided else None
        return self._table.states.room(layout, state, look.own, first)

    def _groups(self, look: _Look, rows: Ints, states: Ints) -> Iterator[tuple[Layout, int, Ints]]:
        """Equal devices in the same state: the layout, the state, and the indices into `rows`."""
        if not look.asks:
            return
        parts: dict[Watched, list[int]] = {}
        for state in _distinct(states):
            parts.setdefault(self._seen(look, state), []).append(state)
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

    def _seen(self, look: _Look, state: int) -> Watched:
        """What the shape looks at, and the pods that it may have to share the node with."""
        return look.watched | self._table.states.all[state].watched

    def _at(self, look: _Look, row: int) -> tuple[Layout, int]:
        state = int(self._table.states_of(np.array([row]))[0])
        return self._layout(look, row, state), state

    def _layout(self, look: _Look, row: int, state: int) -> Layout:
        sorting = self._table.sorting(self._seen(look, state))
        return sorting.layouts[int(sorting.column[row])]

    # Reserve

    def _put(self, look: _Look, rows: Ints, counts: Ints) -> bool:
        states, before = self._table.states, self._table.states_of(rows)
        after, complete = before.copy(), True
        for layout, state, where in self._groups(look, rows, before):
            for count in np.unique(counts[where]).tolist():
                same = where[counts[where] == count]
                after[same], missing = states.put(layout, state, look.own, count, fix=look.apart)
                complete = complete and not missing
        self._table.set_states(rows, after)
        if look.apart:
            for row, state, now in zip(rows.tolist(), before.tolist(), after.tolist(), strict=True):
                self._tell_others(row, states.all[now].fixed[len(states.all[state].fixed) :])
        return complete

    def _take_off(self, look: _Look, rows: Ints, counts: Ints) -> None:
        before = self._table.states_of(rows).tolist()
        after = [
            self._table.states.without(state, look.own, count)
            for state, count in zip(before, counts.tolist(), strict=True)
        ]
        self._table.set_states(rows, np.array(after, np.int64))

    def _decide(self, shape: Shape | None, look: _Look, row: int) -> bool:
        """Put the pod there that allocates its named claims; these are assumed from then on.

        Without a shape there is no pod, but the claims alone.
        """
        layout, state = self._at(look, row)
        states = self._table.states
        after = states.step(layout, state, look.first, fix=True)
        if not isinstance(after, int):
            return False
        put = states.all[after].fixed[-1]
        self._table.set_states(np.array([row]), np.array([after]))
        self._tell_others(row, (put,))
        results = self._results(look.first, put, row)
        shared = {at for at, _ in look.undecided}
        for at, key in look.undecided:
            self._table.assume(key, results[at])
        if shape is None:
            return True
        own = tuple(each for at, each in enumerate(results) if at not in shared)
        given = self._given.setdefault((shape, row), [])
        given.append(own)
        self._nodes.undo_by(partial(self._take_back, (shape, row)))
        return True

    def _count_consumers(self, shape: Shape, count: int) -> None:
        keys = self.named(shape)
        if keys and count:
            self._add_consumers(keys, count)
            self._nodes.undo_by(partial(self._add_consumers, keys, -count))

    def _add_consumers(self, keys: Iterable[ClaimKey], count: int) -> None:
        for key in keys:
            self._placed[key] += count
            if not self._placed[key]:
                del self._placed[key]

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

    def _first_put(self, look: _Look, layout: Layout, state: int) -> Put | None:
        """What the pod that allocates the undecided claims gets; None if it cannot."""
        states = self._table.states
        after = states.step(layout, state, look.first, fix=True)
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


def _distinct(numbers: Ints) -> list[int]:
    """The numbers, each once, in order."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    found: list[int] = np.unique(numbers).tolist()
    return found


def _own(shape: Shape) -> Iterator[Ask]:
    """What the pods of the shape ask for by themselves."""
    return (entry for entry in shape.requirements.asks if isinstance(entry, Ask))
