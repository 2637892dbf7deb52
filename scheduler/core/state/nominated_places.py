"""The sum of what the nominations of many roots take, because each decision has to take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.node_table import Ints, Load
from scheduler.core.pods.shapes import Shape

_K = TypeVar("_K")


@dataclass(slots=True)
class _Equal:
    """Nominated pods of equal requests: how many on each row, (N,), and how many in all."""

    load: Load
    counts: Ints
    total: int = 0


class NominatedPlaces:
    """Nominated pods by shape and node, valid until a node is added, changed or deleted.

    Shapes that only take resources and count matches are taken together, those with equal requests
    at once. All others are taken one by one: for these, what a shape gets depends on who left
    before. A shape keeps its kind as long as it has nominated pods.
    """

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._nodes = framework.nodes
        self._alone: dict[Shape, Counter[str]] = {}
        self._together: Counter[Shape] = Counter()
        self._equal: dict[tuple[tuple[str, int], ...], _Equal] = {}
        self._matches: dict[int, Counter[int]] = {}
        self._pods: set[int] = set()  # those that count pods, not only the users of a volume

    def __bool__(self) -> bool:
        return bool(self._alone or self._equal)

    @property
    def any_alone(self) -> bool:
        """True if what is taken depends on who left before."""
        return bool(self._alone)

    def add(self, shape: Shape, places: Iterable[tuple[str, int]]) -> None:
        """Add (node name, number of pods) pairs; a negative number removes them."""
        # A shape may start or cease to qualify while it is nominated. Removing it must find it
        # where adding put it.
        if shape in self._alone or not (
            shape in self._together or self._framework.only_counts(shape)
        ):
            self._add_alone(shape, places)
            return
        amounts, row_of = shape.request.amounts, self._nodes.row_of
        equal = self._equal.get(amounts)
        if equal is None:
            none = np.zeros(self._nodes.size, np.int64)
            equal = self._equal[amounts] = _Equal(Load(shape.request), none)
        for name, count in places:
            _add(self._together, shape, count)
            # Count it even if no such node exists: removing the pair subtracts the same number.
            row = row_of.get(name)
            if row is not None:
                equal.counts[row] += count
                equal.total += count
                for match_id in shape.load.match_ids:
                    self._count(match_id, row, count)
        if not equal.total:
            del self._equal[amounts]

    def take(self, shapes: Iterable[Shape] | None = None) -> None:
        """Take all nominated pods, in the open trial.

        With `shapes`, the decision is about these alone. Users of other volumes are not counted
        then, unless nodes can attach only so many.
        """
        for equal in self._equal.values():
            rows = np.flatnonzero(equal.counts)
            self._nodes.take(rows, equal.counts[rows], equal.load)
        # Only the entries are summed up, not all nodes: most match counts have few rows.
        self._nodes.count(
            [
                (match_id, row, count)
                for match_id in self._counted(shapes)
                for row, count in self._matches[match_id].items()
            ]
        )
        for shape, places in self._alone.items():
            occupy(self._framework, shape, places)

    def _count(self, match_id: int, row: int, count: int) -> None:
        rows = self._matches.setdefault(match_id, Counter())
        _add(rows, row, count)
        if not rows:
            del self._matches[match_id]
            self._pods.discard(match_id)
        elif not self._framework.plugins.volume_binding.counts_users(match_id):
            self._pods.add(match_id)

    def _counted(self, shapes: Iterable[Shape] | None) -> Iterable[int]:
        """Return the match counts that matter to these shapes."""
        # Attach limits count every volume on a node, whichever pod uses it.
        if shapes is None or self._framework.plugins.volume_binding.limited:
            return self._matches
        wanted = {match_id for shape in shapes for match_id in shape.filter_match_ids}
        return wanted & self._matches.keys() | self._pods

    def _add_alone(self, shape: Shape, places: Iterable[tuple[str, int]]) -> None:
        counts = self._alone.setdefault(shape, Counter())
        for name, count in places:
            _add(counts, name, count)
        if not counts:
            del self._alone[shape]


def occupy(framework: Framework, shape: Shape, places: Mapping[str, int], *, sign: int = 1) -> None:
    """Take these nominated pods on nodes that exist, in the open trial; -1 frees them."""
    found = known(framework, places)
    if found is not None:
        rows, counts = found
        framework.occupy(shape, rows, sign * counts)


def known(framework: Framework, places: Mapping[str, int]) -> tuple[Ints, Ints] | None:
    """Return the distinct rows and the counts of the nodes that exist; None if none does."""
    row_of = framework.nodes.row_of
    found = [(row_of[name], count) for name, count in places.items() if name in row_of]
    if not found:
        return None
    rows, counts = np.array(found, np.int64).T
    return rows, counts


def _add(counts: Counter[_K], key: _K, count: int) -> None:
    """Add to a counter, without entries of 0."""
    counts[key] += count
    if not counts[key]:
        del counts[key]
