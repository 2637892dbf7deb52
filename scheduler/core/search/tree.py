"""The search over a tree of groups: candidate placements, and the order of the children.

It places the minimums first, then the extras. It undoes what a failed candidate or child took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, takewhile
from typing import Final

from scheduler.core.groups.forest import Group
from scheduler.core.nodes.node_table import Region
from scheduler.core.search.attempt import Attempt, Demand, needs_other_pods
from scheduler.core.search.exhaustive_packing import MOST_PODS
from scheduler.core.search.exhaustive_search import ExhaustiveSearch
from scheduler.core.search.joint_packing import pack_jointly
from scheduler.core.search.needs import EqualNeed, Needs, equal_need, rank_of, shapes_of
from scheduler.core.search.node_selection import choose
from scheduler.core.search.shared_claims import SharedClaims
from scheduler.core.search.slice_search import SliceSearch
from scheduler.core.search.topology_placement import CandidatePlacement, TopologyPlacements
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.state.shortage import Shortage
from scheduler.core.state.state import State
from scheduler.core.values.model import ClaimKey
from scheduler.core.values.search_budget import SearchBudget

_Work = Callable[[Group, Region | None], Shortage | None]

_ROUNDS: Final = 16
"""Rounds in which extras are divided among siblings. With many pods, a round takes more."""

_WIDE: Final = 64
"""Children beyond which the capacity for all is compared before any of them is tried."""

_FEW: Final = 4
"""Equal children that are not worth being placed together."""


class TreeSearch:
    """One search for one root; `attempt` has the pods that it placed."""

    def __init__(
        self, state: State, budget: SearchBudget, memory: SearchMemory | None = None
    ) -> None:
        """Skip the candidates that earlier searches for the root completed, by `memory`."""
        self._memory = memory
        self._begun = state.nodes.stamp
        self.attempt = Attempt(state, budget, memory.packings if memory is not None else None)
        self._placements = TopologyPlacements(state, budget.pause)
        self._needs = Needs(self.attempt)
        self._shared = SharedClaims(state)
        self._chosen: dict[Group, CandidatePlacement] = {}
        self._left_out: dict[Group, Shortage] = {}
        self._state = state
        self._slice_search: SliceSearch | None = None
        self.complete: bool | None = None
        """True if all ways were tried; None if the exhaustive search did not run."""

    @property
    def _slices(self) -> SliceSearch:
        """The search for slices, which few roots have."""
        if self._slice_search is None:
            self._slice_search = SliceSearch(self, self._state, self._placements, self._chosen)
        return self._slice_search

    def minimums(self, group: Group, region: Region | None) -> Shortage | None:
        """Place the pods that the subtree's minimums lack, inside the region, all or nothing."""
        if group.composite:
            work = self.children if group.parent is not None else self._in_one_domain_or_any
            return self.in_candidates(group, region, self._needs.least(group), work)
        if group.slicing is not None:
            return self._slices.minimums(group, region)
        need = (group.minimum or 0) - group.running
        if need <= 0:
            # No pod is needed, but extras and children still need the group's domain.
            return self.in_candidates(group, region, {}, lambda *_: None)
        if group.available < (group.minimum or 0):
            waiting = group.available - group.running
            message = f"The group has {group.available} of {group.minimum} pods."
            return Shortage("quorum", group.key, message, need, waiting, resolvable=False)
        return self._any_pods(group, need, region)

    def _any_pods(self, group: Group, need: int, region: Region | None) -> Shortage | None:
        """Place `need` of the leaf's pods that wait, all or nothing; they may have a choice."""
        shortage: Shortage | None = None
        for demand in self._needs.demands(group, need):

            def fill(
                group: Group, inner: Region | None, demand: Demand = demand
            ) -> Shortage | None:
                return self.attempt.fill(group, demand, inner)

            shortage = self.in_candidates(group, region, demand, fill)
            if shortage is None:
                return None
        # Which pods meet the minimum is open. The demands above are two of many choices.
        if len(group.pending) > 1 and group.pending_total > need:

            def fill_some(group: Group, inner: Region | None) -> Shortage | None:
                return None if self.attempt.fill_some(group, need, inner) else shortage

            if self.in_candidates(group, region, {}, fill_some) is None:
                return None
        # The last demand is the easiest: its shortage names no pod beyond the minimum's need.
        return shortage

    def all_ways(self, root: Group, region: Region | None, most: int) -> bool:
        """Try all ways to place a small tree's minimums, in `most` steps. Return True if one works.

        If the steps do not suffice, the next search continues there, provided it has the memory.
        """
        shapes = shapes_of(root)
        # This runs after each refusal, so most roots must leave here.
        one_shape = len(shapes) == 1 and not root.composite and root.slicing is None
        if root.pending_total > MOST_PODS or one_shape:
            return False
        if root.slicing is not None and self._slices.by_arithmetic(root):
            return False
        # Greedy and joint packing cover it if only resources decide, and the root's topology.
        simple = all(self.attempt.framework.independent(it) for it in shapes) and all(
            group.topology is None for group in root.walk() if group is not root
        )
        simple = simple and all(leaf.slicing is None for leaf in root.leaves())
        if simple or self._insufficient_capacity(root, region):
            return False
        memory = self._memory
        walk = ExhaustiveSearch(
            self.attempt, self._placements, self._chosen, most, self._as_composite
        )
        found = walk.place(root, region, memory.cursor if memory is not None else ())
        self.complete = walk.complete
        if memory is not None:
            memory.cursor = walk.cursor or ()
            memory.walked += walk.steps
        return found

    def _as_composite(self, leaf: Group) -> Group:
        return self._slices.as_composite(leaf)

    def extras(self, root: Group) -> None:
        """Place pods beyond the minimums, as far as capacity allows.

        Leaves of a higher priority come first. Leaves of equal priority take turns in rounds, so
        that none takes all the capacity.
        """
        for group in list(root.walk()):
            self.attempt.budget.pause()
            self._join(group)
        remaining = self._remaining_demand
        leaves = [it for it in root.leaves() if it in self._chosen and it.pending and remaining(it)]
        ranks = {leaf: rank_of(leaf) for leaf in leaves}
        for rank in sorted(set(ranks.values())):
            same = [leaf for leaf in leaves if ranks[leaf] == rank]
            self._rounds(same, {leaf: self._chosen[leaf].rows for leaf in same})
            self._overflow(same)

    def _join(self, group: Group) -> None:
        """Place the minimums of quorate children that the group's own minimum did not need."""
        inner = self._chosen.get(group)
        if inner is None or not group.children:
            return
        rest = [c for c in group.children_in_order() if c.quorate and c not in self._chosen]
        self._place_any(rest, inner.rows)
        # Like extras, these children may leave a domain that is only preferred.
        if inner.prefers is not None:
            self._place_any([c for c in rest if c not in self._chosen], inner.last)

    def _place_any(self, order: list[Group], region: Region | None) -> None:
        """Place the minimums of the groups that fit, until the budget is used up."""
        hopeless: set[EqualNeed] = set()
        index = 0
        while index < len(order) and not self._gives_up:
            self.attempt.budget.pause()
            need = equal_need(order[index])
            if need in hopeless:
                index += 1
                continue
            placed = 0
            if need is not None:
                placed = self._place_equal(order, index, len(order), need, region)
            if not placed and (short := self.minimums(order[index], region)) is not None:
                self._left_out[order[index]] = self.attempt.next_to(short)
                # Capacity only shrinks here: what failed for equal needs fails for all of them.
                if need is not None:
                    hopeless.add(need)
            index += max(1, placed)

    def _overflow(self, leaves: list[Group]) -> None:
        """Place extras in the fewest other domains if their preferred domain is full."""
        regions = {}
        for leaf in leaves:
            inner, left = self._chosen[leaf], self._remaining_demand(leaf)
            if left and inner.prefers is not None and inner.rows is not None:
                regions[leaf] = self._placements.wider(inner, left)
        self._rounds(list(regions), regions)

    def _rounds(self, leaves: list[Group], regions: Mapping[Group, Region | None]) -> None:
        while leaves:
            left = sum(sum(self._remaining_demand(leaf).values()) for leaf in leaves)
            # One pod per leaf and round if few are left, else more: it limits the rounds.
            share = 1 + left // (len(leaves) * _ROUNDS) if len(leaves) > 1 else left
            leaves = [leaf for leaf in leaves if self._extras(leaf, regions[leaf], share)]

    def _extras(self, leaf: Group, region: Region | None, most: int) -> int:
        if leaf.slicing is not None:
            return self._slices.extras(leaf, region, most)
        return self.attempt.extras(leaf, region, most)

    def _remaining_demand(self, leaf: Group) -> Demand:
        if leaf.slicing is not None:
            return self._slices.remaining_demand(leaf)
        return self.attempt.remaining_demand(leaf)

    def extras_shortage(self, group: Group) -> Shortage:
        """Return why nothing was placed although all minimums are met: an extra does not fit.

        Or a child, which its parent can do without, lacks something.
        """
        for child, shortage in self._left_out.items():
            if child not in self._chosen:
                return replace(shortage, minimum=False)
        for leaf in group.leaves():
            if leaf.slicing is not None and leaf.pending:
                return self._slices.extras_shortage(leaf)
            for shape, pods in leaf.pending.items():
                inner = self._chosen.get(leaf)
                free = int(
                    self.attempt.framework.slots_in(
                        shape, inner.last if inner is not None else None
                    ).sum()
                )
                return self.attempt.short(leaf, shape, len(pods), free, minimum=False)
        return Shortage("quorum", group.key, "No pods are pending.")

    def in_candidates(
        self,
        group: Group,
        region: Region | None,
        demand: Demand,
        work: _Work,
    ) -> Shortage | None:
        """Try `work` in each candidate placement of the group, best first; None if it succeeds."""
        above = self._chosen.get(group.parent) if group.parent is not None else None
        candidates = self._placements.candidates(group, region, above, demand)
        if isinstance(candidates, Shortage):
            return candidates
        first: Shortage | None = None
        prefers = group.topology is not None and group.topology.preferred
        wanted = tuple((shape.index, count) for shape, count in demand.items())
        for inner in self._within_budget(group, candidates, region):
            self.attempt.budget.pause()
            key = self._key(group, wanted, inner)
            known = self._tried_before(group, key, inner)
            if known is not None:
                first = first or known
                continue
            mark, cuts = self._savepoint(), self.attempt.packings.cuts
            self._chosen[group] = inner
            shortage = work(group, inner.rows)
            if shortage is None:
                return None
            self._undo(mark)
            # The first pod decides a shared claim's devices, which may not suit the others.
            if self._with_shared_claims(group, inner, demand, work):
                return None
            # A search that ran out of budget has not completed the candidate.
            complete = self.attempt.packings.cuts == cuts and not self.attempt.exhausted
            if key is not None and self._memory is not None and complete:
                self._memory.failed(group.key, key, shortage, self._begun)
            # With a preferred constraint, the last candidate is the whole region. Its shortage is
            # the relevant one.
            if first is None or prefers:
                first = _inside(shortage, inner)
        if first is None:
            raise AssertionError("candidates offers one region at least, or says why not")
        return first

    def _key(self, group: Group, wanted: object, inner: CandidatePlacement) -> int | None:
        """Return a key of this candidate and the pods placed so far; None if it has none."""
        # Without a topology constraint there is one candidate, and remembering it saves nothing.
        if self._memory is None or group.topology is None or inner.rows is None:
            return None
        return hash((group.key, self.attempt.placed, wanted, inner.rows.tobytes()))

    def _tried_before(
        self, group: Group, key: int | None, inner: CandidatePlacement
    ) -> Shortage | None:
        if key is None or self._memory is None:
            return None
        return self._memory.shortage(group.key, key, inner.rows, self.attempt.nodes)

    def _within_budget(
        self, group: Group, candidates: Iterator[CandidatePlacement], region: Region | None
    ) -> Iterator[CandidatePlacement]:
        """Yield candidates until the budget is used up, but always the last of a preference."""
        for inner in candidates:
            yield inner
            if self.attempt.exhausted:
                # Whatever the budget: only the whole region shows that the group does not fit.
                if inner.prefers is group and inner.rows is not region:
                    above = self._chosen.get(group.parent) if group.parent is not None else None
                    yield self._placements.region_candidate(group, region, above)
                return

    def _with_shared_claims(
        self, group: Group, inner: CandidatePlacement, demand: Demand, work: _Work
    ) -> bool:
        """Try `work` once more, with the claims that the pods share allocated before the pods."""
        keys = self._shared.of(group)
        return bool(keys) and self._allocated(keys, group, inner, demand or self._any(group), work)

    def _allocated(
        self,
        keys: list[ClaimKey],
        group: Group,
        inner: CandidatePlacement,
        demand: Demand,
        work: _Work,
    ) -> bool:
        """Try each allocation of the first of these claims, and for each those of the rest."""
        for row, wide in self._shared.places(keys[0], demand, inner.rows):
            if self.attempt.exhausted:
                return False
            self.attempt.budget.pause()
            self.attempt.steps += 1
            mark = self._savepoint()
            self._chosen[group] = inner
            if self.attempt.framework.plugins.dynamic_resources.allocate(keys[0], row, wide=wide):
                if work(group, inner.rows) is None:
                    return True
                if keys[1:] and self._allocated(keys[1:], group, inner, demand, work):
                    return True
            self._undo(mark)
        return False

    def _any(self, group: Group) -> Demand:
        """Return one pod of each shape, for groups that have a choice."""
        return dict.fromkeys(shapes_of(group), 1)

    def _in_one_domain_or_any(self, group: Group, region: Region | None) -> Shortage | None:
        """Place the children anywhere, or else all in one domain that their pods must share.

        The first pod decides the domain for all pods with affinity to it, in the other children as
        well.
        """
        shortage = self.children(group, region)
        if shortage is not None:
            demand = self._needs.least(group) or self._any(group)
            for part in self.attempt.common_domains(demand, region):
                self.attempt.steps += 1
                if self.children(group, part) is None:
                    return None
        return shortage

    def children(self, group: Group, region: Region | None) -> Shortage | None:
        """Place the minimums of as many children as the composite's minimum still needs."""
        # More children may have met their minimum than the group needs.
        needed = max(0, (group.minimum or 0) - group.standing_children)
        # With many children, failing one after the other would take long before the sum shows it.
        if len(group.children) > _WIDE:
            short = self._insufficient_capacity(group, region)
            if short is not None:
                return short
        order = self._needs.children_to_try(group, region)
        if len(order) < needed:
            return Shortage("quorum", group.key, "", needed, len(order), resolvable=False)
        shortage: Shortage | None = None
        alone: Shortage | None = None
        promoted: set[Group] = set()
        demoted: set[Group] = set()
        while len(order) >= needed:
            mark = self._savepoint()
            failed, fault = self._in_order(order, needed, region)
            if failed is None:
                return None
            self._undo(mark)
            shortage = shortage or fault
            if self.attempt.exhausted:
                break
            if (
                order[0] is failed
                and len(order) > 1
                and failed not in demoted
                and needs_other_pods(failed)
            ):
                # Its peers may be among its siblings. Try it once more, after them.
                demoted.add(failed)
                order = [*order[1:], failed]
                continue
            if order[0] is failed:
                # It fails even with the complete region free for it: only the others remain.
                alone = alone or fault
                order = order[1:]
                continue
            # Children that displace each other would be promoted forever.
            if failed in promoted:
                break
            # Its siblings may have taken its nodes. Try it before them.
            promoted.add(failed)
            order = [failed, *(child for child in order if child is not failed)]
        # A child that fails alone says more than one that fails next to its siblings.
        return None if self._pack_jointly(group, region) else alone or shortage

    def _insufficient_capacity(self, group: Group, region: Region | None) -> Shortage | None:
        """Return the shortage if the pods that are needed in any case cannot fit, wherever they go.

        It states the total that is missing, so for many children it does not matter which one
        fails.
        """
        for shape, count in self._needs.least(group).items():
            self.attempt.budget.pause()
            # Optimistic: affinity to pods that are placed later is no lack of capacity.
            free = int(self.attempt.framework.optimistic_slots(shape, region).sum())
            if free < count:
                return self.attempt.short(group, shape, count, free)
        return None

    def _pack_jointly(self, group: Group, region: Region | None) -> bool:
        """Pack all minimums of the subtree together if only resources decide. True if it worked."""
        # Inner groups are covered when the root, or the group with the constraint, is packed.
        top = group.parent is None or group.topology is not None
        if not top or not all(
            self._placements.in_one_domain(below, region)
            for below in group.walk()
            if below is not group
        ):
            return False
        shapes = shapes_of(group)
        framework = self.attempt.framework
        # One shape needs no packing. Affinity and volumes are not part of the packing model.
        if len(shapes) == 1 or any(
            s.requirements.unsupported or not framework.independent(s) for s in shapes
        ):
            return False
        self.attempt.steps += 1
        budget = self.attempt.budget
        placed = pack_jointly(
            framework,
            group,
            region,
            budget.packing_steps,
            self.attempt.expired,
            memory=self.attempt.packings,
        )
        if placed is None or not self.attempt.take_all(placed):
            return False
        # Extras go to the domains of their groups, so each group below needs one.
        for leaf, *_ in placed:
            below: Group | None = leaf
            while below is not None and below is not group:
                self._chosen.setdefault(below, self._chosen[group])
                below = below.parent
        return True

    def _in_order(
        self, order: list[Group], needed: int, region: Region | None
    ) -> tuple[Group | None, Shortage | None]:
        """Place the minimums of `needed` children, in this order; equal ones together.

        Returns the first child that failed and its shortage, or (None, None) on success.
        """
        failed: Group | None = None
        fault: Shortage | None = None
        index = 0
        hopeless: set[EqualNeed] = set()
        while index < len(order) and needed:
            if needed > len(order) - index or (failed is not None and self._gives_up):
                return failed, fault
            self.attempt.budget.pause()
            child, need = order[index], equal_need(order[index])
            if need is not None and need not in hopeless:
                placed = self._place_equal(order, index, needed, need, region)
                index, needed = index + placed, needed - placed
                if placed:
                    continue
            index += 1
            if need in hopeless:
                continue
            shortage = self.minimums(child, region)
            if shortage is None:
                needed -= 1
                continue
            if need is not None:
                hopeless.add(need)
            if failed is None:
                failed, fault = child, self.attempt.next_to(shortage)
        return (None, None) if needed == 0 else (failed, fault)

    @property
    def _gives_up(self) -> bool:
        """True if both steps and time are used up: a few children are tried in any case."""
        attempt = self.attempt
        return attempt.steps >= attempt.budget.steps and attempt.budget.expired()

    def _place_equal(
        self, order: list[Group], start: int, needed: int, need: EqualNeed, region: Region | None
    ) -> int:
        """Place the minimums of consecutive children of equal need. Return how many were placed.

        With the profile pack, the result is the same as for one child after the other.
        """
        alike = takewhile(lambda child: equal_need(child) == need, islice(order, start, None))
        children = list(islice(alike, needed))
        framework, attempt = self.attempt.framework, self.attempt
        # The next pod depends on the last one, so one choice for all pods would be wrong.
        if len(children) < _FEW or framework.in_waves(need.shape):
            return 0
        capacity = int(framework.slots_in(need.shape, region).sum())
        children = children[: capacity // need.count]
        if len(children) < _FEW:
            return 0
        pods = len(children) * need.count
        chosen = choose(framework, need.shape, pods, region, attempt.budget.profile)
        if chosen is None:
            return 0
        attempt.steps += 1
        if not attempt.take_equal(children, need.shape, *chosen, need.count):
            return 0
        parent = children[0].parent
        above = self._chosen.get(parent) if parent is not None else None
        candidates = self._placements.candidates(children[0], region, above, {})
        if isinstance(candidates, Shortage):
            raise AssertionError("without a constraint there is one candidate")
        self._chosen |= dict.fromkeys(children, next(candidates))
        return len(children)

    def _savepoint(self) -> tuple[tuple[int, int], int]:
        return (self.attempt.savepoint(), len(self._chosen))

    def _undo(self, mark: tuple[tuple[int, int], int]) -> None:
        taken, chosen = mark
        self.attempt.undo(taken)
        while len(self._chosen) > chosen:
            self._chosen.popitem()


def _inside(shortage: Shortage, inner: CandidatePlacement) -> Shortage:
    """Add the domain to the shortage, if one was required."""
    return shortage if inner.best is None else shortage.within(inner.best, key=inner.key)
