"""The proof that no other set of victims is cheaper than the one that was found.

Costs are compared field by field, so three statements need a proof. No set with fewer violations of
budgets suffices. No set of units of lower priority does. No other set has fewer or cheaper units
(`fewest.py`). A dry run that failed proves nothing, because `place` may have missed a placement.
The allocator of devices does not check all ways either, so nothing is proved for pods that need
devices.
"""

from __future__ import annotations

from typing import Final

from scheduler.core.nodes.node_table import Ints
from scheduler.core.preemption.candidates import NONE
from scheduler.core.preemption.cost import Cost
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.exact_fit import ExactFit
from scheduler.core.preemption.necessary import Necessary
from scheduler.core.preemption.protected_units import ProtectedUnits

MOST_SETS: Final = 32
"""Sets of units that are tried. With more, the plan has no proof."""


class Proof:
    """The proof for one decision; the effort's `steps` bound its cost."""

    def __init__(self, dry_run: DryRun, protected: ProtectedUnits) -> None:
        self._dry_run = dry_run
        self._protected = protected
        self._fit = ExactFit(dry_run, dry_run.effort.steps)
        self._shown: dict[bytes, bool] = {}

    def impossible(self, units: Ints) -> bool:
        """Return True if it was shown that the root does not fit without these units."""
        key = units.tobytes()
        if key not in self._shown:
            self._shown[key] = self._fit.impossible(units)
        return self._shown[key]

    def lowest(self, cost: Cost) -> bool:
        """Return True if no other victims violate budgets less, or have a lower top priority."""
        if any(shape.needs_devices for shape in self._dry_run.refusal.shapes):
            return False
        # Zero violations cannot be improved.
        exceeded = not cost.violations or self._none_suffices(cost.violations - 1, None)
        return exceeded and self._none_suffices(cost.violations, cost.priority)

    # It suffices to check the largest sets: a part of a set that does not suffice does not suffice.
    def _none_suffices(self, most: int, below: int | None) -> bool:
        for number, units in enumerate(self._protected.largest_sets(most, below)):
            if units is None or number == MOST_SETS or self._dry_run.exhausted:
                return False
            if not self._insufficient(units):
                return False
        return True

    def _insufficient(self, units: Ints) -> bool:
        """Return True by arithmetic, which is quick, or else by checking all placements."""
        return Necessary(self._dry_run, NONE, units).hopeless or self.impossible(units)
