"""Device states: what is in use on a node, and what the open trial has put there, as a number.

Nodes with equal devices in equal use have one state, so the allocator runs once for all of them,
not once per node and pod. Pods that a trial put on a node may be given other devices as long as
the trial lasts: whether one more fits is asked for all of them together if need be.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.core.devices.allocator import Pick, PodAsks, Refused, Solution, allocate
from scheduler.core.devices.allowance import Allowance, PostponedError
from scheduler.core.devices.kinds import NOTHING, Watched
from scheduler.core.devices.layouts import FREE, Layout, Usage
from scheduler.core.values.device_asks import Amounts

PLENTY: Final = 1 << 40
"""Pods for which there is room where they take nothing that others could lack."""

MOST_COPIES: Final = 128
"""As many pods of one shape are counted per node; a node that has more room is asked again."""


MOST_ANSWERS: Final = 1 << 16
"""Steps and rooms that are known; those of pods that have the most give way."""

_MOST_COUNTS: Final = 64
"""So many counts up to MOST_COPIES are kept; the oldest give way."""


@dataclass(frozen=True, slots=True)
class Put:
    """A pod that the trial put on the node: the number of what it asks for, and what it gets."""

    asks: int
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class UsageChange:
    """Positions that claims give back or take: `freed` and `taken` by mask.

    `shares` has what is taken of shared devices from now on, None where nobody has a share.
    """

    freed: int = 0
    taken: int = 0
    shares: tuple[tuple[int, Amounts | None], ...] = ()

    def joined(self, other: UsageChange) -> UsageChange:
        """Both changes, of different positions."""
        return UsageChange(
            self.freed | other.freed, self.taken | other.taken, self.shares + other.shares
        )

    def of(self, usage: Usage, keep: int) -> Usage:
        """The usage after the change, without which the positions of `keep` are in use as well."""
        used = usage.used & ~(self.freed & ~keep) | self.taken
        return Usage(used, usage.shares).with_shares(dict(self.shares))


@dataclass(frozen=True, slots=True)
class DeviceState:
    """`base` is in use by claims and by `fixed` pods, `after` also by `pods`, which may change.

    `watched` is what tells devices apart for the pods' claims. Claims that took their devices again
    may find the trial's pods there: `overlap` are positions that both have then, and `crowded`
    means that the devices do not suffice for both.
    """

    base: Usage
    fixed: tuple[Put, ...] = ()
    pods: tuple[Put, ...] = ()
    after: Usage = FREE
    watched: Watched = NOTHING
    score: int = 0
    overlap: int = 0
    crowded: bool = False

    @property
    def clash(self) -> bool:
        """Whether claims and pods of the trial have the same devices."""
        return self.crowded or bool(self.overlap)

    @property
    def puts(self) -> tuple[Put, ...]:
        return self.fixed + self.pods


@dataclass(frozen=True, slots=True)
class Room:
    """For how many more pods a node has devices, and why not for one more; empty if it may.

    `score` is that of the first pod's devices: lists, the more the better.
    """

    count: int
    reason: str = ""
    score: int = 0


@dataclass(slots=True)
class _Found:
    """What was found out about pods that ask for the same, by layout and state."""

    steps: dict[tuple[int, int, bool, int], int | Refused] = field(default_factory=dict)
    rooms: dict[tuple[int, int, int | None], Room] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps) + len(self.rooms)


@dataclass(slots=True)
class _Count:
    """Pods that ask for the same are put on a node, one after the other, to see how many fit.

    `steps` has what was in use before each of them, and its score. `plain` means that each got the
    first devices that the ones before it left, so who begins after some of them counts the same.
    """

    state: DeviceState
    room: Room = Room(0)
    steps: list[tuple[Usage, int]] = field(default_factory=list)
    plain: bool = True

    def add(self, after: DeviceState) -> None:
        """One pod more has devices."""
        pods = self.state.pods
        self.plain = self.plain and (not pods or after.pods[len(pods) - 1] is pods[-1])
        self.steps.append((self.state.after, after.score))
        self.room = Room(self.room.count + 1, "", self.steps[0][1])
        self.state = after

    def rest(self, state: DeviceState) -> _Count | None:
        """The same count begun at this state; None if it did not come by there."""
        at = next((i for i, (usage, _) in enumerate(self.steps) if usage == state.after), None)
        if at is None or not self.plain:
            return None
        steps = self.steps[at:]
        pods = (*state.pods, *self.state.pods[-len(steps) :])
        watched = state.watched | self.state.watched
        end = replace(state, pods=pods, after=self.state.after, watched=watched)
        return _Count(end, Room(len(steps), "", steps[0][1]), steps)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """The first pods of a room that was not counted to its end."""

    key: tuple[int, int, int, int | None]
    count: _Count


class DeviceStates:
    """All states by number, and the steps between them. State 0 is a node with nothing in use.

    A layout that is given with a state must tell apart what the pods of both look at. Counting room
    makes no states: only nodes on which pods are put get new ones.
    """

    def __init__(self, allowance: Allowance) -> None:
        self.all: list[DeviceState] = []
        self.searches = 0
        self._allowance = allowance
        self._asks: list[tuple[PodAsks, Watched]] = []
        self._asks_of: dict[tuple[PodAsks, bool], int] = {}
        self._by_usage: dict[Usage, int] = {}
        self._found: dict[int, _Found] = {}
        self._answers = 0
        self._unfinished: _Unfinished | None = None
        self._counts: OrderedDict[tuple[int, int], _Count] = OrderedDict()
        self.clear()

    def __len__(self) -> int:
        """How many states and contents of claims are known."""
        return len(self.all) + len(self._asks)

    @property
    def answers(self) -> int:
        """How many steps and rooms are known."""
        return self._answers

    def clear(self) -> None:
        """Forget all states but 0, and all that was found out. Not inside a trial."""
        self.all.clear()
        self._asks.clear()
        self._asks_of.clear()
        self._by_usage.clear()
        self._found.clear()
        self._answers = 0
        self._unfinished = None
        self._counts.clear()
        self.of(FREE)

    def of(self, usage: Usage) -> int:
        """The state in which so much is in use and no trial has put anything."""
        number = self._by_usage.get(usage)
        if number is None:
            number = self._by_usage[usage] = self._add(DeviceState(usage, after=usage))
        return number

    def number_of(self, asks: PodAsks, watched: Watched, *, shared: bool = False) -> int:
        """The number that stands for what a pod asks for; `watched` tells devices apart for it.

        What is `shared`, in claims that other pods name, too, has another number than the same in
        claims of the pod's own: a `Put` of the one must not be taken for one of the other.
        """
        number = self._asks_of.get((asks, shared))
        if number is None:
            number = self._asks_of[asks, shared] = len(self._asks)
            self._asks.append((asks, watched))
        return number

    def asks(self, number: int) -> PodAsks:
        return self._asks[number][0]

    def step(
        self, layout: Layout, state: int, asks: int, *, fix: bool = False, without: int = 0
    ) -> int | Refused:
        """The state with one more pod, or why there are no devices for it.

        With `fix`, the pod keeps what it gets, of other devices than those `without` (a mask).
        Raises PostponedError.
        """
        steps = self._found.setdefault(asks, _Found()).steps
        key = (layout.index, state, fix, without)
        found = steps.get(key)
        if found is None:
            after = self._next(layout, self.all[state], asks, fix=fix, without=without)
            found = after if isinstance(after, Refused) else self._add(after)
            steps[key] = found
            self._count()
        return found

    def room(self, layout: Layout, state: int, asks: int, first: int | None = None) -> Room:
        """How many more pods that ask for this the node has devices for, up to MOST_COPIES.

        `first` is what the first of them asks for, if that is something else; it keeps what it
        gets. Raises PostponedError.
        """
        rooms = self._found.setdefault(asks, _Found()).rooms
        key = (layout.index, state, first)
        found = rooms.get(key)
        if found is None:
            found = rooms[key] = self._room(layout, state, asks, first)
            self._count()
        return found

    def _room(self, layout: Layout, state: int, asks: int, first: int | None) -> Room:
        key = (layout.index, state, asks, first)
        count = self._begun(key)
        most = MOST_COPIES + (first is not None)
        while True:
            alone = first is not None and not count.room.count
            wanted = first if first is not None and alone else asks
            try:
                after = self._next(layout, count.state, wanted, fix=alone)
            except PostponedError:
                self._unfinished = _Unfinished(key, count)
                raise
            if isinstance(after, Refused):
                return replace(count.room, reason=after.reason)
            if not alone and _takes_nothing(count.state, after):
                score = count.room.score or after.score
                return replace(count.room, count=PLENTY, score=score)
            if count.room.count >= most:
                self._keep(key, count)
                return count.room
            count.add(after)

    def _begun(self, key: tuple[int, int, int, int | None]) -> _Count:
        """What was counted before of this room, or of one that comes by the same state."""
        layout, state, asks, first = key
        if self._unfinished is not None and self._unfinished.key == key:
            return self._unfinished.count
        known = self._counts.get((layout, asks)) if first is None else None
        return (known and known.rest(self.all[state])) or _Count(self.all[state])

    def _keep(self, key: tuple[int, int, int, int | None], count: _Count) -> None:
        """Keep a count that ended with MOST_COPIES, for the room that there is after some pods."""
        layout, _, asks, first = key
        if first is None and count.plain:
            self._counts[layout, asks] = count
            if len(self._counts) > _MOST_COUNTS:
                self._counts.popitem(last=False)

    def put(
        self, layout: Layout, state: int, asks: int, count: int, *, fix: bool = False
    ) -> tuple[int, int]:
        """The state with so many more pods, and how many of them there are no devices for."""
        for number in range(count):
            after = self.step(layout, state, asks, fix=fix)
            if isinstance(after, Refused):
                return state, count - number
            state = after
        return state, 0

    def without(self, state: int, asks: int, count: int) -> int:
        """The state without so many of the pods that were put there last and ask for this."""
        before = self.all[state]
        kept: list[Put] = []
        for put in reversed(before.pods):
            if count and put.asks == asks:
                count -= 1
            else:
                kept.append(put)
        pods = tuple(reversed(kept))
        if len(pods) == len(before.pods):
            return state
        after = _with(before.base, (pick for put in pods for pick in put.picks))
        return self._add(replace(before, pods=pods, after=after))

    def taken_elsewhere(self, state: int, position: int, consumed: Amounts | None) -> int:
        """The state after a pod of another node got the device at the position, or a share."""
        before = self.all[state]
        base = before.base.take(position, consumed)
        after = before.after.take(position, consumed)
        if not before.fixed and not before.pods:
            return self.of(base)
        return self._add(replace(before, base=base, after=after))

    def changed(self, layout: Layout | None, state: int, change: UsageChange) -> int:
        """The state after claims gave devices back, or took theirs again.

        `layout` may be None if the trial has put no pods there.
        """
        before = self.all[state]
        base = change.of(before.base, before.overlap)
        overlap = before.overlap & ~change.freed | before.base.used & change.taken
        if not (before.puts or overlap):
            return self.of(base)
        return self._add(self._settled(layout, replace(before, base=base, overlap=overlap), change))

    def _settled(
        self, layout: Layout | None, state: DeviceState, change: UsageChange
    ) -> DeviceState:
        """The state in which the pods have other devices if claims took theirs again."""
        after = _with(state.base, (pick for put in state.pods for pick in put.picks))
        picked = _with(FREE, (pick for put in state.pods for pick in put.picks)).used
        crowded = bool(picked & state.base.used)
        took = change.taken or change.shares
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
        self, layout: Layout, state: DeviceState, asks: int, *, fix: bool, without: int = 0
    ) -> DeviceState | Refused:
        wanted, watched = self._asks[asks]
        usage = replace(state.after, used=state.after.used | without) if without else state.after
        found = self._search(layout, usage, [wanted])
        if isinstance(found, Solution):
            put = Put(asks, found.pods[0])
            if fix:
                base, after = _with(state.base, put.picks), _with(state.after, put.picks)
                fixed = (*state.fixed, put)
                return replace(state, base=base, fixed=fixed, after=after, score=found.score)
            return _joined(state, (*state.pods, put), found, watched)
        if not state.pods or fix:
            return found
        numbers = [*(put.asks for put in state.pods), asks]
        joint = self._search(layout, state.base, [self.asks(n) for n in numbers], begun=True)
        if isinstance(joint, Refused):
            return found
        pods = tuple(Put(n, picks) for n, picks in zip(numbers, joint.pods, strict=True))
        return _joined(state, pods, joint, watched)

    def _search(
        self, layout: Layout, usage: Usage, pods: list[PodAsks], *, begun: bool = False
    ) -> Solution | Refused:
        if not begun:
            self._allowance.check()
        self.searches += 1
        found = allocate(layout, usage, pods)
        self._allowance.charge(1 + found.steps)
        return found

    def _count(self) -> None:
        """Note that there is one answer more. Those about the pods with the most give way."""
        self._answers += 1
        if self._answers > MOST_ANSWERS:
            most = max(self._found, key=lambda number: len(self._found[number]))
            self._answers -= len(self._found.pop(most))


def _joined(
    state: DeviceState, pods: tuple[Put, ...], found: Solution, watched: Watched
) -> DeviceState:
    seen = state.watched | watched
    return replace(state, pods=pods, after=found.usage, watched=seen, score=found.score)


def _takes_nothing(before: DeviceState, after: DeviceState) -> bool:
    """Whether one pod more takes nothing, neither of what is free nor of what other pods have."""
    return after.after == before.after and after.pods[:-1] == before.pods


def _with(usage: Usage, picks: Iterable[Pick]) -> Usage:
    for pick in picks:
        if not pick.wanted.option.admin:
            usage = usage.take(pick.position, pick.consumed)
    return usage
