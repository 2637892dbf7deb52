"""The defragmenter: moves gangs so that a root that was refused fits.

A move is decided on the state as it is and begins at once. The nodes of the root and of all moved
gangs are nominated, so that others of no higher priority do not take them in between. One move is
under way at a time, and ends once all of it runs, or is overdue.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import structlog

from kube.base.clock import Clock
from kube.concurrency.stepwise import Stepwise
from scheduler.core.defragmentation.movable import MoveLimits, Progress
from scheduler.core.defragmentation.plan import MovePlan, NoMoves, defragment
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.preemption.evictor import Evictor
from scheduler.preemption.messages import moved_text, moves_text, no_moves_text
from scheduler.preemption.preemptor import Preemptor
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.config import Config
from scheduler.support.metrics import DEFRAGMENTATIONS

_SECONDS: Final = 0.5
"""Seconds of one search. What it did not find by then is sought again later."""

_MOST_SECONDS: Final = 16.0
"""Seconds of a search at most. Each that ended before its first set doubles those of the next."""

_PAUSE: Final = 19.0
"""Pause after a search, as a multiple of its duration: searches take a twentieth of the time."""

_AGAIN: Final = 60.0
"""Seconds until moves are sought again for the same root."""

_OVERDUE: Final = 600.0
"""Seconds for which nodes stay nominated for moved gangs. Then they are free for all."""

_HOUR: Final = 3600.0
"""Seconds for which `gangsPerHour` counts, and a moved gang rests at least."""

_log = structlog.get_logger()

Place = tuple[Shape, str]
"""A pod of this shape on the node of this name."""


class _Sought(NamedTuple):
    """The last search for a root: when the next may begin, what was reported, how far it came.

    The next one may take so many `seconds`.
    """

    until: float = 0.0
    text: str = ""
    tried: Progress = Progress()
    seconds: float = _SECONDS


@dataclass(slots=True)
class _Move:
    """The move under way for a `root`; `left` are the places of gangs that do not run there yet."""

    root: GroupKey
    priority: int
    until: float
    left: dict[GroupKey, list[Place]]
    pods: dict[GroupKey, int]


class Defragmenter:
    """The decisions on moves, and what is left to do of the last one."""

    def __init__(
        self,
        state: State,
        queue: Queue,
        parts: tuple[Preemptor, Evictor],
        *,
        clock: Clock,
        config: Config,
        stepwise: Stepwise,
        budget: Callable[[], SearchBudget],
    ) -> None:
        """Decide on `state`; the preemptor of `parts` nominates nodes, and the evictor evicts."""
        self._state = state
        self._queue = queue
        self._preemptor, self._evictor = parts
        self._clock = clock
        self._config = config.defragmentation
        self._preemption = config.preemption
        self._stepwise = stepwise
        self._budget = budget
        self._move: _Move | None = None
        self._recent: deque[tuple[float, GroupKey]] = deque()
        self._sought: dict[GroupKey, _Sought] = {}
        self._next = 0.0

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, str]:
        """Move gangs for the root if that helps. Return what to add to its blocker's summary.

        Yields where other tasks should run. They must not change the state.
        """
        asked = self._asked(entity)
        if not asked and self._config.mode != "Always":
            return ""
        now = self._clock.monotonic()
        self.expire(now)
        if self._move is not None or not self._may_search(key, now):
            # The same as before, or the status would change with each decision.
            return self._sought.get(key, _Sought()).text
        plan = yield from self._stepwise.steps(lambda: self._sought_plan(entity, refusal))
        # Removed first, as the order of the entries is that of their times.
        last = self._sought.pop(key, _Sought())
        if isinstance(plan, MovePlan):
            self._sought[key] = _Sought(now + _AGAIN)
            DEFRAGMENTATIONS.labels("moved").inc()
            return self._carry_out(plan, entity)
        text = no_moves_text(plan) if asked else ""
        stuck = plan.why == "limit" and plan.tried == last.tried
        seconds = min(2 * last.seconds, _MOST_SECONDS) if stuck else _SECONDS
        self._sought[key] = _Sought(now + _AGAIN, text, plan.tried, seconds)
        DEFRAGMENTATIONS.labels(plan.why).inc()
        return text

    def on_root_placed(self, placement: Placement) -> None:
        """Keep the rest of the places of a moved gang whose pods are being bound."""
        left = self._move.left.get(placement.root) if self._move is not None else None
        if self._move is None or left is None:
            return
        for pod, row in zip(placement.pods, placement.rows, strict=True):
            name, request = self._state.nodes.name_of(row), pod.shape.request
            used = (it for it in left if it[1] == name and it[0].request == request)
            if (place := next(used, None)) is not None:
                left.remove(place)
        # The nomination ended with the placement, but more of the gang is to come.
        if left:
            self._nominate(placement.root, self._move)

    def expire(self, now: float) -> None:
        """End the move if all of it runs or is gone, or if it is overdue."""
        move = self._move
        if move is None:
            return
        for key in [key for key in move.left if now >= move.until or self._ended(key, move)]:
            del move.left[key]
            # It may have another one by now, as a root that preempts.
            if self._state.nominations.kept_for(key):
                self._state.end_nomination(key)
        waits = self._queue.entity(move.root) is not None and now < move.until
        if not move.left and not waits:
            self._move = None

    def next_time(self) -> float | None:
        """Return the monotonic time at which the move is overdue, if one is under way."""
        return None if self._move is None else self._move.until

    def reset(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        self._move, self._next = None, 0.0
        self._recent.clear()
        self._sought.clear()

    def _asked(self, entity: Group | Pod) -> bool:
        if self._config.mode == "Never" or isinstance(entity, Pod) or entity.spec is None:
            return False
        return entity.spec.defragment_until > self._clock.now().timestamp()

    def _may_search(self, key: GroupKey, now: float) -> bool:
        """Return True if a search for the root may begin; otherwise it waits for its next turn."""
        # The oldest are first. They are kept for the next search, which continues them.
        while self._sought and next(iter(self._sought.values())).until + _OVERDUE <= now:
            del self._sought[next(iter(self._sought))]
        return now >= max(self._next, self._sought.get(key, _Sought()).until)

    def _sought_plan(self, entity: Group | Pod, refusal: Refusal) -> MovePlan | NoMoves:
        begun, monotonic = self._stepwise.monotonic(), self._stepwise.monotonic
        sought = self._sought.get(entity.key, _Sought())

        def budget() -> SearchBudget:
            end = monotonic() + sought.seconds
            return replace(self._budget(), expired=lambda: monotonic() >= end)

        now = self._clock.monotonic()
        effort = SearchEffort.at(now, self._preemption.patience_seconds)
        limits = self._limits(now, sought.tried)
        plan = defragment(self._state, entity, refusal, budget, limits, effort=effort)
        self._next = now + _PAUSE * (monotonic() - begun)
        return plan

    def _limits(self, now: float, tried: Progress) -> MoveLimits:
        window = max(_HOUR, self._preemption.repeat_window_seconds)
        while self._recent and self._recent[0][0] <= now - window:
            self._recent.popleft()
        moved = Counter(key[1] for at, key in self._recent if at > now - _HOUR)
        # The condition Preempted states the same, once it is written.
        rests = {key for _, key in self._recent}
        most = self._config.gangs_per_hour
        left = lambda namespace: most - moved[namespace]  # noqa: E731
        return MoveLimits(self._config.gangs_per_move, left, rests, tried)

    def _carry_out(self, plan: MovePlan, entity: Group | Pod) -> str:
        now = self._clock.monotonic()
        self._move = move = _Move(
            plan.root,
            entity.priority,
            now + _OVERDUE,
            {mover.key: self._places(pairs) for mover, pairs in plan.moves.items()},
            {mover.key: len(mover.pods) for mover in plan.moves},
        )
        self._preemptor.nominate_for(_as_victims(self._state, plan), entity)
        self._evictor.move(
            {mover.root: mover.pods for mover in plan.moves},
            lambda namespace: moved_text(plan.root, entity.priority, namespace),
        )
        for mover in plan.moves:
            self._nominate(mover.key, move)
            self._recent.append((now, mover.key))
        _log.info("gangs moved", root="/".join(plan.root), gangs=len(plan.moves), pods=plan.pods)
        return moves_text(plan)

    def _places(self, pairs: list[tuple[Pod, int]]) -> list[Place]:
        return [(pod.shape, self._state.nodes.name_of(row)) for pod, row in pairs]

    def _nominate(self, key: GroupKey, move: _Move) -> None:
        """Nominate the places that are left of a moved gang, which the root must respect, too."""
        by_shape: dict[Shape, Counter[str]] = {}
        for shape, node in move.left[key]:
            by_shape.setdefault(shape, Counter())[node] += 1
        places = tuple((shape, tuple(nodes.items())) for shape, nodes in by_shape.items())
        self._state.nominations.set(Nomination(key, move.priority, places, kept=True))

    def _ended(self, key: GroupKey, move: _Move) -> bool:
        """Return True if the moved gang runs again, never left, or is gone."""
        group = self._state.forest.groups.get(key)
        if group is None or group.spec is None or not move.left[key]:
            return True
        if group.pending_total or group.running_total < move.pods[key]:
            return False
        pods = (pod for leaf in group.leaves() for pod in leaf.members.values())
        return not any(self._state.units.leaves(pod) for pod in pods)


def _as_victims(state: State, plan: MovePlan) -> Plan:
    """Return the move as a plan of preemption, whose victims the root waits for."""
    indices = sorted({index for mover in plan.moves for index in mover.units.tolist()})
    units = tuple(map(state.units.unit, indices))
    return Plan(plan.root, plan.placement, units, None, plan.solves)
