"""The outcomes of decisions: a root is bound, or refused with a reason and perhaps victims.

All of it is about one root. Any error that it raises refuses that root with SchedulerError.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import replace

import structlog

from kube.base.clock import Clock
from kube.concurrency.failures import Failures
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.cycle.parts import CycleParts
from scheduler.cycle.phases import POST_FILTER, RESERVE, Phases
from scheduler.queue.equal_refusals import SharedRefusal
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.device_budget import POSTPONED
from scheduler.support.metrics import DECISIONS

Work = Generator[None, None, None]
"""The work on one root, in steps between which no task may change the state."""

Steps = Generator[tuple[str, ...], None, None]
"""The same work, with the key of the root at each step."""

_placed, _refused, _failed = map(DECISIONS.labels, ("scheduled", "unschedulable", "error"))
_log = structlog.get_logger()


class Outcomes:
    """The handling of what was decided on one root after the other.

    `example` is the root that was decided last, if it was refused and victims were chosen for it.
    With `log_decisions` the log has a line for each decision.
    """

    def __init__(
        self,
        state: State,
        queue: Queue,
        parts: CycleParts,
        clock: Clock,
        phases: Phases,
        *,
        log_decisions: bool,
    ) -> None:
        self.failures: Failures[GroupKey] = Failures("decide", "/".join)
        self.example: SharedRefusal | None = None
        self._state = state
        self._queue = queue
        self._parts = parts
        self._clock = clock
        self._phases = phases
        self._log_decisions = log_decisions

    def carry_out(self, key: GroupKey, work: Work) -> Steps:
        """Do the work; an error that it raises is about this root alone."""
        try:
            with self.work_allowed(key):
                for _ in work:
                    yield key
        except POSTPONED:
            self.postpone(key)
        except Exception as error:  # noqa: BLE001 - reported by fail
            self.fail(key, error)
        else:
            if self.failures:
                self.failures.succeeded(key)

    def work_allowed(self, key: GroupKey) -> AbstractContextManager[None]:
        """Limit the work on devices in the block, which may raise one of POSTPONED for the root."""
        alone = not self._queue.others_ready(key[1])
        return self._parts.device_work.allowed(key[1], alone=alone)

    def postpone(self, key: GroupKey) -> None:
        """Decide the root later, from where it stopped: its search for devices takes long."""
        alone = not self._queue.others_ready(key[1])
        self._queue.back_off(key, self._parts.device_work.postponed(key[1], alone=alone))

    def fail(self, key: GroupKey, error: Exception) -> None:
        """Refuse the root with SchedulerError, and decide it again after a back-off."""
        _failed.inc()
        wait = self.failures.failed(key, error)
        self._queue.back_off(key, self._clock.monotonic() + wait)
        # Its nomination would keep capacity free for a root that backs off.
        self._parts.preemption.failed(key)
        summary = (
            f"The decision raised {type(error).__name__}, which is a bug in the scheduler. It"
            " retries after 1 s, doubling to 5 min; see the scheduler's log."
        )
        self._parts.reporting.refused(key, Blocker(summary, "error", key, 0, 0))

    def bind_to_held_places(self, placement: Placement, entity: Group | Pod) -> None:
        """Bind pods of the root that came to the places held for them."""
        self._parts.binding.submit(placement)
        self._parts.reporting.on_root_placed(entity.key)
        self._phases.end(RESERVE)

    def bind(self, entity: Group | Pod, placement: Placement) -> Work:
        """Bind the root, which fits."""
        key = entity.key
        # Now: once its pods are assumed, a gang no longer has a signature.
        equal = self._queue.equal_kind(entity) if self._queue.has_equal else None
        self._parts.starvation.on_root_placed(key, entity)
        try:
            # In steps, as a gang may have thousands of pods.
            yield from self._state.assume_in_steps(
                placement.pods, placement.rows, placement.volumes, placement.devices
            )
            # Not earlier: the binder skips pods that are not assumed.
            self._parts.binding.submit(placement)
        except BaseException:  # the generator may also be closed in the middle
            self._state.reinstate(placement.pods)
            raise
        _placed.inc()
        if self._log_decisions:
            pods, nodes = len(placement.pods), len(set(placement.rows))
            self._log_decision(key, "scheduled", pods=pods, nodes=nodes, steps=placement.steps)
        self._parts.preemption.on_root_placed(key, placement.rows)
        self._parts.defragmentation.on_root_placed(placement)
        self._parts.reporting.on_root_placed(key)
        # Pods beyond minCount that did not fit are refused in a cycle of their own.
        self._queue.review(key)
        self._queue.pass_on(key, equal, placed=True)
        self._phases.end(RESERVE)

    def refuse(self, entity: Group | Pod, refusal: Refusal) -> Work:
        """Refuse the root, which does not fit; victims may be chosen for it."""
        _refused.inc()
        key, equal, preemption = entity.key, self._queue.equal_kind(entity), self._parts.preemption
        decided = self._clock.monotonic(), self._queue.version
        self._queue.refuse(key, refusal, decided[0])
        yield from self._parts.starvation.refused(key, entity, refusal)
        blocker = explain(self._state, refusal)
        more = yield from preemption.refused(key, entity, refusal)
        if not more:
            more = yield from self._parts.defragmentation.refused(key, entity, refusal)
        if preemption.evicts:
            self.example = SharedRefusal(refusal, blocker, decided)
        if more:
            blocker = _with(blocker, more)
            # Its equals may find victims, too, so this refusal is not their result.
            self._queue.pass_on(key, equal, placed=False)
        else:
            blocker = _with(blocker, preemption.note(entity, refusal))
            shared = SharedRefusal(refusal, blocker, decided)
            self._queue.share(key, equal, shared, known=False)
        self._report_refused(entity, blocker)

    def refuse_as_its_equals(self, entity: Group | Pod, shared: SharedRefusal) -> Work:
        """Refuse a root as its equal was refused: nothing happened since that could help."""
        _refused.inc()
        key, equal = entity.key, self._queue.equal_kind(entity)
        self._queue.refuse(key, shared.refusal, self._clock.monotonic(), known=shared)
        self._queue.share(key, equal, shared, known=True)
        yield from self._parts.starvation.refused(key, entity, shared.refusal)
        self._report_refused(entity, shared.blocker)

    def evict_as_its_equals(self, entity: Pod, example: SharedRefusal, plan: Plan) -> Work:
        """Choose victims for a pod as for its equal: nothing happened since that could help."""
        _refused.inc()
        key, equal = entity.key, self._queue.equal_kind(entity)
        shared = example.to_pod(entity)
        self._queue.refuse(key, shared.refusal, self._clock.monotonic())
        yield from self._parts.starvation.refused(key, entity, shared.refusal)
        more = self._parts.preemption.evict(plan, entity)
        self._queue.pass_on(key, equal, placed=False)
        self._report_refused(entity, _with(shared.blocker, more))

    def _report_refused(self, entity: Group | Pod, blocker: Blocker) -> None:
        blocker = _with(blocker, self._parts.held_places.note(entity))
        if self._log_decisions:
            why = {"reason": blocker.kind, "message": blocker.summary}
            self._log_decision(entity.key, "unschedulable", **why)
        self._parts.reporting.refused(entity.key, blocker)
        self._parts.claim_releases.refused(entity)
        self._phases.end(POST_FILTER)

    def _log_decision(self, key: GroupKey, result: str, **facts: object) -> None:
        _log.info("decision", root="/".join(key), result=result, **facts)


def _with(blocker: Blocker, more: str) -> Blocker:
    """Return the blocker with another sentence, if there is one."""
    return replace(blocker, summary=f"{blocker.summary} {more}") if more else blocker
