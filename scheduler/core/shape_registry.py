"""The registry of shapes: the same Shape for equal requirements and matches."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator

from scheduler.core.framework import Framework
from scheduler.core.model import Requirements
from scheduler.core.node_table import NodeTable
from scheduler.core.plugins import node_affinity
from scheduler.core.pod_selectors import NO_MATCHES, MatchCount, PodMatches, PodSelectors
from scheduler.core.shapes import Shape


class Shapes:
    """All known shapes. `sweep` removes those without pods; their indices are reused."""

    def __init__(self, nodes: NodeTable, selectors: PodSelectors, framework: Framework) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._framework = framework
        self._known: dict[tuple[Requirements, PodMatches], Shape] = {}
        self._vacant: list[int] = []
        self._idle: dict[Shape, None] = {}

    @property
    def idle(self) -> bool:
        """Whether `sweep` may have anything to free."""
        return bool(self._idle)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Shape]:
        """In the order of their indices."""
        return iter(sorted(self._known.values(), key=lambda shape: shape.index))

    def intern(self, requirements: Requirements, matches: PodMatches = NO_MATCHES) -> Shape:
        """The shape with these, created if it is new; the labels it asks for become watched."""
        shape = self._known.get((requirements, matches))
        if shape is None:
            self._selectors.register(requirements)
            self._selectors.retain(requirements)
            index = heapq.heappop(self._vacant) if self._vacant else len(self._known)
            shape = self._framework.shape(index, requirements, matches)
            self._known[requirements, matches] = shape
            self._idle[shape] = None
            for key in node_affinity.label_keys(requirements):
                self._nodes.watch_label(key)
        return shape

    def count(self, shape: Shape, pods: int, waiting: int) -> None:
        """Add to the numbers of the shape's pods and waiting pods; negative numbers subtract."""
        shape.pods += pods
        shape.waiting += waiting
        if not shape.waiting:
            self._idle[shape] = None

    def sweep(self, kept: Collection[Shape] = ()) -> list[MatchCount]:
        """Free what no pod uses any more, in time proportional to what changed.

        Returns the match counts that no shape needs any more. Shapes in `kept` are not freed.
        """
        ended: list[MatchCount] = []
        idle, self._idle = self._idle, {}
        for shape in idle:
            if shape in kept and not shape.pods:
                self._idle[shape] = None
            elif not shape.pods:
                del self._known[shape.requirements, shape.matches]
                heapq.heappush(self._vacant, shape.index)
                ended += self._selectors.release(shape.requirements)
            elif not shape.waiting:
                shape.drop_caches()
        return ended
