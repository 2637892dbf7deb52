"""The nodes for pods without a group, by kube-scheduler's default scores.

A node's points are those of kube-scheduler's default plugins, each from 0 to 100 times its weight.
Of nodes with equal points, where kube-scheduler chooses at random, the emptiest is chosen, and then
the one of the lowest row. So the same state gives the same result, whether pods are decided
together or one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.core.framework.default_constraints import DefaultConstraints, ReplicaSpread
from scheduler.core.framework.node_resources_balanced_allocation import POINTS, allocation_at
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.replica_counts import Replicas
from scheduler.core.state.state import State
from scheduler.core.values.model import PodInfo

_AHEAD: Final = 4
"""Pods of one node whose points are computed at once."""

_NEVER: Final = -1
"""Points of a node that is full; those of other nodes are positive."""


class ScoredNodes:
    """The nodes that fit pods of a shape, and their points while pods are placed one by one.

    Only free resources may change with a placed pod. Otherwise the nodes serve one pod. `placed`
    are the rows of pods that the open trial has placed already.
    """

    def __init__(
        self,
        state: State,
        shape: Shape,
        region: Region | None = None,
        placed: Sequence[tuple[int, PodInfo]] = (),
    ) -> None:
        framework = state.framework
        slots = framework.slots_in(shape, region)
        at = np.flatnonzero(slots)
        self.rows = at if region is None else region[at]
        self._state = state
        self._shape = shape
        self._slots = slots[at]
        # Small regions, such as nominated nodes, do not need the points of all nodes.
        if region is None:
            self._allocation = framework.allocation(shape)[self.rows]
        else:
            self._allocation = allocation_at(shape, state.nodes, self.rows)
        self._fits = np.ones(len(self.rows), np.bool_)
        self._preferred = framework.preference(shape, self.rows, points=True)
        self._constraints: DefaultConstraints | None = None
        self._spreads: dict[Replicas, ReplicaSpread | None] = {}
        self._placed: list[tuple[int, PodInfo]] = list(placed)
        self._taken: dict[int, int] = {}
        self._ahead: dict[int, list[int]] = {}

    def look_ahead(self, pods: int) -> None:
        """Compute the points of the nodes that most of so many pods will go to."""
        most, size = min(pods, len(self.rows)), len(self.rows)
        # One integer for points and order: of equal nodes, the first ones come first.
        order = np.arange(size) - self._allocation * size
        best = np.argpartition(order, most - 1)[:most] if most else order
        self._compute(best, 1)

    def best(self, info: PodInfo) -> int | None:
        """Return the index of the node with the most points for the pod; None if none fits."""
        if not len(self.rows):
            return None
        at = int(self.points(info).argmax())
        return at if self._fits[at] else None

    def points(self, info: PodInfo) -> Ints:
        """Return the points of each node for the pod, (n,), times POINTS."""
        points = self._allocation
        if self._preferred is not None:
            points = points + self._preferred * POINTS
        images = self._state.framework.plugins.image_locality.points(info.images)
        if images is not None:
            points = points + images[self.rows] * POINTS
        spread = self._spread_of(info)
        if spread is not None:
            points = points + spread.points() * POINTS
        if points is not self._allocation:
            points[~self._fits] = _NEVER
        return points

    def take(self, at: int, info: PodInfo) -> None:
        """Count the pod on the node of this index."""
        placed = self._taken[at] = self._taken.get(at, 0) + 1
        self._placed.append((int(self.rows[at]), info))
        for replicas, spread in self._spreads.items():
            if spread is not None and self._state.replicas.include(replicas, info):
                spread.add(at)
        if placed == self._slots[at]:
            self._fill(at)
            return
        if not self._ahead.get(at):
            self._compute(np.array([at]), placed)
        self._allocation[at] = self._ahead[at].pop()

    def _fill(self, at: int) -> None:
        self._fits[at] = False
        self._allocation[at] = _NEVER
        for spread in self._spreads.values():
            if spread is not None:
                spread.fill(at)
        # Normalised by the nodes that fit, as upstream.
        if self._preferred is not None and self._fits.any():
            rows = self.rows[self._fits]
            found = self._state.framework.preference(self._shape, rows, points=True)
            self._preferred[self._fits] = 0 if found is None else found

    def _compute(self, at: Ints, first: int) -> None:
        """Compute the points of these nodes with `first` and more pods."""
        pods = np.arange(first + _AHEAD - 1, first - 1, -1)
        found = allocation_at(self._shape, self._state.nodes, self.rows[at, None], pods)
        self._ahead.update(zip(at.tolist(), found.tolist(), strict=True))

    def _spread_of(self, info: PodInfo) -> ReplicaSpread | None:
        """Return the spread of the pod's replicas, with the placed pods; None without any."""
        wants, replicas = self._shape.requirements, self._state.replicas.replicas_of(info)
        # As upstream, a pod with constraints of its own has no default ones.
        if replicas is None or wants.spread or wants.preferred_spread:
            return None
        if replicas not in self._spreads:
            self._spreads[replicas] = self._new_spread(replicas)
        return self._spreads[replicas]

    def _new_spread(self, replicas: Replicas) -> ReplicaSpread | None:
        state = self._state
        on_nodes = state.replicas.on_nodes(replicas)
        if on_nodes is None:
            return None
        counts = Counter(on_nodes)
        for row, info in self._placed:
            if state.replicas.include(replicas, info):
                counts[state.nodes.name_of(row)] += 1
        if self._constraints is None:
            self._constraints = DefaultConstraints(
                state.nodes, state.topologies, self._shape, self.rows
            )
        spread = self._constraints.of(counts)
        for at in np.flatnonzero(~self._fits).tolist():
            spread.fill(at)
        return spread
