"""The plan of a move: gangs that leave their nodes, so that a root fits, and fit again elsewhere.

Sets of movable gangs are tried, those with the fewest gangs first, then the fewest pods. A set is
a plan if the root fits without it, and then all pods of the moved gangs fit, too. Both are asked of
the one solver. So a plan never takes capacity from what runs, and no PodDisruptionBudget is
violated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice
from typing import Final, Literal

import numpy as np

from scheduler.core.defragmentation.movable import MoveLimits, Mover, Progress, movers
from scheduler.core.defragmentation.returns import Nodes, Returns, returns_of
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.nodes.node_table import Ints
from scheduler.core.preemption.candidates import NONE, EvictionScopes
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.preemption.necessary import Necessary
from scheduler.core.preemption.plan import may_preempt
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.hypothetical import NeedsCopyError
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey

MOST_MOVERS: Final = 24
"""Movable gangs that sets are drawn from: those where capacity is cheapest, then the smallest."""

MOST_MOVED: Final = 2048
"""Pods of these gangs in all: each is decided again, with a set that contains it."""

MOST_SETS: Final = 4096
"""Sets of each number of movable gangs in one search. Arithmetic excludes most of them."""

_FEW: Final = 256
"""Units up to which arithmetic is used: its tables have a value for each unit on each node."""

_SETS_AT_ONCE: Final = 256
"""Sets that arithmetic checks together."""

Why = Literal["unsuited", "leaving", "nothing", "short", "returns", "limit", "terms"]
"""Why there is no plan: the root is `unsuited` for moves; pods that are `leaving` already suffice;

`nothing` may be moved; even without all movable gangs the root is `short` of capacity; no set lets
the root start and `returns`; the search ended at its `limit`; or the `terms` of movable pods select
others in a way that only a copy of the cluster could decide.
"""


@dataclass(frozen=True, slots=True)
class NoMoves:
    """There is no plan; `movable` gangs were considered.

    If the search ended at its limit, the next one continues after `tried`.
    """

    why: Why
    movable: int = 0
    tried: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The gangs to move for a root, the `placement` of the root, and where each pod could go then.

    `moves` has the row of the node of each pod, by gang. `movable` gangs were considered.
    """

    root: GroupKey
    placement: Placement
    moves: Nodes
    solves: int
    movable: int

    @property
    def pods(self) -> int:
        """The number of pods that are moved."""
        return sum(map(len, self.moves.values()))


def defragment(
    state: State,
    root: Group | Pod,
    refusal: Refusal,
    budget: Callable[[], SearchBudget],
    limits: MoveLimits,
    *,
    effort: SearchEffort | None = None,
) -> MovePlan | NoMoves:
    """Decide which gangs to move for a root that was refused. Changes nothing.

    `budget` returns one whose time begins with the call. The sets have one of their own, or a
    search among many gangs would end before its first set, each time.
    """
    capacity = refusal.shortage.kind == "capacity" and refusal.shortage.minimum
    closed = state.starvation.closed_for
    # A gang that the starvation gate holds back would not return.
    if not capacity or not may_preempt(state, root) or (closed and closed.root != root.key):
        return NoMoves("unsuited")
    effort = effort or SearchEffort()
    found = movers(state, root, limits.rests, effort.soon, budget().pause)
    dry_run = DryRun(state, root, refusal, budget(), effort)
    if dry_run.waits and dry_run.fits(NONE) is not None:
        return NoMoves("leaving", len(found))
    if not found:
        return NoMoves("nothing")
    if dry_run.fits(_units(found)) is None:
        if dry_run.exhausted:
            return NoMoves("limit", len(found), limits.tried)
        return NoMoves("short", len(found))
    try:
        return _Search(dry_run, found, limits).plan(budget())
    except NeedsCopyError:
        return NoMoves("terms", len(found))


