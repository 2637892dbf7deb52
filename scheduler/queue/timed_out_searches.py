"""Refused roots whose search ran out of time: another search may find more without any change.

They are searched again after a back-off, but only while no other root is ready, and one at a time:
however many there are, they take a small share of otherwise idle time.
"""

from __future__ import annotations

from typing import Final

from scheduler.core.values.model import GroupKey
from scheduler.queue.timers import Timers

_FIRST: Final = 1.0
"""Seconds until the first further search. Each one that runs out of time doubles them."""

_DOUBLINGS: Final = 6
"""Doublings of the wait: to 64 seconds."""

_APART: Final = 1.0
"""Seconds between two such searches of any roots."""


class LongSearches(Timers):
    """The times of further searches, in seconds of a monotonic clock, passed by the caller.

    A root that is discarded keeps its back-off, in case its next search times out, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._searches: dict[GroupKey, int] = {}
        self._not_before = 0.0

    def ended(self, key: GroupKey, now: float, *, timed_out: bool) -> None:
        """Record that the root was refused, after a search that did or did not run out of time."""
        if not timed_out:
            self.forget(key)
            return
        searches = self._searches.get(key, 0)
        self._searches[key] = searches + 1
        self.set(key, now + _FIRST * 2 ** min(searches, _DOUBLINGS))

    def forget(self, key: GroupKey) -> None:
        """Remove a root, and start its back-off from the beginning."""
        self.discard(key)
        self._searches.pop(key, None)

    def next_time(self) -> float | None:
        """Return when the next root may be searched again, if there is any."""
        due = self.next()
        return None if due is None else max(due, self._not_before)

    def pop_due(self, now: float) -> GroupKey | None:
        """Remove and return a root to search again now, if there is one."""
        if now < self._not_before:
            return None
        key = super().pop_due(now)
        if key is not None:
            self._not_before = now + _APART
        return key
