"""Exchange of victims within a namespace for those that their owners report as cheaper to evict.

The search does not read reported costs, because users choose them. It has found how many units of a
namespace are evicted. So an owner can only decide which of its own roots lose them: no report moves
an eviction to another namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Ints
from scheduler.core.preemption.cost import Cost
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.necessary import Necessary
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.state.eviction_costs import ReportedCost
from scheduler.core.state.units import unit_owner
from scheduler.core.values.model import GroupKey

_MOST_TRIED: Final = 32
"""Exchanges in a namespace that are tried by dry runs for one plan. Then its victims stay."""

_MOST_ROOTS: Final = 64
"""Cheaper roots that are checked for each victim, the cheapest first."""

_MOST_VICTIMS: Final = 128
"""Victims up to which exchanges are tried: for more, each needs too many dry runs."""

_MOST_BEYOND: Final = 4
"""Exchanges that are tried for one plan beyond the budget. Otherwise costs would not count on a

slow machine, on which the search for victims takes all of the time.
"""

Reduce = Callable[[Ints], tuple[Ints, bool]]
"""Reduces a set that suffices; False if the budget ended first."""


_NONE: Final = ReportedCost(0, 0, 0.0)


@dataclass(slots=True)
class _Root:
    """The candidates of one root, or one pod without a root, and its reported cost."""

    group: Group | None = None
    units: list[int] = field(default_factory=list)
    cost: ReportedCost = _NONE


class Exchange:
    """The exchanges for one plan; `reduce` must not add units to the set that it gets.

    If the victims are known to be `minimal`, they stay so.
    """

    def __init__(
        self, dry_run: DryRun, protected: ProtectedUnits, reduce: Reduce, *, minimal: bool
    ) -> None:
        self._dry_run = dry_run
        self._units = dry_run.state.units
        self._protected = protected
        self._reduce = reduce
        self._minimal = minimal
        self._tries = 0
        self._beyond = _MOST_BEYOND

    def improved(self, best: Ints) -> Ints:
        """Return the victims after all exchanges that keep the cost, or reduce it."""
        reporting = self._units.costs.namespaces
        if not reporting or len(best) > _MOST_VICTIMS:
            return best
        for namespace in sorted({self._units.unit(at).key[1] for at in best.tolist()}):
            if namespace in reporting:
                best = self._in_namespace(namespace, best)
        return best

    def _in_namespace(self, namespace: str, best: Ints) -> Ints:
        """Return the victims after the exchanges in one namespace, the costliest victim first."""
        # For each namespace: many reports in one must not prevent the exchanges of others.
        self._tries = _MOST_TRIED
        roots = self._roots(namespace, Cost.of(self._units, self._protected, best).priority)
        tried = set[int]()
        while True:
            chosen = set(best.tolist())
            left = [it for it in roots if id(it) not in tried and chosen.intersection(it.units)]
            if not left:
                return best
            victim = max(left, key=lambda it: it.cost)
            tried.add(id(victim))
            replaced = self._replaced(victim, roots, best)
            if replaced is not None:
                # Others may be replaceable now. Each exchange takes a cheaper root, so this ends.
                best, tried = replaced, set()

    def _roots(self, namespace: str, priority: int) -> list[_Root]:
        """Return the roots of the namespace with candidates up to this priority."""
        units, found = self._units, dict[GroupKey | int, _Root]()
        candidates = units.within([namespace], self._protected.candidates)
        for index in candidates[units.priorities[candidates] <= priority].tolist():
            self._dry_run.pause()
            pod = next(iter(units.unit(index).pods.values()))
            root = unit_owner(pod, self._dry_run.state.forest).root
            entry = found.setdefault(index if root is None else root.key, _Root(root))
            entry.units.append(index)
        for entry in found.values():
            pods = (pod for at in entry.units for pod in units.unit(at).pods.values())
            entry.cost = units.costs.reported(entry.group, pods, units.protection)
        return list(found.values())

    def _replaced(self, victim: _Root, roots: list[_Root], best: Ints) -> Ints | None:
        """Return the victims with this root's replaced by the cheapest others; None if none do."""
        cheaper = sorted((it for it in roots if it.cost < victim.cost), key=lambda it: it.cost)
        rest = np.setdiff1d(best, victim.units)
        known = Cost.of(self._units, self._protected, best)
        for scope in self._scopes(rest, cheaper[:_MOST_ROOTS]):
            if not self._may_try():
                return None
            if self._dry_run.fits(scope) is None:
                continue
            chosen, minimal = self._reduce(scope)
            if (
                (minimal or not self._minimal)
                and len(chosen)
                and self._costs_no_more(chosen, known)
            ):
                return chosen
        return None

    def _may_try(self) -> bool:
        self._tries -= 1
        self._beyond -= self._dry_run.exhausted
        return self._tries >= 0 and self._beyond >= 0

    def _scopes(self, rest: Ints, cheaper: list[_Root]) -> Iterator[Ints]:
        """Yield the sets with the units of one cheaper root each that may suffice."""
        scopes = [np.union1d(rest, np.array(it.units, np.int64)) for it in cheaper]
        if not scopes:
            return
        candidates: Ints = np.unique(np.concatenate(scopes))
        chosen = np.array([np.isin(candidates, scope) for scope in scopes], np.bool_)
        passes = Necessary(self._dry_run, candidates).passes(chosen)
        yield from (scopes[at] for at in np.flatnonzero(passes).tolist())

    def _costs_no_more(self, chosen: Ints, known: Cost) -> bool:
        cost = Cost.of(self._units, self._protected, chosen)
        return (cost.decided, cost.needed) <= (known.decided, known.needed)
