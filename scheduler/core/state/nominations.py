"""Nominations: places reserved for roots whose victims are still terminating.

They correspond to kube-scheduler's nominated pods, whose places are kept like those of single pods
of this scheduler. Other roots of the same or a lower priority
cannot use these places. A root of higher priority may take them; the nomination is then lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.node_table import Ints, Region
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.nominated_places import NominatedPlaces, known, occupy
from scheduler.core.values.model import GroupKey

_MOST_PRIORITIES: Final = 16
"""For so many priorities of roots, what they may not use is kept summed up."""


@dataclass(frozen=True, slots=True)
class Nomination:
    """The nominated places: for each shape, (node name, number of pods) pairs.

    A `foreign` one is another scheduler's: the nominatedNodeName of one of its pods.
    """

    root: GroupKey
    priority: int
    places: tuple[tuple[Shape, tuple[tuple[str, int], ...]], ...]
    foreign: bool = False


class Nominations:
    """All nominations, by root and by node."""

    def __init__(self, framework: Framework) -> None:
        self.version = 0  # rises with each change
        self._framework = framework
        self._nodes = framework.nodes
        self._nominations: dict[GroupKey, Nomination] = {}
        self._on: dict[str, dict[GroupKey, Counter[Shape]]] = {}
        self._by_priority: dict[int, dict[Shape, Counter[str]]] = {}
        self._merged: dict[int, NominatedPlaces] = {}
        self._kept: tuple[GroupKey, int] | None = None
        self._generation = -1

    def __contains__(self, root: GroupKey) -> bool:
        return root in self._nominations

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._nominations.values())

    def uses(self, shape: Shape) -> bool:
        """Whether a place is nominated for a pod of this shape."""
        return any(shape in by_shape for by_shape in self._by_priority.values())

    def own(self, root: GroupKey) -> bool:
        """Whether the root has a nomination of this scheduler."""
        nomination = self._nominations.get(root)
        return nomination is not None and not nomination.foreign

    def set(self, nomination: Nomination) -> None:
        """Add a nomination; it replaces an earlier one of the same root."""
        self.drop(nomination.root)
        self.version += 1
        self._nominations[nomination.root] = nomination
        for shape, places in nomination.places:
            for name, count in places:
                nominated = self._on.setdefault(name, {}).setdefault(nomination.root, Counter())
                nominated[shape] += count
        self._add(nomination, 1)

    def drop(self, root: GroupKey) -> Nomination | None:
        """Remove and return the root's nomination; None if it has none."""
        nomination = self._nominations.pop(root, None)
        if nomination is None:
            return None
        self.version += 1
        for name in _nodes(nomination):
            del self._on[name][root]
            if not self._on[name]:
                del self._on[name]
        self._add(nomination, -1)
        return nomination

    def clear(self) -> None:
        """Remove all nominations of this scheduler."""
        for root in [each.root for each in self if not each.foreign]:
            self.drop(root)

    def on(self, rows: Iterable[int]) -> dict[GroupKey, Nomination]:
        """The nominations with places on these nodes, by root."""
        return {root: self._nominations[root] for row in rows for root in self._at(row)}

    @contextmanager
    def taken(self, rows: Iterable[int]) -> Iterator[None]:
        """Inside, all nominated places on these rows are taken. Costs O(number of these places)."""
        places = NominatedPlaces(self._framework)
        for row in rows:
            at = self._at(row)
            for nominated in at.values():
                for shape, count in nominated.items():
                    places.add(shape, ((self._nodes.name_of(row), count),))
        with self._nodes.trial():
            places.take()
            yield

    def _take_all(self, row: int, nominated: Mapping[Shape, int]) -> None:
        for shape, count in nominated.items():
            at, counts = np.array([[row], [count]], np.int64)
            self._framework.occupy(shape, at, counts)

    def _at(self, row: int) -> Mapping[GroupKey, Mapping[Shape, int]]:
        node = self._nodes.infos[row]
        return self._on.get(node.name, {}) if node is not None else {}

    def rows(self, root: GroupKey) -> Region | None:
        """Sorted rows of the nominated nodes; None if one is gone or there is no nomination."""
        nomination = self._nominations.get(root)
        if nomination is None:
            return None
        names = _nodes(nomination)
        row_of = self._nodes.row_of
        if not names <= row_of.keys():
            return None
        return Region(np.array(sorted(row_of[name] for name in names), np.int64))

    def free(self, root: GroupKey, shape: Shape) -> int:
        """How many of the root's nominated places for this shape are free. It must have some."""
        places = _by_shape(self._nominations[root]).get(shape)
        return 0 if places is None else self._free(shape, places)

    def free_of_all(self, root: GroupKey) -> tuple[int, int]:
        """How many of the root's nominated places are free, each shape alone, and of how many."""
        free = total = 0
        for shape, places in _by_shape(self._nominations[root]).items():
            free += self._free(shape, places)
            total += sum(n for name, n in places.items() if name in self._nodes.row_of)
        return free, total

    def _free(self, shape: Shape, places: Mapping[str, int]) -> int:
        found = known(self._framework, places)
        if found is None:
            return 0
        rows, counts = found
        return int(np.minimum(counts, self._framework.slots_in(shape, rows)).sum())

    @contextmanager
    def respected(
        self,
        root: GroupKey,
        priority: int,
        rows: Ints | None = None,
        *,
        shapes: Iterable[Shape] | None = None,
    ) -> Iterator[None]:
        """Inside, all nominated places that this root may not use are taken; undone at the end.

        Only those on `rows`, if these are given: that costs O(number of places on them). With
        `shapes`, the root has no others, and what says nothing to them may be left out.
        """
        if rows is None and (self._kept == (root, priority) or not self._taken(priority)):
            yield
            return

        def take() -> None:
            if rows is None:
                self._take_but_own(root, priority, shapes)
            else:
                self._take_on(rows, root, priority)

        with self._nodes.trial(), self._nodes.match_counts.nominating(take):
            yield

    def _take_on(self, rows: Ints, root: GroupKey, priority: int) -> None:
        for row in rows.tolist():
            for other, nominated in self._at(row).items():
                if other != root and self._nominations[other].priority >= priority:
                    self._take_all(row, nominated)

    def _take_but_own(self, root: GroupKey, priority: int, shapes: Iterable[Shape] | None) -> None:
        self._taken(priority).take(shapes)
        own = self._nominations.get(root)
        if own is not None and own.priority >= priority:
            for shape, places in _by_shape(own).items():
                occupy(self._framework, shape, places, sign=-1)

    @contextmanager
    def kept(
        self, root: GroupKey, priority: int, shapes: Iterable[Shape] | None = None
    ) -> Iterator[None]:
        """The same for many decisions on this root: inside, `respected` for it costs nothing more.

        Not where nominated shapes are taken alone: what they get depends on who has left before.
        """
        if self._taken(priority).any_alone:
            yield
            return
        with self.respected(root, priority, shapes=shapes):
            before, self._kept = self._kept, (root, priority)
            try:
                yield
            finally:
                self._kept = before

    def _taken(self, priority: int) -> NominatedPlaces:
        """Places nominated with this or a higher priority, kept up to date until nodes change."""
        self._forget_other_nodes()
        if priority not in self._merged:
            if len(self._merged) == _MOST_PRIORITIES:
                del self._merged[next(iter(self._merged))]
            found = self._merged[priority] = NominatedPlaces(self._framework)
            for each, by_shape in self._by_priority.items():
                for shape, counts in by_shape.items() if each >= priority else ():
                    found.add(shape, counts.items())
        return self._merged[priority]

    def _forget_other_nodes(self) -> None:
        """What is summed up holds only for the nodes as they were."""
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._merged.clear()

    def _add(self, nomination: Nomination, sign: int) -> None:
        """Count its places, or (-1) count them no more: all are needed for each decision."""
        self._forget_other_nodes()
        by_shape = self._by_priority.setdefault(nomination.priority, {})
        concerned = [taken for of, taken in self._merged.items() if of <= nomination.priority]
        for shape, places in nomination.places:
            counts = by_shape.setdefault(shape, Counter())
            for name, count in places:
                counts[name] += sign * count
                if not counts[name]:
                    del counts[name]
            if not counts:
                del by_shape[shape]
            for taken in concerned:
                taken.add(shape, [(name, sign * count) for name, count in places])
        if not by_shape:
            del self._by_priority[nomination.priority]


def _by_shape(nomination: Nomination) -> dict[Shape, Counter[str]]:
    found: dict[Shape, Counter[str]] = {}
    for shape, places in nomination.places:
        counts = found.setdefault(shape, Counter())
        for name, count in places:
            counts[name] += count
    return found


def _nodes(nomination: Nomination) -> set[str]:
    return {name for _, places in nomination.places for name, _ in places}
