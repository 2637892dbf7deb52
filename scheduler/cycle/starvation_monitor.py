"""The starvation monitor: closes the starvation gate for a starving root and opens it again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import structlog

from kube.base.clock import Clock
from kube.concurrency.stepwise import Stepwise
from scheduler.core.decide import fits_empty_cluster
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Refusal
from scheduler.core.state.starvation_gate import StarvationLimits
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.core.values.search_budget import SearchBudget
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.config import Starvation
from scheduler.support.metrics import STARVATION_ACTIVE, STARVATIONS

_log = structlog.get_logger()


class StarvationMonitor:
    """A listener to all decisions, which lets a starving root go first if configured."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        *,
        clock: Clock,
        config: Starvation,
        stepwise: Stepwise | None = None,
        budget: Callable[[], SearchBudget] = SearchBudget,
    ) -> None:
        """Watch decisions on `state`; `stepwise` runs the `pause` of the budgets."""
        self._state = state
        self._queue = queue
        self._clock = clock
        self._enabled = config.enabled
        self._limits = StarvationLimits(
            config.after_seconds, config.after_passed, config.closed_seconds
        )
        self._stepwise = stepwise or Stepwise(clock)
        self._budget = budget

    def on_root_placed(self, key: GroupKey, entity: Group | Pod) -> None:
        """Count a root that is being bound."""
        if self._enabled:
            self._state.starvation.on_root_placed(key, entity.priority)
            self._open_if_for(key)

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, None]:
        """Count a root that does not fit, or that waits for the starving root.

        Yields where other tasks should run. They must not change the state.
        """
        if not self._enabled:
            return
        gate, now, priority = self._state.starvation, self._clock.monotonic(), entity.priority
        # The gate itself refused the root, which says nothing of its own capacity.
        if refusal.shortage.kind == "priority":
            gate.hold_back(key)
            return
        # Free capacity would not give this root its minimum, so no other root has to wait for it.
        # Nor does it wait for places that none of its pods needs yet.
        reserves = isinstance(entity, Group) and entity.only_reserves
        if refusal.shortage.kind != "capacity" or not refusal.shortage.minimum or reserves:
            gate.forget(key)
            self._open_if_for(key)
            return
        gate.refused(key, priority, now)
        if gate.closed_for is None:
            if not gate.starves(key, priority, now, self._limits):
                return
            # For a root that does not fit an empty cluster, it would close for nothing.
            if not (yield from self._could_fit(entity)):
                return
            gate.close(key, priority, now, self._limits)
            STARVATION_ACTIVE.set(1)
            STARVATIONS.inc()
            _log.info("starvation gate closed", root="/".join(key))
        # The cluster may have changed since the gate was closed.
        elif gate.closed_for.root == key and not (yield from self._could_fit(entity)):
            self._open_if_for(key)

    def _could_fit(self, entity: Group | Pod) -> Generator[None, None, bool]:
        """Return whether the root would fit if nothing else ran."""
        # Outside of the steps, which may restart and must not change anything.
        self._state.units.refresh()
        return (
            yield from self._stepwise.steps(
                lambda: fits_empty_cluster(self._state, entity, self._budget())
            )
        )

    def forget_deleted(self, keys: Iterable[GroupKey]) -> None:
        """Forget entities that can no longer be decided; open the gate if it is overdue."""
        if not self._enabled:
            return
        for key in keys:
            if self._queue.entity(key) is None:
                self._state.starvation.forget(key)
                self._open_if_for(key)
        closed = self._state.starvation.closed_for
        if closed is not None and self._state.starvation.overdue(self._clock.monotonic()):
            self._open_if_for(closed.root)

    def reset(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        self._state.starvation.reset()
        STARVATION_ACTIVE.set(0)

    def _open_if_for(self, key: GroupKey) -> None:
        closed = self._state.starvation.closed_for
        if closed is not None and closed.root == key:
            self._state.open_starvation_gate()
            STARVATION_ACTIVE.set(0)
            _log.info("starvation gate opened", root="/".join(key))
