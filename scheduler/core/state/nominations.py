"""Nominations: capacity reserved for roots whose victims are still terminating.

They correspond to kube-scheduler's nominated pods. Those count here too, like single pods of this
scheduler. Other roots of the same or a lower priority cannot use the nominated capacity. A root of
higher priority may take it; the nomination is then lost.
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
"""Priorities of roots for which the sum of the nominations that they respect is kept."""


@dataclass(frozen=True, slots=True)
class Nomination:
    """The nominated nodes of a root: for each shape, (node name, number of pods) pairs.

    A `foreign` one belongs to another scheduler: the nominatedNodeName of one of its pods. One that
    is `kept` is for pods that do not exist yet: the root waits for its owner to create them again.
    """

    root: GroupKey
    priority: int
    places: tuple[tuple[Shape, tuple[tuple[str, int], ...]], ...]
    foreign: bool = False
    kept: bool = False


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
        """True if a pod of this shape is nominated."""
        return any(shape in by_shape for by_shape in self._by_priority.values())

    def own(self, root: GroupKey) -> bool:
        """True if the root has a nomination of this scheduler, which waits for others to leave."""
        nomination = self._nominations.get(root)
        return nomination is not None and not (nomination.foreign or nomination.kept)

    def kept_for(self, root: GroupKey) -> bool:
        """True if the root has a nomination for pods that do not exist yet."""
        nomination = self._nominations.get(root)
        return nomination is not None and nomination.kept

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
        """Return the nominations on these nodes, by root."""
        return {root: self._nominations[root] for row in rows for root in self._at(row)}

    @contextmanager
    def taken(self, rows: Iterable[int]) -> Iterator[None]:
        """Take all nominated pods on these rows inside. Costs O(number of nominated pods there)."""
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
        """Return the sorted rows of the nominated nodes; None if there are none or one is gone."""
        nomination = self._nominations.get(root)
        if nomination is None:
            return None
        names = _nodes(nomination)
        row_of = self._nodes.row_of
        # A gang needs all of its nominated nodes; the others alone would not hold it.
        if not names <= row_of.keys():
            return None
        return Region(np.array(sorted(row_of[name] for name in names), np.int64))

    def free(self, root: GroupKey, shape: Shape) -> int:
        """Return how many of a nominated root's pods of this shape fit now."""
        places = _by_shape(self._nominations[root]).get(shape)
        return 0 if places is None else self._free(shape, places)

    def free_of_all(self, root: GroupKey) -> tuple[int, int]:
        """Return how many of the root's nominated pods fit, each shape alone, and their total."""
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
        """Take all nominations that this root must respect; undo this at the end.

        With `rows`, only those on these rows, in O(number of nominated pods there). With `shapes`,
        the root has no others, and what does not matter to them may be left out.
        """
        # `kept` has taken these nominations already. Taking them again would count them twice.
        if rows is None and (self._kept == (root, priority) or not self._taken(priority)):
            yield
            return

        def take() -> None:
            if rows is None:
                self._take_but_own(root, priority, shapes)
            else:
                self._take_on(rows, root, priority)

        # Upstream filters with and without nominated pods: an affinity must not depend on pods that
        # may never run. So match counts remember which of their pods are nominated.
        with self._nodes.trial(), self._nodes.match_counts.nominating(take):
            yield

    def _take_on(self, rows: Ints, root: GroupKey, priority: int) -> None:
        for row in rows.tolist():
            for other, nominated in self._at(row).items():
                if other != root and self._nominations[other].priority >= priority:
                    self._take_all(row, nominated)

    def _take_but_own(self, root: GroupKey, priority: int, shapes: Iterable[Shape] | None) -> None:
        # The sum by priority is shared by all roots. Subtract the root's own part instead of
        # building a sum for each root.
        self._taken(priority).take(shapes)
        own = self._nominations.get(root)
        if own is not None and own.priority >= priority:
            for shape, places in _by_shape(own).items():
                occupy(self._framework, shape, places, sign=-1)

    @contextmanager
    def kept(
        self, root: GroupKey, priority: int, shapes: Iterable[Shape] | None = None
    ) -> Iterator[None]:
        """Keep what `respected` takes for many decisions on this root: it is free of cost inside.

        Has no effect if nominated shapes are taken one by one: what they get depends on who left
        before.
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
        """Return the sum of the nominations of this or a higher priority.

        It is kept up to date until nodes change.
        """
        self._forget_other_nodes()
        if priority not in self._merged:
            # Users may create any number of PriorityClasses. Drop the oldest sum.
            if len(self._merged) == _MOST_PRIORITIES:
                del self._merged[next(iter(self._merged))]
            found = self._merged[priority] = NominatedPlaces(self._framework)
            for each, by_shape in self._by_priority.items():
                for shape, counts in by_shape.items() if each >= priority else ():
                    found.add(shape, counts.items())
        return self._merged[priority]

    def _forget_other_nodes(self) -> None:
        """Forget all sums if nodes changed: they are arrays by row."""
        # A row may belong to another node now.
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._merged.clear()

    def _add(self, nomination: Nomination, sign: int) -> None:
        """Add the nomination to the sums, or (-1) subtract it."""
        self._forget_other_nodes()
        by_shape = self._by_priority.setdefault(nomination.priority, {})
        # A sum of priority p contains the nominations of p and above.
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
