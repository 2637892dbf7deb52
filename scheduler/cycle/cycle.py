"""The scheduling cycle: pops one root, places it, and has it bound or refused.

Nothing is awaited here. A long decision gives way in the middle; whoever runs the cycle must not
let the state change until it has ended. What a decision raises is about its root, which is refused
with SchedulerError; all others are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final, Protocol

import structlog

from kube.base.clock import Clock
from kube.concurrency.failures import Failures
from kube.concurrency.stepwise import Stepwise
from scheduler.claims.claim_releases import ClaimReleases
from scheduler.core.decide import decide
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.batching import (
    Signature,
    batchable,
    batchable_by_affinity,
    batchable_by_spread,
    place_batch,
    signature,
)
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.state.state_changes import Changes
from scheduler.core.values.model import GroupKey
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.held_places.held_places import HeldPlaces
from scheduler.preemption.preemptor import Preemptor
from scheduler.queue.equal_refusals import Answer
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.device_budget import POSTPONED, DeviceWork
from scheduler.support.metrics import (
    DECISION_SECONDS,
    DECISIONS,
    PENDING_ROOTS,
    QUEUES,
    SEARCH_STEPS,
)
from scheduler.support.wait_times import GangTimes

_BATCH_PODS: Final = 96
"""Pods of roots that are decided as one batch: few enough not to delay other tasks."""

_EQUALS: Final = 32
"""Roots for which others are evicted as for one before: about five milliseconds."""

_sizes = {name: PENDING_ROOTS.labels(name) for name in QUEUES}
_placed, _refused, _failed = map(DECISIONS.labels, ("scheduled", "unschedulable", "error"))
_log = structlog.get_logger()

_Steps = Generator[tuple[str, ...], None, None]


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
        stepwise: Stepwise | None = None,
        budget: Callable[[], SearchBudget] = SearchBudget,
        preemptor: Preemptor | None = None,
        starvation: StarvationMonitor | None = None,
        times: GangTimes | None = None,
        device_work: DeviceWork | None = None,
        claim_releases: ClaimReleases | None = None,
        held_places: HeldPlaces | None = None,
        log_decisions: bool = False,
    ) -> None:
        """Without `preemptor` nothing is evicted, without `starvation` no root goes first.

        Without `device_work` there is no limit to the work on devices; `claim_releases` gives back
        what refused roots have; without `held_places` no place is held for expected pods.

        `stepwise` is what the budgets' `pause` belongs to. With `log_decisions` the log has a line
        for each decision.
        """
        self._state = state
        self._queue = queue
        self._binding = binding
        self._reporting = reporting
        self._clock = clock
        self._stepwise = stepwise or Stepwise(clock)
        self._budget = budget
        self._preemptor = preemptor
        self._starvation = starvation
        self._times = times or GangTimes(state, clock)
        self._device_work = device_work
        self._claim_releases = claim_releases
        self._held_places = held_places
        self._log_decisions = log_decisions
        self._failures: Failures[GroupKey] = Failures("decide", "/".join)
        # The root that was decided last, if it was refused and others are evicted for it.
        self._example: Answer | None = None

    def refresh(self) -> Iterator[None]:
        """Tell the queue and the reporter what changed since the last time, in short steps.

        Other tasks may run between two steps; a root is decided only after the last one.
        """
        yield from self._take_in()
        if self._state.changed:
            # Nominations ended with their roots: their places are room for others.
            yield from self._take_in()
        for name, size in self._queue.sizes().items():
            _sizes[name].set(size)

    def _take_in(self) -> Iterator[None]:
        changes = self._state.take_changes()
        try:
            yield from self._apply(changes)
        except Exception:  # noqa: BLE001 - raised again for the one that it is about
            yield from self._apply_one_by_one(changes)
        if self._preemptor is not None:
            self._preemptor.victims_gone(changes.victims)
            self._preemptor.nodes_changed(changes.rows)
            yield from self._preemptor.prepare()

    def _apply(self, changes: Changes) -> Iterator[None]:
        yield from self._queue.refresh_in_steps(changes, self._clock.monotonic())
        for key in sorted(changes.entities):
            self._tell(key)
            yield
        if self._starvation is not None:
            self._starvation.forget_gone(())

    def _tell(self, key: GroupKey) -> None:
        """Tell all but the queue that an entity or group changed."""
        self._reporting.touched((key,))
        self._times.changed(key)
        if self._preemptor is not None:
            self._preemptor.forget_gone((key,))
        if self._starvation is not None:
            self._starvation.forget_gone((key,))
        if key in self._failures and self._queue.entity(key) is None:
            # Its name may be used again, for another root.
            self._failures.succeeded(key)
            self._queue.back_off(key, self._clock.monotonic())

    def _apply_one_by_one(self, changes: Changes) -> Iterator[None]:
        """One of them is at fault: only that one backs off."""
        for key in sorted(changes.entities):
            try:
                yield from self._apply(
                    Changes({key}, {key} & changes.reconsider, more=changes.more)
                )
            except Exception as error:  # noqa: BLE001 - told by _fail
                self._fail(key, error)
        if changes.rows or changes.match_ids:
            # Which roots gain from the new room is not known: all are decided again.
            self._queue.review_all()

    def step(self) -> Generator[tuple[str, ...], None, GroupKey | None]:
        """Decide one root, or a batch of equal ones; its (first) key, None if none is ready.

        Yields the key where other tasks should run, which must not change the state.
        """
        for _ in self._state.catch_up():
            yield ()
        key = self._queue.pop()
        entity = self._queue.entity(key) if key is not None else None
        if key is None or entity is None:  # none is ready, or it was deleted between two cycles
            return key
        try:
            if self._take_over(entity) and self._queue.entity(key) is None:
                return key
            kind = signature(entity)
            known = self._queue.answer(entity) is not None
            nominated = key in self._state.nominations
            alone = known or nominated or kind is None or not self._batchable(kind)
        except POSTPONED:
            self._postpone(key)
            return key
        except Exception as error:  # noqa: BLE001 - told by _fail
            self._fail(key, error)
            return key
        if alone or kind is None:
            yield from self._decide_or_fail(key, entity)
            example = self._example
            if kind is not None and example is not None:
                equals = self._queue.pop_batch(kind, _EQUALS, any_volumes=True)
                yield from self._evict_for_equals(example, equals)
        else:
            most = _BATCH_PODS // kind.size - 1
            yield from self._decide_batch([entity, *self._queue.pop_batch(kind, most)])
        return key

    def _take_over(self, entity: Group | Pod) -> bool:
        """Bind the pods of the root that came to the places held for them; whether there are any.

        Their places cannot be anybody else's meanwhile, so nothing has to be decided.
        """
        if self._held_places is None:
            return False
        placement = self._held_places.taken_over(entity, self._budget)
        if placement is None:
            return False
        self._binding.submit(placement)
        self._reporting.placed(entity.key)
        return True

    def _batchable(self, kind: Signature) -> bool:
        state, budget = self._state, self._budget()
        return (
            batchable(state, kind.shape)
            or batchable_by_affinity(state, kind, budget)
            or batchable_by_spread(state, kind, budget)
        )

    def details(self) -> Iterator[str]:
        """Lines for `/readyz`: the roots whose decision raises an error."""
        return self._failures.details()

    def reset(self) -> None:
        """Forget all failures: another process may have led meanwhile."""
        self._failures.clear()
        self._example = None
        self._times.reset()

    def _decide_batch(self, roots: list[Group | Pod]) -> _Steps:
        """Equal roots that follow each other; those that do not fit are decided one by one."""
        while len(roots) > 1:
            placements = self._place_batch(roots)
            for placement, root in zip(placements, roots, strict=False):
                yield from self._carry_out(root.key, self._bind(root.key, root, placement))
            roots = roots[len(placements) :]
            if not placements:
                break
        while roots:
            root, *roots = roots
            yield from self._decide_or_fail(root.key, root)
            if self._example is not None:
                yield from self._evict_for_equals(self._example, roots)
                return

    def _evict_for_equals(self, example: Answer, roots: list[Group | Pod]) -> _Steps:
        """Evict for roots as well that are equal to one that evicts; the others are ready again."""
        plans = yield from self._plans_of_equals(example.refusal.root, roots)
        for plan in plans:
            root, *roots = roots
            if isinstance(root, Pod):
                yield from self._carry_out(root.key, self._refuse_equal(root, example, plan))
            if root.key not in self._state.nominations:
                break  # carrying it out failed, and the next plans count on it
        for root in roots:
            self._queue.review(root.key)

    def _plans_of_equals(
        self, key: GroupKey, roots: list[Group | Pod]
    ) -> Generator[tuple[str, ...], None, list[Plan]]:
        if self._preemptor is None:
            return []
        steps = self._preemptor.plans_of_equals(roots[:_EQUALS])
        try:
            while True:
                next(steps)
                yield key
        except StopIteration as end:
            plans: list[Plan] = end.value
            return plans
        except Exception:  # noqa: BLE001 - logged
            _log.exception("equal roots are planned one by one", roots=len(roots))
            return []

    def _refuse_equal(
        self, entity: Pod, example: Answer, plan: Plan
    ) -> Generator[None, None, None]:
        """Nothing has happened since an equal root was refused that could help; it evicts, too."""
        if self._preemptor is None:
            return
        _refused.inc()
        key, equal = entity.key, self._queue.equal_kind(entity)
        answer = example.to_pod(entity)
        self._queue.refuse(key, answer.refusal, self._clock.monotonic())
        if self._starvation is not None:
            yield from self._starvation.refused(key, entity, answer.refusal)
        more = self._preemptor.evict(plan, entity)
        self._queue.pass_on(key, equal, placed=False)
        summary = f"{answer.blocker.summary}; {more}"
        self._tell_refused(key, entity, replace(answer.blocker, summary=summary))
        if self._claim_releases is not None:
            self._claim_releases.refused(entity)

    def _place_batch(self, roots: list[Group | Pod]) -> list[Placement]:
        try:
            with DECISION_SECONDS.time(), self._work_allowed(roots[0].key):
                return place_batch(self._state, roots, self._budget())
        except POSTPONED:
            return []
        except Exception:  # noqa: BLE001 - logged
            _log.exception("a batch is decided one by one", roots=len(roots))
            return []

    def _decide_or_fail(self, key: GroupKey, entity: Group | Pod) -> _Steps:
        yield from self._carry_out(key, self._decide(key, entity))

    def _carry_out(self, key: GroupKey, steps: Generator[None, None, None]) -> _Steps:
        """Whatever the steps raise is about this root alone."""
        try:
            with self._work_allowed(key):
                for _ in steps:
                    yield key
        except POSTPONED:
            self._postpone(key)
        except Exception as error:  # noqa: BLE001 - told by _fail
            self._fail(key, error)
        else:
            if self._failures:
                self._failures.succeeded(key)

    def _work_allowed(self, key: GroupKey) -> AbstractContextManager[None]:
        if self._device_work is None:
            return nullcontext()
        return self._device_work.allowed(key[1], alone=not self._queue.others_ready(key[1]))

    def _postpone(self, key: GroupKey) -> None:
        """Finding devices for the root takes long: it goes on later where it stopped."""
        if self._device_work is not None:
            alone = not self._queue.others_ready(key[1])
            self._queue.back_off(key, self._device_work.postponed(key[1], alone=alone))

    def _fail(self, key: GroupKey, error: Exception) -> None:
        """Refuse the root with SchedulerError, and decide it again after a back-off."""
        _failed.inc()
        wait = self._failures.failed(key, error)
        self._queue.back_off(key, self._clock.monotonic() + wait)
        if self._preemptor is not None:
            self._preemptor.failed(key)
        summary = (
            f"deciding it raised {type(error).__name__} in the scheduler, which is a bug: tried"
            " again after 1 s, doubling to 5 min; the scheduler's log has the details"
        )
        self._reporting.refused(key, Blocker(summary, "error", key, 0, 0))

    def _decide(self, key: GroupKey, entity: Group | Pod) -> Generator[None, None, None]:
        self._example = None
        answer = self._queue.answer(entity)
        if answer is not None:
            yield from self._refuse_as_its_equals(key, entity, answer.to(key))
            return
        decision = yield from self._stepwise.steps(lambda: self._decided(entity))
        SEARCH_STEPS.observe(decision.steps)
        if isinstance(decision, Placement):
            yield from self._bind(key, entity, decision)
        else:
            yield from self._refuse(key, entity, decision)

    def _decided(self, entity: Group | Pod) -> Placement | Refusal:
        begun = self._stepwise.monotonic()
        decision = decide(self._state, entity, self._budget())
        DECISION_SECONDS.observe(self._stepwise.monotonic() - begun)
        return decision

    def _bind(
        self, key: GroupKey, entity: Group | Pod, placement: Placement
    ) -> Generator[None, None, None]:
        equal = self._queue.equal_kind(entity) if self._queue.has_equal else None
        if self._starvation is not None:
            self._starvation.placed(key, entity)
        try:
            yield from self._state.assume_in_steps(
                placement.pods, placement.rows, placement.volumes, placement.devices
            )
            self._binding.submit(placement)
        except BaseException:  # ended in the middle, too
            self._state.reinstate(placement.pods)
            raise
        _placed.inc()
        if self._log_decisions:
            pods, nodes = len(placement.pods), len(set(placement.rows))
            self._log_decision(key, "scheduled", pods=pods, nodes=nodes, steps=placement.steps)
        if self._preemptor is not None:
            self._preemptor.placed(key, placement.rows)
        self._reporting.placed(key)
        # Pods beyond minCount that did not fit are refused in a cycle of their own.
        self._queue.review(key)
        self._queue.pass_on(key, equal, placed=True)

    def _refuse(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, None]:
        _refused.inc()
        equal = self._queue.equal_kind(entity)
        self._queue.refuse(key, refusal, self._clock.monotonic())
        if self._starvation is not None:
            yield from self._starvation.refused(key, entity, refusal)
        blocker = explain(self._state, refusal)
        more = ""
        if self._preemptor is not None:
            more = yield from self._preemptor.refused(key, entity, refusal)
            if self._preemptor.evicts:
                self._example = Answer(refusal, blocker)
        if more:
            blocker = replace(blocker, summary=f"{blocker.summary}; {more}")
            self._queue.pass_on(key, equal, placed=False)
        else:
            note = self._preemptor.note(entity, refusal) if self._preemptor is not None else ""
            if note:
                blocker = replace(blocker, summary=f"{blocker.summary}; {note}")
            self._queue.share(key, equal, Answer(refusal, blocker), known=False)
        self._tell_refused(key, entity, blocker)
        if self._claim_releases is not None:
            self._claim_releases.refused(entity)

    def _refuse_as_its_equals(
        self, key: GroupKey, entity: Group | Pod, answer: Answer
    ) -> Generator[None, None, None]:
        """Nothing has happened since an equal root was refused that could help either."""
        _refused.inc()
        equal = self._queue.equal_kind(entity)
        self._queue.refuse(key, answer.refusal, self._clock.monotonic())
        self._queue.share(key, equal, answer, known=True)
        if self._starvation is not None:
            yield from self._starvation.refused(key, entity, answer.refusal)
        self._tell_refused(key, entity, answer.blocker)
        if self._claim_releases is not None:
            self._claim_releases.refused(entity)

    def _tell_refused(self, key: GroupKey, entity: Group | Pod, blocker: Blocker) -> None:
        note = self._held_places.note(entity) if self._held_places is not None else ""
        if note:
            blocker = replace(blocker, summary=f"{blocker.summary}; {note}")
        if self._log_decisions:
            self._log_decision(key, "unschedulable", why=blocker.kind, problem=blocker.summary)
        self._reporting.refused(key, blocker)

    def _log_decision(self, key: GroupKey, result: str, **facts: object) -> None:
        _log.info("decision", root="/".join(key), result=result, **facts)
