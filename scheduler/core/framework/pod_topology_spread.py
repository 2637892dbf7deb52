"""PodTopologySpread: even spread of pods over the domains of a topology key.

The results are those of kube-scheduler, computed for all nodes at once: DoNotSchedule constraints
filter, ScheduleAnyway constraints score.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from scheduler.core.framework import node_affinity, taint_toleration
from scheduler.core.framework.domain_quotas import Preference, SkewLimit
from scheduler.core.framework.events import PEER_EVENTS
from scheduler.core.framework.plugin import Plugin, PreFilter
from scheduler.core.nodes.node_table import Bools, Floats, Ints, NodeTable
from scheduler.core.pods.pod_selectors import PodMatches, PodSelectors
from scheduler.core.pods.shapes import Codes, Shape
from scheduler.core.topology.topology import Topologies
from scheduler.core.values.model import Requirements, Spread

REASON: Final = "node(s) didn't match pod topology spread constraints"
MISSING_LABEL: Final = (
    "node(s) didn't match pod topology spread constraints (missing required label)"
)

SCALE: Final = 1000
"""Value of the best node in `shares`."""


class PodTopologySpread(Plugin):
    """Filter, score and quotas for shapes with spread constraints."""

    name = "PodTopologySpread"
    weight = 2000
    events = PEER_EVENTS

    def __init__(self, nodes: NodeTable, topologies: Topologies, selectors: PodSelectors) -> None:
        self._nodes = nodes
        self._topologies = topologies
        self._selectors = selectors

    def advice(self, shape: Shape, reason: str) -> str:
        spread = shape.requirements.spread
        if reason == REASON:
            keys = ", ".join(f"{each.key} (maxSkew {each.max_skew})" for each in spread)
            return (
                f"the pods must spread over {keys}. Raise maxSkew, or add nodes where fewest pods"
                " are"
            )
        if reason == MISSING_LABEL:
            keys = ", ".join(sorted({each.key for each in spread}))
            return f"the pods spread over {keys}. Add this label to nodes, or correct topologyKey"
        return ""

    def filter_match_ids(self, wants: Requirements) -> set[int]:
        """Return the match counts that the filter reads for pods with these requirements."""
        return {self._match_id(spread) for spread in wants.spread}

    def pre_filter(self, wants: Requirements, matches: PodMatches) -> PreFilter:
        read = {self._match_id(spread) for spread in wants.preferred_spread}
        return PreFilter(self.filter_match_ids(wants), read)

    def filter_pods(self, shape: Shape, codes: Codes) -> None:
        spreads = shape.requirements.spread
        eligible = self._labelled(spreads)
        for spread in spreads:
            itself = int(self._match_id(spread) in shape.matches.counted)
            for limit in self._limits(shape, spread, eligible):
                domain_of = limit.domains.codes
                # A pod that its own selector does not select adds no skew, even to a full domain.
                skewed = np.append(limit.quota.most[:-1] < itself, False)
                shape.rule_out(codes, domain_of < 0, MISSING_LABEL)
                shape.rule_out(codes, skewed[domain_of], REASON)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """Return the highest score for the rows with the fewest selected pods.

        Rows that lack a label get 0. As upstream, a constraint weighs more if the rows are in more
        domains.
        """
        spreads = shape.requirements.preferred_spread
        eligible = self._labelled(spreads)
        if eligible is None:
            return None
        scored, present = eligible[rows], np.zeros(len(rows))
        for spread in spreads:
            limit = self._skew_limit(shape, spread, eligible)
            codes = limit.domains.codes[rows]
            # Nodes without the label have code -1 and read the last entry, 0.
            table = np.append(limit.present, 0)
            present += table[codes] * size_factor(_distinct(codes[scored])) + (spread.max_skew - 1)
        return shares(present, scored) * self.weight // SCALE

    def skew_limits(self, shape: Shape) -> list[SkewLimit]:
        """Return the limits of the DoNotSchedule constraints that select the shape itself."""
        spreads = shape.requirements.spread
        eligible = self._labelled(spreads)
        return [
            limit
            for spread in spreads
            if self._match_id(spread) in shape.matches.counted
            for limit in self._limits(shape, spread, eligible)
        ]

    def preferences(self, shape: Shape) -> list[Preference]:
        """Return the preferences of the ScheduleAnyway constraints that select the shape itself."""
        spreads = shape.requirements.preferred_spread
        eligible = self._labelled(spreads)
        limits = (
            self._skew_limit(shape, spread, eligible)
            for spread in spreads
            if self._match_id(spread) in shape.matches.counted
        )
        return [Preference(limit.domains, limit.present) for limit in limits]

    def _labelled(self, spreads: tuple[Spread, ...]) -> Bools | None:
        """Return the nodes (N,) with the topology keys of all constraints, or None without any."""
        # As upstream, a node without one constraint's key does not count for the others either.
        every: Bools | None = None
        for spread in spreads:
            labelled = self._topologies.domains(spread.key).codes >= 0
            every = labelled if every is None else every & labelled
        return every

    def _limits(self, shape: Shape, spread: Spread, eligible: Bools | None) -> list[SkewLimit]:
        """Return the limits of one constraint, with nominated pods and without them."""
        # Both, as in kube-scheduler: a fit must not depend on nominated pods, which may never come.
        views = self._nodes.match_counts.views(self._match_id(spread))
        return [self._skew_limit(shape, spread, eligible, nominated=view) for view in views]

    def _skew_limit(
        self, shape: Shape, spread: Spread, eligible: Bools | None, *, nominated: bool = True
    ) -> SkewLimit:
        """Return the limit of one constraint; only `eligible` nodes (N,) count, or all if None."""
        domains = self._topologies.domains(spread.key)
        included = self._included(shape, spread)
        if eligible is not None:
            included = included & eligible
        counts, match_id = self._nodes.match_counts, self._match_id(spread)
        stage = shape.load.stage
        rows = counts.rows(match_id, stage, nominated=nominated)
        amounts = counts.amounts(match_id, stage, nominated=nominated)
        # Pods on nodes that do not count must not fill a domain.
        inside = included[rows]
        size = len(domains.values)
        present = np.bincount(
            domains.codes[rows[inside]], weights=amounts[inside], minlength=size
        ).astype(np.int64)
        counting = np.bincount(domains.codes[included & (domains.codes >= 0)], minlength=size) > 0
        few = int(counting.sum()) < spread.min_domains
        return SkewLimit(domains, present, counting, spread.max_skew, few)

    def _included(self, shape: Shape, spread: Spread) -> Bools:
        """Return the nodes (N,) that count by nodeAffinityPolicy and nodeTaintsPolicy."""
        nodes, wants = self._nodes, shape.requirements
        included = nodes.node_class[: nodes.size] >= 0
        if spread.honours_taints:
            included &= nodes.by_class(lambda c: taint_toleration.untolerated(wants, c) is None)
        admitted = node_affinity.admits(shape, nodes) if spread.honours_affinity else None
        if admitted is not None:
            included &= admitted
        return included

    def _match_id(self, spread: Spread) -> int:
        # As in kube-scheduler, which ignores terminating pods for spread but not for affinity.
        return self._selectors.match_id((spread.selector,), skip_terminating=True)


def size_factor(size: int) -> float:
    """Return the factor of counts over so many domains: those over many weigh more."""
    return math.log(size + 2)


def _distinct(codes: Ints) -> int:
    """Return the number of different codes, where -1 is one of them."""
    return int(np.count_nonzero(np.bincount(codes + 1))) if len(codes) else 0


def shares(present: Floats, scored: Bools) -> Ints:
    """Return 0 to 1000 for each node: the most where fewest pods are, 0 where not `scored`."""
    # Otherwise the raw counts would be the score, and fuller domains would win.
    if not scored.any():
        return np.zeros(len(present), np.int64)
    rounded = (present + 0.5).astype(np.int64)
    most, least = int(rounded[scored].max()), int(rounded[scored].min())
    shares = (most + least - rounded) * SCALE // most if most else SCALE
    score: Ints = np.where(scored, shares, 0)
    return score
