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

import numpy as np

from scheduler.core.framework import Framework
from scheduler.core.model import GroupKey
from scheduler.core.node_table import Ints, Load
from scheduler.core.shapes import Shape

_Taken = list[tuple[Shape, Ints, Ints]]


@dataclass(frozen=True, slots=True)
class _Places:
    """Nominated places of many roots: `alone` shape by shape, of all others what they take.

    That is `amounts`, equal requests together, and `matches`: (match id, row, number of pods).
    """

    alone: _Taken
    amounts: list[tuple[Load, Ints, Ints]]
    matches: list[tuple[int, int, int]]


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
        self._framework = framework
        self._nodes = framework.nodes
        self._nominations: dict[GroupKey, Nomination] = {}
        self._own = 0
        self._on: dict[str, dict[GroupKey, Counter[Shape]]] = {}
        self._by_priority: dict[int, dict[Shape, Counter[str]]] = {}
        self._merged: dict[int, _Places] = {}
        self._kept: tuple[GroupKey, int] | None = None
        self._generation = -1

    def __contains__(self, root: GroupKey) -> bool:
        return root in self._nominations

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._nominations.values())

    @property
    def any_own(self) -> bool:
        """Whether any root has a nomination of this scheduler."""
        return self._own > 0

    def own(self, root: GroupKey) -> bool:
        """Whether the root has a nomination of this scheduler."""
        nomination = self._nominations.get(root)
        return nomination is not None and not nomination.foreign

    def set(self, nomination: Nomination) -> None:
        """Add a nomination; it replaces an earlier one of the same root."""
        self.drop(nomination.root)
        self._nominations[nomination.root] = nomination
        self._own += not nomination.foreign
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
        self._own -= not nomination.foreign
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
        with self._nodes.trial():
            for row in rows:
                for nominated in self._at(row).values():
                    self._take_all(row, nominated)
            yield

    def _take_all(self, row: int, nominated: Mapping[Shape, int]) -> None:
        for shape, count in nominated.items():
            at, counts = np.array([[row], [count]], np.int64)
            self._framework.reserve(shape, at, counts)

    def _at(self, row: int) -> Mapping[GroupKey, Mapping[Shape, int]]:
        node = self._nodes.infos[row]
        return self._on.get(node.name, {}) if node is not None else {}

    def rows(self, root: GroupKey) -> Ints | None:
        """Sorted rows of the nominated nodes; None if one is gone or there is no nomination."""
        nomination = self._nominations.get(root)
        if nomination is None:
            return None
        names = _nodes(nomination)
        row_of = self._nodes.row_of
        if not names <= row_of.keys():
            return None
        return np.array(sorted(row_of[name] for name in names), np.int64)

    def free(self, root: GroupKey, shape: Shape) -> int:
        """How many of the root's nominated places for this shape are free. It must have some."""
        free = 0
        for nominated, rows, counts in self._places(_by_shape(self._nominations[root])):
            if nominated is shape:
                free += int(np.minimum(counts, self._framework.slots_in(shape, rows)).sum())
        return free

    def free_of_all(self, root: GroupKey) -> tuple[int, int]:
        """How many of the root's nominated places are free, each shape alone, and of how many."""
        free = total = 0
        for shape, rows, counts in self._places(_by_shape(self._nominations[root])):
            free += int(np.minimum(counts, self._framework.slots_in(shape, rows)).sum())
            total += int(counts.sum())
        return free, total

    @contextmanager
    def respected(self, root: GroupKey, priority: int, rows: Ints | None = None) -> Iterator[None]:
        """Inside, all nominated places that this root may not use are taken; undone at the end.

        Only those on `rows`, if these are given: that costs O(number of places on them).
        """
        if rows is not None:
            with self._nodes.trial():
                for row in rows.tolist():
                    for other, nominated in self._at(row).items():
                        if other != root and self._nominations[other].priority >= priority:
                            self._take_all(row, nominated)
                yield
            return
        taken = self._taken(priority)
        own = self._nominations.get(root)
        if self._kept == (root, priority) or not (taken.alone or taken.amounts):
            yield
            return
        with self._nodes.trial():
            for load, at, counts in taken.amounts:
                self._nodes.take(at, counts, load)
            self._nodes.count(taken.matches)
            self._occupy(taken.alone, 1)
            if own is not None and own.priority >= priority:
                self._occupy(self._places(_by_shape(own)), -1)
            yield

    @contextmanager
    def kept(self, root: GroupKey, priority: int) -> Iterator[None]:
        """The same for many decisions on this root: inside, `respected` for it costs nothing more.

        Not where nominated shapes are taken alone: what they get depends on who has left before.
        """
        if self._taken(priority).alone:
            yield
            return
        with self.respected(root, priority):
            before, self._kept = self._kept, (root, priority)
            try:
                yield
            finally:
                self._kept = before

    def _taken(self, priority: int) -> _Places:
        """Places nominated with this or a higher priority; cached until they or nodes change."""
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._merged.clear()
        if priority not in self._merged:
            found: dict[Shape, Counter[str]] = {}
            for each, by_shape in self._by_priority.items():
                for shape, counts in by_shape.items() if each >= priority else ():
                    found[shape] = found[shape] + counts if shape in found else counts
            self._merged[priority] = self._together(found)
        return self._merged[priority]

    def _together(self, by_shape: Mapping[Shape, Mapping[str, int]]) -> _Places:
        """Shapes that only take resources and are counted by others are taken with one another."""
        rows: dict[tuple[tuple[str, int], ...], Counter[int]] = {}
        loads: dict[tuple[tuple[str, int], ...], Load] = {}
        found = _Places([], [], [])
        row_of = self._nodes.row_of
        for shape, counts in by_shape.items():
            if not self._framework.only_counts(shape):
                found.alone.extend(self._places({shape: counts}))
                continue
            amounts = shape.request.amounts
            loads.setdefault(amounts, Load(shape.request))
            taken = rows.setdefault(amounts, Counter())
            for name, count in counts.items():
                if (row := row_of.get(name)) is not None:
                    taken[row] += count
                    found.matches.extend((it, row, count) for it in shape.load.match_ids)
        for amounts, taken in rows.items():
            if taken:
                at, numbers = np.array(list(taken.items()), np.int64).T
                found.amounts.append((loads[amounts], at, numbers))
        return found

    def _add(self, nomination: Nomination, sign: int) -> None:
        """Count its places, or (-1) count them no more: all are needed for each decision."""
        self._merged.clear()
        by_shape = self._by_priority.setdefault(nomination.priority, {})
        for shape, places in nomination.places:
            counts = by_shape.setdefault(shape, Counter())
            for name, count in places:
                counts[name] += sign * count
                if not counts[name]:
                    del counts[name]
            if not counts:
                del by_shape[shape]
        if not by_shape:
            del self._by_priority[nomination.priority]

    def _places(self, by_shape: Mapping[Shape, Mapping[str, int]]) -> _Taken:
        """(shape, rows, counts) for the known nodes; rows are distinct."""
        row_of = self._nodes.row_of
        places: _Taken = []
        for shape, counts in by_shape.items():
            known = [(row_of[name], count) for name, count in counts.items() if name in row_of]
            if known:
                rows, numbers = np.array(known, np.int64).T
                places.append((shape, rows, numbers))
        return places

    def _occupy(self, taken: _Taken, sign: int) -> None:
        for shape, rows, counts in taken:
            self._framework.reserve(shape, rows, sign * counts)


def _by_shape(nomination: Nomination) -> dict[Shape, Counter[str]]:
    found: dict[Shape, Counter[str]] = {}
    for shape, places in nomination.places:
        counts = found.setdefault(shape, Counter())
        for name, count in places:
            counts[name] += count
    return found


def _nodes(nomination: Nomination) -> set[str]:
    return {name for _, places in nomination.places for name, _ in places}
