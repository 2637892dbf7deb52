"""Whether no other set of victims is cheaper than the one that was found.

The costs are compared field by field, so three things are to be shown: that no set with fewer
violations of budgets suffices, none of units of lower priority, and of all others none of fewer or
cheaper units (`fewest.py`). That a dry run failed shows nothing: `place` may have missed a
placement. Nor does the allocator of devices look at all ways, so nothing is proved where pods ask
for any.
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
"""Sets of units that are tried. With more, the plan stands without a proof."""


class Proof:
    """Of one decision; what it costs is bounded by the effort's `steps`."""

    def __init__(self, dry_run: DryRun, protected: ProtectedUnits) -> None:
        self._dry_run = dry_run
        self._protected = protected
        self._fit = ExactFit(dry_run, dry_run.effort.steps)
        self._shown: dict[bytes, bool] = {}

    def impossible(self, units: Ints) -> bool:
        """Whether it was shown that the root fits nowhere without these units."""
        key = units.tobytes()
        if key not in self._shown:
            self._shown[key] = self._fit.impossible(units)
        return self._shown[key]

    def lowest(self, cost: Cost) -> bool:
        """Whether all victims violate budgets as often, and one of them has as high a priority."""
        if any(shape.requirements.needs_devices for shape in self._dry_run.refusal.shapes):
            return False
        exceeded = not cost.violations or self._none_suffices(cost.violations - 1, None)
        return exceeded and self._none_suffices(cost.violations, cost.priority)

    def _none_suffices(self, most: int, below: int | None) -> bool:
        for number, units in enumerate(self._protected.largest_sets(most, below)):
            if units is None or number == MOST_SETS or self._dry_run.exhausted:
                return False
            if not self._insufficient(units):
                return False
        return True

    def _insufficient(self, units: Ints) -> bool:
        """By arithmetic, which is quick, or by all placements."""
        return Necessary(self._dry_run, NONE, units).hopeless or self.impossible(units)