class _Search:
    """The search among movers. Without all of them the root fits."""

    def __init__(self, dry_run: DryRun, found: list[Mover], limits: MoveLimits) -> None:
        self._dry_run = dry_run
        self._limits = limits
        self._movable = len(found)
        self._few = len(found) <= MOST_MOVERS and sum(map(_pods, found)) <= MOST_MOVED
        # Fewer gangs may be movable than before. Then the sets are others.
        outdated = limits.tried.gangs > 0 if self._few else limits.tried.gangs >= len(found)
        self._tried = Progress() if outdated else limits.tried
        everyone = _units(found)
        state = dry_run.state
        self._protected = ProtectedUnits(
            state.disruption_budgets, state.units, everyone, dry_run.budget
        )
        self._owner = {unit: mover for mover in found for unit in mover.units.tolist()}
        self._likely = self._cheapest(found, everyone)
        self._candidates = _units(self._likely)
        countable = len(self._candidates) <= _FEW
        self._necessary = Necessary(dry_run, self._candidates) if countable else None

    def plan(self, budget: SearchBudget) -> MovePlan | NoMoves:
        """Return the first set that is a plan, of those with the fewest gangs and pods."""
        self._dry_run.limit(budget)
        with returns_of(self._dry_run, self._likely) as returns:
            for tried, moved in enumerate(self._sets()):
                if tried < self._tried.sets:
                    continue
                plan = self._of(moved, returns)
                if plan is not None:
                    return plan
                # This set was perhaps not tried to its end.
                if self._dry_run.exhausted:
                    return NoMoves("limit", self._movable, replace(self._tried, sets=tried))
        if self._few:
            return NoMoves("returns", self._movable)
        passed = self._tried.gangs + len(self._likely)
        following = Progress(passed) if passed < self._movable else Progress()
        return NoMoves("limit", self._movable, following)

    def _of(self, moved: Sequence[Mover], returns: Returns) -> MovePlan | None:
        units = _units(moved)
        placement = self._dry_run.fits(units)
        if placement is None:
            return None
        nodes = returns.of(moved, units, placement)
        if nodes is None:
            return None
        return MovePlan(
            self._dry_run.refusal.root, placement, nodes, self._dry_run.solves, self._movable
        )

    def _cheapest(self, found: list[Mover], everyone: Ints) -> list[Mover]:
        """Return the movers that sets are drawn from, those with the fewest pods first."""
        if self._few:
            return found
        scopes = EvictionScopes(self._dry_run, everyone).scopes()
        there = (self._owner[unit] for _, scope in scopes for unit in scope.tolist())
        order = dict.fromkeys(chain(there, found))
        likely = list(islice(order, self._tried.gangs, self._tried.gangs + MOST_MOVERS))
        pods = np.cumsum(list(map(_pods, likely)))
        # A mover has at most a quarter of these, so there is always one.
        return sorted(likely[: int((pods <= MOST_MOVED).sum())], key=_cost)

    def _sets(self) -> Iterator[Sequence[Mover]]:
        """Yield the sets that the limits and budgets allow, and that may free enough."""
        for number in range(1, self._limits.gangs + 1):
            sets = sorted(islice(combinations(self._likely, number), MOST_SETS), key=_cost_of)
            for first in range(0, len(sets), _SETS_AT_ONCE):
                self._dry_run.pause()
                some = [each for each in sets[first : first + _SETS_AT_ONCE] if self._allowed(each)]
                yield from self._passing(some)

    def _passing(self, sets: Sequence[Sequence[Mover]]) -> Iterator[Sequence[Mover]]:
        if not sets or self._necessary is None:
            yield from sets
            return
        chosen = np.array([np.isin(self._candidates, _units(each)) for each in sets], np.bool_)
        passes = self._necessary.passes(chosen)
        yield from (sets[at] for at in np.flatnonzero(passes).tolist())

    def _allowed(self, moved: Sequence[Mover]) -> bool:
        by_namespace = Counter(mover.key[1] for mover in moved)
        if any(number > self._limits.left(name) for name, number in by_namespace.items()):
            return False
        return self._protected.violations(_units(moved)) == 0


def _units(moved: Sequence[Mover]) -> Ints:
    found: Ints = np.unique(np.concatenate([mover.units for mover in moved]))
    return found


def _pods(mover: Mover) -> int:
    return len(mover.pods)


def _cost(mover: Mover) -> tuple[int, float, GroupKey]:
    return (len(mover.pods), mover.ran, mover.key)


def _cost_of(moved: Sequence[Mover]) -> tuple[int, float]:
    return (sum(len(mover.pods) for mover in moved), sum(mover.ran for mover in moved))
