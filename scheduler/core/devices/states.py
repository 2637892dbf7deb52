"""Device states: the devices in use on a node, and the picks of the open trial, as a number.

Nodes with equal devices in equal use have one state, so the allocator runs once for all of them,
not once for each node and pod. While the trial is open, the devices of its pods may change: if one
more pod does not fit, the allocator searches devices for all pods of the trial together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.core.devices.allocator import DevicesRefused, Pick, PodAsks, Solution, allocate
from scheduler.core.devices.allowance import AllowanceExhaustedError, DeviceAllowance
from scheduler.core.devices.kinds import NOTHING, Watched
from scheduler.core.devices.layouts import FREE, DeviceLayout, DeviceUsage
from scheduler.core.values.device_asks import Amounts

PLENTY: Final = 1 << 40
"""Number of pods that fit if they take nothing that other pods could lack."""

MOST_COPIES: Final = 128
"""Limit of the pods of one shape that one call counts for a node; the next call counts on."""


MOST_ANSWERS: Final = 1 << 16
"""Limit of cached steps and rooms; those of the ask with the most entries are dropped first."""

_MOST_COUNTS: Final = 64
"""Limit of cached counts that reached MOST_COPIES; the oldest are dropped first."""


@dataclass(frozen=True, slots=True)
class Put:
    """Pod that the trial put on the node: the number of its asks, and its picks."""

    asks: int
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class UsageChange:
    """Positions that claims release or take: `freed` and `taken` by mask.

    `shares` has the new consumption of shared devices, None for those that no claim shares any
    more.
    """

    freed: int = 0
    taken: int = 0
    shares: tuple[tuple[int, Amounts | None], ...] = ()

    def joined(self, other: UsageChange) -> UsageChange:
        """Return the union of two changes of different positions."""
        return UsageChange(
            self.freed | other.freed, self.taken | other.taken, self.shares + other.shares
        )

    def of(self, usage: DeviceUsage, keep: int) -> DeviceUsage:
        """Return the usage after the change; freed positions of `keep` stay in use."""
        used = usage.used & ~(self.freed & ~keep) | self.taken
        return DeviceUsage(used, usage.shares).with_shares(dict(self.shares))


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Device use of a node: `base` by claims and `fixed` pods, `after` also by `pods`.

    The picks of `pods` may change as long as the trial is open. `watched` distinguishes devices for
    the pods' claims. When claims take their devices again, pods of the trial may have them:
    `overlap` are the positions that both have then. `crowded` means that the devices do not suffice
    for both.
    """

    base: DeviceUsage
    fixed: tuple[Put, ...] = ()
    pods: tuple[Put, ...] = ()
    after: DeviceUsage = FREE
    watched: Watched = NOTHING
    score: int = 0
    overlap: int = 0
    crowded: bool = False

    @property
    def clash(self) -> bool:
        """True if claims and pods of the trial have the same devices."""
        return self.crowded or bool(self.overlap)

    @property
    def puts(self) -> tuple[Put, ...]:
        return self.fixed + self.pods


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """Number of further pods for which a node has devices, and the reason why not for one more.

    The reason is empty if counting stopped before the devices ran out. `score` rates the first
    pod's options of firstAvailable lists, higher is better.
    """

    count: int
    reason: str = ""
    score: int = 0


@dataclass(slots=True)
class _CachedResults:
    """Cached results for pods with equal asks, by layout and state."""

    steps: dict[tuple[int, int, bool, int], int | DevicesRefused] = field(default_factory=dict)
    capacities: dict[tuple[int, int, int | None], DeviceCapacity] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps) + len(self.capacities)


