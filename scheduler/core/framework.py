"""Runs the plug-ins over all nodes for one shape at a time: filter, score, reserve.

It corresponds to kube-scheduler's framework.Framework, which runs them for one pod and one node. As
there, each plug-in has its own rules; this module decides their order and combines their answers.
Answers of node filters are cached until the nodes change. Answers that depend on other pods or on
free resources are cached until any of those change.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.domain_quotas import Preference, Quotas
from scheduler.core.model import Requirements
from scheduler.core.node_classes import NodeClass
from scheduler.core.node_table import Bools, Ints, NodeTable
from scheduler.core.plugins import (
    node_affinity,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    taint_toleration,
)
from scheduler.core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.core.plugins.pod_topology_spread import PodTopologySpread
from scheduler.core.plugins.volume_binding import VolumeBinding
from scheduler.core.pod_selectors import PodMatches, PodSelectors
from scheduler.core.shapes import NO_NODE, Codes, Shape
from scheduler.core.topology import Topologies
from scheduler.core.volume_table import VolumeTable

_NODE_AFFINITY_WEIGHT: Final = 2000
_TAINT_TOLERATION_WEIGHT: Final = 3000
"""kube-scheduler's weights of these plug-ins, as a score in thousandths of a node's use."""


class Framework:
    """The plug-ins of one cluster. The arrays it returns may be shared: do not write to them."""

    def __init__(
        self,
        nodes: NodeTable,
        topologies: Topologies,
        selectors: PodSelectors,
        volumes: VolumeTable,
    ) -> None:
        self.nodes = nodes
        self.affinity = InterPodAffinity(nodes, topologies, selectors)
        self.spread = PodTopologySpread(nodes, topologies, selectors)
        self.volumes = VolumeBinding(nodes, selectors, volumes)
        self._selectors = selectors

    def shape(self, index: int, wants: Requirements, matches: PodMatches) -> Shape:
        """A new shape, with what the plug-ins derive from its requirements and matches alone."""
        claims = (self._selectors.claim(key) for key in wants.claims)
        filters = self.affinity.filter_match_ids(wants, matches).union(
            self.spread.filter_match_ids(wants), claims
        )
        scores = self.affinity.score_match_ids(wants, matches).union(
            self.spread.score_match_ids(wants)
        )
        sizes = node_resources_fit.sizes(wants, self.nodes)
        ports = node_ports.sizes(wants.ports, self.nodes.resource)
        return Shape(
            index,
            wants,
            matches,
            sizes=sizes,
            ports=ports,
            scored_resources=node_resources_fit.scored(sizes, self.nodes),
            resources=len(self.nodes.resources),
            filter_match_ids=frozenset(filters),
            score_match_ids=frozenset(scores),
            needs_other_pods=self.affinity.needs_other_pods(wants, matches),
        )

    # Filter

    def node_codes(self, shape: Shape) -> Codes:
        """Per node (N,) the code of the node filters; they ignore other pods and free resources."""
        return shape.cache.node_codes.get(self.nodes.generation, lambda: self._filter_nodes(shape))

    def permitted(self, shape: Shape) -> Bools:
        """Per node (N,) whether the node filters admit the shape."""
        permitted: Bools = self.node_codes(shape) == 0
        return permitted

    def pod_codes(self, shape: Shape) -> Codes:
        """Per node (N,) the code of the filters that depend on other pods and on volumes."""
        return shape.cache.pod_codes.get(self.nodes.version, lambda: self._filter_pods(shape))

    def slots(self, shape: Shape) -> Ints:
        """How many pods of this shape each node (N,) has room for; 0 if a filter excludes it."""
        return shape.cache.slots.get(self.nodes.version, lambda: self._slots(shape))

    def slots_in(self, shape: Shape, rows: Ints | None) -> Ints:
        """The same for the given rows only, (len(rows),); cheap for few rows. None means all."""
        if rows is None:
            return self.slots(shape)
        if shape.cache.slots.key == self.nodes.version:
            return self.slots(shape)[rows]
        counts = self._room_at(shape, rows)
        if shape.filter_match_ids:
            counts[self.pod_codes(shape)[rows] != 0] = 0
        return counts

    def optimistic_slots(self, shape: Shape, rows: Ints | None) -> Ints:
        """Like `slots_in`, as if the other pods that the shape needs were already placed."""
        if shape.needs_other_pods:
            room = self.room(shape, self.nodes.free)
            return room if rows is None else room[rows]
        return self.slots_in(shape, rows)

    def room(self, shape: Shape, free: Ints) -> Ints:
        """Pods per node (N,) that fit into `free` (R, capacity) and that the node filters admit."""
        rows = slice(self.nodes.size)
        return node_resources_fit.room(shape, free, rows, self.permitted(shape))

    def most(self, shape: Shape, room: Ints) -> int:
        """The most pods of the shape that can fit if each node (N,) has this much room."""
        return self.affinity.most(shape, room)

    def quotas(self, shape: Shape, *, preferences: bool) -> Quotas:
        """How many of the shape's next pods may be placed before the plug-ins must run again."""
        preferred: list[Preference] = []
        if preferences and shape.score_match_ids:
            preferred = self.affinity.preferences(shape) + self.spread.preferences(shape)
        single = self.volumes.one_at_a_time(shape) or self.affinity.first_of_its_kind(shape)
        return Quotas.of(
            self.affinity.quotas(shape), self.spread.skew_limits(shape), preferred, single=single
        )

    # Score

    def usage(self, shape: Shape) -> tuple[Ints, Ints]:
        """Mean use of the requested resources and what a pod adds, per node (N,) in thousandths."""
        nodes, cached = self.nodes, shape.cache.usage
        used, step = cached.get(
            nodes.size, lambda: (np.zeros(nodes.size, np.int64), np.zeros(nodes.size, np.int64))
        )
        rows = nodes.changed_since(cached.stamp)
        if len(rows):
            used[rows], step[rows] = self.usage_at(shape, rows)
        cached.stamp = nodes.stamp
        return used, step

    def usage_at(self, shape: Shape, rows: Ints) -> tuple[Ints, Ints]:
        """The same for the given rows only, (len(rows),)."""
        return node_resources_fit.usage_at(shape, self.nodes, rows)

    def preference(self, shape: Shape, rows: Ints) -> Ints | None:
        """The score of each row, (len(rows),), in thousandths of a node's use; None: all equal."""
        nodes = self.nodes
        preference: Ints | None = None
        if shape.score_match_ids:
            preference = self.affinity.score(shape, rows) + self.spread.score(shape, rows)
        scores = shape.cache.node_scores.get(nodes.generation, lambda: self._score_nodes(shape))
        if scores is not None and len(rows):
            affinity, taints = (score[rows] for score in scores)
            most, worst = max(1, int(affinity.max())), max(1, int(taints.max()))
            own = affinity * _NODE_AFFINITY_WEIGHT // most
            own = own - taints * _TAINT_TOLERATION_WEIGHT // worst
            preference = own if preference is None else preference + own
        return preference

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int:
        """Index of the row to take the first of `count` pods; rows are best first, with `room`."""
        return self.volumes.start(shape, rows, room, count)

    # Reserve

    def reserve(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Put `counts[i]` pods on `rows[i]`, or take them off if negative; undone with a trial.

        Rows must be distinct, and all counts of the same sign. Assumes or drops volumes as well.
        """
        matches = shape.matches.counted
        self.nodes.take(rows, counts, shape.request, matches)
        if shape.requirements.claims and len(rows):
            self.volumes.reserve(matches, int(rows[0]), more=bool(counts[0] > 0))

    def account(self, shape: Shape, row: int, count: int = 1) -> None:
        """Count pods that are now on the node (negative: that left it), outside of any trial."""
        matches = shape.matches.counted
        self.nodes.take_one(row, shape.request, count, matches)
        if shape.requirements.claims and count < 0:
            self.volumes.reserve(matches, row, more=False)

    def _filter_nodes(self, shape: Shape) -> Codes:
        nodes, wants = self.nodes, shape.requirements
        classes = nodes.classes
        # Classes are only added while an epoch lasts.
        by_class = shape.cache.by_class.get(classes.epoch, list)
        for node_class in classes.all[len(by_class) :]:
            by_class.append(shape.code(_class_reason(wants, node_class)))
        # Vacant rows have class -1, which reads the last entry.
        table = np.array([*by_class, shape.code(NO_NODE)], np.int16)
        codes: Codes = table[nodes.node_class[: nodes.size]]
        named = node_name.admits(wants, nodes)
        if named is not None:
            shape.rule_out(codes, ~named, node_name.REASON)
        by_name = node_affinity.admits_by_name(wants, nodes)
        if by_name is not None:
            shape.rule_out(codes, ~by_name, node_affinity.REASON)
        return codes

    def _filter_pods(self, shape: Shape) -> Codes:
        codes = np.zeros(self.nodes.size, np.int16)
        self.spread.rule_out(shape, codes)
        self.affinity.rule_out(shape, codes)
        self.volumes.rule_out(shape, codes)
        return codes

    def _score_nodes(self, shape: Shape) -> tuple[Ints, Ints] | None:
        """Per node (N,) the preferred affinity and the untolerated taints; None if all are 0."""
        affinity = node_affinity.preference(shape.requirements, self.nodes)
        taints = taint_toleration.intolerable(shape.requirements, self.nodes)
        return (affinity, taints) if affinity.any() or taints.any() else None

    def _slots(self, shape: Shape) -> Ints:
        room = self._fresh_room(shape)
        if not shape.filter_match_ids:
            return room
        return np.where(self.pod_codes(shape) == 0, room, 0)

    def _fresh_room(self, shape: Shape) -> Ints:
        """Room for the free resources; if few rows changed, only those are computed again."""
        nodes, cached = self.nodes, shape.cache.room
        key, before = (nodes.generation, nodes.size), cached.stamp
        cached.stamp = nodes.stamp
        if cached.key == key:
            rows = nodes.changed_since(before)
            if len(rows) * 8 < nodes.size:
                room = cached.get(key, lambda: self.room(shape, nodes.free))
                if len(rows):
                    room = room.copy()  # callers may still use the old array
                    room[rows] = self._room_at(shape, rows)
                return cached.set(key, room)
        return cached.set(key, self.room(shape, nodes.free))

    def _room_at(self, shape: Shape, rows: Ints) -> Ints:
        permitted = self.node_codes(shape)[rows] == 0
        return node_resources_fit.room(shape, self.nodes.free, rows, permitted)


def _class_reason(wants: Requirements, node: NodeClass) -> str:
    """Why the node filters exclude nodes of this class; empty if they do not."""
    if not node_unschedulable.admits(wants, node):
        return node_unschedulable.REASON
    taint = taint_toleration.untolerated(wants, node)
    if taint is not None:
        return f"{taint_toleration.REASON}{taint}"
    return "" if node_affinity.admits_class(wants, node) else node_affinity.REASON
