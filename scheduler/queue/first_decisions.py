"""The roots that were never decided, and when they overtake others.

Roots are decided in their order. But refused ones that are decided repeatedly without effect,
however many there are, do not delay the first decision of a root of their priority.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final

from scheduler.core.values.model import GroupKey
from scheduler.queue.equal_refusals import Rank

_IN_VAIN: Final = 16
"""Repeated decisions in a row that place nothing, before a root is decided for the first time."""

_SLACK: Final = 64
"""Outdated entries of the heap that are allowed before it is rebuilt."""


class FirstDecisions:
    """The roots that were refused, and the order of those that were not."""

    def __init__(self) -> None:
        self._refused: set[GroupKey] = set()
        self._heap: list[tuple[Rank, GroupKey]] = []
        self._in_vain = 0

    def ready(self, key: GroupKey, rank: Rank, active: Mapping[GroupKey, Rank]) -> None:
        """Add a root that may be decided; `active` are all such roots."""
        if key in self._refused:
            return
        heapq.heappush(self._heap, (rank, key))
        # Outdated entries leave the heap only at its top.
        if len(self._heap) > 2 * len(active) + _SLACK:
            kept = [(r, each) for each, r in active.items() if each not in self._refused]
            heapq.heapify(kept)
            self._heap = kept

    def refused(self, key: GroupKey) -> None:
        """Record that a decision placed nothing."""
        # First decisions do not count: they are what the repeated ones must not delay.
        self._in_vain += key in self._refused
        self._refused.add(key)

    def on_root_placed(self) -> None:
        """Record that a root was placed: the decisions had an effect."""
        self._in_vain = 0

    def forget(self, key: GroupKey) -> None:
        """Forget a root that was bound or is gone: its next decision is its first."""
        self._refused.discard(key)

    def next(self, highest: int, active: Mapping[GroupKey, Rank]) -> GroupKey | None:
        """Return a root that overtakes others now; None if they keep their order.

        It has the rank of the `highest` priority that is ready (negated, as in Rank).
        """
        if self._in_vain < _IN_VAIN:
            return None
        self._in_vain = 0
        while self._heap:
            rank, key = self._heap[0]
            if active.get(key) == rank and key not in self._refused:
                # A root of lower priority never overtakes a higher one, however long it waits.
                return key if rank[0] == highest else None
            heapq.heappop(self._heap)
        return None
