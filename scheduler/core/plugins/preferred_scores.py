"""What is only preferred about other pods: near some, far from others, evenly spread.

Scores are those of kube-scheduler's InterPodAffinity and PodTopologySpread, each weighted twice as
much as the use of a node. Preferences of the pods that are already there count as well; the weight
that it gives to their hard affinity does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.core.domain_quotas import Wish
from scheduler.core.model import SoftTerm, Spread
from scheduler.core.node_table import Columns, Ints
from scheduler.core.plugins.inter_pod_affinity import Company
from scheduler.core.topology import Domains, Topologies

if TYPE_CHECKING:
    from scheduler.core.pod_selectors import Relations
    from scheduler.core.shapes import Shape

_WEIGHT: Final = 2000
_SCALE: Final = 1000


class Leanings:
    """Scores for shapes that have preferences about other pods, or of which others have some."""

    def __init__(
        self, columns: Columns, topologies: Topologies, relations: Relations, company: Company
    ) -> None:
        self._columns = columns
        self._topologies = topologies
        self._relations = relations
        self._company = company

    def weighs(self, shape: Shape) -> frozenset[int]:
        """The tallies on which the shape's scores depend."""
        wants = shape.requirements
        seen = {self._relations.tally((soft.term.selector,)) for soft in wants.likes}
        seen.update(self._spread_tally(spread) for spread in wants.evenly)
        return frozenset(seen.union(shape.marks.heeds))

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """How much each of the rows (len(rows),) is preferred, in thousandths of a node's use."""
        return self._drawn(shape, rows) + self._even(shape, rows)

    def wishes(self, shape: Shape) -> list[Wish]:
        """How pods of the shape like to stand to each other."""
        counted = shape.marks.counted
        found: list[Wish] = []
        for soft in shape.requirements.likes:
            tally = self._relations.tally((soft.term.selector,))
            if tally in counted:
                domains = self._topologies.domains(soft.term.key)
                there = None if soft.weight > 0 else self._there(domains, tally)
                found.append(Wish(domains, there))
        eligible = self._company.labelled(shape.requirements.evenly)
        for spread in shape.requirements.evenly:
            if self._spread_tally(spread) in counted:
                even = self._company.even(shape, spread, eligible)
                found.append(Wish(even.domains, even.there))
        return found

    def _drawn(self, shape: Shape, rows: Ints) -> Ints:
        """By preferred affinity and anti-affinity, the shape's own and that of others."""
        pull = np.zeros(len(rows), np.int64)
        for tally, soft in self._terms(shape):
            if not self._columns.tallies.empty(tally):
                domains = self._topologies.domains(soft.term.key)
                # Nodes without the label share no domain, and read the last entry.
                table = np.append(self._there(domains, tally), 0)
                pull += soft.weight * table[domains.codes[rows]]
        pull -= pull.min(initial=0)
        most = max(1, int(pull.max(initial=0)))
        drawn: Ints = pull * _WEIGHT // most
        return drawn

    def _terms(self, shape: Shape) -> Iterator[tuple[int, SoftTerm]]:
        for soft in shape.requirements.likes:
            yield self._relations.tally((soft.term.selector,)), soft
        for tally in shape.marks.heeds:
            carried = self._relations.carried(tally)
            if isinstance(carried, SoftTerm):
                yield tally, carried

    def _even(self, shape: Shape, rows: Ints) -> Ints:
        """By the preferred spread: most where fewest are, nothing where a label is missing.

        As upstream, a pod weighs more where there are more domains to choose from.
        """
        spreads = shape.requirements.evenly
        eligible = self._company.labelled(spreads)
        if eligible is None:
            return np.zeros(len(rows), np.int64)
        crowd = np.zeros(len(rows), np.int64)
        for spread in spreads:
            even = self._company.even(shape, spread, eligible)
            weight = int(_SCALE * math.log(int(even.counting.sum()) + 2))
            table = np.append(even.there, 0)
            crowd += weight * table[even.domains.codes[rows]] + _SCALE * (spread.max_skew - 1)
        judged = eligible[rows]
        if not judged.any():
            return crowd
        most, least = int(crowd[judged].max()), int(crowd[judged].min())
        shares = (most + least - crowd) * _WEIGHT // most if most else _WEIGHT
        score: Ints = np.where(judged, shares, 0)
        return score

    def _there(self, domains: Domains, tally: int) -> Ints:
        """Those counted per domain (D,)."""
        tallies = self._columns.tallies
        return domains.sums(tallies.amounts(tally), tallies.rows(tally))

    def _spread_tally(self, spread: Spread) -> int:
        return self._relations.tally((spread.selector,), living=True)
