"""Candidate placements for a group: the nodes that its topology constraint allows, best first.

This corresponds to generating and scoring the Placements of KEP-6012.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.groups.forest import Group, outer_topology_keys
from scheduler.core.groups.groups import slice_topology_keys
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.never_fits import never_fits
from scheduler.core.pods.shapes import Shape, demands_of
from scheduler.core.state.shortage import BestDomain, Shortage
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED, Domains
from scheduler.core.values import wording
from scheduler.core.values.group_source import create_again
from scheduler.core.values.search_budget import nothing

Demand = Mapping[Shape, int]


@dataclass(frozen=True, slots=True)
class CandidatePlacement:
    """Nodes for a subtree: `rows`, None for all.

    `prefers` is this group or the nearest above whose constraint is only preferred. Extras that do
    not fit in `rows` may then go to the nodes `last`. `best` is the value of the required domain of
    `key`, None if no domain is required.
    """

    rows: Region | None
    last: Region | None
    prefers: Group | None = None
    key: str = ""
    best: str | None = None


class TopologyPlacements:
    """Generator of candidate placements, pruned by capacity before the search tries them."""

    def __init__(self, state: State, pause: Callable[[], None] = nothing) -> None:
        """Call `pause` between two shapes: a group may have thousands, each costs O(nodes)."""
        self._pause = pause
        self._nodes = state.nodes
        self._framework = state.framework
        self._topologies = state.topologies
        self._devices = state.devices

    def candidates(
        self, group: Group, region: Region | None, above: CandidatePlacement | None, demand: Demand
    ) -> Iterator[CandidatePlacement] | Shortage:
        """Return the candidate placements inside the region, in the order to try, or the shortage.

        Running members pin the domain. For a preferred constraint, the last candidate is the whole
        region. `above` is the candidate chosen for the parent.
        """
        topology = group.topology
        if topology is None:
            prefers = above.prefers if above is not None else None
            return iter((CandidatePlacement(region, _last(region, above), prefers),))
        domains = self.domains(group)
        pins = self._pins(group, domains)
        if topology.preferred:
            whole = self.region_candidate(group, region, above)
            # A node without the label does not matter: the constraint is only preferred.
            return self._preferred(domains, whole, demand, sorted(pins - {UNLABELLED}))
        # The group breaks its own constraint. More pods would make it worse, whichever domain they
        # go to.
        if len(pins) > 1 or UNLABELLED in pins:
            return _in_several_domains(group, domains, pins)
        ranked = sorted(pins) or self._ranked(group, domains, region, demand)
        if not ranked and group.slicing is not None:
            # Complete slices do not fit. The search for them states what the best domain lacks.
            ranked = self._ranked(group, domains, region, demand, in_slices=False)[:1]
        if not ranked:
            return self._nowhere(group, domains, region, demand)
        return self._required(domains, ranked, region)

    def region_candidate(
        self, group: Group, region: Region | None, above: CandidatePlacement | None
    ) -> CandidatePlacement:
        """Return the last candidate for a preferred constraint: the whole region."""
        return CandidatePlacement(region, _last(region, above), group)

    def domains(self, group: Group) -> Domains:
        """Return the domains of the group's topology key, inside the domains of groups above.

        Raises LookupError for a group without a topology constraint.
        """
        if group.topology is None:
            raise LookupError(group.key)
        key = group.topology.key
        return self._topologies.of_groups(key, outer_topology_keys(group, key))

    def slice_domains(self, group: Group) -> Domains:
        """Return the domains of the group's slices, inside those of the group and groups above.

        Raises LookupError for a group without slices.
        """
        if group.slicing is None:
            raise LookupError(group.key)
        key = group.slicing.key
        return self._topologies.of_groups(key, slice_topology_keys(group, key))

    def in_one_domain(self, group: Group, region: Region | None) -> bool:
        """Return True if the group's constraint holds wherever in the region its pods are.

        Pods that run already have to be in the region's domain as well.
        """
        if group.slicing is not None:
            return False
        if group.topology is None:
            return True
        domains = self.domains(group)
        codes = domains.codes if region is None else domains.codes[region]
        one = len(codes) > 0 and codes[0] != UNLABELLED and bool((codes == codes[0]).all())
        return one and (group.topology.preferred or self._pins(group, domains) <= {int(codes[0])})

    def wider(self, inner: CandidatePlacement, demand: Demand) -> Region | None:
        """Return the fewest other domains with capacity for pods that do not fit `inner`.

        Returns their nodes. These are all of `inner.last` if no domains have capacity for the
        complete demand.
        """
        if inner.prefers is None or inner.rows is None:
            raise AssertionError("only what is in a part by preference can go to another")
        domains = self.domains(inner.prefers)
        codes = sorted(domains.of(inner.rows.tolist()) - {UNLABELLED})
        order, enough = self._order(domains, inner.last, demand, codes)
        return inner.last if enough > len(order) else domains.union(order[:enough], inner.last)

    def _required(
        self, domains: Domains, ranked: list[int], region: Region | None
    ) -> Iterator[CandidatePlacement]:
        for code in ranked:
            rows = domains.rows(code, region)
            yield CandidatePlacement(rows, rows, None, domains.key, domains.values[code])

    def _preferred(
        self, domains: Domains, whole: CandidatePlacement, demand: Demand, pins: list[int]
    ) -> Iterator[CandidatePlacement]:
        """Yield single domains, or those of running members; then growing unions; then all."""
        group, region = whole.prefers, whole.rows
        if group is None:
            raise AssertionError("a group prefers")
        if pins:
            yield replace(whole, rows=domains.union(pins, region))
        else:
            for code in self._ranked(group, domains, region, demand):
                yield replace(whole, rows=domains.rows(code, region))
        # A group with a choice has no certain demand; all of its waiting pods guide the order.
        order, enough = self._order(domains, region, demand or _wanted(group), pins)
        # Unions double: one search for each number of domains would take too long.
        for count in _growing(enough if demand else 1, len(order)):
            if pins or count > 1:
                yield replace(whole, rows=domains.union([*pins, *order[:count]], region))
        yield whole

    def _pins(self, group: Group, domains: Domains) -> set[int]:
        # Cheap test first: most groups have no running pods.
        if not group.running_total:
            return set()
        rows = [
            pod.row
            for leaf in group.leaves()
            for pod in leaf.members.values()
            if pod.running and pod.row >= 0
        ]
        return domains.of(rows)

    def _ranked(
        self,
        group: Group,
        domains: Domains,
        region: Region | None,
        demand: Demand,
        *,
        in_slices: bool = True,
    ) -> list[int]:
        """Return the domains that fit the demand: by most pods placed, then by fewest slots.

        Ties go to the domain with the least unused resources, to keep other domains for pods of
        other sizes; then by name.
        """
        wanted = _wanted(group)
        in_slices = in_slices and group.slicing is not None and len(wanted) == 1
        placed = np.zeros(len(domains.values), np.int64)
        spare = np.zeros(len(domains.values), np.int64)
        possible = np.ones(len(domains.values), np.bool_)
        for shape, count in wanted.items():
            sums = self._sums(shape, domains, region)
            if in_slices:
                sums = self._sums_of_slices(group, shape, domains, region)
            placed += np.minimum(sums, count)
            spare += sums
            possible &= sums >= demand.get(shape, 0)
        # Each shape alone may fit although the shapes together need more than the domain has.
        for resource, amount in _total(demand).items():
            possible &= domains.sums(self._free(resource, region), region) >= amount
        if wanted:
            possible &= placed > 0
        order = np.lexsort((self._idle(wanted, domains, region), spare, -placed))
        return [int(code) for code in order if possible[code]]

    def _free(self, resource: int, region: Region | None) -> Ints:
        """Return the free amount of a resource on the nodes of the region, (len(region),)."""
        free = self._nodes.free[resource, : self._nodes.size]
        return np.maximum(0, free if region is None else free[region])

    def _idle(self, shapes: Iterable[Shape], domains: Domains, region: Region | None) -> Ints:
        """Return unused resources per domain (D,), in thousandths of the request of each shape."""
        free = self._nodes.free[:, : self._nodes.size]
        if region is not None:
            free = free[:, region]
        unused = np.zeros(free.shape[1])
        for shape in shapes:
            self._pause()
            for resource, amount in shape.request.scored:
                unused += free[resource] * (1000 / amount)
        return domains.sums(unused, region)

    def _order(
        self, domains: Domains, region: Region | None, demand: Demand, without: list[int]
    ) -> tuple[list[int], int]:
        """Return the domains with capacity, and how many of the first ones suffice for the demand.

        Each next domain is the one that takes most of the rest, ties by fewest slots. A number
        above that of the domains means that all together do not suffice.
        """
        sums = np.array([self._sums(shape, domains, region) for shape in demand])
        left = np.array(list(demand.values()))[:, None]
        if not sums.size:
            return [], 1
        sums[:, without] = 0
        first: list[int] = []
        while left.any():
            chosen = next_domains(sums, left)
            if not len(chosen):
                return first, len(first) + 1
            left = np.maximum(0, left - sums[:, chosen].sum(axis=1, keepdims=True))
            sums[:, chosen] = 0
            first += chosen.tolist()
        # Behind the domains that suffice: their capacity may still help if packing is imperfect.
        capacity = sums.sum(axis=0)
        rest = np.argsort(-capacity, kind="stable")[: np.count_nonzero(capacity)]
        return [*first, *rest.tolist()], len(first)

    def _sums(self, shape: Shape, domains: Domains, region: Region | None) -> Ints:
        self._pause()
        return domains.sums(self._framework.optimistic_slots(shape, region), region)

    def _sums_of_slices(
        self, group: Group, shape: Shape, domains: Domains, region: Region | None
    ) -> Ints:
        """Return the slots per domain (D,) that complete slices of the group can use."""
        size = 1 if group.slicing is None else group.slicing.size
        inner = self.slice_domains(group)
        sums = self._sums(shape, inner, region)
        # All nodes of an inner domain are in the same outer one, so any of them tells which.
        outer = np.full(len(inner.values) + 1, UNLABELLED, np.int64)
        outer[inner.codes] = domains.codes
        at = np.flatnonzero(outer[:-1] != UNLABELLED)
        found = np.bincount(
            outer[at], weights=sums[at] - sums[at] % size, minlength=len(domains.values)
        )
        return found.astype(np.int64)

    def _nowhere(
        self, group: Group, domains: Domains, region: Region | None, demand: Demand
    ) -> Shortage:
        if not domains.values:
            return Shortage(
                "constraint", group.key, self._no_domain(domains, group), resolvable=False
            )
        worst: Shortage | None = None
        for shape, count in (demand or _wanted(group)).items():
            unfit = never_fits(shape, self._nodes)
            if unfit:
                return Shortage("constraint", group.key, unfit, count, 0, shape, resolvable=False)
            sums = self._sums(shape, domains, region)
            best = int(np.argmax(sums))
            free = int(sums[best])
            if worst is None or count - free > worst.needed - worst.free:
                where = BestDomain(domains.key, domains.values[best], max(0, count - free))
                worst = Shortage("capacity", group.key, "", count, free, shape, where)
        return worst or Shortage("quorum", group.key, "No pods are pending.")

    def _no_domain(self, domains: Domains, group: Group) -> str:
        """Return why no node is in a domain of the key."""
        nodes = wording.count(len(self._nodes.row_of), "node")
        if domains.mixed:
            why = wording.without_domain(domains.mixed)
            return (
                f'None of {nodes} is in a domain of "{domains.key}": {why}.'
                " Label these nodes, or let their drivers publish one value."
            )
        devices = " or a device with this attribute" if self._devices.slices.written else ""
        return (
            f'None of {nodes} has the label "{domains.key}"{devices}.'
            f" Label nodes, or {create_again(group.spec)} with another topology key."
        )


def next_domains(sums: Ints, left: Ints) -> Ints:
    """Return the domains that take most of `left` (S, 1), and have slots for `sums` (S, D).

    These are all up to the first that leaves less than another may take. Up to there, no domain's
    share depends on the others. Empty if none takes anything.
    """
    taken = np.minimum(sums, left)
    total = taken.sum(axis=0)
    order = np.lexsort((sums.sum(axis=0), -total))[: np.count_nonzero(total)]
    # Choosing one domain at a time takes quadratic time with thousands of racks. While plenty is
    # left, the shares do not influence each other, so all of these domains can be chosen at once.
    rest = left - np.cumsum(taken[:, order], axis=1)
    plenty = (rest >= taken.max(axis=1, keepdims=True)).all(axis=0)
    return order[: len(order) if plenty.all() else 1 + int(np.argmin(plenty))]


def _growing(first: int, most: int) -> Iterator[int]:
    """Yield `first`, then numbers with steps of 1, 2, 4 and so on, up to `most`."""
    step = 1
    while first <= most:
        yield first
        first, step = first + step, step * 2


def _total(demand: Demand) -> Counter[int]:
    """Return the demand by resource, on any nodes; empty where slots or stages are more precise."""
    if len(demand) == 1 or any(shape.requirements.stage is not None for shape in demand):
        return Counter()
    return demands_of(demand)


def _last(region: Region | None, above: CandidatePlacement | None) -> Region | None:
    """Return where extras may go: beyond the region if a group above only prefers its own."""
    return above.last if above is not None and above.prefers is not None else region


def _wanted(group: Group) -> dict[Shape, int]:
    wanted: dict[Shape, int] = {}
    for leaf in group.leaves():
        for shape, pods in leaf.pending.items():
            wanted[shape] = wanted.get(shape, 0) + len(pods)
    return wanted


def _in_several_domains(group: Group, domains: Domains, pins: set[int]) -> Shortage:
    names = sorted("none" if c == UNLABELLED else f'"{domains.values[c]}"' for c in pins)
    message = (
        f"The running pods are not in one {domains.key}, but in {len(names)}:"
        f" {', '.join(names)}. Delete those in all but one"
    )
    if UNLABELLED in pins:
        message += f', or wait until their nodes have "{domains.key}" again'
    return Shortage("invalid", group.key, f"{message}.", resolvable=False)
