"""Device states: what is in use on a node, and what the open trial has put there, as a number.

Nodes with equal devices in equal use have one state, so the allocator runs once for all of them,
not once per node and pod. Pods that a trial put on a node may be given other devices as long as
the trial lasts: whether one more fits is asked for all of them together if need be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from scheduler.core.devices.allocator import Pick, PodAsks, Refused, Solution, allocate
from scheduler.core.devices.asks import Amounts
from scheduler.core.devices.kinds import Judge, Watched, both
from scheduler.core.devices.layouts import FREE, Layout, Usage

PLENTY: Final = 1 << 40
"""Pods for which there is room where they take nothing that others could lack."""

MOST_COPIES: Final = 128
"""As many pods of one shape are counted per node; a node that has more room is asked again."""


@dataclass(frozen=True, slots=True)
class Put:
    """A pod that the trial put on the node: the number of what it asks for, and what it gets."""

    asks: int
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """`base` is in use by claims and by `fixed` pods, `after` also by `pods`, which may change.

    `watched` are the attributes that the pods' claims look at.
    """

    base: Usage
    fixed: tuple[Put, ...] = ()
    pods: tuple[Put, ...] = ()
    after: Usage = FREE
    watched: Watched = frozenset()
    score: int = 0

    @property
    def puts(self) -> tuple[Put, ...]:
        return self.fixed + self.pods


class DeviceStates:
    """All states by number, and the steps between them. State 0 is a node with nothing in use.

    A layout that is given with a state must tell apart what the pods of both look at.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.all: list[DeviceState] = []
        self.searches = 0
        self._asks: list[tuple[PodAsks, Watched]] = []
        self._asks_of: dict[PodAsks, int] = {}
        self._by_usage: dict[Usage, int] = {}
        self._steps: dict[tuple[int, int, int, bool], int | Refused] = {}
        self._copies: dict[tuple[int, int, int], int] = {}
        self.clear()

    def __len__(self) -> int:
        """How many states and contents of claims are known."""
        return len(self.all) + len(self._asks)

    def clear(self) -> None:
        """Forget all states but 0, and all that was found out. Not inside a trial."""
        self.all.clear()
        self._asks.clear()
        self._asks_of.clear()
        self._by_usage.clear()
        self._steps.clear()
        self._copies.clear()
        self.of(FREE)

    def of(self, usage: Usage) -> int:
        """The state in which so much is in use and no trial has put anything."""
        number = self._by_usage.get(usage)
        if number is None:
            number = self._by_usage[usage] = self._add(DeviceState(usage, after=usage))
        return number

    def number_of(self, asks: PodAsks, watched: Watched) -> int:
        """The number that stands for what a pod asks for, which looks at these attributes."""
        number = self._asks_of.get(asks)
        if number is None:
            number = self._asks_of[asks] = len(self._asks)
            self._asks.append((asks, watched))
        return number

    def asks(self, number: int) -> PodAsks:
        return self._asks[number][0]

    def step(self, layout: Layout, state: int, asks: int, *, fix: bool = False) -> int | Refused:
        """The state with one more pod, or why there are no devices for it.

        With `fix`, the pod keeps what it gets.
        """
        key = (layout.index, state, asks, fix)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._step(layout, self.all[state], asks, fix=fix)
        return found

    def copies(self, layout: Layout, state: int, asks: int) -> int:
        """How many more pods that ask for this the node has devices for, up to MOST_COPIES."""
        key = (layout.index, state, asks)
        known = self._copies.get(key)
        if known is not None:
            return known
        count, current = 0, state
        while count < MOST_COPIES:
            after = self.step(layout, current, asks)
            if isinstance(after, Refused):
                break
            if self.all[after].after == self.all[current].after:
                count = PLENTY
                break
            count, current = count + 1, after
        self._copies[key] = count
        return count

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

    def refusal(self, layout: Layout, state: int, asks: int, count: int) -> str:
        """Why the node has no devices for one pod more than `count`; empty if it has."""
        state, _ = self.put(layout, state, asks, min(count, MOST_COPIES))
        after = self.step(layout, state, asks)
        return after.reason if isinstance(after, Refused) else ""

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
        base = _and(before.base, position, consumed)
        after = _and(before.after, position, consumed)
        if not before.fixed and not before.pods:
            return self.of(base)
        return self._add(replace(before, base=base, after=after))

    def _add(self, state: DeviceState) -> int:
        self.all.append(state)
        return len(self.all) - 1

    def _step(self, layout: Layout, state: DeviceState, asks: int, *, fix: bool) -> int | Refused:
        self.searches += 1
        wanted, watched = self._asks[asks]
        found = allocate(layout, state.after, [wanted], self.judge)
        if isinstance(found, Solution):
            put = Put(asks, found.pods[0])
            if fix:
                base = _with(state.base, put.picks)
                fixed = (*state.fixed, put)
                return self._add(
                    replace(state, base=base, fixed=fixed, after=found.usage, score=found.score)
                )
            return self._joined(state, (*state.pods, put), found, watched)
        if not state.pods or fix:
            return found
        numbers = [*(put.asks for put in state.pods), asks]
        joint = allocate(layout, state.base, [self.asks(n) for n in numbers], self.judge)
        if isinstance(joint, Refused):
            return found
        pods = tuple(Put(n, picks) for n, picks in zip(numbers, joint.pods, strict=True))
        return self._joined(state, pods, joint, watched)

    def _joined(
        self, state: DeviceState, pods: tuple[Put, ...], found: Solution, watched: Watched
    ) -> int:
        seen = both(state.watched, watched)
        return self._add(
            replace(state, pods=pods, after=found.usage, watched=seen, score=found.score)
        )


def _with(usage: Usage, picks: Iterable[Pick]) -> Usage:
    for pick in picks:
        if not pick.wanted.option.admin:
            usage = _and(usage, pick.position, pick.consumed)
    return usage


def _and(usage: Usage, position: int, consumed: Amounts | None) -> Usage:
    """The usage with one device more, or a share of one."""
    if consumed is None:
        return Usage(usage.used | 1 << position, usage.shares)
    shares = dict(usage.shares)
    amounts = dict(shares.get(position, ()))
    for name, amount in consumed:
        amounts[name] = amounts.get(name, 0) + amount
    shares[position] = tuple(sorted(amounts.items()))
    return Usage(usage.used, tuple(sorted(shares.items())))
