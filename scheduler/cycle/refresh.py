"""Updates of the queue, and of all parts that remember roots, before a root is decided."""

from __future__ import annotations

from collections.abc import Iterator

from kube.base.clock import Clock
from scheduler.core.state.state import State
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.values.model import GroupKey
from scheduler.cycle.outcomes import Outcomes
from scheduler.cycle.parts import CycleParts
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.metrics import PENDING_ROOTS, QUEUES

_sizes = {name: PENDING_ROOTS.labels(name) for name in QUEUES}


class Refresh:
    """The refresh: if a change raises an error, only the root at fault backs off."""

    def __init__(
        self, state: State, queue: Queue, parts: CycleParts, outcomes: Outcomes, clock: Clock
    ) -> None:
        self._state = state
        self._queue = queue
        self._parts = parts
        self._outcomes = outcomes
        self._clock = clock

    def steps(self) -> Iterator[None]:
        """Pass on all changes in short steps: other tasks may run between two of them."""
        yield from self._take_in()
        if self._state.changed:
            # Nominations ended with their roots, so others can use their places.
            yield from self._take_in()
        for name, size in self._queue.sizes().items():
            _sizes[name].set(size)

    def _take_in(self) -> Iterator[None]:
        changes = self._state.take_changes()
        try:
            yield from self._apply(changes)
        except Exception:  # noqa: BLE001 - raised again for the root at fault
            yield from self._apply_one_by_one(changes)
        preemption = self._parts.preemption
        preemption.on_victims_deleted(changes.victims)
        preemption.nodes_changed(changes.rows)
        yield from preemption.prepare()

    def _apply(self, changes: StateChanges) -> Iterator[None]:
        yield from self._queue.refresh_in_steps(changes, self._clock.monotonic())
        for key in sorted(changes.entities):
            self._notify(key)
            yield
        # Without keys: an overdue gate opens even if nothing changed.
        self._parts.starvation.forget_deleted(())
        self._parts.start_limits.expire(self._clock.monotonic())
        self._parts.defragmentation.expire(self._clock.monotonic())

    def _notify(self, key: GroupKey) -> None:
        """Notify all parts but the queue that an entity or group changed."""
        self._parts.reporting.touched((key,))
        self._parts.times.changed(key)
        self._parts.start_limits.changed(key)
        self._parts.preemption.forget_deleted((key,))
        self._parts.starvation.forget_deleted((key,))
        failures = self._outcomes.failures
        if key in failures and self._queue.entity(key) is None:
            # Its name may be used again, for another root.
            failures.succeeded(key)
            self._queue.back_off(key, self._clock.monotonic())

    def _apply_one_by_one(self, changes: StateChanges) -> Iterator[None]:
        for key in sorted(changes.entities):
            try:
                yield from self._apply(
                    StateChanges({key}, {key} & changes.reconsider, more=changes.more)
                )
            except Exception as error:  # noqa: BLE001 - reported by fail
                self._outcomes.fail(key, error)
        if changes.rows or changes.match_ids:
            # The roots that gain from the capacity are unknown: all are decided again.
            self._queue.review_all()