@dataclass(slots=True)
class _Count:
    """Count of equal pods that fit on a node, one after the other.

    `steps` has the usage before each pod, and its score. `plain` means that each pod got the first
    devices that the previous ones left. Then a count that begins after some of them is a part of
    this one.
    """

    state: DeviceState
    capacity: DeviceCapacity = DeviceCapacity(0)
    steps: list[tuple[DeviceUsage, int]] = field(default_factory=list)
    plain: bool = True

    def add(self, after: DeviceState) -> None:
        """Record that one more pod has devices."""
        pods = self.state.pods
        # A joint search replaces the picks of earlier pods by new objects.
        self.plain = self.plain and (not pods or after.pods[len(pods) - 1] is pods[-1])
        self.steps.append((self.state.after, after.score))
        self.capacity = DeviceCapacity(self.capacity.count + 1, "", self.steps[0][1])
        self.state = after

    def rest(self, state: DeviceState) -> _Count | None:
        """Return the part of this count that begins at `state`, or None if it never reached it."""
        at = next((i for i, (usage, _) in enumerate(self.steps) if usage == state.after), None)
        if at is None or not self.plain:
            return None
        steps = self.steps[at:]
        pods = (*state.pods, *self.state.pods[-len(steps) :])
        watched = state.watched | self.state.watched
        end = replace(state, pods=pods, after=self.state.after, watched=watched)
        return _Count(end, DeviceCapacity(len(steps), "", steps[0][1]), steps)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """Count of a room that a PostponedError interrupted."""

    key: tuple[int, int, int, int | None]
    count: _Count


