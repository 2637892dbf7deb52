"""Exchange of victims within a namespace for those that their owners report as cheaper to evict.

The search does not read reported costs, because users choose them. It has found how many units of a
namespace are evicted. So an owner can only decide which of its own roots lose them: no report moves
an eviction to another namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
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

_MOST_SOLVES: Final = 48
"""Dry runs for the exchanges of a namespace in one plan. Then its victims stay."""

_MOST_SETS: Final = 64
"""Sets that are checked by arithmetic for each victim, those with the cheapest roots first."""

_MOST_VICTIMS: Final = 128
"""Victims up to which exchanges are tried: for more, each needs too many dry runs."""

_MOST_BEYOND: Final = 4
"""Exchanges tried for one plan beyond the budget, so that costs count on a slow machine."""

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
        self._last = 0
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
        self._last = self._dry_run.solves + _MOST_SOLVES
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
        owners = dict[Group, Group | None]()
        candidates = units.within([namespace], self._protected.candidates)
        for index in candidates[units.priorities[candidates] <= priority].tolist():
            self._dry_run.pause()
            pod = next(iter(units.unit(index).pods.values()))
            # Most units are single pods, of which a group may have thousands.
            if pod.group is not None and pod.group not in owners:
                owners[pod.group] = unit_owner(pod, self._dry_run.state.forest).root
            root = owners[pod.group] if pod.group is not None else None
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
        for scope in self._scopes(rest, len(best) - len(rest), cheaper):
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
        self._beyond -= self._dry_run.exhausted
        return self._dry_run.solves < self._last and self._beyond >= 0

    def _scopes(self, rest: Ints, number: int, cheaper: list[_Root]) -> Iterator[Ints]:
        """Yield the sets that may suffice with units of a cheaper root for so many others."""
        parts = (part for root in cheaper for part in self._parts(root, rest, number))
        scopes = [np.union1d(rest, part) for part in islice(parts, _MOST_SETS)]
        if not scopes:
            return
        candidates: Ints = np.unique(np.concatenate(scopes))
        chosen = np.array([np.isin(candidates, scope) for scope in scopes], np.bool_)
        passes = Necessary(self._dry_run, candidates).passes(chosen)
        yield from (scopes[at] for at in np.flatnonzero(passes).tolist())

    def _parts(self, root: _Root, rest: Ints, number: int) -> Iterator[Ints]:
        """Yield the units of a root that may replace so many others: each alone for a single one.

        Those of the latest start come first.
        """
        units: Ints = np.setdiff1d(root.units, rest)
        if number > 1:
            yield from (units,) if len(units) >= number else ()
            return
        yield from sorted(units[:, None], key=self._start)

    def _start(self, unit: Ints) -> float:
        return -float(self._units.youth[self._units.slots_of(unit)].min())

    def _costs_no_more(self, chosen: Ints, known: Cost) -> bool:
        cost = Cost.of(self._units, self._protected, chosen)
        return (cost.decided, cost.needed) <= (known.decided, known.needed)
