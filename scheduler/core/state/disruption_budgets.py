"""PodDisruptionBudgets: the pods that each covers, and how many of these may be evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.core.groups.forest import Pod
from scheduler.core.nodes.label_expressions import matches
from scheduler.core.values.model import Expression

MOST_BUDGETS: Final = 64
"""PodDisruptionBudgets of one namespace that are matched. With more, all its pods are protected."""

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
        """The namespaces that have a budget."""
        return self._by_namespace.keys()

    def within(self, namespace: str) -> Collection[DisruptionBudget]:
        """Return the budgets of a namespace."""
        return self._by_namespace.get(namespace, {}).values()


class Coverage:
    """The budgets that cover each pod, for the time of one decision.

    Pods of equal labels are matched once. A namespace with more than MOST_BUDGETS budgets counts as
    covered by one budget that allows no eviction. `matched` counts the budgets that were matched.
    """

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], list[DisruptionBudget]] = {}
        self.matched = 0

    def of(self, pods: Iterable[Pod]) -> Counter[DisruptionBudget]:
        """Return how many of the pods each budget covers."""
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
        # A decision must not match thousands of budgets with thousands of pods. The owner of the
        # namespace could create a budget that allows nothing anyway, so this gives no new power.
        if len(there) > MOST_BUDGETS:
            return (DisruptionBudget((namespace, ""), (), 0),)
        # Pods of one template have equal labels.
        key = (namespace, frozenset(pod.info.labels.items()))
        covering = self._known.get(key)
        if covering is None:
            self.matched += len(there)
            covering = self._known[key] = [budget for budget in there if budget.covers(pod)]
        return covering
