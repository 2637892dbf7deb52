"""Where a shape may go for the pods that are already there: the hard terms about other pods.

The answers are those of kube-scheduler's InterPodAffinity and PodTopologySpread, over all nodes at
once. Pods placed earlier in the same trial are there like any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from scheduler.core.columns import Bools, Columns, Ints
from scheduler.core.topology import Domains, Topologies
from scheduler.core.values import Spread

if TYPE_CHECKING:
    from scheduler.core.relations import Relations
    from scheduler.core.shapes import Shape
    from scheduler.core.storage import Storage

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
APART: Final = REASONS[_NEAR]

_PLENTY: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Limit:
    """How many more pods each domain may take before all has to be looked at again.

    The last entry of `quota` is for nodes in none.
    """

    domains: Domains
    quota: Ints


class Company:
    """Judges shapes that have such terms, or that terms of others speak of."""

    def __init__(
        self, columns: Columns, topologies: Topologies, relations: Relations, storage: Storage
    ) -> None:
        self._columns = columns
        self._topologies = topologies
        self._relations = relations
        self._storage = storage

    def sees(self, shape: Shape) -> frozenset[int]:
        """The tallies on which the answer for the shape depends."""
        wants, relations = shape.requirements, self._relations
        seen = set(shape.marks.shuns)
        if wants.near:
            seen.add(relations.tally(tuple(t.selector for t in wants.near)))
        seen.update(relations.tally((t.selector,)) for t in wants.away)
        seen.update(relations.tally((s.selector,), living=True) for s in wants.spread)
        seen.update(relations.claim(key) for key in wants.claims)
        return frozenset(seen)

    def leans(self, shape: Shape) -> bool:
        """Whether it needs pods of another kind beside it."""
        near = tuple(term.selector for term in shape.requirements.near)
        return bool(near) and self._relations.tally(near) not in shape.marks.counted

    def judge(self, shape: Shape) -> Codes:
        """Per node (N,) the index into `shape.reasons` of what is against it; 0 if nothing is."""
        codes = np.array([shape.code(reason) for reason in REASONS], np.int16)[self._codes(shape)]
        self._storage.rule_out(shape, codes)
        return codes

    def _codes(self, shape: Shape) -> Codes:
        """Per node (N,) the index into REASONS."""
        codes = np.zeros(self._columns.size, np.int16)
        eligible = self._spread_over(shape)
        for spread in shape.requirements.spread:
            self._spread(shape, spread, eligible, codes)
        self._affinity(shape, codes)
        for term in shape.requirements.away:
            near = self._beside(self._relations.tally((term.selector,)), term.key)
            codes[near & (codes == 0)] = _NEAR
        for tally in shape.marks.shuns:
            if not self._columns.tallies.empty(tally):
                near = self._beside(tally, self._relations.carried(tally).key)
                codes[near & (codes == 0)] = _SHUNNED
        return codes

    def limits(self, shape: Shape) -> list[Limit]:
        """How far pods of the shape get before they stand in each other's way."""
        found: list[Limit] = []
        counted = shape.marks.counted
        for term in shape.requirements.away:
            if self._relations.tally((term.selector,)) in counted:
                domains = self._topologies.domains(term.key)
                once = np.ones(len(domains.values), np.int64)
                found.append(Limit(domains, np.append(once, _PLENTY)))
        eligible = self._spread_over(shape)
        for spread in shape.requirements.spread:
            if self._relations.tally((spread.selector,), living=True) in counted:
                domains, totals, least = self._skew(shape, spread, eligible)
                found.append(Limit(domains, np.append(least + spread.max_skew - totals, 0)))
        return found

    def one_at_a_time(self, shape: Shape) -> bool:
        """True if all has to be looked at again after each single pod."""
        return bool(shape.requirements.claims) or self.first_of_its_kind(shape)

    def first_of_its_kind(self, shape: Shape) -> bool:
        """True if the shape needs company, has none, and is company for itself."""
        near = shape.requirements.near
        if not near:
            return False
        tally = self._relations.tally(tuple(term.selector for term in near))
        return tally in shape.marks.counted and not self._any(tally, shape)

    def _affinity(self, shape: Shape, codes: Codes) -> None:
        near = shape.requirements.near
        if not near:
            return
        tally = self._relations.tally(tuple(term.selector for term in near))
        first = self.first_of_its_kind(shape)
        for term in near:
            if first:
                right = self._topologies.domains(term.key).codes >= 0
            else:
                right = self._beside(tally, term.key)
            codes[~right & (codes == 0)] = _FAR

    def _any(self, tally: int, shape: Shape) -> bool:
        """True if one of those counted is in a domain of one of the shape's terms."""
        rows = self._columns.tallies.rows(tally)
        keys = {term.key for term in shape.requirements.near}
        return any((self._topologies.domains(key).codes[rows] >= 0).any() for key in keys)

    def _beside(self, tally: int, key: str) -> Bools:
        """Nodes (N,) in a domain of the key with one of those counted."""
        domains = self._topologies.domains(key)
        held = np.zeros(len(domains.values) + 1, np.bool_)
        held[domains.codes[self._columns.tallies.rows(tally)]] = True
        held[-1] = False  # nodes without the label share no domain
        beside: Bools = held[domains.codes]
        return beside

    def _spread_over(self, shape: Shape) -> Bools | None:
        """Nodes (N,) that have every label the shape spreads over."""
        every: Bools | None = None
        for spread in shape.requirements.spread:
            labelled = self._topologies.domains(spread.key).codes >= 0
            every = labelled if every is None else every & labelled
        return every

    def _spread(self, shape: Shape, spread: Spread, eligible: Bools | None, codes: Codes) -> None:
        domains, totals, least = self._skew(shape, spread, eligible)
        tally = self._relations.tally((spread.selector,), living=True)
        itself = int(tally in shape.marks.counted)
        skewed = np.append(totals + itself - least > spread.max_skew, False)
        codes[(domains.codes < 0) & (codes == 0)] = _NO_LABEL
        codes[skewed[domains.codes] & (codes == 0)] = _SKEWED

    def _skew(
        self, shape: Shape, spread: Spread, eligible: Bools | None
    ) -> tuple[Domains, Ints, int]:
        """Selected pods per domain, and the smallest number in a domain that counts."""
        domains = self._topologies.domains(spread.key)
        included = shape.included(
            self._columns, affinity=spread.honours_affinity, taints=spread.honours_taints
        )
        if eligible is not None:
            included = included & eligible
        tally = self._relations.tally((spread.selector,), living=True)
        tallies = self._columns.tallies
        rows, amounts = tallies.rows(tally), tallies.amounts(tally)
        inside = included[rows]
        size = len(domains.values)
        totals = np.bincount(
            domains.codes[rows[inside]], weights=amounts[inside], minlength=size
        ).astype(np.int64)
        present = np.unique(domains.codes[included])
        if len(present) < spread.min_domains:
            return domains, totals, 0
        return domains, totals, int(totals[present].min()) if len(present) else _PLENTY
