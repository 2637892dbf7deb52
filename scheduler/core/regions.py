"""Where in the cluster a group's topology constraint lets its subtree go, best choice first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.core.columns import Ints
from scheduler.core.forest import Group
from scheduler.core.shapes import Shape
from scheduler.core.shortage import BestDomain, Shortage
from scheduler.core.state import State
from scheduler.core.topology import UNLABELLED, Domains
from scheduler.core.values import Topology

Demand = Mapping[Shape, int]


@dataclass(frozen=True, slots=True)
class Confined:
    """Nodes to stay on, None for all; `best` is the domain's value where it is one domain."""

    rows: Ints | None
    key: str = ""
    best: str | None = None


class Regions:
    """Candidate regions for groups, pruned by capacity before anything is tried in them."""

    def __init__(self, state: State) -> None:
        self._columns = state.columns
        self._topologies = state.topologies

    def confine(
        self, group: Group, region: Ints | None, demand: Demand
    ) -> Iterator[Confined] | Shortage:
        """Parts of the region to try in this order, or why there is none.

        Running members pin the domain. A preferred constraint ends with the whole region.
        """
        topology = group.spec.topology if group.spec else None
        if topology is None:
            return iter((Confined(region),))
        domains = self._topologies.domains(topology.key)
        pins = self._pins(group, domains)
        if pins and not topology.preferred and (len(pins) > 1 or UNLABELLED in pins):
            return _torn(group, domains, pins)
        if pins:
            ranked = [code for code in sorted(pins) if code != UNLABELLED]
        else:
            ranked = self._ranked(group, domains, region, demand)
        if not ranked and not topology.preferred:
            return self._nowhere(group, domains, region, demand)
        return self._each(domains, ranked, region, topology, group)

    def _each(
        self,
        domains: Domains,
        ranked: list[int],
        region: Ints | None,
        topology: Topology,
        group: Group,
    ) -> Iterator[Confined]:
        for code in ranked:
            yield Confined(domains.rows(code, region), domains.key, domains.values[code])
        if topology.preferred:
            yield Confined(self._fewest(group, domains, region))
            yield Confined(region)

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
        self, group: Group, domains: Domains, region: Ints | None, demand: Demand
    ) -> list[int]:
        """Domains that could hold the demand: those that place more, then the tightest, by name."""
        wanted = _wanted(group)
        placed = np.zeros(len(domains.values), np.int64)
        spare = np.zeros(len(domains.values), np.int64)
        possible = np.ones(len(domains.values), np.bool_)
        for shape, count in wanted.items():
            sums = self._sums(shape, domains, region)
            placed += np.minimum(sums, count)
            spare += sums
            possible &= sums >= demand.get(shape, 0)
        if wanted:
            possible &= placed > 0
        order = np.lexsort((spare, -placed))
        return [int(code) for code in order if possible[code]]

    def _fewest(self, group: Group, domains: Domains, region: Ints | None) -> Ints:
        """The largest domains that together have room for all that waits."""
        wanted = _wanted(group)
        codes: set[int] = set()
        for shape, count in wanted.items():
            sums = self._sums(shape, domains, region)
            order = np.argsort(-sums, kind="stable")
            enough = int(np.searchsorted(np.cumsum(sums[order]), count)) + 1
            codes.update(order[:enough].tolist())
        parts = [domains.rows(code, region) for code in sorted(codes)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _sums(self, shape: Shape, domains: Domains, region: Ints | None) -> Ints:
        return domains.sums(shape.outlook(self._columns, region), region)

    def _nowhere(
        self, group: Group, domains: Domains, region: Ints | None, demand: Demand
    ) -> Shortage:
        if not domains.values:
            message = f'no node has the label "{domains.key}"'
            return Shortage("constraint", group.key, message, resolvable=False)
        worst: Shortage | None = None
        for shape, count in (demand or _wanted(group)).items():
            sums = self._sums(shape, domains, region)
            best = int(np.argmax(sums))
            free = int(sums[best])
            if worst is None or count - free > worst.needed - worst.free:
                where = BestDomain(domains.key, domains.values[best], max(0, count - free))
                worst = Shortage("capacity", group.key, "", count, free, shape, where)
        return worst or Shortage("quorum", group.key, "nothing is waiting")


def _wanted(group: Group) -> dict[Shape, int]:
    wanted: dict[Shape, int] = {}
    for leaf in group.leaves():
        for shape, pods in leaf.pending.items():
            wanted[shape] = wanted.get(shape, 0) + len(pods)
    return wanted


def _torn(group: Group, domains: Domains, pins: set[int]) -> Shortage:
    names = sorted("none" if c == UNLABELLED else f'"{domains.values[c]}"' for c in pins)
    message = f"its running members are not in one {domains.key}: {', '.join(names)}"
    return Shortage("invalid", group.key, message, resolvable=False)
