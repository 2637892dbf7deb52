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

from scheduler.core.domain_quotas import Preference
from scheduler.core.model import Spread, WeightedPodTerm
from scheduler.core.node_table import Ints, NodeTable
from scheduler.core.plugins.inter_pod_affinity import Company
from scheduler.core.topology import Domains, Topologies

if TYPE_CHECKING:
    from scheduler.core.pod_selectors import PodSelectors
    from scheduler.core.shapes import Shape

_WEIGHT: Final = 2000
_SCALE: Final = 1000


class Leanings:
    """Scores for shapes that have preferences about other pods, or of which others have some."""

    def __init__(
        self, nodes: NodeTable, topologies: Topologies, selectors: PodSelectors, company: Company
    ) -> None:
        self._nodes = nodes
        self._topologies = topologies
        self._selectors = selectors
        self._company = company

    def score_match_ids(self, shape: Shape) -> frozenset[int]:
        """The tallies on which the shape's scores depend."""
        wants = shape.requirements
        seen = {
            self._selectors.match_id((soft.term.selector,)) for soft in wants.preferred_affinity
        }
        seen.update(self._spread_tally(spread) for spread in wants.preferred_spread)
        return frozenset(seen.union(shape.marks.scored_by))

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """How much each of the rows (len(rows),) is preferred, in thousandths of a node's use."""
        return self._drawn(shape, rows) + self._even(shape, rows)

    def preferences(self, shape: Shape) -> list[Preference]:
        """How pods of the shape like to stand to each other."""
        counted = shape.marks.counted
        found: list[Preference] = []
        for soft in shape.requirements.preferred_affinity:
            match_id = self._selectors.match_id((soft.term.selector,))
            if match_id in counted:
                domains = self._topologies.domains(soft.term.key)
                present = None if soft.weight > 0 else self._there(domains, match_id)
                found.append(Preference(domains, present))
        eligible = self._company.labelled(shape.requirements.preferred_spread)
        for spread in shape.requirements.preferred_spread:
            if self._spread_tally(spread) in counted:
                skew_limit = self._company.skew_limit(shape, spread, eligible)
                found.append(Preference(skew_limit.domains, skew_limit.present))
        return found

    def _drawn(self, shape: Shape, rows: Ints) -> Ints:
        """By preferred affinity and anti-affinity, the shape's own and that of others."""
        pull = np.zeros(len(rows), np.int64)
        for match_id, soft in self._terms(shape):
            if not self._nodes.match_counts.empty(match_id):
                domains = self._topologies.domains(soft.term.key)
                # Nodes without the label share no domain, and read the last entry.
                table = np.append(self._there(domains, match_id), 0)
                pull += soft.weight * table[domains.codes[rows]]
        pull -= pull.min(initial=0)
        most = max(1, int(pull.max(initial=0)))
        drawn: Ints = pull * _WEIGHT // most
        return drawn

    def _terms(self, shape: Shape) -> Iterator[tuple[int, WeightedPodTerm]]:
        for soft in shape.requirements.preferred_affinity:
            yield self._selectors.match_id((soft.term.selector,)), soft
        for match_id in shape.marks.scored_by:
            carried = self._selectors.carried(match_id)
            if isinstance(carried, WeightedPodTerm):
                yield match_id, carried

    def _even(self, shape: Shape, rows: Ints) -> Ints:
        """By the preferred spread: most where fewest are, nothing where a label is missing.

        As upstream, a pod weighs more where there are more domains to choose from.
        """
        spreads = shape.requirements.preferred_spread
        eligible = self._company.labelled(spreads)
        if eligible is None:
            return np.zeros(len(rows), np.int64)
        crowd = np.zeros(len(rows), np.int64)
        for spread in spreads:
            skew_limit = self._company.skew_limit(shape, spread, eligible)
            weight = int(_SCALE * math.log(int(skew_limit.counting.sum()) + 2))
            table = np.append(skew_limit.present, 0)
            crowd += weight * table[skew_limit.domains.codes[rows]] + _SCALE * (spread.max_skew - 1)
        judged = eligible[rows]
        if not judged.any():
            return crowd
        most, least = int(crowd[judged].max()), int(crowd[judged].min())
        shares = (most + least - crowd) * _WEIGHT // most if most else _WEIGHT
        score: Ints = np.where(judged, shares, 0)
        return score

    def _there(self, domains: Domains, match_id: int) -> Ints:
        """Those counted per domain (D,)."""
        match_ids = self._nodes.match_counts
        return domains.sums(match_ids.amounts(match_id), match_ids.rows(match_id))

    def _spread_tally(self, spread: Spread) -> int:
        return self._selectors.match_id((spread.selector,), living=True)
