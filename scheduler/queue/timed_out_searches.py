"""Refused roots whose search ran out of time: nothing has to change for another one to find more.

They are searched again after a back-off, but only while no other root is ready, and one at a time:
however many there are, they take a small share of the time that nobody else needs.
"""

from __future__ import annotations

from typing import Final

from scheduler.core.values.model import GroupKey
from scheduler.queue.timers import Timers

_FIRST: Final = 1.0
"""Seconds until the first further search; each one that runs out of time doubles them."""

_DOUBLINGS: Final = 6
"""How often the wait doubles: to 64 seconds."""

_APART: Final = 1.0
"""Seconds between two such searches of any roots."""


class LongSearches:
    """When they are searched again. Times are seconds of a monotonic clock, given by the caller."""

    def __init__(self) -> None:
        self._due = Timers()
        self._searches: dict[GroupKey, int] = {}
        self._not_before = 0.0

    def ended(self, key: GroupKey, now: float, *, timed_out: bool) -> None:
        """The root was refused after a search that ran out of time, or that did not."""
        if not timed_out:
            self.forget(key)
            return
        searches = self._searches.get(key, 0)
        self._searches[key] = searches + 1
        self._due.set(key, now + _FIRST * 2 ** min(searches, _DOUBLINGS))

    def discard(self, key: GroupKey) -> None:
        """It is decided again, or not waiting any more; the back-off goes on if it times out."""
        self._due.discard(key)

    def forget(self, key: GroupKey) -> None:
        """The same, and the back-off begins anew."""
        self._due.discard(key)
        self._searches.pop(key, None)

    def next_time(self) -> float | None:
        """When the next one may be searched again, if there is any."""
        due = self._due.next()
        return None if due is None else max(due, self._not_before)

    def pop_due(self, now: float) -> GroupKey | None:
        """Take the one to search again now, if there is one."""
        if now < self._not_before:
            return None
        key = self._due.pop_due(now)
        if key is not None:
            self._not_before = now + _APART
        return key
