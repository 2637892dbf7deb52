"""Who decides: Muster's own queue, cycle, preemption and starvation gate, or a baseline.

Nothing of Muster is imitated here: `MusterDecider` has the objects that the scheduler process has,
with virtual time instead of the clock and lists instead of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from analysis.lab.clock import VirtualClock
from analysis.lab.variants import Variant
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.parts import Parts
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.preemption.preemptor import Preemptor
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.config import Preemption, Starvation

_RETRY: Final = 60.0
_NO_RETRY: Final = 30 * 86400.0
"""Seconds after which what was refused is decided again without news. The process does so each
minute, for the starvation gate and in case that news was lost; here none is lost."""


class DecisionError(RuntimeError):
    """Deciding a root raised an error in the scheduler; the cause is in the log."""


@dataclass(slots=True)
class Outbox:
    """What was decided: in place of the binder, the evictor and the status reporter."""

    placements: list[Placement] = field(default_factory=list)
    victims: list[Pod] = field(default_factory=list)
    decisions: int = 0

    def submit(self, placement: Placement) -> None:
        """A root is placed."""
        self.placements.append(placement)
        self.decisions += 1

    def touched(self, keys: Iterable[GroupKey]) -> None:
        """Statuses are not written here."""

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """A root does not fit. Raises DecisionError if that is an error's fault."""
        if blocker.kind == "error":
            raise DecisionError(f"{'/'.join(key)}: {blocker.summary}")
        self.decisions += 1

    def placed(self, key: GroupKey) -> None:
        """Told by `submit` already."""

    def evict(self, plan: Plan, priority: int) -> None:  # noqa: ARG002
        """These units go for the plan's root."""
        self.victims += (pod for unit in plan.victims for pod in unit.pods.values())

    def readmit(self) -> None:
        """Every deletion succeeds."""

    def nominate(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """The state keeps nominations; nobody else is told."""

    def adopt(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None:
        """There was no leader before."""

    def withdraw(self, root: GroupKey) -> None:
        """The state has dropped it."""


class Decider(Protocol):
    """Decides what is ready."""

    def decide(self, carry_out: Callable[[], None]) -> None:
        """Decide until nothing is ready; `carry_out` after each decision empties the outbox."""
        ...

    def next_time(self) -> float | None:
        """When to decide again without news, in seconds; None for never."""
        ...


class MusterDecider:
    """The scheduler's cycle on the state."""

    def __init__(self, state: State, outbox: Outbox, clock: VirtualClock, variant: Variant) -> None:
        """All limits are those of the scheduler's defaults, but searches end by steps alone."""
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
            Parts(outbox, outbox, preemption=preemptor, starvation=starvation),
            clock=clock,
            budget=lambda: _budget(variant),
        )

    def decide(self, carry_out: Callable[[], None]) -> None:
        """Cycles as the process runs them, until no root is ready."""
        while True:
            for _ in self._cycle.refresh():
                pass
            if not self.queue:
                return
            for _ in self._cycle.step():
                pass
            carry_out()

    def next_time(self) -> float | None:
        """The end of a pause, a back-off, or of the time that the starvation gate is closed."""
        return self.queue.next_time()


class InOrder:
    """All-or-nothing in the order of arrival within a priority: the first that waits blocks all."""

    def __init__(self, state: State, outbox: Outbox, variant: Variant) -> None:
        """The same solver, another order."""
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
        """Only what ends helps."""
        return None


def _order(group: Group | None, state: State) -> tuple[int, str] | None:
    """Where a group waits in line; None when it does not."""
    if group is None or group.spec is None or group.parent is not None:
        return None
    if not state.forest.ready(group) or not group.pending_total:
        return None
    return -group.priority, group.spec.created


def decider_of(state: State, outbox: Outbox, clock: VirtualClock, variant: Variant) -> Decider:
    """Who decides in this variant."""
    if variant.order == "in-order":
        return InOrder(state, outbox, variant)
    return MusterDecider(state, outbox, clock, variant)


def _budget(variant: Variant) -> SearchBudget:
    return SearchBudget(profile=variant.scoring)
