"""The cost of a set of victims, for one set and for many at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.core.nodes.node_table import Bools, Floats, Ints
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.state.units import Units


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The cost of a set of victims, compared field by field: the lowest wins.

    `violations` are evictions beyond the budgets, `priority` is the highest priority of a unit,
    `priorities` the sum over units, `needed` the pods that are not beyond the minCount of their
    gang. `started` is the negated earliest start of a pod (older is worse); pods of a root count as
    started earlier the more often it was preempted lately.
    """

    violations: int
    priority: int
    units: int
    priorities: int
    pods: int
    needed: int
    started: float

    @classmethod
    def of(cls, units: Units, protected: ProtectedUnits, chosen: Ints) -> Cost:
        priorities, slots = units.priorities[chosen], units.slots_of(chosen)
        return cls(
            violations=protected.violations(chosen),
            priority=int(priorities.max()),
            units=len(chosen),
            priorities=int(priorities.sum()),
            pods=len(slots),
            needed=len(slots) - int(units.extras(slots).sum()),
            started=-float(units.youth[slots].min()),
        )

    @property
    def decided(self) -> tuple[int, int, int, int, int]:
        """All fields that a proof is about; the others only break ties."""
        return (self.violations, self.priority, self.units, self.priorities, self.pods)


class Costs:
    """The costs of many sets of the same candidates; sets are rows of indices of candidates.

    `covered` (U, P) are how many pods of each unit each of the budgets covers. `started` (U,) is
    the negated earliest start of a pod.
    """

    def __init__(self, units: Units, protected: ProtectedUnits, candidates: Ints) -> None:
        self._priorities: Ints = units.priorities[candidates]
        each = [units.slots_of(np.array([index])) for index in candidates.tolist()]
        self._pods = np.array([len(slots) for slots in each], np.int64)
        self.started: Floats = np.array([-float(units.youth[slots].min()) for slots in each])
        self.covered, self._allowed = protected.matrix(candidates)

    def exceeds(self, sets: Ints, known: Cost) -> Bools:
        """Return which sets cost more than this, whatever units are added to them."""
        # These fields never decrease when a unit is added.
        highest = self._priorities[sets].max(axis=1, initial=known.priority)
        over: Bools = (self._violations(sets) > known.violations) | (highest > known.priority)
        return over

    def cheaper(self, sets: Ints, known: Cost) -> Iterator[int]:
        """Yield the indices of the sets that are cheaper than this, the cheapest first."""
        if not len(sets):
            return
        costs = [
            self._violations(sets),
            self._priorities[sets].max(axis=1),
            np.full(len(sets), sets.shape[1]),
            self._priorities[sets].sum(axis=1),
            self._pods[sets].sum(axis=1),
        ]
        order = np.lexsort((self.started[sets].max(axis=1), *reversed(costs)))
        for at in order.tolist():
            # Sorted, so all later sets cost at least as much.
            if tuple(int(field[at]) for field in costs) >= known.decided:
                return
            yield at

    def _violations(self, sets: Ints) -> Ints:
        if not self.covered.shape[1]:
            return np.zeros(len(sets), np.int64)
        over = np.maximum(self.covered[sets].sum(axis=1) - self._allowed, 0)
        found: Ints = over.sum(axis=1)
        return found
