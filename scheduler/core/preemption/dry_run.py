"""The dry run of preemption: it shows if a root fits once some units are evicted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.state.state import State


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """The limits of the search for the fewest victims.

    `solves` bounds the dry runs, `scopes` the parts of the cluster that are tried. `subsets` bounds
    the dry runs for sets of fewer units, `cells` the values that are read to rule out such sets.
    `steps` bounds the proofs that such sets are too small, and `families` the candidate sets with
    the fewest budget violations.

    Pods that should have been deleted before `overdue` (monotonic seconds) do not count as leaving.
    Nor do pods that others deleted and that will exist after `soon`: those can be evicted.
    """

    solves: int = 600
    scopes: int = 12
    subsets: int = 150
    cells: int = 2_000_000
    steps: int = 3_000
    families: int = 4
    overdue: float = 0.0
    soon: float = math.inf

    @classmethod
    def at(cls, now: float, patience: float) -> Self:
        """Return the effort for a decision at this time (monotonic); `patience` is in seconds."""
        return cls(overdue=now - patience, soon=now + patience)


class DryRun:
    """Dry runs for one root; each set of units is solved once.

    Sets of units are sorted arrays of indices. Pods that leave soon, and are not overdue, count as
    deleted. `waits` is true if the capacity that they, or claims without pods, release may suffice.
    """

    def __init__(
        self,
        state: State,
        root: Group | Pod,
        refusal: Refusal,
        budget: SearchBudget,
        effort: SearchEffort,
    ) -> None:
        self.state = state
        self.root = root
        self.refusal = refusal
        self.effort = effort
        self.solves = 0
        self._extras = not refusal.shortage.minimum
        self._wanted = 1
        self.limit(budget)
        self.leaving = state.units.departing(effort.overdue, effort.soon)
        asks = any(shape.needs_devices for shape in refusal.shapes)
        self.waits = bool(len(self.leaving)) or (asks and bool(state.devices.consumers.returning))
        self._known: dict[bytes, Placement | None] = {}

    def limit(self, budget: SearchBudget) -> None:
        """Use this budget from now on."""
        # By score, a pod would go to the emptiest node, which is the one with the most victims.
        self.budget = budget.as_of_groups()
        self.pause = budget.pause

    @property
    def exhausted(self) -> bool:
        return self.solves >= self.effort.solves or self.budget.expired()

    @property
    def extras(self) -> int | None:
        """Number of pods that must be placed if only extras wait; None if minimums do."""
        return self._wanted if self._extras else None

    def open(self, candidates: Ints) -> bool:
        """Return True if the root fits without all of these units.

        If only extras wait, later dry runs must place as many of them as fit now.
        """
        placement = self.fits(candidates) if len(candidates) else None
        # Otherwise reducing the set would leave capacity for a single extra.
        if placement is not None and self._extras:
            self._wanted = len(placement.pods)
            self._known = {candidates.tobytes(): placement}
        return placement is not None

    def fits(self, units: Ints) -> Placement | None:
        """Return where the root fits if these units are evicted; None if it does not."""
        self.pause()
        key = units.tobytes()
        # Reductions and proofs ask about the same sets repeatedly.
        if key not in self._known:
            self.solves += 1
            self._known[key] = self._solve(units)
        return self._known[key]

    def release(self, units: Ints) -> None:
        """Remove the pods of the units and all leaving pods from their nodes, in the open trial.

        Claims whose pods are deleted already count as released: evicting others would not help.
        """
        slots = self.state.units.slots_of(units)
        self.state.units.release(np.concatenate((self.leaving, slots)))
        self.state.units.release_returning()

    @contextmanager
    def without(self, units: Ints) -> Iterator[None]:
        """Evict these units and all leaving pods inside, and respect others' nominations."""
        nominations = self.state.nominations
        with self.state.nodes.trial():
            # Before the nominations are taken: some nominated pods get only what is free then.
            self.release(units)
            root, shapes = self.refusal.root, self.refusal.shapes
            with nominations.respected(root, self.root.priority, shapes=shapes):
                yield

    def holds(self, placement: Placement, units: Ints) -> bool:
        """Return True if this placement, in its order, fits once these units are evicted."""
        framework = self.state.framework
        with self.without(units):
            for pod, row in zip(placement.pods, placement.rows, strict=True):
                self.pause()
                at = Region(np.array([row], np.int64))
                # One pod after the other: placing one may exclude the next.
                if not framework.slots_in(pod.shape, at)[0]:
                    return False
                if not framework.reserve(pod.shape, at, np.ones(1, np.int64)):
                    return False
        return True

    def _solve(self, units: Ints) -> Placement | None:
        with self.state.nodes.trial():
            self.release(units)
            decision = place(self.state, self.root, self.budget, extras=self._extras)
        # Extras are placed as far as they fit, so too few of them are not a refusal of `place`.
        if isinstance(decision, Refusal) or len(decision.pods) < self._wanted:
            return None
        return decision
