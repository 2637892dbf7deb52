"""Events of roots that the console observed while it ran and that their objects do not keep."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from console.base.messages import Event
from scheduler.core.values.model import GroupKey

MOST_ROOTS: Final = 5000
"""Roots whose events are kept. The least recently active are dropped first."""

MOST_EVENTS: Final = 40
"""Events of one root that are kept. The oldest are dropped first."""


class Chronicle:
    """Events by root, in bounded memory: the least recently active roots are dropped first."""

    def __init__(self) -> None:
        self._events: OrderedDict[GroupKey, deque[Event]] = OrderedDict()

    def note(self, root: GroupKey, event: Event) -> bool:
        """Record the event unless it repeats the root's last one; return true if it is new."""
        known = self._events.get(root)
        if known is None:
            known = self._events[root] = deque(maxlen=MOST_EVENTS)
            if len(self._events) > MOST_ROOTS:
                self._events.popitem(last=False)
        if known and (known[-1].event, known[-1].sentence) == (event.event, event.sentence):
            return False
        known.append(event)
        self._events.move_to_end(root)
        return True

    def forget(self, root: GroupKey) -> None:
        """Forget a deleted root."""
        self._events.pop(root, None)

    def of(self, roots: Iterable[GroupKey]) -> list[Event]:
        """Return the events of these roots."""
        return [event for root in roots for event in self._events.get(root, ())]
