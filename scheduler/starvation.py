"""Closes the door for a root that starves, and opens it again. Decides nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from kube.clock import Clock
from scheduler.config import Starvation
from scheduler.core.forest import Group, Pod
from scheduler.core.model import GroupKey
from scheduler.core.place import Refusal
from scheduler.core.search.search_budget import Budget
from scheduler.core.starvation import Patience
from scheduler.core.starvation_gate import possible
from scheduler.core.state import State
from scheduler.metrics import DOOR_CLOSED, DOOR_CLOSINGS
from scheduler.queue import Queue

_log = structlog.get_logger()


class Doorkeeper:
    """Told of every decision; where it is not enabled it only listens."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        *,
        clock: Clock,
        config: Starvation,
        budget: Callable[[], Budget] = Budget,
    ) -> None:
        self._state = state
        self._queue = queue
        self._clock = clock
        self._enabled = config.enabled
        self._patience = Patience(config.after_seconds, config.after_passed, config.closed_seconds)
        self._budget = budget

    def placed(self, key: GroupKey, entity: Group | Pod) -> None:
        """The root is being bound."""
        if self._enabled:
            self._state.door.placed(key, entity.priority)
            self._open_for(key)

    def refused(self, key: GroupKey, entity: Group | Pod, refusal: Refusal) -> None:
        """The root does not fit, or has to wait at the door."""
        if not self._enabled:
            return
        door, now, priority = self._state.door, self._clock.monotonic(), entity.priority
        if refusal.shortage.kind == "priority":
            door.stop(key)
            return
        if refusal.shortage.kind != "capacity" or not refusal.shortage.floor:
            door.forget(key)
            self._open_for(key)
            return
        door.refused(key, priority, now)
        if door.closed is None:
            if not door.starves(key, priority, now, self._patience):
                return
            if not possible(self._state, entity, self._budget()):
                return
            door.close(key, priority, now, self._patience)
            DOOR_CLOSED.set(1)
            DOOR_CLOSINGS.inc()
            _log.info("door closed", root="/".join(key))
        elif door.closed.root == key and not possible(self._state, entity, self._budget()):
            self._open_for(key)

    def gone(self, keys: Iterable[GroupKey]) -> None:
        """Forget those of the entities that cannot be decided any more; open what is overdue."""
        if not self._enabled:
            return
        for key in keys:
            if self._queue.entity(key) is None:
                self._state.door.forget(key)
                self._open_for(key)
        closed = self._state.door.closed
        if closed is not None and self._state.door.overdue(self._clock.monotonic()):
            self._open_for(closed.root)

    def abandon(self) -> None:
        """Forget everything: another process may decide now."""
        self._state.door.reset()
        DOOR_CLOSED.set(0)

    def _open_for(self, key: GroupKey) -> None:
        closed = self._state.door.closed
        if closed is not None and closed.root == key:
            self._state.open_door()
            DOOR_CLOSED.set(0)
            _log.info("door opened", root="/".join(key))
