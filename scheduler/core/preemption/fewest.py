"""The search for cheaper sets of units, in the order of their cost, fewest units first.

Arithmetic rules out many sets that cannot suffice at once (`necessary.py`). Of equal units only the
first ones are tried. The dry run decides about the others, the cheapest first. So the first set
that suffices is the best, if it was shown that those before it do not suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.preemption.cost import Cost, Costs
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.necessary import Necessary

_BLOCK: Final = 512
"""Sets that are checked between two pauses."""


@dataclass(frozen=True, slots=True)
class CheapestVictims:
    """The cheapest set, sorted; None if none is cheaper than the known one.

    `complete` is true if it was shown that no other set of these candidates is cheaper.
    """

    units: Ints | None
    complete: bool


class FewestUnits:
    """The search among these candidates for a set that is cheaper than a known one.

    Sets are rows of positions in `_order`, which are indices of candidates: those that free most
    come first, equal ones are adjacent. `_before` is the position of the preceding equal one, -1
    for none.
    """

    def __init__(
        self, dry_run: DryRun, costs: Costs, candidates: Ints, impossible: Callable[[Ints], bool]
    ) -> None:
        """Use `impossible` to show that the root does not fit without a set."""
        self._dry_run = dry_run
        self._impossible = impossible
        self._shown = True
        self._costs = costs
        self._candidates = candidates
        self._necessary = Necessary(dry_run, candidates)
        self._order, self._before = self._arranged()
        self._cells = 0

    def search(self, known: Cost, least: int, solves: int, cells: int) -> CheapestVictims:
        """Look for a cheaper set of at least `least` units.

        Uses at most `solves` dry runs, and reads about as many values as `cells`.
        """
        last, self._cells = self._dry_run.solves + solves, cells
        sets = np.zeros((1, 0), np.int64)
        # Sets of as many units as the known one may still cost less.
        for size in range(1, known.units + 1):
            extended = self._extended(sets, known, last=size == known.units)
            if extended is None:
                return CheapestVictims(None, complete=False)
            sets = extended
            if not len(sets):
                break
            # Sets below the bound cannot suffice, but larger sets extend them.
            if size < least:
                continue
            found = self._cheapest(sets, known, last)
            if found is None or len(found):
                return CheapestVictims(found, complete=found is not None and self._shown)
        return CheapestVictims(None, complete=self._shown)

    def _cheapest(self, sets: Ints, known: Cost, last: int) -> Ints | None:
        """Return the cheapest of these that suffices; empty if none, None if the effort is over."""
        sets = sets[self._passing(sets, further=False)]
        for at in self._costs.cheaper(self._order[sets], known):
            self._dry_run.pause()
            if self._dry_run.exhausted or self._dry_run.solves >= last:
                return None
            units: Ints = np.sort(self._candidates[self._order[sets[at]]])
            if self._dry_run.fits(units) is not None:
                return units
            # `place` may have missed a placement. Without a proof the result is not complete.
            self._shown = self._shown and self._impossible(units)
        return np.zeros(0, np.int64)

    def _extended(self, sets: Ints, known: Cost, *, last: bool) -> Ints | None:
        """Return all sets with one unit more that may be a part of a set cheaper than `known`.

        None if that takes more than the remaining cells.
        """
        ends = sets[:, -1] if sets.shape[1] else np.full(len(sets), -1)
        parts = []
        for position, before in enumerate(self._before.tolist()):
            # Ascending positions, and an equal unit only after the one before it: each set is built
            # once, and sets that differ in equal units only are not built again.
            fits = (ends < position) & ((before < 0) | (ends == before))
            parts.append(np.insert(sets[fits], sets.shape[1], position, axis=1))
            self._cells -= int(fits.sum()) * self._necessary.cells
            if self._cells < 0:
                return None
        extended: Ints = np.concatenate(parts)
        extended = extended[~self._costs.exceeds(self._order[extended], known)]
        return extended if last else extended[self._passing(extended, further=True)]

    def _passing(self, sets: Ints, *, further: bool) -> Bools:
        """Return which sets may suffice; if they go `further`, with all units that come later."""
        parts = [np.zeros(0, np.bool_)]
        for first in range(0, len(sets), _BLOCK):
            self._dry_run.pause()
            block = sets[first : first + _BLOCK]
            chosen = np.zeros((len(block), len(self._order)), np.bool_)
            if further:
                chosen = np.arange(len(self._order)) > block[:, -1:]
            np.put_along_axis(chosen, block, values=True, axis=1)
            by_candidate = np.zeros((len(block), len(self._candidates)), np.bool_)
            by_candidate[:, self._order] = chosen
            parts.append(self._necessary.passes(by_candidate))
        passing: Bools = np.concatenate(parts)
        return passing

    def _arranged(self) -> tuple[Ints, Ints]:
        """Return `_order` and `_before`; units that free nothing useful to the root come last."""
        gain = self._necessary.gain.sum(axis=2)
        share = (gain / np.maximum(gain.max(axis=0, initial=0), 1)).sum(axis=1)
        first: dict[object, int] = {}
        kinds = [
            first.setdefault(_kind(self._dry_run, self._costs, at, int(index)), at)
            for at, index in enumerate(self._candidates)
        ]
        equal = np.array(kinds, np.int64)
        # Units that free much come first, so that few units are left to make up for a bad start.
        order: Ints = np.lexsort((self._costs.started, equal, -share))
        ranked = equal[order]
        before = np.where(ranked[1:] == ranked[:-1], np.arange(len(order) - 1), -1)
        return order, np.concatenate((np.full(min(1, len(order)), -1), before))


def _kind(dry_run: DryRun, costs: Costs, at: int, index: int) -> object:
    """Return a key that is equal for units that can replace each other at the same cost."""
    units, claims_of = dry_run.state.units, dry_run.state.devices.consumers.claims_of
    unit = units.unit(index)
    # Units with claims are never equal: the claims' devices and consumers may differ.
    if any(True for uid in unit.pods for _ in claims_of(uid)):
        return index
    slots = sorted(unit.slots)
    places = sorted(zip(units.rows[slots].tolist(), units.shapes[slots].tolist(), strict=True))
    return (tuple(places), unit.priority, costs.covered[at].tobytes())
