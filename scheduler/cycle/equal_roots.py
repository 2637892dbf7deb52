"""Equal roots: placed as a batch, or with victims chosen for many as for one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

import structlog

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.batching import (
    Signature,
    batchable,
    batchable_by_affinity,
    batchable_by_score,
    batchable_by_spread,
    by_score,
    place_batch,
)
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.cycle.outcomes import Outcomes, Steps
from scheduler.cycle.parts import CycleParts
from scheduler.cycle.phases import FILTER, Phases
from scheduler.queue.equal_refusals import SharedRefusal
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.device_budget import POSTPONED
from scheduler.support.metrics import DECISION_SECONDS

_BATCH_PODS: Final = 96
"""Pods of roots that are decided as one batch: few enough not to delay other tasks."""

_EQUALS: Final = 32
"""Roots for which victims are chosen as for the one before them: about five milliseconds."""

_log = structlog.get_logger()


class EqualRootDecisions:
    """The decisions on roots that ask for the same; `decide` decides one root alone."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        outcomes: Outcomes,
        parts: CycleParts,
        phases: Phases,
        *,
        budget: Callable[[], SearchBudget],
        decide: Callable[[Group | Pod], Steps],
    ) -> None:
        self._state = state
        self._queue = queue
        self._outcomes = outcomes
        self._preemption = parts.preemption
        self._phases = phases
        self._budget = budget
        self._decide = decide

    def go_together(self, entity: Group | Pod, kind: Signature | None) -> bool:
        """Return whether the root and others of its kind can be placed as a batch."""
        # A root with nominated places tries these first, which its equals must not.
        if kind is None or entity.key in self._state.nominations:
            return False
        # A known refusal takes no search at all.
        if self._queue.known_refusal(entity) is not None:
            return False
        state, budget = self._state, self._budget()
        if by_score(kind, budget):
            return batchable_by_score(state, kind.shape)
        return (
            batchable(state, kind.shape)
            or batchable_by_affinity(state, kind, budget)
            or batchable_by_spread(state, kind, budget)
        )

    def decide_batch(self, entity: Group | Pod, kind: Signature) -> Steps:
        """Decide the root and its equals behind it; those that do not fit are decided singly."""
        # The root itself is one of the batch.
        most = _BATCH_PODS // kind.size - 1
        roots = [entity, *self._queue.pop_batch(kind, most)]
        while len(roots) > 1:
            placements = self._place_batch(roots)
            self._phases.end(FILTER)
            # The placements are those of the first roots: one that does not fit ends the batch.
            for placement, root in zip(placements, roots, strict=False):
                yield from self._outcomes.carry_out(root.key, self._outcomes.bind(root, placement))
            roots = roots[len(placements) :]
            if not placements:
                break
        while roots:
            root, *roots = roots
            yield from self._decide(root)
            # Victims are chosen for this root, so for its equals, too: without a search for each.
            if self._outcomes.example is not None:
                yield from self._evict_for(self._outcomes.example, roots)
                return

    def evict_for_equals(self, kind: Signature | None) -> Steps:
        """Choose victims for roots that are equal to one that evicts, without deciding them."""
        example = self._outcomes.example
        if kind is not None and example is not None:
            # Volumes for every node do not matter for victims: pods with one each are equal.
            equals = self._queue.pop_batch(kind, _EQUALS, any_volumes=True)
            yield from self._evict_for(example, equals)

    def _evict_for(self, example: SharedRefusal, roots: list[Group | Pod]) -> Steps:
        """Carry out the plans for these roots. Roots without a plan are ready again."""
        plans = yield from self._plans(example.refusal.root, roots)
        for plan in plans:
            root, *roots = roots
            if isinstance(root, Pod):
                work = self._outcomes.evict_as_its_equals(root, example, plan)
                yield from self._outcomes.carry_out(root.key, work)
            if root.key not in self._state.nominations:
                break  # the plan was not carried out, and the next plans rely on it
        for root in roots:
            # They were popped, so no other change would bring them back.
            self._queue.review(root.key)

    def _plans(
        self, key: GroupKey, roots: list[Group | Pod]
    ) -> Generator[tuple[str, ...], None, list[Plan]]:
        steps = self._preemption.plans_of_equals(roots[:_EQUALS])
        try:
            while True:
                next(steps)
                yield key
        except StopIteration as end:
            plans: list[Plan] = end.value
            return plans
        except Exception:  # noqa: BLE001 - logged
            # Without plans the roots are ready again; an error is found at the root that causes it.
            _log.exception("failed to plan equal roots together", roots=len(roots))
            return []

    def _place_batch(self, roots: list[Group | Pod]) -> list[Placement]:
        try:
            with DECISION_SECONDS.time(), self._outcomes.work_allowed(roots[0].key):
                return place_batch(self._state, roots, self._budget())
        except POSTPONED:
            return []
        except Exception:  # noqa: BLE001 - logged
            # One of the roots causes the error: decided one by one, the others are placed.
            _log.exception("failed to decide a batch", roots=len(roots))
            return []
