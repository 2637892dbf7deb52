"""Places equal single pods with topology spread constraints, many at a time.

The places are those of one decision after the other, with the profile pack: each pod goes to the
fullest node of those in domains that the constraints leave open. A node that takes a pod is fuller
than before, so within one set of domains it stays the first until it has no room left. Then only
the first nodes of each set have to be compared, and the domains' counts kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.domain_quotas import SkewLimit
from scheduler.core.forest import Pod
from scheduler.core.framework import Framework
from scheduler.core.place import Placement
from scheduler.core.plugins.node_resources_fit import used_with
from scheduler.core.shapes import Shape
from scheduler.core.state import State

MOST_CELLS: Final = 64
"""The most sets of domains that nodes may have in common: all are compared for each pod."""


def spreads_alone(framework: Framework, shape: Shape) -> bool:
    """Whether nothing but resources, node filters and spread constraints decides for the shape.

    Each of the constraints has to select the shape itself. Nothing may be preferred.
    """
    wants, limits = shape.requirements, len(framework.spread.skew_limits(shape))
    return (
        0 < limits == len(wants.spread)
        and shape.filter_match_ids == framework.spread.filter_match_ids(wants)
        and not (shape.score_match_ids or wants.volumes or wants.needs_devices or shape.uses)
        and wants.stage is None
        and framework.preference(shape, np.arange(framework.nodes.size)) is None
    )


def place_spread(state: State, pods: Sequence[Pod]) -> list[Placement]:
    """Places for the first of the pods, which are equal, in this order. Changes nothing.

    Those for which there is no place have none, and neither have any after them: nor has any of
    them where the nodes have too many sets of domains.
    """
    first = pods[0]
    with state.nodes.trial(), state.nominations.respected(first.key, first.priority):
        cells = _Cells.of(state.framework, first.shape)
        rows = cells.next_rows(len(pods)) if cells is not None else []
    return [Placement(pod.key, (pod,), (row,), 1, 0) for pod, row in zip(pods, rows, strict=False)]


@dataclass(slots=True)
class _Cell:
    """The nodes that are in the same domain of each constraint, the first to take a pod first.

    `room` and `cost` are the first one's, which is at `at`.
    """

    domains: tuple[int, ...]
    rows: list[int]
    at: int = 0
    room: int = 0
    taken: int = 0
    cost: int = 0


class _Cells:
    """All cells of a shape, and how many pods each domain has while some are placed."""

    def __init__(
        self, framework: Framework, shape: Shape, limits: list[SkewLimit], cells: list[_Cell]
    ) -> None:
        self._nodes = framework.nodes
        self._shape = shape
        self._room = framework.room(shape)
        self._limits = limits
        self._present = [limit.present.tolist() for limit in limits]
        self._counting = [np.flatnonzero(limit.counting).tolist() for limit in limits]
        self._cells = cells
        for cell in cells:
            self._look_at_first(cell)

    @classmethod
    def of(cls, framework: Framework, shape: Shape) -> _Cells | None:
        """Those of the nodes with room; None if they are too many."""
        limits = framework.spread.skew_limits(shape)
        room = framework.room(shape)
        rows = np.flatnonzero(room)
        codes = np.stack([limit.domains.codes[rows] for limit in limits], axis=1)
        labelled = (codes >= 0).all(axis=1)
        rows, codes = rows[labelled], codes[labelled]
        used, _ = framework.usage(shape)
        order = np.lexsort((rows, -used[rows]))
        rows, codes = rows[order], codes[order]
        sets, where = np.unique(codes, axis=0, return_inverse=True)
        if len(sets) > MOST_CELLS:
            return None
        where = where.reshape(-1)
        cells = [
            _Cell(tuple(domains), rows[where == number].tolist())
            for number, domains in enumerate(sets.tolist())
        ]
        return cls(framework, shape, limits, cells)

    def next_rows(self, count: int) -> list[int]:
        """The rows of the next pods, fewer than `count` if there is no place for more."""
        rows: list[int] = []
        while len(rows) < count:
            least = [self._most(number) for number in range(len(self._limits))]
            open_cells = [cell for cell in self._cells if cell.room and self._is_open(cell, least)]
            if not open_cells:
                break
            cell = min(open_cells, key=lambda each: (each.cost, each.rows[each.at]))
            rows.append(cell.rows[cell.at])
            self._take(cell)
        return rows

    def _most(self, number: int) -> int:
        """How many pods a domain of the constraint may have at most after it gets one more."""
        limit, present = self._limits[number], self._present[number]
        if limit.few:
            return limit.max_skew
        counts = [present[code] for code in self._counting[number]]
        return limit.max_skew + min(counts, default=1 << 40)

    def _is_open(self, cell: _Cell, most: list[int]) -> bool:
        return all(
            present[code] < highest
            for present, code, highest in zip(self._present, cell.domains, most, strict=True)
        )

    def _take(self, cell: _Cell) -> None:
        for present, code in zip(self._present, cell.domains, strict=True):
            present[code] += 1
        cell.room -= 1
        cell.taken += 1
        if cell.room:
            cell.cost = -used_with(self._shape, self._nodes, cell.rows[cell.at], cell.taken)
        else:
            cell.at += 1
            self._look_at_first(cell)

    def _look_at_first(self, cell: _Cell) -> None:
        cell.taken = cell.room = 0
        if cell.at < len(cell.rows):
            row = cell.rows[cell.at]
            cell.room = int(self._room[row])
            cell.cost = -used_with(self._shape, self._nodes, row, 0)
