"""PodTopologySpread's default constraints: equal replicas spread over nodes and over zones.

kube-scheduler adds two ScheduleAnyway constraints to pods that have none. Nodes in one zone with
the same number of replicas have equal points: a level. There are few levels, so points are computed
for each level, not for each node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.core.framework import node_affinity
from scheduler.core.framework.pod_topology_spread import (
    SCALE,
    PodTopologySpread,
    shares,
    size_factor,
)
from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.pods.shapes import Shape
from scheduler.core.topology.topology import Topologies

_HOST: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"

_HOST_SKEW: Final = 3
"""maxSkew of kube-scheduler's default constraint over nodes."""

_ZONE_SKEW: Final = 5
"""maxSkew of kube-scheduler's default constraint over zones."""

_UNIT: Final = SCALE // 100
"""Shares of one point."""


class DefaultConstraints:
    """The default constraints of a shape, on the nodes of `rows` (n,), which fit it.

    The level of a node without replicas is its zone and whether it has the label of a hostname.
    """

    def __init__(self, nodes: NodeTable, topologies: Topologies, shape: Shape, rows: Ints) -> None:
        self._nodes = nodes
        self._rows = rows
        self._zones = topologies.domains(_ZONE)
        named = nodes.labels.has(_HOST)[rows]
        # Zone -1, without the label, is number 0.
        self._levels: Ints = (self._zones.codes[rows] + 1) * 2 + named
        self._fitting: Ints = np.bincount(self._levels, minlength=2 * len(self._zones.values) + 2)
        self._admitted = node_affinity.admits(shape, nodes)

    def of(self, on_nodes: Mapping[str, int]) -> ReplicaSpread:
        """Return the points of nodes for replicas; `on_nodes` is their number by node name."""
        row_of = self._nodes.row_of
        known = {row_of[name]: count for name, count in on_nodes.items() if name in row_of}
        there = np.fromiter(known, np.int64, len(known))
        counts = np.fromiter(known.values(), np.int64, len(known))
        inside = self._zones.codes[there] >= 0
        # As upstream, nodes that the pod's node affinity excludes do not count for their zone.
        if self._admitted is not None:
            inside &= self._admitted[there]
        in_zones = self._zones.sums(counts[inside], there[inside])
        at = np.searchsorted(self._rows, there)
        fits = at < len(self._rows)
        fits[fits] = self._rows[at[fits]] == there[fits]
        return ReplicaSpread(self._levels, self._fitting, in_zones, at[fits], counts[fits])


class ReplicaSpread:
    """The points of nodes for one kind of replicas, while more of them are placed.

    `levels` (n,) are the levels of the nodes, as in DefaultConstraints, and `fitting` the numbers
    of nodes on each. `in_zones` (Z,) are the replicas in each zone, `counts[i]` those on the node
    of index `at[i]`, which then has a level of its own for its zone and number.
    """

    def __init__(self, levels: Ints, fitting: Ints, in_zones: Ints, at: Ints, counts: Ints) -> None:
        # The first is for nodes without a zone, whose replicas do not count.
        self._in_zones = np.append(0, in_zones)
        most = int(counts.max(initial=0)) + 1
        pairs, of, nodes = np.unique(
            levels[at] * most + counts, return_inverse=True, return_counts=True
        )
        first = np.append(np.arange(len(fitting)), pairs // most)
        self._zone, self._named = first // 2, first % 2
        self._count = np.append(np.zeros(len(fitting), np.int64), pairs % most)
        without = fitting - np.bincount(levels[at], minlength=len(fitting))
        self._fitting = np.append(without, nodes)
        self._levels = levels.copy()
        self._levels[at] = len(fitting) + of
        self._known = {
            (pair // most, pair % most): len(fitting) + index
            for index, pair in enumerate(pairs.tolist())
        }

    def add(self, at: int) -> None:
        """Count one more replica on the node of this index."""
        level = int(self._levels[at])
        zone, named, count = (int(of[level]) for of in (self._zone, self._named, self._count))
        self._in_zones[zone] += zone > 0
        key = (zone * 2 + named, count + 1)
        if key not in self._known:
            self._known[key] = len(self._fitting)
            self._zone, self._named = np.append(self._zone, zone), np.append(self._named, named)
            self._count = np.append(self._count, count + 1)
            self._fitting = np.append(self._fitting, 0)
        self._fitting[level] -= 1
        self._levels[at] = self._known[key]
        self._fitting[self._known[key]] += 1

    def fill(self, at: int) -> None:
        """Record that the node of this index no longer fits."""
        self._fitting[self._levels[at]] -= 1

    def points(self) -> Ints:
        """Return the points of each node, (n,), which are meaningless where none fits."""
        fits = self._fitting > 0
        zones = int(np.count_nonzero(np.bincount(self._zone[fits])))
        # Unlike for constraints of a pod, a node without one of the labels counts for the other.
        by_host = self._count * size_factor(int(self._fitting.sum())) + (_HOST_SKEW - 1)
        by_zone = self._in_zones[self._zone] * size_factor(zones) + (_ZONE_SKEW - 1)
        present = by_host * self._named + by_zone * (self._zone > 0)
        by_level = shares(present, fits) // _UNIT * (PodTopologySpread.weight // 1000)
        points: Ints = by_level[self._levels]
        return points
