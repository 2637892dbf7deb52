"""Moments at which keys are due. Finding the next one costs the same for any number of keys."""

from __future__ import annotations

import heapq
from collections.abc import KeysView
from typing import Final

from scheduler.core.values.model import GroupKey

_SLACK: Final = 64
"""Outdated entries of the heap that are allowed before it is rebuilt."""


class Timers:
    """One moment for each key; a later one replaces it.

    `keys` are those that have a moment; it follows all changes.
    """

    def __init__(self) -> None:
        self._at: dict[GroupKey, float] = {}
        self.keys: KeysView[GroupKey] = self._at.keys()
        self._heap: list[tuple[float, GroupKey]] = []

    def set(self, key: GroupKey, at: float) -> None:
        """Set the moment at which the key is due."""
        self._at[key] = at
        heapq.heappush(self._heap, (at, key))
        # Replaced and removed moments stay in the heap until they reach its top.
        if len(self._heap) > 2 * len(self._at) + _SLACK:
            self._heap = [(moment, each) for each, moment in self._at.items()]
            heapq.heapify(self._heap)

    def discard(self, key: GroupKey) -> None:
        """Remove the moment of the key."""
        self._at.pop(key, None)

    def next(self) -> float | None:
        """Return the first moment, if there is any."""
        while self._heap:
            at, key = self._heap[0]
            if self._at.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> GroupKey | None:
        """Remove and return the first key that is due by now; None if there is none."""
        # Asked for each pod event, mostly of an empty heap.
        if not self._heap:
            return None
        at = self.next()
        if at is None or at > now:
            return None
        # `next` has removed outdated entries, so the top is current.
        _, key = heapq.heappop(self._heap)
        del self._at[key]
        return key
