"""Candidate placements for a group: the nodes that its topology constraint allows, best first.

Corresponds to generating and scoring the Placements of KEP-6012.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.groups.forest import Group, outer_topology_keys
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.never_fits import never_fits
from scheduler.core.pods.shapes import Shape, demands_of
from scheduler.core.state.shortage import BestDomain, Shortage
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED, Domains
from scheduler.core.values import wording

Demand = Mapping[Shape, int]


@dataclass(frozen=True, slots=True)
class CandidatePlacement:
    """Nodes for a subtree: `rows`, None for all.

    `prefers` is this group or the nearest above whose constraint is only preferred: extras without
    room in `rows` may then go to the nodes `last`. `best` is the value of the required domain of
    `key`, None if no domain is required.
    """

    rows: Region | None
    last: Region | None
    prefers: Group | None = None
    key: str = ""
    best: str | None = None


class TopologyPlacements:
    """Generates candidate placements, pruned by capacity before the search tries them."""

    def __init__(self, state: State) -> None:
        self._nodes = state.nodes
        self._framework = state.framework
        self._topologies = state.topologies
        self._devices = state.devices

    def candidates(
        self, group: Group, region: Region | None, above: CandidatePlacement | None, demand: Demand
    ) -> Iterator[CandidatePlacement] | Shortage:
        """The candidate placements inside the region, in the order to try, or why there is none.

        Running members pin the domain. For a preferred constraint the last candidate is the whole
        region. `above` is the candidate chosen for the parent.
        """
        topology = group.topology
        if topology is None:
            prefers = above.prefers if above is not None else None
            return iter((CandidatePlacement(region, _last(region, above), prefers),))
        domains = self.domains(group)
        pins = self._pins(group, domains)
        if topology.preferred:
            whole = self.whole(group, region, above)
            return self._preferred(domains, whole, demand, sorted(pins - {UNLABELLED}))
        if len(pins) > 1 or UNLABELLED in pins:
            return _in_several_domains(group, domains, pins)
        ranked = sorted(pins) or self._ranked(group, domains, region, demand)
        if not ranked:
            return self._nowhere(group, domains, region, demand)
        return self._required(domains, ranked, region)

    def whole(
        self, group: Group, region: Region | None, above: CandidatePlacement | None
    ) -> CandidatePlacement:
        """The last candidate for a preferred constraint: the whole region."""
        return CandidatePlacement(region, _last(region, above), group)

    def domains(self, group: Group) -> Domains:
        """The domains of the group's topology key, inside the domains of the groups above it.

        Raises LookupError for a group without a topology constraint.
        """
        if group.topology is None:
            raise LookupError(group.key)
        key = group.topology.key
        return self._topologies.of_groups(key, outer_topology_keys(group, key))

    def in_one_domain(self, group: Group, region: Region | None) -> bool:
        """Whether the group's constraint holds wherever in the region its pods are.

        Those that run already have to be in the region's domain, too.
        """
        if group.topology is None:
            return True
        domains = self.domains(group)
        codes = domains.codes if region is None else domains.codes[region]
        one = len(codes) > 0 and codes[0] != UNLABELLED and bool((codes == codes[0]).all())
        return one and (group.topology.preferred or self._pins(group, domains) <= {int(codes[0])})

    def wider(self, inner: CandidatePlacement, demand: Demand) -> Region | None:
        """The nodes of the fewest other domains with room for pods that did not fit in `inner`.

        All of `inner.last` if no domains have room for the whole demand.
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
        """Single domains, or those of running members; then unions of more and more; then all."""
        group, region = whole.prefers, whole.rows
        if group is None:
            raise AssertionError("somebody prefers")
        if pins:
            yield replace(whole, rows=domains.union(pins, region))
        else:
            for code in self._ranked(group, domains, region, demand):
                yield replace(whole, rows=domains.rows(code, region))
        order, enough = self._order(domains, region, demand or _wanted(group), pins)
        for count in _growing(enough if demand else 1, len(order)):
            if pins or count > 1:
                yield replace(whole, rows=domains.union([*pins, *order[:count]], region))
        yield whole

    def _pins(self, group: Group, domains: Domains) -> set[int]:
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
        self, group: Group, domains: Domains, region: Region | None, demand: Demand
    ) -> list[int]:
        """Domains with room for the demand: by most waiting pods placed, then by fewest slots.

        Ties go to the domain with the least unused resources, to keep those for pods of other
        sizes; then by name.
        """
        wanted = _wanted(group)
        placed = np.zeros(len(domains.values), np.int64)
        spare = np.zeros(len(domains.values), np.int64)
        possible = np.ones(len(domains.values), np.bool_)
        for shape, count in wanted.items():
            sums = self._sums(shape, domains, region)
            placed += np.minimum(sums, count)
            spare += sums
            possible &= sums >= demand.get(shape, 0)
        for resource, amount in _total(demand).items():
            possible &= domains.sums(self._free(resource, region), region) >= amount
        if wanted:
            possible &= placed > 0
        order = np.lexsort((self._idle(wanted, domains, region), spare, -placed))
        return [int(code) for code in order if possible[code]]

    def _free(self, resource: int, region: Region | None) -> Ints:
        """What is free of a resource on the nodes of the region, (len(region),)."""
        free = self._nodes.free[resource, : self._nodes.size]
        return np.maximum(0, free if region is None else free[region])

    def _idle(self, shapes: Iterable[Shape], domains: Domains, region: Region | None) -> Ints:
        """Unused resources per domain (D,), summed in thousandths of what each shape requests."""
        free = self._nodes.free[:, : self._nodes.size]
        if region is not None:
            free = free[:, region]
        unused = np.zeros(free.shape[1])
        for shape in shapes:
            for resource, amount in shape.request.scored:
                unused += free[resource] * (1000 / amount)
        return domains.sums(unused, region)

    def _order(
        self, domains: Domains, region: Region | None, demand: Demand, without: list[int]
    ) -> tuple[list[int], int]:
        """Domains with room, and how many of the first ones are enough for the demand.

        Each next domain is the one that takes most of what is left, ties by fewest slots. A number
        above that of the domains means that all together are not enough.
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
        room = sums.sum(axis=0)
        rest = np.argsort(-room, kind="stable")[: np.count_nonzero(room)]
        return [*first, *rest.tolist()], len(first)

    def _sums(self, shape: Shape, domains: Domains, region: Region | None) -> Ints:
        return domains.sums(self._framework.optimistic_slots(shape, region), region)

    def _nowhere(
        self, group: Group, domains: Domains, region: Region | None, demand: Demand
    ) -> Shortage:
        if not domains.values:
            return Shortage("constraint", group.key, self._no_domain(domains), resolvable=False)
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

    def _no_domain(self, domains: Domains) -> str:
        """Why no node is in a domain of the key."""
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
            " Label nodes, or correct the topology key."
        )


def next_domains(sums: Ints, left: Ints) -> Ints:
    """The domains that take most of `left` (S, 1), of which they have slots for `sums` (S, D).

    All up to the one that leaves less than another may take: up to there nobody's share depends on
    what the others take. Empty if none takes anything.
    """
    taken = np.minimum(sums, left)
    total = taken.sum(axis=0)
    order = np.lexsort((sums.sum(axis=0), -total))[: np.count_nonzero(total)]
    rest = left - np.cumsum(taken[:, order], axis=1)
    plenty = (rest >= taken.max(axis=1, keepdims=True)).all(axis=0)
    return order[: len(order) if plenty.all() else 1 + int(np.argmin(plenty))]


def _growing(first: int, most: int) -> Iterator[int]:
    """`first`, and from there in steps of 1, 2, 4 and so on, as long as it is at most `most`."""
    step = 1
    while first <= most:
        yield first
        first, step = first + step, step * 2


def _total(demand: Demand) -> Counter[int]:
    """What the demand takes of each resource on any nodes; empty where slots or stages say more."""
    if len(demand) == 1 or any(shape.requirements.stage is not None for shape in demand):
        return Counter()
    return demands_of(demand)


def _last(region: Region | None, above: CandidatePlacement | None) -> Region | None:
    """Where extras may go: beyond the region if what is above only prefers its own."""
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
        message += f', or restore the label "{domains.key}" of their nodes'
    return Shortage("invalid", group.key, f"{message}.", resolvable=False)
