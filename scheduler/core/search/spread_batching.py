"""Placement of many equal single pods with topology spread constraints at once.

The result is that of one decision after the other, with the profile pack: each pod goes to the
fullest node in the domains that the constraints leave open. A node that takes a pod is fuller than
before. So within one set of domains it stays the first until it is full. Therefore only the first
nodes of each set, and the domains' counts, are kept in order. A set whose domains are full waits
until the lowest count rises.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.framework.domain_quotas import PLENTY, SkewLimit
from scheduler.core.framework.framework import Framework
from scheduler.core.framework.node_resources_fit import used_with
from scheduler.core.groups.forest import Pod
from scheduler.core.nodes.node_table import Ints
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement
from scheduler.core.state.state import State


def spreads_alone(framework: Framework, shape: Shape) -> bool:
    """Return True if only resources, node filters and spread constraints decide for the shape.

    Each of the constraints has to select the shape itself. Nothing may be preferred.
    """
    spread, wants = framework.plugins.pod_topology_spread, shape.requirements
    limits = len(spread.skew_limits(shape))
    return (
        0 < limits == len(wants.spread)
        and shape.filter_match_ids == spread.filter_match_ids(wants)
        and not (shape.score_match_ids or wants.volumes or wants.needs_devices or shape.uses)
        and wants.stage is None
        and framework.preference(shape, np.arange(framework.nodes.size)) is None
    )


def place_spread(state: State, pods: Sequence[Pod]) -> list[Placement]:
    """Return placements for the first of the pods, which are equal, in this order. Changes nothing.

    If a pod does not fit, neither it nor any pod after it has a placement.
    """
    first = pods[0]
    with state.nodes.trial(), state.nominations.respected(first.key, first.priority):
        rows = _Cells(state.framework, first.shape).next_rows(len(pods))
    return [Placement(pod.key, (pod,), (row,), 1, 0) for pod, row in zip(pods, rows, strict=False)]


class _Limit:
    """A spread constraint while pods are placed."""

    def __init__(self, limit: SkewLimit) -> None:
        self.present: list[int] = limit.present.tolist()
        self._counting: list[bool] = limit.counting.tolist()
        # With fewer domains than minDomains, the minimum is 0 as upstream: no pod raises it.
        self._fixed = limit.few or not any(self._counting)
        counts, times = np.unique(limit.present[limit.counting], return_counts=True)
        self._domains_at = dict(zip(counts.tolist(), times.tolist(), strict=True))
        self._least = 0 if limit.few else min(self._domains_at, default=PLENTY)
        self._max_skew = limit.max_skew
        self._aside: dict[int, list[_Cell]] = {}

    @property
    def most(self) -> int:
        """Number of pods with which a domain is full."""
        return self._least + self._max_skew

    def lay_aside(self, cell: _Cell, present: int) -> None:
        """Keep the cell until a domain may have more pods than `present`."""
        self._aside.setdefault(present, []).append(cell)

    def take(self, domain: int) -> list[_Cell]:
        """Count one more pod. Return the cells that waited and may be open now."""
        before = self.present[domain]
        self.present[domain] = before + 1
        if self._fixed or not self._counting[domain]:
            return []
        self._domains_at[before] -= 1
        self._domains_at[before + 1] = self._domains_at.get(before + 1, 0) + 1
        # The minimum rises only when the last domain that had it gets a pod.
        if before > self._least or self._domains_at[before]:
            return []
        self._least = before + 1
        return self._aside.pop(self.most - 1, [])


@dataclass(slots=True)
class _Cell:
    """The nodes that are in the same domain of each constraint, the first to take a pod first.

    `capacity` and `taken` belong to the first node with capacity, at index `at`.
    """

    domains: tuple[int, ...]
    rows: list[int]
    at: int = 0
    capacity: int = 0
    taken: int = 0


class _Cells:
    """The cells of a shape with capacity; those that may be open, by their first nodes."""

    def __init__(self, framework: Framework, shape: Shape) -> None:
        self._nodes = framework.nodes
        self._shape = shape
        self._capacity = framework.capacity(shape)
        self._used, _ = framework.usage(shape)
        limits = framework.plugins.pod_topology_spread.skew_limits(shape)
        self._limits = [_Limit(limit) for limit in limits]
        self._order: list[tuple[int, int, _Cell]] = []
        for domains, rows in self._sets(limits):
            cell = _Cell(tuple(domains.tolist()), rows.tolist())
            cell.capacity = int(self._capacity[rows[0]])
            self._order.append((-int(self._used[rows[0]]), cell.rows[0], cell))
        heapq.heapify(self._order)

    def _sets(self, limits: list[SkewLimit]) -> list[tuple[Ints, Ints]]:
        """Return the domains of each set (limits,) with its rows, the fullest first."""
        rows = np.flatnonzero(self._capacity)
        codes = np.stack([limit.domains.codes[rows] for limit in limits], axis=1)
        # Nodes without the topology key take no such pod, as upstream.
        labelled = (codes >= 0).all(axis=1)
        rows, codes = rows[labelled], codes[labelled]
        order = np.lexsort((rows, -self._used[rows], *codes.T))
        rows, codes = rows[order], codes[order]
        differs = np.append(True, (codes[1:] != codes[:-1]).any(axis=1))
        starts = np.flatnonzero(differs[: len(rows)])
        return (
            list(zip(codes[starts], np.split(rows, starts[1:]), strict=True)) if len(rows) else []
        )

    def next_rows(self, count: int) -> list[int]:
        """Return the rows of the next pods, fewer than `count` if no more fit."""
        rows: list[int] = []
        while len(rows) < count and self._order:
            *_, cell = heapq.heappop(self._order)
            if self._is_open(cell):
                rows.append(cell.rows[cell.at])
                self._take(cell)
        return rows

    def _is_open(self, cell: _Cell) -> bool:
        """Return True if all domains of the cell take another pod; else keep it for later."""
        for limit, domain in zip(self._limits, cell.domains, strict=True):
            if (present := limit.present[domain]) >= limit.most:
                limit.lay_aside(cell, present)
                return False
        return True

    def _take(self, cell: _Cell) -> None:
        """Count a pod on the cell's first node."""
        cell.capacity -= 1
        cell.taken += 1
        if not cell.capacity:
            cell.at, cell.taken = cell.at + 1, 0
            cell.capacity = (
                int(self._capacity[cell.rows[cell.at]]) if cell.at < len(cell.rows) else 0
            )
        self._put(cell)
        for limit, domain in zip(self._limits, cell.domains, strict=True):
            for other in limit.take(domain):
                self._put(other)

    def _put(self, cell: _Cell) -> None:
        if cell.capacity:
            row = cell.rows[cell.at]
            used = used_with(self._shape, self._nodes, row, cell.taken)
            heapq.heappush(self._order, (-used, row, cell))
