"""PodDisruptionBudgets: how many of some pods may be disrupted, and what a choice costs by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.core.forest import Pod
from scheduler.core.model import Expression
from scheduler.core.plugins.node_affinity import meets

BudgetKey = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """`expressions` None selects no pod, () all of the namespace; `allowed` may go now."""

    key: BudgetKey
    expressions: tuple[Expression, ...] | None
    allowed: int

    def covers(self, pod: Pod) -> bool:
        info = pod.info
        if self.expressions is None or info.namespace != self.key[0]:
            return False
        return all(meets(e, info.labels.get(e.key)) for e in self.expressions)


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
    """By how many pods the budgets would be exceeded."""
    return sum(max(0, count - budget.allowed) for budget, count in covered.items())