class DeviceStates:
    """All states by number, and the steps between them. State 0 has no devices in use.

    A layout that is passed with a state must distinguish devices for the pods of both. Counting
    room creates no states: only nodes that get pods have new ones.
    """

    def __init__(self, allowance: DeviceAllowance) -> None:
        self.all: list[DeviceState] = []
        self.searches = 0
        self.all_with_room = False
        """As in `allocate`. After a change, the states must be cleared."""
        self._allowance = allowance
        self._asks: list[tuple[PodAsks, Watched]] = []
        self._asks_of: dict[tuple[PodAsks, bool], int] = {}
        self._by_usage: dict[DeviceUsage, int] = {}
        self._found: dict[int, _CachedResults] = {}
        self._answers = 0
        self._unfinished: _Unfinished | None = None
        self._counts: OrderedDict[tuple[int, int], _Count] = OrderedDict()
        self.clear()

    def __len__(self) -> int:
        """Return the number of states and numbered asks."""
        return len(self.all) + len(self._asks)

    @property
    def answers(self) -> int:
        """Number of cached steps and rooms."""
        return self._answers

    def clear(self) -> None:
        """Drop all states but 0, and all cached results. Must not be called inside a trial."""
        self.all.clear()
        self._asks.clear()
        self._asks_of.clear()
        self._by_usage.clear()
        self._found.clear()
        self._answers = 0
        self._unfinished = None
        self._counts.clear()
        # It gets number 0: the table's zeroed column relies on that.
        self.of(FREE)

    def of(self, usage: DeviceUsage) -> int:
        """Return the state with this usage and without pods of a trial."""
        number = self._by_usage.get(usage)
        if number is None:
            number = self._by_usage[usage] = self._add(DeviceState(usage, after=usage))
        return number

    def number_of(self, asks: PodAsks, watched: Watched, *, shared: bool = False) -> int:
        """Return the number of a pod's asks; `watched` distinguishes devices for them.

        Asks of a claim that several pods share (`shared`) have another number than equal asks of a
        pod's own claims: a `Put` of one must not be mistaken for one of the other.
        """
        number = self._asks_of.get((asks, shared))
        if number is None:
            number = self._asks_of[asks, shared] = len(self._asks)
            self._asks.append((asks, watched))
        return number

    def asks(self, number: int) -> PodAsks:
        return self._asks[number][0]

    def step(
        self, layout: DeviceLayout, state: int, asks: int, *, fix: bool = False, without: int = 0
    ) -> int | DevicesRefused:
        """Return the state with one more pod, or the reason why there are no devices for it.

        With `fix`, the pod keeps its picks. `without` is a mask of devices that it must not get.
        Raises PostponedError.
        """
        steps = self._found.setdefault(asks, _CachedResults()).steps
        key = (layout.index, state, fix, without)
        found = steps.get(key)
        if found is None:
            after = self._next(layout, self.all[state], asks, fix=fix, without=without)
            found = after if isinstance(after, DevicesRefused) else self._add(after)
            steps[key] = found
            self._count()
        return found

    def capacity(
        self, layout: DeviceLayout, state: int, asks: int, first: int | None = None
    ) -> DeviceCapacity:
        """Return the number of further pods with these asks that get devices, up to MOST_COPIES.

        `first` is the number of the first pod's asks, if they are others; that pod keeps its picks.
        Raises PostponedError.
        """
        capacities = self._found.setdefault(asks, _CachedResults()).capacities
        key = (layout.index, state, first)
        found = capacities.get(key)
        if found is None:
            found = capacities[key] = self._capacity(layout, state, asks, first)
            self._count()
        return found

    def _capacity(
        self, layout: DeviceLayout, state: int, asks: int, first: int | None
    ) -> DeviceCapacity:
        key = (layout.index, state, asks, first)
        count = self._begun(key)
        most = MOST_COPIES + (first is not None)
        while True:
            alone = first is not None and not count.capacity.count
            wanted = first if first is not None and alone else asks
            try:
                after = self._next(layout, count.state, wanted, fix=alone)
            except AllowanceExhaustedError:
                # The next decision continues here. Otherwise a count that costs more than one
                # allowance would never end.
                self._unfinished = _Unfinished(key, count)
                raise
            # The reason why the first pod too many gets no devices is the node's reason.
            if isinstance(after, DevicesRefused):
                return replace(count.capacity, reason=after.reason)
            # Otherwise pods with adminAccess or unlimited devices would be counted one by one.
            if not alone and _takes_nothing(count.state, after):
                score = count.capacity.score or after.score
                return replace(count.capacity, count=PLENTY, score=score)
            if count.capacity.count >= most:
                self._keep(key, count)
                return count.capacity
            count.add(after)

    def _begun(self, key: tuple[int, int, int, int | None]) -> _Count:
        """Return the count to continue: of this room, or of one that passed through its state."""
        layout, state, asks, first = key
        if self._unfinished is not None and self._unfinished.key == key:
            return self._unfinished.count
        # A special first pod changes what the others find, so such a count has no common part.
        known = self._counts.get((layout, asks)) if first is None else None
        return (known and known.rest(self.all[state])) or _Count(self.all[state])

    def _keep(self, key: tuple[int, int, int, int | None], count: _Count) -> None:
        """Keep a count that reached MOST_COPIES, for rooms after some of its pods."""
        layout, _, asks, first = key
        if first is None and count.plain:
            self._counts[layout, asks] = count
            if len(self._counts) > _MOST_COUNTS:
                self._counts.popitem(last=False)

    def put(
        self, layout: DeviceLayout, state: int, asks: int, count: int, *, fix: bool = False
    ) -> tuple[int, int]:
        """Return the state with `count` more pods, and the number of them without devices."""
        for number in range(count):
            after = self.step(layout, state, asks, fix=fix)
            if isinstance(after, DevicesRefused):
                return state, count - number
            state = after
        return state, 0

    def without(self, state: int, asks: int, count: int) -> int:
        """Return the state without the last `count` pods that have these asks."""
        before = self.all[state]
        kept: list[Put] = []
        # The last pods first: the earlier ones keep the picks that they had before them.
        for put in reversed(before.pods):
            if count and put.asks == asks:
                count -= 1
            else:
                kept.append(put)
        pods = tuple(reversed(kept))
        if len(pods) == len(before.pods):
            return state
        # Rebuilt from the remaining pods: usages of shared devices do not say who consumes what.
        after = _with(before.base, (pick for put in pods for pick in put.picks))
        return self._add(replace(before, pods=pods, after=after))

    def taken_elsewhere(self, state: int, position: int, consumed: Amounts | None) -> int:
        """Return the state after a pod on another node got the device, or a share of it."""
        before = self.all[state]
        base = before.base.take(position, consumed)
        after = before.after.take(position, consumed)
        # Without pods the state is found by its usage again, so equal nodes stay in one state.
        if not before.fixed and not before.pods:
            return self.of(base)
        return self._add(replace(before, base=base, after=after))

    def changed(self, layout: DeviceLayout | None, state: int, change: UsageChange) -> int:
        """Return the state after claims released their devices, or took them again.

        `layout` may be None if the trial has put no pods there.
        """
        before = self.all[state]
        base = change.of(before.base, before.overlap)
        # In a dry run of preemption, a pod may get a device of a released claim, and the claim take
        # it back. Then the device is only free when both have released it.
        overlap = before.overlap & ~change.freed | before.base.used & change.taken
        # Found by its usage again, so that equal nodes return to one state.
        if not (before.puts or overlap):
            return self.of(base)
        return self._add(self._settled(layout, replace(before, base=base, overlap=overlap), change))

    def _settled(
        self, layout: DeviceLayout | None, state: DeviceState, change: UsageChange
    ) -> DeviceState:
        """Return the state in which pods got other devices, if claims took theirs again."""
        after = _with(state.base, (pick for put in state.pods for pick in put.picks))
        picked = _with(FREE, (pick for put in state.pods for pick in put.picks)).used
        crowded = bool(picked & state.base.used)
        took = change.taken or change.shares
        # Masks do not show conflicts over shared capacities or counters, so these need a search.
        if layout and state.pods and took and (crowded or change.shares or layout.counters):
            numbers = [put.asks for put in state.pods]
            found = self._search(layout, state.base, [self.asks(n) for n in numbers], begun=True)
            if isinstance(found, Solution):
                pods = tuple(Put(n, picks) for n, picks in zip(numbers, found.pods, strict=True))
                return replace(_joined(state, pods, found, NOTHING), crowded=False)
            crowded = True
        return replace(state, after=after, crowded=crowded)

    def _add(self, state: DeviceState) -> int:
        self.all.append(state)
        return len(self.all) - 1

    def _next(
        self, layout: DeviceLayout, state: DeviceState, asks: int, *, fix: bool, without: int = 0
    ) -> DeviceState | DevicesRefused:
        wanted, watched = self._asks[asks]
        usage = replace(state.after, used=state.after.used | without) if without else state.after
        found = self._search(layout, usage, [wanted])
        if isinstance(found, Solution):
            put = Put(asks, found.pods[0])
            if fix:
                # In the base, too: joint searches for later pods must not move these picks.
                base, after = _with(state.base, put.picks), _with(state.after, put.picks)
                fixed = (*state.fixed, put)
                return replace(state, base=base, fixed=fixed, after=after, score=found.score)
            return _joined(state, (*state.pods, put), found, watched)
        # There is nothing to rearrange, or the result would not be fixed.
        if not state.pods or fix:
            return found
        numbers = [*(put.asks for put in state.pods), asks]
        # Earlier pods may have the only devices that this one can use, although others would do for
        # them. Part of the same step: stopping before it would repeat the first search.
        joint = self._search(layout, state.base, [self.asks(n) for n in numbers], begun=True)
        if isinstance(joint, DevicesRefused):
            return found
        pods = tuple(Put(n, picks) for n, picks in zip(numbers, joint.pods, strict=True))
        return _joined(state, pods, joint, watched)

    def _search(
        self, layout: DeviceLayout, usage: DeviceUsage, pods: list[PodAsks], *, begun: bool = False
    ) -> Solution | DevicesRefused:
        if not begun:
            self._allowance.check()
        self.searches += 1
        found = allocate(layout, usage, pods, all_with_room=self.all_with_room)
        # At least one unit, so that searches without steps end as well.
        self._allowance.charge(1 + found.steps)
        return found

    def _count(self) -> None:
        """Count one more cached result, and drop the largest set of results beyond the limit."""
        self._answers += 1
        if self._answers > MOST_ANSWERS:
            # By asks, not by age: one tenant's many results must not displace those of the others.
            most = max(self._found, key=lambda number: len(self._found[number]))
            self._answers -= len(self._found.pop(most))


def _joined(
    state: DeviceState, pods: tuple[Put, ...], found: Solution, watched: Watched
) -> DeviceState:
    seen = state.watched | watched
    return replace(state, pods=pods, after=found.usage, watched=seen, score=found.score)


def _takes_nothing(before: DeviceState, after: DeviceState) -> bool:
    """Return True if one more pod takes nothing, neither free devices nor those of other pods."""
    return after.after == before.after and after.pods[:-1] == before.pods


def _with(usage: DeviceUsage, picks: Iterable[Pick]) -> DeviceUsage:
    for pick in picks:
        if not pick.wanted.option.admin:
            usage = usage.take(pick.position, pick.consumed)
    return usage
