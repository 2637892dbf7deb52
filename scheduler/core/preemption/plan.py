"""`preempt`: which units to evict so that a root fits, or why preemption does not help.

Corresponds to the DefaultPreemption plug-in, for whole pod groups. Parts of the cluster are tried
by estimated cost. In each, units are reprieved, most important first, as long as a dry run says
that the root still fits without the others. The cheapest set of victims becomes the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, groupby, islice
from typing import Final

import numpy as np

from scheduler.core.forest import Group, Pod
from scheduler.core.framework import Framework
from scheduler.core.model import GroupKey
from scheduler.core.node_table import Ints
from scheduler.core.place import Placement, Refusal, SearchBudget
from scheduler.core.preemption.candidates import NONE, EvictionScopes
from scheduler.core.preemption.disruption_budgets import ProtectedUnits
from scheduler.core.preemption.dry_run import DryRun, Effort
from scheduler.core.preemption.units import Unit
from scheduler.core.shapes import Shape
from scheduler.core.state import State

_MOST_EXCEEDED: Final = 8
_MOST_SETS: Final = 32

_MANY: Final = 32
"""Of more candidates than this, only those with the most pods are tried in combinations."""

_MOST_SUBSETS: Final = 10_000
"""Of the combinations most are dearer than what is known, and cost no dry run."""


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The cost of a set of victims, compared field by field: the lowest wins.

    `violations` are evictions beyond the budgets, `priority` is the highest priority of a unit,
    `priorities` the sum over units, `started` the negated earliest start of a pod (older is worse).
    """

    violations: int
    priority: int
    units: int
    priorities: int
    pods: int
    started: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The root fits at `placement` once all `victims` are gone, and not if any one of them stays.

    Without victims the pods that are leaving already are enough, and `cost` is None. `minimal` is
    false if the budget ended before it was known of each victim that it cannot stay.
    """

    root: GroupKey
    placement: Placement
    victims: tuple[Unit, ...]
    cost: Cost | None
    solves: int
    minimal: bool = True


def preempt(
    state: State,
    root: Group | Pod,
    refusal: Refusal,
    budget: SearchBudget,
    effort: Effort | None = None,
) -> Plan | Refusal:
    """Decide which units to evict for a root that was refused. Changes nothing.

    Returns the refusal if eviction cannot resolve it, if the root may not preempt, or if evicting
    all candidates would not be enough.
    """
    if not refusal.shortage.resolvable or refusal.shortage.kind in ("quorum", "invalid"):
        return refusal
    state.units.refresh()
    dry_run = DryRun(state, root, refusal, budget, effort or Effort())
    if dry_run.waits:
        placement = dry_run.fits(NONE)
        if placement is not None:
            return Plan(refusal.root, placement, (), None, dry_run.solves)
    if not may_preempt(state, root):
        return refusal
    candidates = state.units.below(root.priority, dry_run.effort.soon)
    if not dry_run.open(candidates):
        candidates = _unneeded(state, refusal, candidates)
        if not dry_run.open(candidates):
            return refusal
    protected = ProtectedUnits(state.disruption_budgets, state.units, candidates, budget.pause)
    choices = [_Choice(dry_run, family, protected) for family in _affordable(dry_run, protected)]
    least = min(choice.cost.priority for choice in choices)
    best = [choice for choice in choices if choice.cost.priority == least][
        : dry_run.effort.families
    ]
    for choice in best:
        choice.search()
    return min(best, key=lambda choice: choice.cost).plan()


def _affordable(dry_run: DryRun, protected: ProtectedUnits) -> list[Ints]:
    """Sets of candidates whose eviction suffices and that violate budgets as little as possible."""
    everyone = protected.candidates
    for most in range(min(protected.violations(everyone.tolist()), _MOST_EXCEEDED)):
        found: list[Ints] = []
        for number, units in enumerate(protected.largest_sets(most)):
            if number == _MOST_SETS or dry_run.exhausted:
                break
            if len(units) and dry_run.fits(units) is not None:
                found.append(units)
        if found:
            return found
    return [everyone]


def _unneeded(state: State, refusal: Refusal, candidates: Ints) -> Ints:
    """The candidates without peers that the root's required affinity needs.

    Empty if the root has no required affinity.
    """
    selectors = [
        tuple(t.selector for t in s.requirements.required_affinity) for s in refusal.shapes
    ]
    needed = {state.selectors.match_id(each) for each in selectors if each}
    if not needed:
        return NONE
    peers = state.units.owners_of(lambda shape: not needed.isdisjoint(shape.matches.counted))
    unneeded: Ints = np.setdiff1d(candidates, peers)
    return unneeded


def may_preempt(state: State, root: Group | Pod) -> bool:
    """Whether the root may preempt: no preemptionPolicy that applies to it is Never.

    For a group its own, its PriorityClass's and its waiting pods' apply. The API server holds pods
    to their class; so a group cannot evict for pods that could not evict for themselves.
    """
    if isinstance(root, Pod):
        return root.info.preemption.preempts
    if root.spec is None or not root.spec.preempts:
        return False
    if root.spec.priority_class in state.modest_classes:
        return False
    waiting = (
        pod for leaf in root.leaves() for pods in leaf.pending.values() for pod in pods.values()
    )
    return all(pod.info.preemption.preempts for pod in waiting)


class _Choice:
    """The search for the cheapest victims among candidates whose eviction suffices."""

    def __init__(self, dry_run: DryRun, candidates: Ints, protected: ProtectedUnits) -> None:
        """Limits the candidates to the lowest tiers that suffice; see `_bound`."""
        self.dry_run = dry_run
        self.units = dry_run.state.units
        self.protected = protected
        self.candidates = candidates
        self._bound()
        self.best = self.candidates
        self.cost = self._cost(self.candidates)
        self._minimal = False
        self._least = 1

    def search(self) -> None:
        """Find the cheapest set of units that suffices, within the effort."""
        scopes = EvictionScopes(self.dry_run, self.candidates)
        self._least = scopes.least()
        for units, scope in scopes.scopes():
            if self.cost.units <= max(self._least, units) or self.dry_run.exhausted:
                break
            self._reduce(scope)
        if not self._minimal:
            self._reduce(self.candidates)
        self._fewer()

    def plan(self) -> Plan:
        placement = self.dry_run.fits(self.best)
        if placement is None:
            raise AssertionError("what was kept was asked for")
        victims = tuple(self.units.unit(index) for index in self.best.tolist())
        root, solves = self.dry_run.refusal.root, self.dry_run.solves
        return Plan(root, placement, victims, self.cost, solves, self._minimal)

    def _bound(self) -> None:
        """Keep only candidates up to the lowest tier at which evicting all of them suffices."""
        tiers = self.protected.tiers(self.candidates)
        levels = np.unique(tiers)
        low, high = 0, len(levels) - 1
        # What suffices up to `high` is known; what does not suffice up to `low` may be unknown.
        while low < high and not self.dry_run.exhausted:
            middle = (low + high) // 2
            if self.dry_run.fits(self.candidates[tiers <= levels[middle]]) is not None:
                high = middle
            else:
                low = middle + 1
        self.candidates = self.candidates[tiers <= levels[high]]

    def _reduce(self, scope: Ints) -> None:
        """Reduce a set that suffices, and keep it if it is the cheapest so far.

        One that is not known to be minimal is kept only in place of such a one.
        """
        chosen, minimal = self._reduced(scope)
        cost = self._cost(chosen)
        if self._better(minimal, cost):
            self.best, self.cost, self._minimal = chosen, cost, minimal

    def _better(self, minimal: bool, cost: Cost) -> bool:
        if minimal != self._minimal:
            return minimal
        return cost < self.cost

    def _reduced(self, scope: Ints) -> tuple[Ints, bool]:
        """Reduce a set that suffices to one from which no unit can be reprieved.

        False if the budget ended before that: then no unit is left that this placement can spare.
        """
        placement = self.dry_run.fits(scope)
        if placement is None:
            raise AssertionError("only a set that suffices can be reduced")
        frozen = self._frozen(scope, placement)
        chosen = frozen if self.dry_run.fits(frozen) is not None else scope
        if len(chosen) <= self._least:
            return chosen, True
        while not self.dry_run.exhausted:
            fewer = self._put_back(self._by_importance(chosen))
            if len(fewer) == len(chosen) and not self.dry_run.exhausted:
                return fewer, True
            chosen = fewer
        return chosen, False

    def _put_back(self, order: list[int]) -> Ints:
        """Reprieve units in this order, as long as the root fits without the rest.

        Reprieves many at once, and fewer when that fails; what the budget leaves undone stays.
        """
        at, chunk = 0, max(1, len(order) // 4)
        while at < len(order) and not self.dry_run.exhausted:
            rest = order[:at] + order[at + chunk :]
            if self.dry_run.fits(_sorted(rest)) is not None:
                order = rest
            elif chunk > 1:
                chunk //= 2
            else:
                at += 1
        return _sorted(order)

    def _by_importance(self, chosen: Ints) -> list[int]:
        """The order of reprieve, most important first.

        Units whose budgets would be exceeded, then by highest priority, most pods, earliest start.
        """
        exceeding = self.protected.exceeding(chosen.tolist())

        def importance(index: int) -> tuple[bool, int, int, float]:
            self.dry_run.pause()
            unit = self.units.unit(index)
            started = min(self.units.started[slot] for slot in unit.slots)
            return (index not in exceeding, -unit.priority, -len(unit.pods), started)

        return sorted(chosen.tolist(), key=importance)

    def _frozen(self, scope: Ints, placement: Placement) -> Ints:
        """The units of the scope for which this placement leaves too few free resources, sorted."""
        nodes, units = self.dry_run.state.nodes, self.units
        with self.dry_run.without(scope):
            _occupy(self.dry_run.state.framework, placement)
            slots = units.slots_of(scope)
            used = np.zeros(nodes.size, np.bool_)
            used[list(placement.rows)] = True
            touched = np.unique(units.owners[slots[used[units.rows[slots]]]])
            out: list[int] = []
            order = self._by_importance(touched)
            for single, same in groupby(order, key=lambda index: len(units.unit(index).slots) == 1):
                put_back = self._return_singles if single else self._return_whole
                out.extend(put_back(list(same)))
        return _sorted(out)

    def _return_whole(self, order: list[int]) -> Iterator[int]:
        """Put units back one by one, in the open trial; yields those for which there is no room."""
        nodes, units = self.dry_run.state.nodes, self.units
        for index in order:
            self.dry_run.pause()
            mark = nodes.mark()
            own = units.slots_of(np.array([index]))
            units.release(own, -1)
            if units.overcommitted(units.rows[own]).any():
                nodes.rollback(mark)
                yield index

    def _return_singles(self, order: list[int]) -> Iterator[int]:
        """The same for units of one pod each, in rounds of one per node: so many are common."""
        units = self.units
        indices = np.array(order, np.int64)
        slots = np.array([next(iter(units.unit(index).slots)) for index in order], np.int64)
        while len(slots):
            self.dry_run.pause()
            rows, first = np.unique(units.rows[slots], return_index=True)
            units.release(slots[first], -1)
            crowded = first[units.overcommitted(rows)]
            units.release(slots[crowded])
            yield from indices[crowded].tolist()
            indices, slots = np.delete(indices, first), np.delete(slots, first)

    def _fewer(self) -> None:
        """Try smaller sets of units, fewest units first, as long as the effort lasts."""
        if self.cost.units <= self._least:
            return
        order, subsets = self._by_size(), self.dry_run.effort.subsets
        if len(order) > _MANY:
            order, subsets = order[:_MANY], subsets // 10
        last = self.dry_run.solves + subsets
        sizes = range(self._least, self.cost.units)
        sets = chain.from_iterable(combinations(order, size) for size in sizes)
        for subset in islice(sets, _MOST_SUBSETS):
            if self.dry_run.exhausted or self.dry_run.solves >= last:
                return
            self.dry_run.pause()
            chosen = _sorted(subset)
            if self._cost(chosen) < self.cost and self.dry_run.fits(chosen) is not None:
                self.best, self.cost = chosen, self._cost(chosen)
                return

    def _by_size(self) -> list[int]:
        """Candidates by most pods, because these most likely free enough."""
        owners = self.units.owners
        sizes = np.bincount(owners[owners >= 0], minlength=len(self.units.priorities))
        order: list[int] = self.candidates[
            np.argsort(-sizes[self.candidates], kind="stable")
        ].tolist()
        return order

    def _cost(self, chosen: Ints) -> Cost:
        priorities = self.units.priorities[chosen]
        slots = self.units.slots_of(chosen)
        return Cost(
            violations=self.protected.violations(chosen.tolist()),
            priority=int(priorities.max()),
            units=len(chosen),
            priorities=int(priorities.sum()),
            pods=len(slots),
            started=-float(self.units.started[slots].min()),
        )


def _sorted(indices: Iterable[int]) -> Ints:
    return np.array(sorted(indices), np.int64)


def _occupy(framework: Framework, placement: Placement) -> None:
    by_shape: dict[Shape, list[int]] = {}
    for pod, row in zip(placement.pods, placement.rows, strict=True):
        by_shape.setdefault(pod.shape, []).append(row)
    for shape, rows in by_shape.items():
        at, counts = np.unique(rows, return_counts=True)
        framework.reserve(shape, at, counts)
