"""What the console saw happen to roots while it ran: what their objects do not keep."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from console.base.messages import Event
from scheduler.core.values.model import GroupKey

MOST_ROOTS: Final = 5000
MOST_EVENTS: Final = 40
"""Of one root; the oldest goes first."""


class Chronicle:
    """Events by root, in bounded memory: the roots of which nothing new was heard go first."""

    def __init__(self) -> None:
        self._events: OrderedDict[GroupKey, deque[Event]] = OrderedDict()

    def note(self, root: GroupKey, event: Event) -> bool:
        """Keep the event, unless the last one of the root said the same; whether it is kept."""
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
        """The root is gone."""
        self._events.pop(root, None)

    def of(self, roots: Iterable[GroupKey]) -> list[Event]:
        """What was seen of these."""
        return [event for root in roots for event in self._events.get(root, ())]
