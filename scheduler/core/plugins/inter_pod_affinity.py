"""Where a shape may go for the pods that are already there: the hard terms about other pods.

The answers are those of kube-scheduler's InterPodAffinity and PodTopologySpread, over all nodes at
once. Pods placed earlier in the same trial are there like any others. What is only preferred is in
`leanings`; how far equal pods get at once, before they mind each other, is in `bounds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from scheduler.core.domain_quotas import PLENTY, DomainQuota, SkewLimit, ceiling
from scheduler.core.model import PodTerm, Spread
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.topology import Topologies

if TYPE_CHECKING:
    from scheduler.core.plugins.volume_filters import Storage
    from scheduler.core.pod_selectors import PodSelectors
    from scheduler.core.shapes import Shape

Codes = npt.NDArray[np.int16]

REASONS: Final = (
    "",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)
_NO_LABEL, _SKEWED, _FAR, _NEAR, _SHUNNED = range(1, 6)
UNEVEN: Final = REASONS[_SKEWED]
TOO_FAR: Final = REASONS[_FAR]
APART: Final = REASONS[_NEAR]
SHUNNED: Final = REASONS[_SHUNNED]
UNLABELLED: Final = REASONS[_NO_LABEL]


class Company:
    """Judges shapes that have such terms, or that terms of others speak of."""

    def __init__(
        self, nodes: NodeTable, topologies: Topologies, selectors: PodSelectors, storage: Storage
    ) -> None:
        self._nodes = nodes
        self._topologies = topologies
        self._selectors = selectors
        self._storage = storage

    def filter_match_ids(self, shape: Shape) -> frozenset[int]:
        """The tallies on which the answer for the shape depends."""
        wants, selectors = shape.requirements, self._selectors
        seen = set(shape.marks.excluded_by)
        if wants.required_affinity:
            seen.add(selectors.match_id(tuple(t.selector for t in wants.required_affinity)))
        seen.update(selectors.match_id((t.selector,)) for t in wants.required_anti_affinity)
        seen.update(selectors.match_id((s.selector,), living=True) for s in wants.spread)
        seen.update(selectors.claim(key) for key in wants.claims)
        return frozenset(seen)

    def needs_other_pods(self, shape: Shape) -> bool:
        """Whether it needs pods of another kind beside it."""
        required_affinity = tuple(term.selector for term in shape.requirements.required_affinity)
        return (
            bool(required_affinity)
            and self._selectors.match_id(required_affinity) not in shape.marks.counted
        )

    def judge(self, shape: Shape) -> Codes:
        """Per node (N,) the index into `shape.reasons` of what is against it; 0 if nothing is."""
        codes = np.array([shape.code(reason) for reason in REASONS], np.int16)[self._codes(shape)]
        self._storage.rule_out(shape, codes)
        return codes

    def _codes(self, shape: Shape) -> Codes:
        """Per node (N,) the index into REASONS."""
        codes = np.zeros(self._nodes.size, np.int16)
        eligible = self.labelled(shape.requirements.spread)
        for spread in shape.requirements.spread:
            self._spread(shape, spread, eligible, codes)
        self._affinity(shape, codes)
        for term in shape.requirements.required_anti_affinity:
            required_affinity = self._beside(self._selectors.match_id((term.selector,)), term.key)
            codes[required_affinity & (codes == 0)] = _NEAR
        for match_id in shape.marks.excluded_by:
            shunned = self._selectors.carried(match_id)
            if isinstance(shunned, PodTerm) and not self._nodes.match_counts.empty(match_id):
                required_affinity = self._beside(match_id, shunned.key)
                codes[required_affinity & (codes == 0)] = _SHUNNED
        return codes

    def domain_quotas(self, shape: Shape) -> list[DomainQuota]:
        """How many pods of the shape fit into each domain before they keep each other out."""
        found: list[DomainQuota] = []
        for key in self._apart(shape):
            domains = self._topologies.domains(key)
            once = np.ones(len(domains.values), np.int64)
            found.append(DomainQuota(domains, np.append(once, PLENTY)))
        return found

    def skew_limits(self, shape: Shape) -> list[SkewLimit]:
        """Over which domains pods of the shape must be spread, and how evenly."""
        spreads, match_id = shape.requirements.spread, self._selectors.match_id
        eligible = self.labelled(spreads)
        return [
            self.skew_limit(shape, spread, eligible)
            for spread in spreads
            if match_id((spread.selector,), living=True) in shape.marks.counted
        ]

    def most(self, shape: Shape, room: Ints) -> int:
        """How many pods of the shape at most, of which each node (N,) has this much room.

        Counts that they keep each other out of domains, and nothing of pods of other shapes.
        """
        total = int(room.sum())
        for key in self._apart(shape):
            total = min(total, ceiling(self._topologies.domains(key), room))
        return total

    def _apart(self, shape: Shape) -> set[str]:
        """The label keys of domains in which the shape suffers no second pod of its kind."""
        required_anti_affinity, match_id = (
            shape.requirements.required_anti_affinity,
            self._selectors.match_id,
        )
        return {
            t.key for t in required_anti_affinity if match_id((t.selector,)) in shape.marks.counted
        }

    def one_at_a_time(self, shape: Shape) -> bool:
        """True if all has to be looked at again after each single pod."""
        return self._storage.one_at_a_time(shape) or self.first_of_its_kind(shape)

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int:
        """The index of the row for the first pod: where its claims bind others to it, with room."""
        return self._storage.start(shape, rows, room, count)

    def first_of_its_kind(self, shape: Shape) -> bool:
        """True if the shape needs company, has none, and is company for itself."""
        required_affinity = shape.requirements.required_affinity
        if not required_affinity:
            return False
        match_id = self._selectors.match_id(tuple(term.selector for term in required_affinity))
        return match_id in shape.marks.counted and not self._any(match_id, shape)

    def _affinity(self, shape: Shape, codes: Codes) -> None:
        required_affinity = shape.requirements.required_affinity
        if not required_affinity:
            return
        match_id = self._selectors.match_id(tuple(term.selector for term in required_affinity))
        first = self.first_of_its_kind(shape)
        for term in required_affinity:
            if first:
                right = self._topologies.domains(term.key).codes >= 0
            else:
                right = self._beside(match_id, term.key)
            codes[~right & (codes == 0)] = _FAR

    def _any(self, match_id: int, shape: Shape) -> bool:
        """True if one of those counted is in a domain of one of the shape's terms."""
        rows = self._nodes.match_counts.rows(match_id)
        keys = {term.key for term in shape.requirements.required_affinity}
        return any((self._topologies.domains(key).codes[rows] >= 0).any() for key in keys)

    def _beside(self, match_id: int, key: str) -> Bools:
        """Nodes (N,) in a domain of the key with one of those counted."""
        domains = self._topologies.domains(key)
        held = np.zeros(len(domains.values) + 1, np.bool_)
        held[domains.codes[self._nodes.match_counts.rows(match_id)]] = True
        held[-1] = False  # nodes without the label share no domain
        beside: Bools = held[domains.codes]
        return beside

    def labelled(self, spreads: tuple[Spread, ...]) -> Bools | None:
        """Nodes (N,) that have every label of these constraints."""
        every: Bools | None = None
        for spread in spreads:
            labelled = self._topologies.domains(spread.key).codes >= 0
            every = labelled if every is None else every & labelled
        return every

    def _spread(self, shape: Shape, spread: Spread, eligible: Bools | None, codes: Codes) -> None:
        skew_limit = self.skew_limit(shape, spread, eligible)
        codes_of = skew_limit.domains.codes
        match_id = self._selectors.match_id((spread.selector,), living=True)
        itself = int(match_id in shape.marks.counted)
        skewed = np.append(skew_limit.limit.quota[:-1] < itself, False)
        codes[(codes_of < 0) & (codes == 0)] = _NO_LABEL
        codes[skewed[codes_of] & (codes == 0)] = _SKEWED

    def skew_limit(self, shape: Shape, spread: Spread, eligible: Bools | None) -> SkewLimit:
        """Selected pods per domain, and which domains count; `eligible` nodes (N,) or all."""
        domains = self._topologies.domains(spread.key)
        included = shape.included(
            self._nodes, affinity=spread.honours_affinity, taints=spread.honours_taints
        )
        if eligible is not None:
            included = included & eligible
        match_id = self._selectors.match_id((spread.selector,), living=True)
        match_ids = self._nodes.match_counts
        rows, amounts = match_ids.rows(match_id), match_ids.amounts(match_id)
        inside = included[rows]
        size = len(domains.values)
        totals = np.bincount(
            domains.codes[rows[inside]], weights=amounts[inside], minlength=size
        ).astype(np.int64)
        counting = np.bincount(domains.codes[included & (domains.codes >= 0)], minlength=size) > 0
        few = int(counting.sum()) < spread.min_domains
        return SkewLimit(domains, totals, counting, spread.max_skew, few)
