"""What the nominations of many roots take, summed up: each decision has to take it."""

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
    """Places for equal requests: how many on each row, (N,), and how many in all."""

    load: Load
    counts: Ints
    total: int = 0


class NominatedPlaces:
    """Places by shape and node, as long as no node comes, goes or is changed.

    Shapes that only take resources and are counted by others are taken together, those with equal
    requests at once. All others are taken alone, shape by shape: what they get depends on who has
    left before. A shape stays with those that it was with first, for as long as it has places.
    """

    def __init__(
        self, framework: Framework, by_shape: Mapping[Shape, Mapping[str, int]] | None = None
    ) -> None:
        self._framework = framework
        self._nodes = framework.nodes
        self._alone: dict[Shape, Counter[str]] = {}
        self._together: Counter[Shape] = Counter()
        self._equal: dict[tuple[tuple[str, int], ...], _Equal] = {}
        self._matches: dict[int, Counter[int]] = {}
        self._pods: set[int] = set()  # those of them that count more than the users of a volume
        for shape, places in (by_shape or {}).items():
            self.add(shape, places.items())

    def __bool__(self) -> bool:
        return bool(self._alone or self._equal)

    @property
    def any_alone(self) -> bool:
        """Whether what is taken depends on who has left before."""
        return bool(self._alone)

    def add(self, shape: Shape, places: Iterable[tuple[str, int]]) -> None:
        """Add (node name, number of pods) pairs; a negative number takes them away again."""
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
            row = row_of.get(name)
            if row is not None:
                equal.counts[row] += count
                equal.total += count
                for match_id in shape.load.match_ids:
                    self._count(match_id, row, count)
        if not equal.total:
            del self._equal[amounts]

    def take(self, shapes: Iterable[Shape] | None = None) -> None:
        """Take all of them, in the open trial.

        With `shapes`, those are all that is decided about: other users of volumes that these do not
        use are not counted, unless nodes can attach only so many.
        """
        for equal in self._equal.values():
            rows = np.flatnonzero(equal.counts)
            self._nodes.take(rows, equal.counts[rows], equal.load)
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
        """The match counts that say something to these shapes."""
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
    """Take places on nodes that are known, in the open trial; -1 frees them."""
    found = known(framework, places)
    if found is not None:
        rows, counts = found
        framework.occupy(shape, rows, sign * counts)


def known(framework: Framework, places: Mapping[str, int]) -> tuple[Ints, Ints] | None:
    """The rows, which are distinct, and the counts of nodes that are there; None without any."""
    row_of = framework.nodes.row_of
    found = [(row_of[name], count) for name, count in places.items() if name in row_of]
    if not found:
        return None
    rows, counts = np.array(found, np.int64).T
    return rows, counts


def _add(counts: Counter[_K], key: _K, count: int) -> None:
    """Counts of 0 are not kept."""
    counts[key] += count
    if not counts[key]:
        del counts[key]
