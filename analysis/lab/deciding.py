"""Deciders: Muster's own queue, cycle, preemption and starvation gate, or a baseline.

No part of Muster is imitated: `MusterDecider` has the objects of the scheduler process, with
virtual time instead of the clock and lists instead of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from analysis.lab.clock import VirtualClock
from analysis.lab.variants import Variant
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.parts import CycleParts
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.preemption.preemptor import Preemptor
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.config import Preemption, Starvation

_RETRY: Final = 60.0
"""Seconds after which a refused root is decided again without an event, for the starvation gate.
The process does so each minute, also in case an event was lost; here no event is lost."""

_NO_RETRY: Final = 30 * 86400.0
"""Seconds without a starvation gate, when only an event can change the result."""


class DecisionError(RuntimeError):
    """An error of the scheduler while it decided a root. The log has the cause."""


@dataclass(slots=True)
class Outbox:
    """Collector of decisions, in place of the binder, the evictor and the status reporter."""

    placements: list[Placement] = field(default_factory=list)
    victims: list[Pod] = field(default_factory=list)
    decisions: int = 0

    def submit(self, placement: Placement) -> None:
        """Record the placement of a root."""
        self.placements.append(placement)
        self.decisions += 1

    def touched(self, keys: Iterable[GroupKey]) -> None:
        """Ignore the change: no statuses are written."""

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """Count a refusal. Raises DecisionError if an error caused it."""
        if blocker.kind == "error":
            raise DecisionError(f"{'/'.join(key)}: {blocker.summary}")
        self.decisions += 1

    def on_root_placed(self, key: GroupKey) -> None:
        """Ignore the call: `submit` has recorded the placement."""

    def evict(self, plan: Plan, priority: int) -> None:  # noqa: ARG002
        """Record the victims of a plan."""
        self.victims += plan.pods

    def readmit(self) -> None:
        """Do nothing, as every deletion succeeds."""

    def nominate(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """Do nothing: the state has the nominations, and no pod is patched."""

    def adopt(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """Do nothing, as there was no leader before."""

    def withdraw(self, root: GroupKey) -> None:
        """Do nothing: the state has dropped the nomination."""


class MusterDecider:
    """The scheduler's cycle on the state."""

    def __init__(self, state: State, outbox: Outbox, clock: VirtualClock, variant: Variant) -> None:
        """Set up the cycle with the scheduler's defaults, but limit searches by steps only."""
        self.queue = Queue(state, retry=_RETRY if variant.starvation else _NO_RETRY)
        preemptor = Preemptor(
            state,
            self.queue,
            outbox,
            clock=clock,
            config=Preemption(enabled=variant.preemption),
            budget=lambda: _budget(variant),
        )
        starvation = StarvationMonitor(
            state,
            self.queue,
            clock=clock,
            config=Starvation(enabled=variant.starvation),
            budget=lambda: _budget(variant),
        )
        self._cycle = Cycle(
            state,
            self.queue,
            CycleParts(outbox, outbox, preemption=preemptor, starvation=starvation),
            clock=clock,
            budget=lambda: _budget(variant),
        )

    def decide(self, carry_out: Callable[[], None]) -> None:
        """Run cycles as the process does, until no root is ready.

        `carry_out` empties the outbox after each decision.
        """
        while True:
            # The generators let other tasks of the process run in between. Here there are none.
            for _ in self._cycle.refresh():
                pass
            if not self.queue:
                return
            for _ in self._cycle.step():
                pass
            carry_out()

    def next_time(self) -> float | None:
        """Return the end of a pause or a back-off, or the time when the starvation gate opens."""
        return self.queue.next_time()


class InOrder:
    """All-or-nothing in order of arrival within a priority; the first that waits blocks all."""

    def __init__(self, state: State, outbox: Outbox, variant: Variant) -> None:
        """Set up the baseline with the same solver and an empty line."""
        self._state = state
        self._outbox = outbox
        self._variant = variant
        self._waiting: dict[GroupKey, tuple[int, str]] = {}

    def decide(self, carry_out: Callable[[], None]) -> None:
        """Place roots in order until one does not fit."""
        self._take_in()
        for key in sorted(self._waiting, key=lambda key: (self._waiting[key], key)):
            root = self._state.forest.groups[key]
            found = place(self._state, root, _budget(self._variant))
            if not isinstance(found, Placement):
                self._outbox.decisions += 1
                return
            self._state.assume(found.pods, found.rows)
            self._outbox.submit(found)
            del self._waiting[key]
            carry_out()
        self._take_in()

    def _take_in(self) -> None:
        for _ in self._state.catch_up():
            pass
        while self._state.changed:
            for key in self._state.take_changes().entities:
                order = _order(self._state.forest.groups.get(key), self._state)
                if order is None:
                    self._waiting.pop(key, None)
                else:
                    self._waiting[key] = order

    def next_time(self) -> float | None:
        """Return None: only the end of other jobs can help."""
        return None


def _order(group: Group | None, state: State) -> tuple[int, str] | None:
    """Return the position of a group in the line; None if it does not wait."""
    if group is None or group.spec is None or group.parent is not None:
        return None
    if not state.forest.ready(group) or not group.pending_total:
        return None
    return -group.priority, group.spec.created


def decider_of(
    state: State, outbox: Outbox, clock: VirtualClock, variant: Variant
) -> MusterDecider | InOrder:
    """Return the decider of this variant."""
    if variant.order == "in-order":
        return InOrder(state, outbox, variant)
    return MusterDecider(state, outbox, clock, variant)


def _budget(variant: Variant) -> SearchBudget:
    # Without a time limit: equal runs must have equal results.
    return SearchBudget(profile=variant.scoring)
