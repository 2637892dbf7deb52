"""Plans for many equal pods at once: the first pod's victims determine those of the others.

This works only in simple cases: free resources and node filters alone decide where the pods fit,
and the candidates are single pods that no budget covers. Then a plan concerns one node, and earlier
plans change nothing elsewhere. As soon as another plan costs more or less than the first, or could,
the rest are planned one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core.groups.forest import Pod
from scheduler.core.nodes.node_table import Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.candidates import NONE, EvictionScopes
from scheduler.core.preemption.cost import Cost
from scheduler.core.preemption.dry_run import DryRun, SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.preemption.protected_units import ProtectedUnits
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State


def preempt_equals(
    state: State,
    roots: Sequence[Pod],
    first: tuple[Refusal, Plan],
    budget: SearchBudget,
    effort: SearchEffort,
) -> list[Plan]:
    """Return the plans of `preempt` for the first of these pods, in order; changes nothing.

    They are equal to one that was refused, `first`, and whose plan is being carried out. They may
    differ in volumes that all nodes can use. Each plan assumes that those before it are being
    carried out.
    """
    cost, shape = first[1].cost, roots[0].shape
    refusal = replace(first[0].of(shape), root=roots[0].key)
    # Budgets and expected pods make the choice of victims depend on earlier plans.
    if cost is None or cost.violations or state.units.places:
        return []
    if not (state.framework.alone(shape) and _plain(state, shape)):
        return []
    state.units.refresh()
    candidates = state.units.prompt(state.units.below(roots[0].priority, effort.soon))
    candidates = candidates[state.units.priorities[candidates] <= cost.priority]
    if not _single_pods(state, candidates, cost, budget):
        return []
    dry_run = DryRun(state, roots[0], refusal, budget, effort)
    with state.nominations.kept(roots[0].key, roots[0].priority, refusal.shapes):
        scopes = EvictionScopes(dry_run, candidates)
        with dry_run.without(NONE):
            return list(_Chain(state, candidates, scopes, cost).plans(roots, budget))


def _plain(state: State, shape: Shape) -> bool:
    """Return True if a pod of the shape only takes resources, and all are in the arrays."""
    return state.framework.only_counts(shape) and not shape.request.apart


def _single_pods(state: State, candidates: Ints, cost: Cost, budget: SearchBudget) -> bool:
    """Return True if all candidates are plain single pods that cost what the first victims did."""
    units = state.units
    slots = units.slots_of(candidates)
    if len(slots) != len(candidates) or not len(slots):
        return False
    if not all(_plain(state, shape) for shape in units.shapes_of(slots)):
        return False
    # If the first plan did not take the lowest priorities, something else decided as well.
    lowest = np.sort(units.priorities[candidates])[: cost.units]
    if int(lowest.sum()) != cost.priorities:
        return False
    return not len(ProtectedUnits(state.disruption_budgets, units, candidates, budget).covered)


class _Chain:
    """The plans in an open trial, in which earlier plans are carried out."""

    def __init__(self, state: State, candidates: Ints, scopes: EvictionScopes, cost: Cost) -> None:
        self._state = state
        self._units = state.units
        self._scopes = scopes
        self._cost = cost
        slots = self._units.slots_of(candidates)
        by_row = np.argsort(self._units.rows[slots], kind="stable")
        self._slots = slots[by_row]
        self._rows = self._units.rows[self._slots]

    def plans(self, roots: Sequence[Pod], budget: SearchBudget) -> Iterator[Plan]:
        for root in roots:
            budget.pause()
            # A pod that fits without evictions gets no plan.
            row = None if self._scopes.any_capacity or budget.expired() else self._scopes.cheapest()
            if row is None or self._state.nodes.exclusive_uses.clash(np.array([row])).any():
                return
            # Slots are sorted by row, so those of one node are a slice.
            slots = self._slots[slice(*np.searchsorted(self._rows, (row, row + 1)))]
            victims = self._victims(root.shape, row, slots)
            # Of these, others may go instead.
            if self._report_costs(victims):
                return
            cost = self._cost_of(victims)
            # With another cost, or a possibly smaller one, the full search could choose otherwise.
            if cost.decided != self._cost.decided or cost.units > self._scopes.least_of_one():
                return
            self._carry_out(root.shape, row, slots, victims)
            yield self._plan(root, row, victims, cost)

    def _report_costs(self, victims: Ints) -> bool:
        """Return True if pods of a victim's namespace have a reported cost."""
        units, reporting = self._units, self._units.costs.namespaces
        owners = units.owners[victims].tolist() if reporting else []
        return any(units.unit(owner).key[1] in reporting for owner in owners)

    def _victims(self, wanted: Shape, row: int, slots: Ints) -> Ints:
        """Return the slots that do not fit once the pod is on the node, keeping important ones."""
        units, nodes = self._units, self._state.nodes
        # As in `preempt`, evict all candidates first and then reprieve the important ones.
        free = nodes.free[:, row].copy()
        _put(free, wanted, -1)
        shapes = dict(zip(slots.tolist(), units.shapes_of(slots, each=True), strict=True))
        for shape in shapes.values():
            _put(free, shape, 1)
        out = []
        for slot in sorted(slots.tolist(), key=self._importance):
            _put(free, shapes[slot], -1)
            if (free < 0).any():
                _put(free, shapes[slot], 1)
                out.append(slot)
        # In the order of units, as in a plan of `preempt`.
        return np.array(sorted(out, key=lambda slot: int(units.owners[slot])), np.int64)

    def _importance(self, slot: int) -> tuple[int, float, int]:
        units = self._units
        owner = int(units.owners[slot])
        return (-int(units.priorities[owner]), float(units.youth[slot]), owner)

    def _cost_of(self, victims: Ints) -> Cost:
        priorities = self._units.priorities[self._units.owners[victims]]
        return Cost(
            violations=0,
            priority=int(priorities.max(initial=self._cost.priority)),
            units=len(victims),
            priorities=int(priorities.sum()),
            pods=len(victims),
            needed=len(victims) - int(self._units.extras(victims).sum()),
            started=-float(self._units.youth[victims].min(initial=np.inf)),
        )

    def _carry_out(self, wanted: Shape, row: int, slots: Ints, victims: Ints) -> None:
        at = np.array([row])
        self._units.release(victims)
        self._state.framework.occupy(wanted, at, np.ones(1, np.int64))
        left = np.setdiff1d(slots, victims)
        gone = np.isin(self._slots, victims)
        self._slots, self._rows = self._slots[~gone], self._rows[~gone]
        self._scopes.renew(row, left)

    def _plan(self, root: Pod, row: int, victims: Ints, cost: Cost) -> Plan:
        units = tuple(self._units.unit(index) for index in self._units.owners[victims].tolist())
        placement = Placement(root.key, (root,), (row,), 1, 1)
        return Plan(root.key, placement, units, cost, 0, minimal=True, proved=True)


def _put(free: Ints, shape: Shape, sign: int) -> None:
    """Release (or, -1, take) the resources that a pod of the shape requests."""
    amounts = shape.request.from_first
    free[: len(amounts)] += sign * amounts
