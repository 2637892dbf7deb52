"""PodDisruptionBudgets: how many of their pods may be evicted, and which units they protect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.forest import Pod
from scheduler.core.label_expressions import matches
from scheduler.core.model import Expression
from scheduler.core.node_table import Ints
from scheduler.core.preemption.units import Units

_MOST_TRIED: Final = 2000

BudgetKey = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget; `allowed` is its status.disruptionsAllowed.

    `expressions` None selects no pod, () all pods of the namespace.
    """

    key: BudgetKey
    expressions: tuple[Expression, ...] | None
    allowed: int

    def covers(self, pod: Pod) -> bool:
        info = pod.info
        if self.expressions is None or info.namespace != self.key[0]:
            return False
        return matches(self.expressions, info.labels)


class DisruptionBudgets:
    """All budgets of the cluster."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, DisruptionBudget]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def __iter__(self) -> Iterator[DisruptionBudget]:
        for disruption_budgets in self._by_namespace.values():
            yield from disruption_budgets.values()

    def set(self, budget: DisruptionBudget) -> None:
        namespace, name = budget.key
        self._by_namespace.setdefault(namespace, {})[name] = budget

    def remove(self, key: BudgetKey) -> None:
        disruption_budgets = self._by_namespace.get(key[0], {})
        disruption_budgets.pop(key[1], None)
        if not disruption_budgets:
            self._by_namespace.pop(key[0], None)

    def covering(self, pods: Iterable[Pod]) -> Counter[DisruptionBudget]:
        """How many of the pods each budget covers."""
        found: Counter[DisruptionBudget] = Counter()
        for pod in pods:
            for budget in self._by_namespace.get(pod.info.namespace, {}).values():
                if budget.covers(pod):
                    found[budget] += 1
        return found


def violations(covered: Counter[DisruptionBudget]) -> int:
    """By how many pods the budgets would be exceeded, summed over budgets."""
    return sum(max(0, count - budget.allowed) for budget, count in covered.items())


class ProtectedUnits:
    """Which budgets cover which candidates, and what evicting them would violate."""

    def __init__(self, budgets: DisruptionBudgets, units: Units, candidates: Ints) -> None:
        self.candidates = candidates
        self.priorities = units.priorities
        self._covered: dict[int, Counter[DisruptionBudget]] = {}
        if budgets:
            for index in candidates.tolist():
                covered = budgets.covering(units.unit(index).pods.values())
                if covered:
                    self._covered[index] = covered

    @property
    def covered(self) -> list[int]:
        """The candidates that a budget covers, by lowest priority, then index."""
        return sorted(self._covered, key=lambda index: (self.priorities[index], index))

    def violations(self, units: Iterable[int]) -> int:
        """By how many pods budgets would be exceeded if all of these units were evicted."""
        return violations(self._total(units))

    def tiers(self, units: Ints) -> Ints:
        """Per unit its tier, (len(units),): units of lower tiers are evicted first.

        Tiers go by priority; units that violate a budget on their own come after all others.
        """
        tiers: Ints = self.priorities[units].copy()
        span = int(tiers.max() - tiers.min()) + 1
        if self._covered:
            tiers[[self.violations([index]) > 0 for index in units.tolist()]] += span
        return tiers

    def exceeding(self, units: list[int]) -> set[int]:
        """Those of the units that are covered by a budget which evicting all would exceed."""
        over = {budget for budget, n in self._total(units).items() if n > budget.allowed}
        return {index for index in units if not over.isdisjoint(self._covered.get(index, ()))}

    def largest_sets(self, most: int) -> Iterator[Ints]:
        """Yield maximal sets of candidates that exceed the budgets by at most `most` pods.

        Sets with the covered candidates of lowest priority come first.
        """
        covered = self.covered
        free = [index for index in self.candidates.tolist() if index not in self._covered]
        tried = 0
        # Each entry: how many of `covered` are decided, and which of them may be evicted.
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
