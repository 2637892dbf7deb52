"""The registry of shapes: one Shape object for equal requirements and matches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Pod
from scheduler.core.pods.pod_selectors import NO_MATCHES, MatchCount, PodMatches, PodSelectors
from scheduler.core.pods.shapes import Shape
from scheduler.core.values.model import Requirements


class Shapes:
    """All known shapes. `sweep` removes those without pods; their indices are reused."""

    def __init__(self, selectors: PodSelectors, framework: Framework) -> None:
        self._selectors = selectors
        self._framework = framework
        self._known: dict[tuple[Requirements, PodMatches], Shape] = {}
        self._vacant: list[int] = []
        self._idle: dict[Shape, None] = {}

    @property
    def idle(self) -> bool:
        """True if `sweep` may have something to free."""
        return bool(self._idle)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Shape]:
        """Iterate over the shapes in the order of their indices."""
        return iter(sorted(self._known.values(), key=lambda shape: shape.index))

    def intern(
        self,
        requirements: Requirements,
        matches: PodMatches = NO_MATCHES,
        like: Shape | None = None,
    ) -> Shape:
        """Return the shape with these, created if new; `like` has the same requirements."""
        shape = self._known.get((requirements, matches))
        if shape is None:
            # Retained until `sweep` frees the shape: no match count ends while the shape reads it.
            self._selectors.register(requirements)
            self._selectors.retain(requirements)
            # The lowest vacant index first, so that columns by shape stay short.
            index = heapq.heappop(self._vacant) if self._vacant else len(self._known)
            shape = self._framework.shape(index, requirements, matches, like)
            self._known[requirements, matches] = shape
            # Idle until a pod is counted: it may never get one.
            self._idle[shape] = None
        return shape

    def count(self, shape: Shape, pods: int, waiting: int) -> None:
        """Add to the numbers of the shape's pods and waiting pods; negative numbers subtract."""
        shape.pods += pods
        shape.waiting += waiting
        if not shape.waiting:
            self._idle[shape] = None

    def recount(self, shape: Shape, pods: Iterable[Pod]) -> None:
        """Count the pods of the shape among these pods."""
        same = [pod for pod in pods if pod.shape is shape]
        shape.pods, shape.waiting = len(same), sum(pod.waiting for pod in same)
        if not shape.waiting:
            self._idle[shape] = None

    def end(self) -> list[MatchCount]:
        """Free all shapes, with whatever pods. Return the match counts that no shape needs."""
        ended: list[MatchCount] = []
        for shape in self._known.values():
            ended += self._selectors.release(shape.requirements)
            self._framework.drop_caches(shape)
        self._known.clear()
        self._idle.clear()
        return ended

    def sweep(self, kept: Callable[[Shape], bool]) -> list[MatchCount]:
        """Free what no pod uses, in time proportional to what changed.

        Returns the match counts that no shape needs. Shapes for which `kept` is true stay.
        """
        ended: list[MatchCount] = []
        idle, self._idle = self._idle, {}
        for shape in idle:
            # A nomination still names the shape. Ask again at the next sweep.
            if not shape.pods and kept(shape):
                self._idle[shape] = None
            elif not shape.pods:
                del self._known[shape.requirements, shape.matches]
                heapq.heappush(self._vacant, shape.index)
                ended += self._selectors.release(shape.requirements)
                self._framework.drop_caches(shape)
            # Running pods need the shape, but only waiting pods read its results by node.
            elif not shape.waiting:
                self._framework.drop_caches(shape)
        return ended
