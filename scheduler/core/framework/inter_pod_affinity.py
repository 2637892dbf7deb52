"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

The results are those of kube-scheduler, computed for all nodes at once. Pods placed earlier in the
same trial count like running pods. The score also counts preferred terms of running pods, but not
their required affinity (hardPodAffinityWeight).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from scheduler.core.framework.domain_quotas import PLENTY, DomainQuota, Preference, ceilings
from scheduler.core.framework.events import PEER_EVENTS
from scheduler.core.framework.plugin import Plugin, PreFilter
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.pod_selectors import PodMatches, PodSelectors
from scheduler.core.pods.shapes import Codes, Shape
from scheduler.core.topology.topology import Domains, Topologies
from scheduler.core.values.model import PodTerm, Requirements, Stage, WeightedPodTerm

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity(Plugin):
    """Filter, score and quotas for shapes that have such terms or are selected by one."""

    name = "InterPodAffinity"
    weight = 2000
    events = PEER_EVENTS

    def __init__(self, nodes: NodeTable, topologies: Topologies, selectors: PodSelectors) -> None:
        self._nodes = nodes
        self._topologies = topologies
        self._selectors = selectors

    def advice(self, shape: Shape, reason: str) -> str:
        wants = shape.requirements
        if reason == ANTI_AFFINITY:
            keys = _keys(wants.required_anti_affinity)
            return f"anti-affinity keeps the pods apart by {keys}. Lower minCount, or add nodes"
        if reason == AFFINITY:
            keys = _keys(wants.required_affinity)
            return (
                f"affinity requires other pods in the same {keys}. Free capacity there, or start"
                " those pods"
            )
        if reason == EXISTING_ANTI_AFFINITY:
            return "existing pods exclude these pods. Delete them, or change their anti-affinity"
        return ""

    def pre_filter(self, wants: Requirements, matches: PodMatches) -> PreFilter:
        """Return the match counts that filter and score read.

        The pods need other pods if they need a peer and do not match their own terms.
        """
        needs = bool(wants.required_affinity) and self._peers(wants) not in matches.counted
        read = self._filter_match_ids(wants, matches)
        return PreFilter(read, self._score_match_ids(wants, matches), needs)

    def _filter_match_ids(self, wants: Requirements, matches: PodMatches) -> set[int]:
        ids = set(matches.excluded_by)
        if wants.required_affinity:
            ids.add(self._peers(wants))
        ids.update(self._selectors.match_id((t.selector,)) for t in wants.required_anti_affinity)
        return ids

    def _score_match_ids(self, wants: Requirements, matches: PodMatches) -> set[int]:
        ids = {self._selectors.match_id((soft.term.selector,)) for soft in wants.preferred_affinity}
        return ids.union(matches.scored_by)

    def filter_pods(self, shape: Shape, codes: Codes) -> None:
        self._affinity(shape, codes)
        for term in shape.requirements.required_anti_affinity:
            match_id = self._selectors.match_id((term.selector,))
            beside = self._near_counted(match_id, term.key, shape.load.stage)
            shape.rule_out(codes, beside, ANTI_AFFINITY)
        for match_id in shape.matches.excluded_by:
            term_of_others = self._selectors.declared(match_id)
            # A term without declaring pods excludes nothing: skip its pass over the nodes.
            if isinstance(term_of_others, PodTerm) and not self._nodes.match_counts.empty(match_id):
                beside = self._near_counted(match_id, term_of_others.key, shape.load.stage)
                shape.rule_out(codes, beside, EXISTING_ANTI_AFFINITY)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        if not shape.score_match_ids:
            return None
        total = np.zeros(len(rows), np.int64)
        for match_id, soft in self._preferred_terms(shape):
            if not self._nodes.match_counts.empty(match_id):
                domains = self._topologies.domains(soft.term.key)
                # Nodes without the label are in no domain: their code -1 reads the last entry, 0.
                table = np.append(self._present(domains, match_id, shape.load.stage), 0)
                total += soft.weight * table[domains.codes[rows]]
        # Anti-affinity has negative weights: shift the scores to start at 0, then scale them.
        total -= total.min(initial=0)
        most = max(1, int(total.max(initial=0)))
        score: Ints = total * self.weight // most
        return score

    def domain_quotas(self, shape: Shape) -> list[DomainQuota]:
        """Return one pod per domain for each required anti-affinity term that selects the shape."""
        found: list[DomainQuota] = []
        for key in self._keys_of_one(shape):
            domains = self._topologies.domains(key)
            once = np.ones(len(domains.values), np.int64)
            # Nodes without the topology key are in no domain, where anti-affinity never fails.
            found.append(DomainQuota(domains, np.append(once, PLENTY)))
        return found

    def preferences(self, shape: Shape) -> list[Preference]:
        """Return the domains in which pods of the shape prefer to be together, or to spread."""
        found: list[Preference] = []
        stage = shape.load.stage
        for soft in shape.requirements.preferred_affinity:
            match_id = self._selectors.match_id((soft.term.selector,))
            # Terms about other pods are in the score. Those about the shape change with each pod.
            if match_id in shape.matches.counted:
                domains = self._topologies.domains(soft.term.key)
                present = None if soft.weight > 0 else self._present(domains, match_id, stage)
                found.append(Preference(domains, present))
        return found

    def most(self, shape: Shape, capacity: Ints, parts: Ints, size: int) -> Ints | None:
        """Return the bound by the shape's required anti-affinity to itself; see Plugin."""
        found: Ints | None = None
        for key in self._keys_of_one(shape):
            bound = ceilings(self._topologies.domains(key), capacity, parts, size)
            found = bound if found is None else np.minimum(found, bound)
        return found

    def one_at_a_time(self, shape: Shape) -> bool:
        """Return True if the pods match their own affinity terms and no domain has a peer yet.

        As upstream, the first such pod may then go to any node with the topology keys of its terms.
        """
        wants = shape.requirements
        if not wants.required_affinity:
            return False
        peers = self._peers(wants)
        # The first pod decides the domain for all others, so it is placed alone.
        views = self._nodes.match_counts.views(peers)
        return any(self._is_first(shape, peers, view) for view in views)

    def _is_first(self, shape: Shape, peers: int, nominated: bool) -> bool:
        """Return True if the next pod is the first of its peers, with or without nominated pods."""
        matches_itself = peers in shape.matches.counted
        return matches_itself and not self._any(peers, shape.requirements, nominated)

    def has_peers(self, shape: Shape) -> bool:
        """Return True if a pod runs that the shape's pods must be near."""
        wants = shape.requirements
        if not wants.required_affinity:
            return False
        return self._any(self._peers(wants), wants, nominated=False)

    def _affinity(self, shape: Shape, codes: Codes) -> None:
        wants = shape.requirements
        if not wants.required_affinity:
            return
        peers = self._peers(wants)
        # Both views, as in kube-scheduler: a nominated pod may never come, so it is no sure peer.
        for nominated in self._nodes.match_counts.views(peers):
            first = self._is_first(shape, peers, nominated)
            for term in wants.required_affinity:
                # Without any peer, a pod that matches its own terms may start a domain.
                if first:
                    met: Bools = self._topologies.domains(term.key).codes >= 0
                else:
                    met = self._near_counted(peers, term.key, wants.stage, nominated=nominated)
                shape.rule_out(codes, ~met, AFFINITY)

    def _peers(self, wants: Requirements) -> int:
        """Return the match id of the pods that match every required term."""
        return self._selectors.match_id(tuple(term.selector for term in wants.required_affinity))

    def _keys_of_one(self, shape: Shape) -> set[str]:
        """Return the keys of the required anti-affinity terms that select the shape itself."""
        terms, match_id = shape.requirements.required_anti_affinity, self._selectors.match_id
        return {t.key for t in terms if match_id((t.selector,)) in shape.matches.counted}

    def _any(self, match_id: int, wants: Requirements, nominated: bool) -> bool:
        """Return True if a counted pod runs in a domain of any required affinity term."""
        rows = self._nodes.match_counts.rows(match_id, wants.stage, nominated=nominated)
        # As upstream, a peer in a domain of one term is enough to end the exception for first pods.
        keys = {term.key for term in wants.required_affinity}
        return any((self._topologies.domains(key).codes[rows] >= 0).any() for key in keys)

    def _near_counted(
        self, match_id: int, key: str, stage: Stage | None, *, nominated: bool = True
    ) -> Bools:
        """Return the nodes (N,) that share a domain of the key with a counted pod.

        Pods of stages that never run at the same time as `stage` do not count.
        """
        domains = self._topologies.domains(key)
        held = np.zeros(len(domains.values) + 1, np.bool_)
        rows = self._nodes.match_counts.rows(match_id, stage, nominated=nominated)
        held[domains.codes[rows]] = True
        held[-1] = False  # nodes without the label are in no domain
        beside: Bools = held[domains.codes]
        return beside

    def _preferred_terms(self, shape: Shape) -> Iterator[tuple[int, WeightedPodTerm]]:
        """Yield the shape's own preferred terms, and those of running pods that select it."""
        for soft in shape.requirements.preferred_affinity:
            yield self._selectors.match_id((soft.term.selector,)), soft
        for match_id in shape.matches.scored_by:
            declared = self._selectors.declared(match_id)
            if isinstance(declared, WeightedPodTerm):
                yield match_id, declared

    def _present(self, domains: Domains, match_id: int, stage: Stage | None) -> Ints:
        """Return the counted pods of each domain (D,) that the stage may run together with."""
        counts = self._nodes.match_counts
        return domains.sums(counts.amounts(match_id, stage), counts.rows(match_id, stage))


def _keys(terms: Iterable[PodTerm]) -> str:
    return ", ".join(sorted({term.key for term in terms}))
