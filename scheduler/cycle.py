"""The scheduling cycle: pops one root, places it, and has it bound or refused.

Nothing is awaited here, so the state does not change during a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from kube.clock import Clock
from scheduler.core.decide import decide
from scheduler.core.explain import Blocker, explain
from scheduler.core.forest import Group, Pod
from scheduler.core.model import GroupKey
from scheduler.core.place import Placement, Refusal, SearchBudget
from scheduler.core.search.batching import batchable, place_batch, signature
from scheduler.core.state import State
from scheduler.metrics import DECISION_SECONDS, DECISIONS, PENDING_ROOTS, SEARCH_STEPS
from scheduler.preemptor import Preemptor
from scheduler.queue import QUEUES, Queue
from scheduler.starvation import StarvationMonitor

_BATCH_PODS: Final = 96
"""Pods of roots that are decided as one batch: few enough not to delay other tasks."""

_sizes = {name: PENDING_ROOTS.labels(name) for name in QUEUES}
_placed, _refused = DECISIONS.labels("placed"), DECISIONS.labels("refused")


class Binding(Protocol):
    """Takes placements to bind."""

    def submit(self, placement: Placement) -> None:
        """Bind all pods of the placement, which are assumed already."""
        ...


class Reporting(Protocol):
    """Takes outcomes to report."""

    def touched(self, keys: Iterable[GroupKey]) -> None:
        """These entities or groups changed."""
        ...

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """The root does not fit."""
        ...

    def placed(self, key: GroupKey) -> None:
        """The root fits, and is being bound."""
        ...


class Cycle:
    """Decides the roots of the queue and acts on the decisions."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        binding: Binding,
        reporting: Reporting,
        *,
        clock: Clock,
        budget: Callable[[], SearchBudget] = SearchBudget,
        preemptor: Preemptor | None = None,
        starvation: StarvationMonitor | None = None,
    ) -> None:
        """Without `preemptor` nothing is evicted, without `starvation` no root goes first."""
        self._state = state
        self._queue = queue
        self._binding = binding
        self._reporting = reporting
        self._clock = clock
        self._budget = budget
        self._preemptor = preemptor
        self._starvation = starvation

    def refresh(self) -> None:
        """Tell the queue and the reporter what changed since the last time."""
        changes = self._state.take_changes()
        self._queue.refresh(changes, self._clock.monotonic())
        self._reporting.touched(changes.entities)
        if self._preemptor is not None:
            self._preemptor.forget_gone(sorted(changes.entities))
        if self._starvation is not None:
            self._starvation.forget_gone(sorted(changes.entities))
        for name, size in self._queue.sizes().items():
            _sizes[name].set(size)

    def step(self) -> bool:
        """Decide one root, or a batch of equal ones; False if none is ready."""
        key = self._queue.pop()
        if key is None:
            return False
        entity = self._queue.entity(key)
        if entity is None:
            return True  # deleted between two cycles
        kind = signature(entity)
        if kind is None or not batchable(self._state, kind.shape):
            self._decide(key, entity)
        else:
            self._decide_batch([entity, *self._queue.pop_batch(kind, _BATCH_PODS // kind.size - 1)])
        return True

    def _decide_batch(self, roots: list[Group | Pod]) -> None:
        """Equal roots that follow each other; those that do not fit are decided one by one."""
        placements: list[Placement] = []
        while len(roots) > 1:
            with DECISION_SECONDS.time():
                placements = place_batch(self._state, roots, self._budget())
            for placement, root in zip(placements, roots, strict=False):
                self._bind(placement.root, root, placement)
            roots = roots[len(placements) :]
            if not placements:
                break
        for root in roots:
            self._decide(root.key, root)

    def _decide(self, key: GroupKey, entity: Group | Pod) -> None:
        with DECISION_SECONDS.time():
            decision = decide(self._state, entity, self._budget())
        SEARCH_STEPS.observe(decision.steps)
        if isinstance(decision, Placement):
            self._bind(key, entity, decision)
        else:
            self._refuse(key, entity, decision)

    def _bind(self, key: GroupKey, entity: Group | Pod, placement: Placement) -> None:
        _placed.inc()
        if self._starvation is not None:
            self._starvation.placed(key, entity)
        self._state.assume(placement.pods, placement.rows, placement.volumes)
        self._binding.submit(placement)
        if self._preemptor is not None:
            self._preemptor.placed(key)
        self._reporting.placed(key)
        # Pods beyond minCount that did not fit are refused in a cycle of their own.
        self._queue.review(key)

    def _refuse(self, key: GroupKey, entity: Group | Pod, refusal: Refusal) -> None:
        _refused.inc()
        self._queue.refuse(key, refusal, self._clock.monotonic())
        if self._starvation is not None:
            self._starvation.refused(key, entity, refusal)
        blocker = explain(self._state, refusal)
        more = self._preemptor.refused(key, entity, refusal) if self._preemptor else ""
        if more:
            blocker = replace(blocker, summary=f"{blocker.summary}; {more}")
        self._reporting.refused(key, blocker)
