"""The scheduling cycle: pops one root, places it, and has it bound or refused.

Nothing is awaited here. A long decision gives way in the middle; the caller of the cycle must not
let the state change until it has ended. An error that a decision raises is about its root, which is
refused with SchedulerError; all others are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from kube.base.clock import Clock
from kube.concurrency.stepwise import Stepwise
from scheduler.core.decide import decide
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.batching import Signature, signature
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.cycle.equal_roots import EqualRootDecisions
from scheduler.cycle.outcomes import Outcomes, Steps, Work
from scheduler.cycle.parts import CycleParts
from scheduler.cycle.phases import FILTER, PRE_FILTER, QUEUE_SORT, Phases
from scheduler.cycle.refresh import Refresh
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.device_budget import POSTPONED
from scheduler.support.metrics import DECISION_SECONDS, SEARCH_STEPS


class Cycle:
    """A cycle over the roots of the queue: decides each, and acts on the decision."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        parts: CycleParts,
        *,
        clock: Clock,
        stepwise: Stepwise | None = None,
        budget: Callable[[], SearchBudget] = SearchBudget,
        log_decisions: bool = False,
    ) -> None:
        """Decide the roots of `queue`; `stepwise` runs the `pause` of the budgets."""
        self._state = state
        self._queue = queue
        self._parts = parts
        self._stepwise = stepwise or Stepwise(clock)
        self._budget = budget
        self._phases = phases = Phases(clock)
        self._outcomes = Outcomes(state, queue, parts, clock, phases, log_decisions=log_decisions)
        self._equals = EqualRootDecisions(
            state, queue, self._outcomes, parts, phases, budget=budget, decide=self._decide_alone
        )
        self._refresh = Refresh(state, queue, parts, self._outcomes, clock)

    def refresh(self) -> Iterator[None]:
        """Pass on what changed since the last time to the queue and the reporter, in short steps.

        Other tasks may run between two steps. A root is decided only after the last one.
        """
        return self._refresh.steps()

    def step(self) -> Generator[tuple[str, ...], None, GroupKey | None]:
        """Decide one root or a batch of equal ones; return the first key, None if none is ready.

        Yields the key where other tasks should run. They must not change the state.
        """
        return self._phases.of(self._step())

    def _step(self) -> Generator[tuple[str, ...], None, GroupKey | None]:
        # Events leave work for later, such as sorting devices, which decisions rely on.
        for _ in self._state.catch_up():
            yield ()
        key = self._queue.pop()
        entity = self._queue.entity(key) if key is not None else None
        if key is None or entity is None:  # none is ready, or it was deleted between two cycles
            return key
        self._phases.end(QUEUE_SORT)
        try:
            if self._use_held_places(entity):
                return key
            kind, together = self._kind(entity)
            self._phases.end(PRE_FILTER)
        except POSTPONED:
            self._outcomes.postpone(key)
        except Exception as error:  # noqa: BLE001 - reported by fail
            self._outcomes.fail(key, error)
        else:
            if kind is not None and together:
                yield from self._equals.decide_batch(entity, kind)
            else:
                yield from self._decide_alone(entity)
                # Equal roots need no decision of their own where this one's plan fits them.
                yield from self._equals.evict_for_equals(kind)
        return key

    def _use_held_places(self, entity: Group | Pod) -> bool:
        """Bind the root's pods that came to the places held for them; return whether that is all.

        No other root can have these places meanwhile, so nothing has to be decided.
        """
        placement = self._parts.held_places.use_held_places(entity, self._budget)
        if placement is None:
            return False
        self._outcomes.bind_to_held_places(placement, entity)
        return self._queue.entity(entity.key) is None

    def _kind(self, entity: Group | Pod) -> tuple[Signature | None, bool]:
        """Return the root's signature, if it may have equals, and whether to batch them."""
        kind = signature(entity)
        return kind, self._equals.go_together(entity, kind)

    def _decide_alone(self, entity: Group | Pod) -> Steps:
        self._outcomes.example = None
        yield from self._outcomes.carry_out(entity.key, self._decide(entity))

    def _decide(self, entity: Group | Pod) -> Work:
        # The refusal of an equal root holds as long as nothing happened that could help.
        shared = self._queue.known_refusal(entity)
        if shared is not None:
            yield from self._outcomes.refuse_as_its_equals(entity, shared.to(entity.key))
            return
        decision = yield from self._stepwise.steps(lambda: self._decided(entity))
        self._phases.end(FILTER)
        SEARCH_STEPS.observe(decision.steps)
        if isinstance(decision, Placement):
            yield from self._outcomes.bind(entity, decision)
        else:
            yield from self._outcomes.refuse(entity, decision)

    def _decided(self, entity: Group | Pod) -> Placement | Refusal:
        # The clock of `stepwise` leaves out what other tasks take in the pauses.
        begun = self._stepwise.monotonic()
        decision = decide(self._state, entity, self._budget())
        DECISION_SECONDS.observe(self._stepwise.monotonic() - begun)
        return decision

    def next_time(self) -> float | None:
        """Return the monotonic time at which there is something to do without a change, if any."""
        parts = self._parts
        moments = (
            self._queue.next_time(),
            parts.start_limits.next_time(),
            parts.defragmentation.next_time(),
        )
        return min((at for at in moments if at is not None), default=None)

    def details(self) -> Iterator[str]:
        """Yield lines for `/readyz`: the roots whose decision raises an error."""
        return self._outcomes.failures.details()

    def reset(self) -> None:
        """Forget all failures: another process may have led meanwhile."""
        self._outcomes.failures.clear()
        self._outcomes.example = None
        self._parts.times.reset()
