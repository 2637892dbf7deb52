"""Which units disruption budgets protect, and sets of units that break as few budgets as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from scheduler.core.node_table import Ints
from scheduler.core.preemption.disruption_budgets import DisruptionBudget, violations
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.state import State

_MOST_EXCEEDED: Final = 8
_MOST_FAMILIES: Final = 32
_MOST_TRIED: Final = 2000


class ProtectedUnits:
    """What each candidate's eviction means for the budgets."""

    def __init__(self, state: State, candidates: Ints) -> None:
        self.candidates = candidates
        self.priorities = state.units.priorities
        self._covered: dict[int, Counter[DisruptionBudget]] = {}
        if state.disruption_budgets:
            for index in candidates.tolist():
                covered = state.disruption_budgets.covering(state.units.unit(index).pods.values())
                if covered:
                    self._covered[index] = covered

    @property
    def covered(self) -> list[int]:
        """The units that some budget covers, least important first."""
        return sorted(self._covered, key=lambda index: (self.priorities[index], index))

    def violations(self, units: Iterable[int]) -> int:
        """By how many pods budgets would be exceeded if all of these went."""
        return violations(self._total(units))

    def tiers(self, units: Ints) -> Ints:
        """By what the units are taken: those that no budget protects, by priority, come first."""
        tiers: Ints = self.priorities[units].copy()
        span = int(tiers.max() - tiers.min()) + 1
        if self._covered:
            tiers[[self.violations([index]) > 0 for index in units.tolist()]] += span
        return tiers

    def exceeding(self, units: list[int]) -> set[int]:
        """Those of the units that a budget covers which would be exceeded."""
        over = {budget for budget, n in self._total(units).items() if n > budget.allowed}
        return {index for index in units if not over.isdisjoint(self._covered.get(index, ()))}

    def families(self, most: int) -> Iterator[Ints]:
        """Largest sets of candidates that exceed the budgets by no more than `most` pods.

        The first of the likeliest: sets with the least important of those that budgets cover.
        """
        covered = self.covered
        free = [index for index in self.candidates.tolist() if index not in self._covered]
        tried = 0
        # Each entry: how many of `covered` are decided, and which of them may go.
        stack: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        while stack and tried < _MOST_TRIED:
            tried += 1
            at, chosen = stack.pop()
            if at < len(covered):
                stack.append((at + 1, chosen))
                more = (*chosen, covered[at])
                if self.violations(more) <= most:
                    stack.append((at + 1, more))
            elif self._largest(chosen, covered, most):
                yield np.array(sorted([*free, *chosen]), np.int64)

    def _largest(self, chosen: tuple[int, ...], covered: list[int], most: int) -> bool:
        others = (index for index in covered if index not in chosen)
        return all(self.violations((*chosen, other)) > most for other in others)

    def _total(self, units: Iterable[int]) -> Counter[DisruptionBudget]:
        total: Counter[DisruptionBudget] = Counter()
        if self._covered:
            for index in units:
                total.update(self._covered.get(index, {}))
        return total


def affordable(dry_run: DryRun, protected: ProtectedUnits) -> list[Ints]:
    """Sets of candidates without which the root fits, that exceed budgets as little as possible."""
    everyone = protected.candidates
    for most in range(min(protected.violations(everyone.tolist()), _MOST_EXCEEDED)):
        found: list[Ints] = []
        for number, family in enumerate(protected.families(most)):
            if number == _MOST_FAMILIES or dry_run.exhausted:
                break
            if len(family) and dry_run.fits(family) is not None:
                found.append(family)
        if found:
            return found
    return [everyone]
