"""PodDisruptionBudgets: how many of their pods may be evicted, and which units they protect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from scheduler.core.forest import Pod
from scheduler.core.label_expressions import matches
from scheduler.core.model import Expression
from scheduler.core.node_table import Ints
from scheduler.core.preemption.units import Units
from scheduler.core.search.search_budget import nothing

_MOST_TRIED: Final = 2000

MOST_BUDGETS: Final = 64
"""Of a namespace: with more of them all its pods count as protected."""

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

    @property
    def namespaces(self) -> Collection[str]:
        """Those with a budget."""
        return self._by_namespace.keys()

    def within(self, namespace: str) -> Collection[DisruptionBudget]:
        """The budgets of a namespace."""
        return self._by_namespace.get(namespace, {}).values()


class Coverage:
    """Which budgets cover which pods, for the time of one decision.

    Pods of equal labels are matched once. A namespace with more than MOST_BUDGETS counts as covered
    by one that allows nothing, which its owner could have written as well: a decision never matches
    thousands of budgets with thousands of pods. `matched` counts what it matched.
    """

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], list[DisruptionBudget]] = {}
        self.matched = 0

    def of(self, pods: Iterable[Pod]) -> Counter[DisruptionBudget]:
        """How many of the pods each budget covers."""
        found: Counter[DisruptionBudget] = Counter()
        for pod in pods:
            there = self._budgets.within(pod.info.namespace)
            if there:
                found.update(self._covering(pod, there))
        return found

    def _covering(
        self, pod: Pod, there: Collection[DisruptionBudget]
    ) -> Iterable[DisruptionBudget]:
        namespace = pod.info.namespace
        if len(there) > MOST_BUDGETS:
            return (DisruptionBudget((namespace, ""), (), 0),)
        key = (namespace, frozenset(pod.info.labels.items()))
        covering = self._known.get(key)
        if covering is None:
            self.matched += len(there)
            covering = self._known[key] = [budget for budget in there if budget.covers(pod)]
        return covering


def violations(covered: Counter[DisruptionBudget]) -> int:
    """By how many pods the budgets would be exceeded, summed over budgets."""
    return sum(max(0, count - budget.allowed) for budget, count in covered.items())


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A set of units as a list linked to the front, what it takes of budgets, and exceeds them."""

    units: tuple[int, Any] | None
    totals: Counter[DisruptionBudget]
    violations: int

    def __iter__(self) -> Iterator[int]:
        rest = self.units
        while rest is not None:
            unit, rest = rest
            yield unit

    def more(self, covered: Counter[DisruptionBudget]) -> int:
        """By how many more pods budgets would be exceeded with a unit that they cover so."""
        return sum(
            max(0, self.totals[budget] + count - budget.allowed)
            - max(0, self.totals[budget] - budget.allowed)
            for budget, count in covered.items()
        )

    def add(self, unit: int, covered: Counter[DisruptionBudget]) -> _Chosen:
        return _Chosen(
            (unit, self.units), self.totals + covered, self.violations + self.more(covered)
        )


class ProtectedUnits:
    """Which budgets cover which candidates, and what evicting them would violate."""

    def __init__(
        self,
        budgets: DisruptionBudgets,
        units: Units,
        candidates: Ints,
        pause: Callable[[], None] = nothing,
    ) -> None:
        """`pause` is called between units, as in a search."""
        self._pause = pause
        self.candidates = candidates
        self.priorities = units.priorities
        self._covered: dict[int, Counter[DisruptionBudget]] = {}
        if budgets:
            # A unit is in one namespace, and most namespaces have no budget.
            coverage, concerned = Coverage(budgets), units.within(budgets.namespaces, candidates)
            for index in concerned.tolist():
                pause()
                covered = coverage.of(units.unit(index).pods.values())
                if covered:
                    self._covered[index] = covered

    @property
    def covered(self) -> list[int]:
        """The candidates that a budget covers, by lowest priority, then index."""
        return sorted(self._covered, key=lambda index: (self.priorities[index], index))

    def violations(self, units: Iterable[int]) -> int:
        """By how many pods budgets would be exceeded if all of these units were evicted."""
        return violations(self._total(units))

    def matrix(self, units: Ints) -> tuple[Ints, Ints]:
        """How many pods of each unit each budget covers, (U, P), and what the P budgets allow."""
        indices = units.tolist()
        found = {b: None for index in indices for b in self._covered.get(index, ())}
        at = {budget: number for number, budget in enumerate(found)}
        covered = np.zeros((len(indices), len(at)), np.int64)
        for number, index in enumerate(indices):
            for budget, count in self._covered.get(index, {}).items():
                covered[number, at[budget]] = count
        return covered, np.array([budget.allowed for budget in at], np.int64)

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

    def largest_sets(self, most: int, below: int | None = None) -> Iterator[Ints | None]:
        """Yield maximal sets of candidates that exceed the budgets by at most `most` pods.

        Sets with the covered candidates of lowest priority come first. With `below` only candidates
        of a lower priority count. None at the end says that there may be more.
        """
        among = self.candidates
        if below is not None:
            among = among[self.priorities[among] < below]
        free = [index for index in among.tolist() if index not in self._covered]
        covered = [
            index for index in self.covered if below is None or self.priorities[index] < below
        ]
        tried = 0
        # Each entry: how many of `covered` are decided, and which of them may be evicted.
        stack = [(0, _Chosen(None, Counter(), 0))]
        while stack and tried < _MOST_TRIED:
            tried += 1
            self._pause()
            at, chosen = stack.pop()
            if at < len(covered):
                unit = covered[at]
                stack.append((at + 1, chosen))
                if chosen.violations + chosen.more(self._covered[unit]) <= most:
                    stack.append((at + 1, chosen.add(unit, self._covered[unit])))
            elif self._largest(chosen, covered, most):
                yield np.array(sorted([*free, *chosen]), np.int64)
        if stack:
            yield None

    def _largest(self, chosen: _Chosen, covered: list[int], most: int) -> bool:
        """Whether no other unit can be added."""
        own = set(chosen)
        others = (index for index in covered if index not in own)
        spare = most - chosen.violations
        return all(chosen.more(self._covered[other]) > spare for other in others)

    def _total(self, units: Iterable[int]) -> Counter[DisruptionBudget]:
        total: Counter[DisruptionBudget] = Counter()
        if self._covered:
            for index in units:
                self._pause()
                total.update(self._covered.get(index, {}))
        return total
