"""What a refusal leads to: whom to evict for the root, and its nomination for their places.

Decides only; `evictor` carries out. A root is decided again each time it is woken: a plan that the
cluster has made obsolete is not found again, and its nomination is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from kube.clock import Clock
from scheduler.config import Preemption
from scheduler.core.forest import Group, Pod
from scheduler.core.model import GroupKey
from scheduler.core.nominations import Nomination
from scheduler.core.place import Placement, Refusal, SearchBudget
from scheduler.core.preemption.dry_run import Effort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.shapes import Shape
from scheduler.core.state import State
from scheduler.metrics import PREEMPTION_SECONDS, PREEMPTIONS
from scheduler.queue import Queue


class Evicting(Protocol):
    """Carries out preemption plans."""

    def evict(self, plan: Plan, priority: int) -> None:
        """Mark and delete all pods of the victims."""
        ...

    def nominate(self, placement: Placement) -> None:
        """Set nominatedNodeName of the root's pods."""
        ...

    def withdraw(self, root: GroupKey) -> None:
        """Clear nominatedNodeName of the root's pods."""
        ...

    def forget(self, root: GroupKey) -> None:
        """The root is being bound."""
        ...


class Preemptor:
    """Decides whom to evict for roots that were refused."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        evictor: Evicting,
        *,
        clock: Clock,
        config: Preemption,
        budget: Callable[[], SearchBudget] = SearchBudget,
    ) -> None:
        self._state = state
        self._queue = queue
        self._evictor = evictor
        self._clock = clock
        self._config = config
        self._budget = budget
        self._delayed_since: dict[GroupKey, float] = {}

    def placed(self, key: GroupKey) -> None:
        """The root is being bound: its nomination is over."""
        self._delayed_since.pop(key, None)
        if self._state.nominations.drop(key) is not None:
            self._evictor.forget(key)

    def refused(self, key: GroupKey, entity: Group | Pod, refusal: Refusal) -> str:
        """Evict for the root if that helps. Returns what to add to its blocker's summary."""
        if not self._config.enabled:
            return ""
        effort = Effort(overdue=self._clock.now().timestamp() - self._config.patience_seconds)
        with PREEMPTION_SECONDS.time():
            plan = preempt(self._state, entity, refusal, self._budget(), effort)
        if isinstance(plan, Refusal):
            self._drop_nomination(key)
            PREEMPTIONS.labels("none").inc()
            return ""
        if not plan.victims:
            self._nominate(plan, entity)
            PREEMPTIONS.labels("wait").inc()
            return "waits for evicted pods to end"
        left = self._delay_left(key, entity)
        if left > 0:
            PREEMPTIONS.labels("delayed").inc()
            self._queue.retry_at(key, self._clock.monotonic() + left)
            return f"evicts {_victims_text(plan)} unless there is room within {left:.0f} s"
        self._nominate(plan, entity)
        self._delayed_since.pop(key, None)
        self._state.units.mark_evicting(pod for unit in plan.victims for pod in unit.pods.values())
        self._evictor.evict(plan, entity.priority)
        PREEMPTIONS.labels("evict").inc()
        return f"evicts {_victims_text(plan)}"

    def forget_gone(self, keys: Iterable[GroupKey]) -> None:
        """Drop the nominations of entities that cannot be decided any more."""
        for key in keys:
            if key in self._state.nominations and self._queue.entity(key) is None:
                self._drop_nomination(key)
            if key in self._delayed_since and self._queue.entity(key) is None:
                del self._delayed_since[key]

    def reset(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        self._delayed_since.clear()
        self._state.nominations.clear()

    def _drop_nomination(self, key: GroupKey) -> None:
        if self._state.end_nomination(key):
            self._evictor.withdraw(key)

    def _delay_left(self, key: GroupKey, entity: Group | Pod) -> float:
        """Seconds until its preemption delay is over, which begins when it first could evict."""
        delay = _delay(entity)
        if not delay:
            return 0.0
        now = self._clock.monotonic()
        return self._delayed_since.setdefault(key, now) + delay - now

    def _nominate(self, plan: Plan, entity: Group | Pod) -> None:
        places: dict[Shape, Counter[str]] = {}
        name_of = self._state.nodes.name_of
        for pod, row in zip(plan.placement.pods, plan.placement.rows, strict=True):
            places.setdefault(pod.shape, Counter())[name_of(row)] += 1
        nominated = tuple((shape, tuple(counts.items())) for shape, counts in places.items())
        self._state.nominations.set(Nomination(plan.root, entity.priority, nominated))
        self._evictor.nominate(plan.placement)


def _delay(entity: Group | Pod) -> float:
    if isinstance(entity, Pod):
        return entity.info.delay
    return entity.spec.delay if entity.spec is not None else 0.0


def _victims_text(plan: Plan) -> str:
    pods = sum(len(unit.pods) for unit in plan.victims)
    words = "1 pod" if pods == 1 else f"{pods} pods"
    named = ", ".join(unit.name for unit in plan.victims[:3])
    more = f" and {len(plan.victims) - 3} more" if len(plan.victims) > 3 else ""
    return f"{words} of lower priority ({named}{more})"
