"""The units that PodDisruptionBudgets protect, and the sets of units that they allow to evict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.state.disruption_budgets import (
    Coverage,
    DisruptionBudget,
    DisruptionBudgets,
)
from scheduler.core.state.units import Units
from scheduler.core.values.search_budget import SearchBudget

_MOST_TRIED: Final = 2000
"""Steps of the search for further largest sets; the first one takes as many as it needs."""

_STEPS: Final = 256
"""Steps between two pauses; a step takes about a microsecond."""

_UNITS: Final = 4096
"""Units whose budgets are numbered between two pauses: some milliseconds."""


@dataclass(frozen=True, slots=True)
class _Entries:
    """The numbers of pods of C units that P budgets cover, in E entries.

    In the e-th entry, budget `budgets[e]` (< P) covers `counts[e]` pods of unit `places[e]` (< C).
    `of_units` contains the same by unit, as pairs of a budget and a count. The budgets allow
    `allowed` (P,) evictions.
    """

    of_units: list[list[tuple[int, int]]]
    places: Ints
    budgets: Ints
    counts: Ints
    allowed: Ints

    @classmethod
    def of(
        cls, covered: Iterable[Mapping[DisruptionBudget, int]], pause: Callable[[], None]
    ) -> Self:
        """Create the entries; `covered` are the covered pods of each unit by budget."""
        numbers: dict[DisruptionBudget, int] = {}
        of_units: list[list[tuple[int, int]]] = []
        flat: list[tuple[int, int, int]] = []
        for place, each in enumerate(covered):
            if place % _UNITS == 0:
                pause()
            entries = [(numbers.setdefault(it, len(numbers)), n) for it, n in each.items()]
            of_units.append(entries)
            flat.extend((place, *entry) for entry in entries)
        pause()
        columns = np.array(flat, np.int64).reshape(-1, 3)
        allowed = np.array([budget.allowed for budget in numbers], np.int64)
        return cls(of_units, columns[:, 0], columns[:, 1], columns[:, 2], allowed)


class ProtectedUnits:
    """The budgets that cover candidates, and the violations if candidates are evicted.

    `covered` (C,) are the indices of the covered candidates by lowest priority, then index. P
    budgets cover them.
    """

    def __init__(
        self,
        budgets: DisruptionBudgets,
        units: Units,
        candidates: Ints,
        search: SearchBudget | None = None,
    ) -> None:
        """Pause between units, as a search does, and look for sets until `search` expires."""
        search = self._search = search or SearchBudget()
        self._units = units
        self.candidates = candidates
        found = self._coverage(budgets)
        covered = np.fromiter(found, np.int64, len(found))
        self.covered: Ints = covered[np.lexsort((covered, units.priorities[covered]))]
        # One element more: index -1 of uncovered units reads the last one.
        self._place = np.full(len(units.priorities) + 1, -1, np.int64)
        self._place[self.covered] = np.arange(len(covered))
        self._entries = _Entries.of(map(found.__getitem__, self.covered.tolist()), search.pause)

    def _coverage(self, budgets: DisruptionBudgets) -> dict[int, Counter[DisruptionBudget]]:
        if not budgets:
            return {}
        # A unit is in one namespace, and most namespaces have no budget.
        coverage = Coverage(budgets)
        concerned = self._units.within(budgets.namespaces, self.candidates)
        found = {}
        for index in concerned.tolist():
            self._search.pause()
            covered = coverage.of(self._units.unit(index).pods.values())
            if covered:
                found[index] = covered
        return found

    def violations(self, units: Ints | Sequence[int]) -> int:
        """Return by how many pods budgets would be exceeded if all of these units were evicted."""
        return int(np.maximum(0, self._totals(self._chosen(units)) - self._entries.allowed).sum())

    def matrix(self, units: Ints) -> tuple[Ints, Ints]:
        """Return the pods of each unit that each budget covers, (U, P), and the P allowances.

        Only budgets that cover one of the units count.
        """
        found = np.zeros((len(self.covered) + 1, len(self._entries.allowed)), np.int64)
        found[self._entries.places, self._entries.budgets] = self._entries.counts
        rows = found[self._place[units]]
        some = rows.any(axis=0)
        return rows[:, some], self._entries.allowed[some]

    def tiers(self, units: Ints) -> Ints:
        """Return the tier of each unit, (len(units),): units of lower tiers are evicted first.

        Tiers go by priority; units that violate a budget on their own come after all others.
        """
        tiers: Ints = self._units.priorities[units].copy()
        # Wide enough to lift the lowest priority above the highest one.
        span = int(tiers.max() - tiers.min()) + 1
        alone = np.zeros(len(self.covered) + 1, np.bool_)
        alone[
            self._entries.places[
                self._entries.counts > self._entries.allowed[self._entries.budgets]
            ]
        ] = True
        tiers[alone[self._place[units]]] += span
        return tiers

    def exceeding(self, units: Ints | Sequence[int]) -> set[int]:
        """Return the units that are covered by a budget which evicting all would exceed."""
        chosen = self._chosen(units)
        over = self._totals(chosen) > self._entries.allowed
        found = self._entries.places[chosen[self._entries.places] & over[self._entries.budgets]]
        return set(self.covered[found].tolist())

    def largest_set(self, first: Ints, most: int) -> Ints:
        """Return the candidates whose eviction exceeds the budgets by at most `most` pods.

        Covered candidates are taken in the order of `first`, positions in `covered`, then by lowest
        priority, as long as the budgets allow it.
        """
        allowance = _RemainingEvictions(self._entries, most)
        rest = np.setdiff1d(np.arange(len(self.covered)), first)
        for number, place in enumerate([*first.tolist(), *rest.tolist()]):
            if number % _STEPS == 0:
                self._search.pause()
            allowance.take(place)
        return self._without(allowance, self.candidates)

    def largest_sets(self, most: int, below: int | None = None) -> Iterator[Ints | None]:
        """Yield maximal sets of candidates that exceed the budgets by at most `most` pods.

        Sets with the covered candidates of lowest priority come first. With `below`, only
        candidates of a lower priority count. None at the end means that there may be more.
        """
        among, count = self.candidates, len(self.covered)
        if below is not None:
            among = among[self._units.priorities[among] < below]
            count = int(np.searchsorted(self._units.priorities[self.covered], below))
        allowance = _RemainingEvictions(self._entries, most)
        taken: list[int] = []
        # Start below zero: the first set takes `count` steps, which do not count.
        place, tried = 0, -count
        while True:
            while place < count:
                tried += 1
                if tried % _STEPS == 0:
                    self._search.pause()
                    if self._search.expired():
                        yield None
                        return
                if allowance.take(place):
                    taken.append(place)
                place += 1
            # A branch that skipped a unit may end with a set to which that unit can be added.
            if allowance.is_largest(count):
                yield self._without(allowance, among)
            if not taken:
                return
            if tried >= _MOST_TRIED:
                yield None
                return
            # Backtrack: skip the unit that was taken last, and go on behind it.
            allowance.give_back(taken[-1])
            place = taken.pop() + 1

    def by_node(self, most: int, priority: int) -> tuple[Bools, Ints]:
        """Return which covered units budgets let go if only units of their node go, and their rows.

        Both are (C,). Units of a lower priority go first, those above `priority` never; each budget
        may be exceeded by `most` pods. Of a unit on several nodes the first row counts.
        """
        units, size = self._units, len(self.covered)
        slots = units.slots_of(np.sort(self.covered))
        rows = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(rows, self._place[units.owners[slots]], units.rows[slots])
        fits = units.priorities[self.covered] <= priority
        asked = np.where(fits[self._entries.places], self._entries.counts, 0)
        # Stable by position: `covered` is sorted by priority, so lower priorities come first.
        order = np.lexsort(
            (self._entries.places, self._entries.budgets, rows[self._entries.places])
        )
        group = np.stack((rows[self._entries.places], self._entries.budgets))[:, order]
        # Sums start again at each pair of a node and a budget.
        begins = np.flatnonzero(np.diff(group, prepend=-1).any(axis=0))
        total = np.cumsum(asked[order])
        before = np.repeat((total - asked[order])[begins], np.diff([*begins, len(order)]))
        over = total - before > self._entries.allowed[self._entries.budgets[order]] + most
        fits[self._entries.places[order[over]]] = False
        return fits, rows

    def _chosen(self, units: Ints | Sequence[int]) -> Bools:
        """Return which of the covered units are among these, (C + 1,); the last is a dummy."""
        chosen = np.zeros(len(self.covered) + 1, np.bool_)
        chosen[self._place[np.asarray(units, np.int64)]] = True
        return chosen

    def _totals(self, chosen: Bools) -> Ints:
        """Return how many pods of these each budget covers, (P,)."""
        there = chosen[self._entries.places]
        weights = self._entries.counts[there]
        totals = np.bincount(
            self._entries.budgets[there], weights, minlength=len(self._entries.allowed)
        )
        return totals.astype(np.int64)

    def _without(self, allowance: _RemainingEvictions, among: Ints) -> Ints:
        """Return the candidates that no budget covers, and those that were taken."""
        excluded = np.array([*allowance.taken, True], np.bool_)
        found: Ints = among[excluded[self._place[among]]]
        return found


class _RemainingEvictions:
    """The remaining evictions of budgets after the units that were taken.

    Units are positions in `covered`.
    """

    def __init__(self, entries: _Entries, most: int) -> None:
        self._entries = entries
        self._left: list[int] = entries.allowed.tolist()
        self._spare = most
        self.taken = [False] * len(entries.of_units)

    def take(self, place: int) -> bool:
        """Take a unit if the budgets allow it; return True if they do."""
        more = self._more(place)
        if more > self._spare:
            return False
        self._spare -= more
        self.taken[place] = True
        for budget, count in self._entries.of_units[place]:
            self._left[budget] -= count
        return True

    def give_back(self, place: int) -> None:
        """Release a unit that was taken."""
        self.taken[place] = False
        for budget, count in self._entries.of_units[place]:
            self._left[budget] += count
        # Only now that the budgets are restored is this the amount that `take` subtracted.
        self._spare += self._more(place)

    def _more(self, place: int) -> int:
        """Return by how many more pods the unit would exceed its budgets."""
        return sum(
            # Only the increase counts: the budget may be exceeded already.
            max(0, count - self._left[budget]) - max(0, -self._left[budget])
            for budget, count in self._entries.of_units[place]
        )

    def is_largest(self, count: int) -> bool:
        """Return True if no other of the first `count` units can be taken."""
        left = np.array(self._left, np.int64)[self._entries.budgets]
        more = np.maximum(0, self._entries.counts - left) - np.maximum(0, -left)
        sums = np.bincount(self._entries.places, more, minlength=len(self.taken))
        rest = ~np.array(self.taken, np.bool_)[:count]
        return bool((sums[:count][rest] > self._spare).all())
