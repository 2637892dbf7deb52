"""The preemptor: after a refusal, decides whom to evict for the root and nominates nodes for it.

It decides only; `evictor` carries out. A root is decided again each time it is woken: a plan that
the cluster has made obsolete is not found again, and its nomination is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from api import features
from api.features import Feature, FeatureGates
from kube.base.clock import Clock, since
from kube.concurrency.stepwise import Stepwise
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.equal_plans import preempt_equals
from scheduler.core.preemption.plan import Plan, may_preempt, preempt
from scheduler.core.search.place import Refusal, SearchBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.preemption.eviction_backoff import EvictionBackoff
from scheduler.preemption.evictor import granted
from scheduler.preemption.messages import victims_text
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.config import Preemption
from scheduler.support.metrics import PREEMPTION_PLANS, PREEMPTION_SECONDS, PREEMPTIONS

_WAITING: Final = "Waiting for the evicted pods to terminate."

PROTECTED: Final = "Pods of lower priority cannot be preempted before their min-run-time is over."


class Evicting(Protocol):
    """The interface of what carries out preemption plans, as Evictor does."""

    def evict(self, plan: Plan, priority: int) -> None: ...

    def readmit(self) -> None: ...

    def nominate(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None: ...

    def adopt(self, root: GroupKey, nodes: Mapping[Pod, str]) -> None: ...

    def withdraw(self, root: GroupKey) -> None: ...


class Preemptor:
    """The decisions on victims for roots that were refused."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        evictor: Evicting,
        *,
        clock: Clock,
        config: Preemption,
        stepwise: Stepwise | None = None,
        budget: Callable[[], SearchBudget] = SearchBudget,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Decide on `state`; `stepwise` runs the budgets' `pause`, `gates` has what is on."""
        self._gates = gates
        self._gate = Feature.PREEMPTION in gates
        self._enabled = config.enabled and self._gate
        self._state = state
        self._queue = queue
        self._evictor = evictor
        self._clock = clock
        self._config = config
        self._stepwise = stepwise or Stepwise(clock)
        self._budget = budget
        self._backoff = EvictionBackoff()
        self._generation = -1
        # The last refusal, if its plan is being carried out.
        self._example: tuple[Refusal, Plan] | None = None
        # When capacity was requested, and when the delay began.
        self._delayed_since: dict[GroupKey, tuple[float | None, float]] = {}

    def prepare(self) -> Iterator[None]:
        """Update what decisions about preemption read, in short steps."""
        if self._enabled:
            self._protect()
            yield from self._state.units.refresh_in_steps()

    def note(self, entity: Group | Pod, refusal: Refusal) -> str:
        """Return why no pods are evicted for a root that may preempt; empty if none would help."""
        if not self._config.enabled or not refusal.shortage.resolvable:
            return ""
        if not may_preempt(self._state, entity):
            return ""
        if self._gate:
            # The same text for all equals: neither a number nor a time that changes.
            spared = len(self._state.units.protected(entity.priority))
            return PROTECTED if spared else ""
        return f"No pods are preempted because {self._gates.off_text(Feature.PREEMPTION)}."

    def on_root_placed(self, key: GroupKey, rows: Sequence[int]) -> None:
        """End the nomination of a root that is being bound, with its pods on these rows."""
        self._delayed_since.pop(key, None)
        self._backoff.forget(key)
        if self._state.end_nomination(key, rows):
            self._evictor.withdraw(key)

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, str]:
        """Evict for the root if that helps. Return what to add to its blocker's summary.

        Yields where other tasks should run. They must not change the state.
        """
        self._example = None
        if not self._enabled:
            return ""
        # This plan may choose victims again that were spared long ago.
        self._evictor.readmit()
        effort = SearchEffort.at(self._clock.monotonic(), self._config.patience_seconds)
        # Here, because work in steps may restart and so must not change anything.
        self._refresh_units()
        plan = yield from self._stepwise.steps(lambda: self._planned(entity, refusal, effort))
        if isinstance(plan, Refusal):
            self._drop_nomination(key)
            PREEMPTIONS.labels("none").inc()
            return ""
        if plan.victims and self._backoff.waits(key, refusal.shapes, self._state, effort):
            # Others took a part of its slots meanwhile. It waits, or it would evict without end.
            PREEMPTIONS.labels("wait").inc()
            return _WAITING
        # The plan counts terminating pods as gone: their slots are nominated for the root.
        if not plan.victims:
            self._nominate(plan, entity)
            PREEMPTIONS.labels("wait").inc()
            return _WAITING
        victims = victims_text(plan.victims, key[1])
        # Only now: a root that need not evict neither pauses nor waits for its delay.
        waits = self._pause(key, refusal) or self._wait(key, entity, victims)
        if not waits:
            self._example = (refusal, plan)
        return waits or self.evict(plan, entity)

    @property
    def evicts(self) -> bool:
        """True if others are evicted for the root that was refused last."""
        return self._example is not None

    def plans_of_equals(self, roots: Sequence[Group | Pod]) -> Generator[None, None, list[Plan]]:
        """Return plans for the first of these roots, if the one that was refused last evicts.

        They are equal to that one, may evict, too, and none has evicted or was asked to wait.
        """
        example, pods = self._example, list[Pod]()
        for root in roots:
            # The plans are for the first roots in a row: each relies on those before it.
            if not isinstance(root, Pod) or _delay(root) or root.key in self._backoff:
                break
            if not may_preempt(self._state, root):
                break  # two PriorityClasses may have one value and different policies
            pods.append(root)
        if example is None or not pods:
            return []
        effort = SearchEffort.at(self._clock.monotonic(), self._config.patience_seconds)
        self._refresh_units()
        return (yield from self._stepwise.steps(lambda: self._equal_plans(pods, example, effort)))

    def _refresh_units(self) -> None:
        self._protect()
        self._state.units.refresh()

    def _protect(self) -> None:
        self._state.units.protection = self._config.protection(self._clock)

    def _equal_plans(
        self, pods: Sequence[Pod], example: tuple[Refusal, Plan], effort: SearchEffort
    ) -> list[Plan]:
        begun = self._stepwise.monotonic()
        plans = preempt_equals(self._state, pods, example, self._budget(), effort)
        each = (self._stepwise.monotonic() - begun) / max(1, len(plans))
        for _ in plans:
            PREEMPTION_SECONDS.observe(each)
        return plans

    def _planned(
        self, entity: Group | Pod, refusal: Refusal, effort: SearchEffort
    ) -> Plan | Refusal:
        begun = self._stepwise.monotonic()
        plan = preempt(self._state, entity, refusal, self._budget(), effort)
        PREEMPTION_SECONDS.observe(self._stepwise.monotonic() - begun)
        return plan

    def _pause(self, key: GroupKey, refusal: Refusal) -> str:
        """Postpone the eviction if others took the slots that it freed; empty if it may evict."""
        now = self._clock.monotonic()
        paused = self._backoff.pause(key, refusal.shapes, self._state, now)
        if paused is None:
            return ""
        # During the pause others may use the nodes: nothing is kept free for the root.
        until, seconds = paused
        self._drop_nomination(key)
        PREEMPTIONS.labels("paused").inc()
        self._queue.retry_at(key, until)
        return (
            "Other pods took the capacity that preemption made for it; it preempts again after"
            f" {seconds:.0f} s. Keep other pods off these nodes, or give it nodes of its own."
        )

    def _wait(self, key: GroupKey, entity: Group | Pod, victims: str) -> str:
        """Postpone the eviction until the root's preemption delay is over; empty if it is."""
        left = self._remaining_delay(key, entity)
        if left <= 0:
            return ""
        PREEMPTIONS.labels("delayed").inc()
        self._queue.retry_at(key, self._clock.monotonic() + left)
        # The complete delay: the remaining time would change the status with each decision.
        return f"It preempts {victims} unless it fits within {_delay(entity):.0f} s."

    def nominate_for(self, plan: Plan, entity: Group | Pod) -> None:
        """Nominate the nodes of a plan, and decide the root again once its victims are gone."""
        self._nominate(plan, entity)
        self._delayed_since.pop(plan.root, None)
        self._backoff.evicted(plan, self._state, self._clock.monotonic())

    def evict(self, plan: Plan, entity: Group | Pod) -> str:
        """Carry out the plan. Return what to add to the blocker's summary."""
        self.nominate_for(plan, entity)
        now = self._clock.monotonic()
        # The evictor first: a pod that is not being evicted must not count as leaving.
        self._evictor.evict(plan, entity.priority)
        for pod in plan.pods:
            if pod.info.expected:
                self._state.forget(pod.info.uid)  # only its place is taken
            else:
                self._state.units.mark_evicting([pod], now + granted(pod.info))
        PREEMPTIONS.labels("evict").inc()
        PREEMPTION_PLANS.labels(str(plan.proved).lower()).inc()
        more = "" if plan.minimal else " The search for fewer victims ended at its limit."
        return f"It preempts {victims_text(plan.victims, plan.root[1])}.{more}"

    def failed(self, key: GroupKey) -> None:
        """Forget the nomination of a root whose decision raised an error."""
        self._delayed_since.pop(key, None)
        self._drop_nomination(key)

    def on_victims_deleted(self, uids: Iterable[str]) -> None:
        """Decide the roots again whose last victims are gone, even if others took the slots."""
        for key in self._backoff.on_pods_deleted(uids):
            self._queue.review(key)

    def nodes_changed(self, rows: Iterable[int]) -> None:
        """Decide the roots again that wait for pods to end there: the nodes may be unusable now."""
        if not len(self._backoff):
            return
        nodes = self._state.nodes
        for info in [nodes.infos[row] for row in rows if row < nodes.size]:
            for key in self._backoff.node_changed(info) if info is not None else ():
                self._queue.review(key)
        # The set of nodes changes rarely, so deleted nodes are sought only then.
        if nodes.generation != self._generation:
            self._generation = nodes.generation
            for key in self._backoff.without_nodes(nodes.row_of.keys()):
                self._queue.review(key)

    def forget_deleted(self, keys: Iterable[GroupKey]) -> None:
        """Drop the nominations of entities that can no longer be decided."""
        for key in keys:
            if self._state.nominations.own(key) and self._queue.entity(key) is None:
                self._drop_nomination(key)
            if key in self._delayed_since and self._queue.entity(key) is None:
                del self._delayed_since[key]

    def reset(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        self._example = None
        self._delayed_since.clear()
        self._backoff.clear()
        self._state.nominations.clear()

    def restore(self) -> None:
        """Adopt the nominations of earlier leaders, so that each is kept or cleared.

        The first decision on a root keeps its nomination or drops it.
        """
        nominated: dict[GroupKey, dict[Pod, str]] = {}
        for pod in self._state.pods.values():
            if pod.waiting and pod.info.nominated:
                nominated.setdefault(self._state.entity(pod), {})[pod] = pod.info.nominated
        for key, nodes in sorted(nominated.items()):
            self._evictor.adopt(key, nodes)
            entity = self._queue.entity(key)
            known = set(nodes.values()) <= self._state.nodes.row_of.keys()
            if entity is None or not known or not self._enabled:
                self._evictor.withdraw(key)
            else:
                # Victims of the earlier leader may still be terminating there, so the capacity
                # stays reserved.
                self._state.nominations.set(_nomination(key, entity, nodes))

    def _drop_nomination(self, key: GroupKey) -> None:
        if self._state.nominations.own(key) and self._state.end_nomination(key):
            self._evictor.withdraw(key)

    def _remaining_delay(self, key: GroupKey, entity: Group | Pod) -> float:
        """Return the seconds until the root's preemption delay is over.

        The delay begins when capacity was requested, or else when the root could evict for the
        first time. It ends at once when the request failed: no capacity comes then.
        """
        delay = _delay(entity)
        if not delay:
            return 0.0
        requested = _requested(entity)
        known = self._delayed_since.get(key)
        # A new request for capacity starts the delay again.
        if known is None or known[0] != requested:
            known = self._delayed_since[key] = (requested, since(self._clock, requested))
        return known[1] + delay - self._clock.monotonic()

    def _nominate(self, plan: Plan, entity: Group | Pod) -> None:
        rows = map(self._state.nodes.name_of, plan.placement.rows)
        nodes = dict(zip(plan.placement.pods, rows, strict=True))
        self._state.nominations.set(_nomination(plan.root, entity, nodes))
        self._evictor.nominate(plan.root, nodes)


def _nomination(root: GroupKey, entity: Group | Pod, nodes: Mapping[Pod, str]) -> Nomination:
    places: dict[Shape, Counter[str]] = {}
    for pod, node in nodes.items():
        places.setdefault(pod.shape, Counter())[node] += 1
    nominated = tuple((shape, tuple(counts.items())) for shape, counts in places.items())
    return Nomination(root, entity.priority, nominated)


def _requested(entity: Group | Pod) -> float | None:
    return None if isinstance(entity, Pod) or entity.spec is None else entity.spec.requested


def _delay(entity: Group | Pod) -> float:
    if isinstance(entity, Pod):
        return entity.info.preemption.delay
    return entity.spec.delay if entity.spec is not None else 0.0
