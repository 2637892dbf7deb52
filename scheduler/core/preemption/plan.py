"""The plan of a preemption: the units to evict so that a root fits, or the refusal.

This corresponds to the DefaultPreemption plugin, for complete pod groups. Parts of the cluster are
tried by estimated cost. In each, units are reprieved, most important first, as long as a dry run
shows that the root still fits without the others. The cheapest set of victims becomes the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.nodes.node_table import Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.candidates import NONE, EvictionScopes
from scheduler.core.preemption.cost import Cost, Costs
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.preemption.exchange import Exchange
from scheduler.core.preemption.fewest import FewestUnits
from scheduler.core.preemption.proof import MOST_SETS, Proof
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.state.units import Unit
from scheduler.core.values.model import GroupKey

_MOST_EXCEEDED: Final = 8
"""Violations of budgets up to which plans with fewer are searched one by one."""

_FEW: Final = 96
"""Candidates up to which the search is exact."""

_LEVELS: Final = 4
"""Priorities up to which units are taken first if many are protected."""

_MOST_SPARED: Final = 2048
"""Victims times pods up to which each victim is checked once more."""

_MOST_BEYOND: Final = 64
"""Dry runs beyond the budget for a set in which no unit was found to be needless."""

_MANY: Final = 32
"""Candidates that are searched if there are more: the best set, then units with most pods."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The victims for a root, and the `placement` where it fits without them.

    The root does not fit if any one of them stays.

    Without victims, the pods that are leaving already suffice, and `cost` is None. `minimal` is
    false if the budget ended before every victim was checked. `proved` is true if it was shown that
    no other victims would be cheaper.
    """

    root: GroupKey
    placement: Placement
    victims: tuple[Unit, ...]
    cost: Cost | None
    solves: int
    minimal: bool = True
    proved: bool = False

    @property
    def pods(self) -> list[Pod]:
        """The pods of all victims, places of expected pods included."""
        return [pod for unit in self.victims for pod in unit.pods.values()]


def preempt(
    state: State,
    root: Group | Pod,
    refusal: Refusal,
    budget: SearchBudget,
    effort: SearchEffort | None = None,
) -> Plan | Refusal:
    """Decide which units to evict for a root that was refused. Changes nothing.

    Returns the refusal if eviction cannot resolve it, if the root may not preempt, or if evicting
    all candidates would not suffice.
    """
    if not refusal.shortage.resolvable or refusal.shortage.kind in ("quorum", "invalid"):
        return refusal
    # Events only mark units as changed, so the table may be old.
    state.units.refresh()
    with state.nominations.kept(refusal.root, root.priority, refusal.shapes):
        return _planned(DryRun(state, root, refusal, budget, effort or SearchEffort()), refusal)


def _planned(dry_run: DryRun, refusal: Refusal) -> Plan | Refusal:
    state, root, budget = dry_run.state, dry_run.root, dry_run.budget
    # Earlier victims may still be terminating. Evicting more would be needless if they suffice.
    if dry_run.waits:
        placement = dry_run.fits(NONE)
        if placement is not None:
            return Plan(refusal.root, placement, (), None, dry_run.solves, proved=True)
    # After the check above: a root that may not preempt can still use the nodes of leaving pods.
    if not may_preempt(state, root):
        return refusal
    everyone = state.units.below(root.priority, dry_run.effort.soon)
    prompt = state.units.prompt(everyone)
    # Units that take long to end are victims only if no others suffice.
    opened = _opened(dry_run, refusal, prompt) if len(prompt) < len(everyone) else None
    opened = opened or _opened(dry_run, refusal, everyone)
    if opened is None:
        return refusal
    candidates, complete = opened
    protected = ProtectedUnits(state.disruption_budgets, state.units, candidates, budget)
    # If peers were left out, nothing is proved about sets that contain them.
    proof = Proof(dry_run, protected) if complete else None
    choices = [_Choice(dry_run, family, protected) for family in _affordable(dry_run, protected)]
    # All families violate budgets equally often. Priority is next in a cost: others cannot win.
    least = min(choice.cost.priority for choice in choices)
    lowest = [choice for choice in choices if choice.cost.priority == least]
    best = lowest[: dry_run.effort.families]
    for choice in best:
        choice.search()
    cheapest = min(best, key=lambda choice: choice.cost)
    cheapest.fewer(lowest, proof)
    cheapest.exchange()
    # Last: it may prefer a set of higher cost in which fewer units run.
    cheapest.take_places(lowest)
    plan = cheapest.plan()
    # Without victims and without leaving pods, the root would wait for nothing.
    return plan if plan.victims or dry_run.waits else refusal


def _opened(dry_run: DryRun, refusal: Refusal, everyone: Ints) -> tuple[Ints, bool] | None:
    """Return the candidates whose eviction suffices, and True if these are all of `everyone`."""
    if dry_run.open(everyone):
        return everyone, True
    # Evicting all candidates may evict the peers that the root's affinity needs.
    unneeded = _unneeded(dry_run.state, refusal, everyone)
    return (unneeded, False) if dry_run.open(unneeded) else None


def _affordable(dry_run: DryRun, protected: ProtectedUnits) -> list[Ints]:
    """Return sets of candidates that suffice with as few budget violations as possible."""
    everyone = protected.candidates
    # As in kube-scheduler, the fewest violations of budgets come first.
    for most in range(min(protected.violations(everyone), _MOST_EXCEEDED)):
        found: dict[bytes, Ints] = {}
        for number, units in enumerate(_largest_sets(dry_run, protected, most)):
            if units is None or number == MOST_SETS or dry_run.exhausted:
                break
            if len(units) and dry_run.fits(units) is not None:
                found.setdefault(units.tobytes(), units)
        if found:
            return list(found.values())
    return [everyone]


def _largest_sets(dry_run: DryRun, protected: ProtectedUnits, most: int) -> Iterator[Ints | None]:
    """Yield largest sets of candidates; first those that free the nodes where this costs least.

    Each of these prefers units of no higher priority, where that frees nodes. If one budget
    protects many units, only few of them may be evicted, and most choices would spread them over
    all nodes.
    """
    if len(protected.covered) > _FEW:
        levels = np.unique(dry_run.state.units.priorities[protected.candidates])
        # Each level needs a dry run later, so only some of many priorities are tried.
        for at in np.unique(np.linspace(0, len(levels) - 1, _LEVELS).astype(np.int64)).tolist():
            yield _by_node(dry_run, protected, most, int(levels[at]))
    yield from protected.largest_sets(most)


def _by_node(dry_run: DryRun, protected: ProtectedUnits, most: int, priority: int) -> Ints:
    state, candidates = dry_run.state, protected.candidates
    fits, rows = protected.by_node(most, priority)
    goes = state.units.priorities[candidates] <= priority
    goes &= ~np.isin(candidates, protected.covered[~fits])
    with dry_run.without(candidates[goes]):
        capacity = sum(state.framework.slots(shape) for shape in dry_run.refusal.shapes)
    wanted = 1 if isinstance(dry_run.root, Pod) else dry_run.root.pending_total
    # Beyond what the root wants, more capacity on a node does not help.
    rank = np.argsort(np.argsort(-np.minimum(capacity, wanted), kind="stable"))
    first = np.flatnonzero(fits)
    return protected.largest_set(first[np.argsort(rank[rows[first]], kind="stable")], most)


def _unneeded(state: State, refusal: Refusal, candidates: Ints) -> Ints:
    """Return the candidates without peers that the root's required affinity needs.

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
    """Return True if the root may preempt: no preemptionPolicy that applies to it is Never.

    For a group, these are its own, the one of its PriorityClass and those of its waiting pods. The
    API server makes pods follow their class. So a group cannot evict for pods that could not evict
    for themselves.
    """
    if isinstance(root, Pod):
        return root.info.preemption.preempts
    # Pods must not lose their nodes to pods that may never come.
    if root.spec is None or not root.spec.preempts or root.only_reserves:
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
        """Limit the candidates to the lowest tiers that suffice; see `_bound`."""
        self.dry_run = dry_run
        self.units = dry_run.state.units
        self.protected = protected
        self.candidates = candidates
        self._bound()
        self.best = self.candidates
        self.cost = self._cost(self.candidates)
        self.proved = False
        self._minimal = False
        self.least = 1

    def search(self) -> None:
        """Find the cheapest set of units that suffices, within the effort."""
        scopes = EvictionScopes(self.dry_run, self.candidates)
        self.least = scopes.least()
        for units, scope in scopes.scopes():
            # Later parts are estimated to need at least as many units.
            if self.cost.units <= max(self.least, units) or self.dry_run.exhausted:
                break
            self._reduce(scope)
        # The complete set is the last resort: reducing it takes the most dry runs.
        if not self._minimal:
            self._reduce(self.candidates)

    def fewer(self, others: Sequence[_Choice], proof: Proof | None) -> None:
        """Look for cheaper sets among all candidates of no higher priority, within the effort."""
        everyone = self.protected.candidates
        candidates = everyone[self.units.priorities[everyone] <= self.cost.priority]
        least = min(choice.least for choice in others)
        # With the lowest number of units, priorities and pods, no search can find less.
        few = self.cost.units <= least and self._lowest(candidates)
        if few or self._searched(candidates, least, proof):
            self.proved = proof is not None and proof.lowest(self.cost)
            self._minimal |= self.proved

    def _searched(self, candidates: Ints, least: int, proof: Proof | None) -> bool:
        """Return True if it was shown that no set of these candidates is cheaper than the best."""
        effort, part = self.dry_run.effort, 1
        few = len(candidates) <= _FEW
        # The number of sets grows exponentially, so search a likely part with less effort.
        if not few:
            if self.cost.units <= least:
                return False
            candidates, part = self._likely(candidates), 10
        if self.dry_run.exhausted:
            return False
        costs = Costs(self.units, self.protected, candidates)
        shown = proof.impossible if proof is not None else _unknown
        search = FewestUnits(self.dry_run, costs, candidates, shown)
        found = search.search(self.cost, least, effort.subsets // part, effort.cells // part)
        if found.units is not None:
            self.best, self.cost, self._minimal = found.units, self._cost(found.units), True
        return few and found.complete

    def exchange(self) -> None:
        """Exchange victims for those that cost their owners less, at no higher cost."""
        reduce = partial(self._reduced, beyond=False)
        exchange = Exchange(self.dry_run, self.protected, reduce, minimal=self._minimal)
        exchanged = exchange.improved(self.best)
        if exchanged is not self.best:
            self.best, self.cost = exchanged, self._cost(exchanged)

    def take_places(self, others: Sequence[_Choice]) -> None:
        """Prefer expected pods, whose reserved capacity is not in use, to units that run.

        Takes any number of them, as long as their priority is not higher than that of the other
        victims: nothing has to end for them.
        """
        if not self.units.places or self.dry_run.exhausted or not self._running(self.best):
            return
        candidates = np.unique(np.concatenate([choice.candidates for choice in others]))
        places = candidates[self.units.places_only(candidates)]
        places = places[self.units.priorities[places] <= self.cost.priority]
        # Expected pods alone first: then nothing that runs has to end.
        for scope in (places, np.union1d(places, self.best)):
            placement = self.dry_run.fits(scope) if len(places) else None
            if placement is not None and self._with_places(scope, placement):
                return

    def _with_places(self, scope: Ints, placement: Placement) -> bool:
        """Reduce a set that suffices. Keep it, and return True, if fewer units in it run."""
        frozen = self._frozen(scope, placement)
        chosen = frozen if self.dry_run.fits(frozen) is not None else scope
        chosen = self._put_back(self._running_first(chosen))
        cost = self._cost(chosen)
        if self._running(chosen) >= self._running(self.best):
            return False
        # Sparing running units must not violate budgets or evict pods of a higher priority.
        if (cost.violations, cost.priority) > (self.cost.violations, self.cost.priority):
            return False
        self.best, self.cost = chosen, cost
        # The proof was about cost, and by cost the former set was better.
        self._minimal, self.proved = not self.dry_run.exhausted, False
        return True

    def _running(self, chosen: Ints) -> int:
        """Return how many of these units have pods that run."""
        return int((~self.units.places_only(chosen)).sum())

    def _running_first(self, scope: Ints) -> list[int]:
        """Return the order of reprieve: units that run first, if expected pods suffice."""
        places = set(scope[self.units.places_only(scope)].tolist())
        return sorted(self._by_importance(scope), key=lambda index: index in places)

    def plan(self) -> Plan:
        placement = self.dry_run.fits(self.best)
        if placement is None:
            raise AssertionError("what was kept was asked for")
        self._spare(placement)
        victims = tuple(self.units.unit(index) for index in self.best.tolist())
        root, solves = self.dry_run.refusal.root, self.dry_run.solves
        cost = self.cost if victims else None
        return Plan(root, placement, victims, cost, solves, self._minimal, self.proved)

    def _spare(self, placement: Placement) -> None:
        """Reprieve units that this placement does not need, though the search found none."""
        # With several shapes `place` may miss a placement: a failed dry run is no proof.
        several = len(self.dry_run.refusal.shapes) > 1
        if not several or len(self.best) * len(placement.pods) > _MOST_SPARED:
            return
        for index in self._by_importance(self.best):
            rest = self.best[self.best != index]
            if self.dry_run.holds(placement, rest):
                self.best = rest
        # The cost of an empty set is not defined: it has no highest priority.
        self.cost = self._cost(self.best) if len(self.best) else self.cost

    def _bound(self) -> None:
        """Keep only candidates up to the lowest tier at which evicting all of them suffices."""
        tiers = self.protected.tiers(self.candidates)
        levels = np.unique(tiers)
        low, high = 0, len(levels) - 1
        # Tiers up to `high` suffice. If the budget ends the loop, lower ones may as well.
        while low < high and not self.dry_run.exhausted:
            middle = (low + high) // 2
            if self.dry_run.fits(self.candidates[tiers <= levels[middle]]) is not None:
                high = middle
            else:
                low = middle + 1
        self.candidates = self.candidates[tiers <= levels[high]]

    def _reduce(self, scope: Ints) -> None:
        """Reduce a set that suffices, and keep it if it is the cheapest so far.

        A set that is not known to be minimal replaces only another such set.
        """
        chosen, minimal = self._reduced(scope)
        cost = self._cost(chosen)
        if self._better(minimal, cost):
            self.best, self.cost, self._minimal = chosen, cost, minimal

    def _better(self, minimal: bool, cost: Cost) -> bool:
        if minimal != self._minimal:
            return minimal
        return cost < self.cost

    def _reduced(self, scope: Ints, *, beyond: bool = True) -> tuple[Ints, bool]:
        """Reduce a set that suffices to one from which no unit can be reprieved.

        Returns False as well if the budget ended first: this placement then needs all units that
        are left, unless dry runs `beyond` the budget are not allowed.
        """
        placement = self.dry_run.fits(scope)
        if placement is None:
            raise AssertionError("only a set that suffices can be reduced")
        frozen = self._frozen(scope, placement)
        chosen = frozen if self.dry_run.fits(frozen) is not None else scope
        # The lower bound is reached, so dry runs for reprieves would be wasted.
        if len(chosen) <= self.least:
            return chosen, True
        # `place` is a heuristic: a unit whose reprieve failed may be reprieved in the next pass.
        while not self.dry_run.exhausted:
            fewer = self._put_back(self._by_importance(chosen))
            if len(fewer) == len(chosen) and not self.dry_run.exhausted:
                return fewer, True
            chosen = fewer
        return self._reduced_beyond_budget(chosen, placement) if beyond else chosen, False

    def _reduced_beyond_budget(self, scope: Ints, placement: Placement) -> Ints:
        """Reduce a set that suffices for this placement with a few more dry runs.

        Otherwise units would be evicted that are not in the way, on any node. Those on the nodes of
        the placement may suffice. If not, as with affinity over zones, many are reprieved at once.
        """
        slots = self.units.slots_of(scope)
        there = np.isin(self.units.rows[slots], placement.rows)
        closest: Ints = np.unique(self.units.owners[slots[there]])
        if len(closest) and self.dry_run.fits(closest) is not None:
            return closest
        return self._put_back(self._by_importance(scope), beyond=_MOST_BEYOND)

    def _put_back(self, order: list[int], *, beyond: int = 0) -> Ints:
        """Reprieve units in this order, as long as the root fits without the rest.

        Reprieves many at once, and fewer when that fails. Units that the budget, and so many dry
        runs `beyond` it, leave are not reprieved.
        """
        at, chunk = 0, max(1, len(order) // 4)
        while at < len(order) and (beyond > 0 or not self.dry_run.exhausted):
            beyond -= self.dry_run.exhausted
            rest = order[:at] + order[at + chunk :]
            if self.dry_run.fits(_sorted(rest)) is not None:
                order = rest
            elif chunk > 1:
                chunk //= 2
            else:
                at += 1
        return _sorted(order)

    def _by_importance(self, chosen: Ints) -> list[int]:
        """Return the order of reprieve, most important first.

        Units whose budgets would be exceeded, then by highest priority, most pods, earliest start.
        """
        exceeding = self.protected.exceeding(chosen)

        def importance(index: int) -> tuple[bool, int, int, float]:
            self.dry_run.pause()
            unit = self.units.unit(index)
            started = min(self.units.youth[slot] for slot in unit.slots)
            return (index not in exceeding, -unit.priority, -len(unit.pods), started)

        return sorted(chosen.tolist(), key=importance)

    def _frozen(self, scope: Ints, placement: Placement) -> Ints:
        """Return the sorted units of the scope whose resources this placement needs."""
        nodes, units = self.dry_run.state.nodes, self.units
        # Arithmetic on the final placement is much cheaper than a dry run for each unit.
        with self.dry_run.without(scope):
            occupy(self.dry_run.state.framework, placement)
            slots = units.slots_of(scope)
            used = np.zeros(nodes.size, np.bool_)
            used[list(placement.rows)] = True
            # Units on other nodes do not compete with this placement.
            touched = np.unique(units.owners[slots[used[units.rows[slots]]]])
            asked = sorted({it for pod in placement.pods for it, _ in pod.shape.request.demands})
            out: list[int] = []
            order = self._by_importance(touched)
            # Consecutive units of one kind, not all of them: the order of importance must be kept.
            for single, same in groupby(order, key=lambda index: len(units.unit(index).slots) == 1):
                put_back = self._return_singles if single else self._restore_units
                out.extend(put_back(list(same), asked))
        return _sorted(out)

    def _restore_units(self, order: list[int], asked: list[int]) -> Iterator[int]:
        """Put units back one by one, in the open trial; yield those that do not fit."""
        nodes, units = self.dry_run.state.nodes, self.units
        for index in order:
            self.dry_run.pause()
            mark = nodes.savepoint()
            own = units.slots_of(np.array([index]))
            units.release(own, -1)
            if units.overcommitted(units.rows[own], asked).any():
                nodes.rollback(mark)
                yield index

    def _return_singles(self, order: list[int], asked: list[int]) -> Iterator[int]:
        """Put back units of one pod each, in rounds of one per node: these are common."""
        units = self.units
        indices = np.array(order, np.int64)
        slots = np.array([next(iter(units.unit(index).slots)) for index in order], np.int64)
        while len(slots):
            self.dry_run.pause()
            # The first slot of each node is its most important: slots are in that order.
            rows, first = np.unique(units.rows[slots], return_index=True)
            units.release(slots[first], -1)
            crowded = first[units.overcommitted(rows, asked)]
            units.release(slots[crowded])
            yield from indices[crowded].tolist()
            indices, slots = np.delete(indices, first), np.delete(slots, first)

    def _lowest(self, candidates: Ints) -> bool:
        """Return True if no set of as many candidates has lower priorities or fewer pods."""
        priorities = np.sort(self.units.priorities[candidates])[: self.cost.units]
        pods = np.sort(self._sizes()[candidates])[: self.cost.units]
        known = (self.cost.priorities, self.cost.pods)
        return known == (int(priorities.sum()), int(pods.sum()))

    def _likely(self, candidates: Ints) -> Ints:
        """Return the units of the best set, and of the others those with the most pods."""
        others = np.setdiff1d(candidates, self.best)
        # Units with many pods free most, so small sets of them may suffice.
        largest = others[np.argsort(-self._sizes()[others], kind="stable")]
        return _sorted([*self.best.tolist(), *largest.tolist()][:_MANY])

    def _sizes(self) -> Ints:
        """Return how many pods each unit has, by index."""
        owners = self.units.owners
        return np.bincount(owners[owners >= 0], minlength=len(self.units.priorities))

    def _cost(self, chosen: Ints) -> Cost:
        return Cost.of(self.units, self.protected, chosen)


def _unknown(_: Ints) -> bool:
    return False


def _sorted(indices: Iterable[int]) -> Ints:
    return np.array(sorted(indices), np.int64)


def occupy(framework: Framework, placement: Placement) -> None:
    """Take the resources of the placed pods, in the open trial."""
    by_shape: dict[Shape, list[int]] = {}
    for pod, row in zip(placement.pods, placement.rows, strict=True):
        by_shape.setdefault(pod.shape, []).append(row)
    for shape, rows in by_shape.items():
        at, counts = np.unique(rows, return_counts=True)
        framework.occupy(shape, at, counts)
