"""The pods that one search for a root places on trial, leaf by leaf.

`fill` places a demand all or nothing, `extras` as many pods as fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from scheduler.core.devices.claim_consumers import MOST_CONSUMERS
from scheduler.core.framework.claim_quotas import named
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.never_fits import never_fits
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.exhaustive_packing import pack_exhaustively
from scheduler.core.search.node_selection import choose, waves
from scheduler.core.search.reasons import reasons
from scheduler.core.search.scored_nodes import ScoredNodes
from scheduler.core.state.search_memory import PackingMemory
from scheduler.core.state.shortage import MOST_SIBLINGS, Shortage
from scheduler.core.state.state import State
from scheduler.core.values.profiles import Profile
from scheduler.core.values.search_budget import SearchBudget

Demand = Mapping[Shape, int]

_WAVES: Final = 16
"""Waves after the first that the budget does not end.

Where the first pod decides for all others, the second wave places these. A slow machine must not
refuse them.
"""

_GIVEN_BACK: Final = 64
"""Pods of the trial that are freed in one step."""


@dataclass(frozen=True, slots=True)
class PodRun:
    """Pods of one leaf and one shape: `counts[i]` of them are on `rows[i]`; rows may repeat."""

    group: Group
    shape: Shape
    rows: Ints
    counts: Ints


class Attempt:
    """The pods placed so far, in `log` and in the node table's open trial; `total` counts them."""

    def __init__(
        self, state: State, budget: SearchBudget, packings: PackingMemory | None = None
    ) -> None:
        """Begin without pods; `packings` are the states that failed in earlier packings."""
        self.packings = PackingMemory() if packings is None else packings
        self._state = state
        self.nodes = state.nodes
        self.framework = state.framework
        self.budget = budget
        self.log: list[PodRun] = []
        self._hashes = [0]
        self.steps = 0
        self.total = 0
        self._begun = state.nodes.savepoint()
        self._topologies = state.topologies
        self._taken: Counter[tuple[Group, Shape]] = Counter()

    @property
    def placed(self) -> int:
        """Hash of what was placed so far."""
        # Each entry extends the one before, so `undo` can cut the list instead of hashing again.
        for run in self.log[len(self._hashes) - 1 :]:
            places = (run.rows.tobytes(), run.counts.tobytes())
            self._hashes.append(hash((self._hashes[-1], run.group.key, run.shape.index, places)))
        return self._hashes[-1]

    @property
    def exhausted(self) -> bool:
        """True if the budget is used up."""
        return self.steps >= self.budget.steps or self.budget.expired()

    def expired(self) -> bool:
        """Pause, and return True if the time is over."""
        self.budget.pause()
        return self.budget.expired()

    def take(self, group: Group, shape: Shape, rows: Ints, counts: Ints) -> bool:
        """Take all of these slots, or none if their devices do not suffice after all."""
        if not self._reserve(shape, rows, counts):
            return False
        count = int(counts.sum())
        self.log.append(PodRun(group, shape, rows, counts))
        self._taken[group, shape] += count
        self.total += count
        return True

    def take_all(self, runs: Iterable[tuple[Group, Shape, Ints, Ints]]) -> bool:
        """Take all of these slots, or none if their devices do not suffice after all."""
        mark = self.savepoint()
        complete = all(self.take(*run) for run in runs)
        if not complete:
            self.undo(mark)
        return complete

    def take_equal(
        self, groups: Sequence[Group], shape: Shape, rows: Ints, counts: Ints, size: int
    ) -> bool:
        """Take `size` slots for each of the groups, first to last, with a single reservation."""
        if not self._reserve(shape, rows, counts):
            return False
        # Each group needs runs of its own, from which its pods get their nodes.
        places, each = np.repeat(rows, counts), np.ones(size, np.int64)
        for index, group in enumerate(groups):
            self.log.append(PodRun(group, shape, places[index * size : (index + 1) * size], each))
            self._taken[group, shape] += size
        self.total += len(groups) * size
        return True

    def take_places(self, group: Group, shape: Shape, places: Ints) -> bool:
        """Take a slot for each of these rows, which may repeat, in the order of the group's pods.

        Takes all or none, with a single reservation.
        """
        if not self._reserve(shape, *np.unique(places, return_counts=True)):
            return False
        self.log.append(PodRun(group, shape, places, np.ones(len(places), np.int64)))
        self._taken[group, shape] += len(places)
        self.total += len(places)
        return True

    def taken(self) -> Iterator[tuple[Group, int]]:
        """Yield the number of pods placed so far by group, for each of its shapes."""
        return ((group, pods) for (group, _), pods in self._taken.items())

    def _reserve(self, shape: Shape, rows: Ints, counts: Ints) -> bool:
        mark = self.nodes.savepoint()
        # `slots` counts devices for each node alone; nodes that share some may lack them together.
        complete = self.framework.reserve(shape, rows, counts)
        if not complete:
            self.nodes.rollback(mark)
        return complete

    def slots(self, shape: Shape, region: Region | None) -> int:
        """Return how many pods of the shape fit in the region."""
        self.budget.pause()
        return int(self.framework.slots_in(shape, region).sum())

    def savepoint(self) -> tuple[int, int]:
        """Return a point for `undo` to return to."""
        return (self.nodes.savepoint(), len(self.log))

    def undo(self, mark: tuple[int, int]) -> None:
        nodes, log = mark
        self.nodes.rollback(nodes)
        for run in self.log[log:]:
            count = int(run.counts.sum())
            self._taken[run.group, run.shape] -= count
            self.total -= count
        del self.log[log:]
        del self._hashes[log + 1 :]

    def give_back(self) -> None:
        """Free the slots in steps, before the end of the trial frees them in one."""
        # Undoing a large gang at once would block the event loop.
        for mark in range(self.nodes.savepoint() - _GIVEN_BACK, self._begun, -_GIVEN_BACK):
            self.nodes.rollback(mark)
            self.budget.pause()

    def next_to(self, shortage: Shortage) -> Shortage:
        """Return the shortage of a group that was tried next to all pods that are placed now."""
        # An inner group may have said it already, with its own siblings.
        if not self.total or shortage.beside:
            return shortage
        # A long list of names does not help.
        groups = {group.key for (group, _), pods in self._taken.items() if pods}
        siblings = tuple(sorted(groups)) if len(groups) <= MOST_SIBLINGS else ()
        return replace(shortage, beside=self.total, siblings=siblings)

    def remaining_pods(self, group: Group) -> int:
        """Return how many waiting pods of the leaf are not placed yet."""
        return sum(self.remaining_demand(group).values())

    def remaining_demand(self, group: Group) -> Demand:
        """Return the same by shape, without shapes whose pods are all placed."""
        left = {
            shape: len(pods) - self._taken[group, shape] for shape, pods in group.pending.items()
        }
        return {shape: count for shape, count in left.items() if count}

    def extras(self, group: Group, region: Region | None, most: int) -> int:
        """Place up to `most` more pods, as far as they fit. Return how many were placed."""
        before = self.total
        for shape, pods in sorted(group.pending.items(), key=lambda item: _first(*item)):
            if self.total and self.exhausted:
                break  # the next decision places the others
            self.budget.pause()
            missing = most - (self.total - before)
            wanted = min(missing, len(pods) - self._taken[group, shape])
            count = min(wanted, int(self.framework.slots_in(shape, region).sum())) if wanted else 0
            if count:
                self._place(group, shape, count, region, self.budget.profile)
        return self.total - before

    def fill(self, group: Group, demand: Demand, region: Region | None) -> Shortage | None:
        """Place the demand, all or nothing; None if it was placed.

        Tries several orders of the shapes, first by fewest slots per pod. The shortage is the one
        of the first order.
        """
        shortage = self._fill_within(group, demand, region)
        if shortage is None:
            return None
        # Greedy placement chose a domain with the first pod. Try each that can take all of them.
        for part in self.common_domains(demand, region):
            if self._fill_within(group, demand, part) is None:
                return None
        return shortage

    def fill_some(self, group: Group, need: int, region: Region | None) -> bool:
        """Place any `need` of the waiting pods, or none. Return True if they were placed.

        Tries several orders of the shapes: by importance, by fewest and by most slots for each pod.
        """
        wanted = {shape: len(pods) for shape, pods in group.pending.items()}
        important = [
            shape for shape, _ in sorted(group.pending.items(), key=lambda it: _first(*it))
        ]
        slots = {shape: self.slots(shape, region) for shape in wanted}
        hardest = sorted(wanted, key=lambda s: (slots[s] * 1000 // wanted[s], s.index))
        for order in (important, hardest, hardest[::-1]):
            if self.exhausted and order is not important:
                return False
            self.steps += 1
            mark, left = self.savepoint(), need
            for shape in sorted(order, key=self._waits_for_peers):
                capacity = int(self.framework.slots_in(shape, region).sum())
                if count := min(left, wanted[shape], capacity):
                    before = self.total
                    self._place(group, shape, count, region, self.budget.profile)
                    left -= self.total - before
            if not left:
                return True
            self.undo(mark)
        return False

    def _waits_for_peers(self, shape: Shape) -> bool:
        """Return True if the shape needs peers of another shape of which none runs yet."""
        return shape.needs_other_pods and not self.framework.plugins.inter_pod_affinity.has_peers(
            shape
        )

    def common_domains(self, demand: Demand, region: Region | None) -> Iterator[Region]:
        """Yield the nodes of each affinity domain that fits the demand, fewest slots first."""
        keys = sorted(
            {term.key for shape in demand for term in shape.requirements.required_affinity}
        )
        for key in keys:
            domains = self._topologies.domains(key)
            fits = np.ones(len(domains.values), np.bool_)
            spare = np.zeros(len(domains.values), np.int64)
            for shape, count in demand.items():
                self.budget.pause()
                # Optimistic: without a placed pod, strict slots would count no domain at all.
                sums = domains.sums(self.framework.optimistic_slots(shape, region), region)
                fits &= sums >= count
                spare += sums
            for code in np.argsort(spare, kind="stable").tolist():
                if self.exhausted:
                    return
                if fits[code]:
                    yield domains.rows(code, region)

    def _fill_within(self, group: Group, demand: Demand, region: Region | None) -> Shortage | None:
        self.steps += 1
        ratio = {s: self.slots(s, region) * 1000 // n for s, n in demand.items()}
        hardest = sorted(demand, key=lambda s: (ratio[s], s.index))
        largest = sorted(demand, key=lambda s: (-max(a for _, a in s.request.demands), s.index))
        # Each order fails on different inputs, and so does each profile.
        profile = self.budget.profile
        other: Profile = "spread" if profile == "pack" else "pack"
        attempts = [(hardest, profile)]
        if len(demand) > 1:
            attempts += [(largest, profile), (hardest, other), (hardest[::-1], profile)]
        elif self.framework.in_waves(hardest[0]):
            attempts += [(hardest, other)]
        shortage: Shortage | None = None
        for order, how in attempts:
            # The first order is always tried: a large gang must not be refused for its size. The
            # others are for the few gangs that it does not place.
            if shortage is not None and self.exhausted:
                return shortage
            # Pods that need peers of another shape are placed after those.
            shapes = sorted(order, key=self._waits_for_peers)
            mark = self.savepoint()
            failed = self._place_all(group, shapes, demand, region, how)
            if failed is None:
                return None
            short, free = failed
            shortage = shortage or self.short(group, short, demand[short], free)
            self.undo(mark)
        # Greedy orders miss a few percent of the demands that fit.
        if (
            len(demand) > 1
            and not self.exhausted
            and self._pack_exhaustively(group, demand, region)
        ):
            return None
        return shortage

    def _pack_exhaustively(self, group: Group, demand: Demand, region: Region | None) -> bool:
        if any(
            shape.requirements.unsupported or not self.framework.independent(shape)
            for shape in demand
        ):
            return False
        budget = self.budget
        runs = pack_exhaustively(
            self.framework, demand, region, budget.packing_steps, self.expired, memory=self.packings
        )
        return runs is not None and self.take_all((group, *run) for run in runs)

    def _place_all(
        self,
        group: Group,
        shapes: Iterable[Shape],
        demand: Demand,
        region: Region | None,
        profile: Profile,
    ) -> tuple[Shape, int] | None:
        """Place shape by shape. Return the first that does not fit and its free slots, or None."""
        for shape in shapes:
            self.budget.pause()
            found = self._place(group, shape, demand[shape], region, profile)
            if found < demand[shape]:
                return shape, found
        return None

    def _place(
        self, group: Group, shape: Shape, count: int, region: Region | None, profile: Profile
    ) -> int:
        """Place `count` pods. Return how many fit; if fewer, some of them may have been placed."""
        if never_fits(shape, self.nodes):
            return 0
        if self.budget.by_score and self._take_best(group, shape, region):
            return 1
        if self.framework.in_waves(shape):
            return self._place_in_waves(group, shape, count, region, profile)
        chosen = choose(self.framework, shape, count, region, profile)
        if chosen is None:
            return int(self.framework.slots_in(shape, region).sum())
        if self.take(group, shape, *chosen):
            return count
        # Devices did not suffice for all nodes together. Take node by node, as many as possible.
        rows, counts = (np.split(column, len(column)) for column in chosen)
        by_row = zip(rows, counts, strict=True)
        return sum(int(n[0]) for row, n in by_row if self.take(group, shape, row, n))

    def _take_best(self, group: Group, shape: Shape, region: Region | None) -> bool:
        """Place the pod of a temporary group by score. Return False if no node takes it."""
        pod = next(iter(group.pending[shape].values()))
        nodes = ScoredNodes(self._state, shape, region)
        at = nodes.best(pod.info)
        # If devices do not suffice after all, other nodes may have them.
        return at is not None and self.take(
            group, shape, nodes.rows[at : at + 1], np.ones(1, np.int64)
        )

    def _place_in_waves(
        self, group: Group, shape: Shape, count: int, region: Region | None, profile: Profile
    ) -> int:
        """Place up to `count` pods whose order matters, in waves. Return how many were placed."""
        before = self.total
        for number, wave in enumerate(waves(self.framework, shape, count, region, profile)):
            # Not a step each: a large gang must not be refused for its size.
            if not self.take(group, shape, *wave) or (number >= _WAVES and self.expired()):
                break
        return self.total - before

    def short(
        self, group: Group, shape: Shape, needed: int, free: int, *, minimum: bool = True
    ) -> Shortage:
        """Return the shortage where only `free` of the `needed` pods of the shape fit."""
        unfit = never_fits(shape, self.nodes)
        if unfit:
            return Shortage("constraint", group.key, unfit, needed, 0, shape, resolvable=False)
        crowded = self._too_many_consumers(group, shape, needed, free, minimum=minimum)
        if crowded is not None:
            return crowded
        # Counted now, while volumes and devices are assumed for the claims of other members.
        assumed = shape.requirements.claims or named(shape)
        counts = reasons(self.framework, shape) if assumed else ()
        return Shortage(
            "capacity",
            group.key,
            "",
            needed,
            free,
            shape,
            minimum=minimum,
            counts=counts,
            own=sum(self._taken[group, it] for it in group.pending if it is not shape),
        )

    def _too_many_consumers(
        self, group: Group, shape: Shape, needed: int, free: int, *, minimum: bool
    ) -> Shortage | None:
        """Return the shortage if a claim that the pods share has as many consumers as it may."""
        full = self.framework.plugins.dynamic_resources.quotas.full(shape)
        if full is None:
            return None
        (_, name), others = full
        used = f", and {others} use it already" if others else ""
        message = (
            f'{needed} more pods need to share ResourceClaim "{name}", which can take {free} of'
            f" them: a claim can have {MOST_CONSUMERS} consumers{used}. Use another claim for the"
            " rest, or lower minCount."
        )
        return Shortage(
            "constraint", group.key, message, needed, free, shape,
            resolvable=bool(others), minimum=minimum,
        )  # fmt: skip


def needs_other_pods(group: Group) -> bool:
    """Return True if a pod of the subtree needs peers of another shape, which are placed first."""
    return any(shape.needs_other_pods for leaf in group.leaves() for shape in leaf.pending)


def _first(shape: Shape, pods: Mapping[str, Pod]) -> tuple[bool, int, str, int]:
    """Return the order of extras: by priority, then creation; shapes that need other pods last."""
    priority, created, *_ = min(pod.order for pod in pods.values())
    return (shape.needs_other_pods, priority, created, shape.index)
