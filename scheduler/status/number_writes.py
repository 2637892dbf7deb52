"""The pace of writes that only correct numbers: these change with every node and pod. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K")

_SECONDS: Final = 3.0
"""Seconds between two writes of an object if only its numbers changed, at least."""

_PER_SECOND: Final = 20.0
"""Maximum writes per second in which only numbers changed, for groups and again for pods.
Namespaces share them equally, and the objects of one take turns."""

_TICKS: Final = 50
"""Parts of the time in which all objects of a namespace have a turn, but none below a second. A
group is visited once in each part, whatever the number of its pods."""

_LATE: Final = 5.0
"""Seconds after its turn in which an object may still be written."""

_CHECKS: Final = 1000
"""Maximum objects that a round checks for whether they still wait. A later round checks the rest,
which count for the shares until then."""


class NumberWrites(Generic[K]):
    """The times of the last writes by object and namespace. Times are of the monotonic clock."""

    def __init__(self) -> None:
        self._last: dict[K, tuple[str, float]] = {}
        self._of: Counter[str] = Counter()
        self._turns: dict[K, float] = {}
        # By namespace: the start of the last part in which an object has a turn, and the number of
        # turns given in it.
        self._parts: dict[str, tuple[float, int]] = {}

    def wrote(self, key: K, namespace: str, now: float) -> None:
        """Record a write of the object."""
        if key not in self._last:
            self._of[namespace] += 1
        self._last[key] = namespace, now
        self._turns.pop(key, None)

    def due_in(self, key: K, now: float) -> float:
        """Return the seconds until new numbers of the object are due, 0 or less if they are.

        The object has a turn from then on: ask again at that time.
        """
        if key not in self._last:
            return 0.0
        namespace, last = self._last[key]
        if (left := last + _SECONDS - now) > 0:
            return left
        turn = self._turns.get(key)
        if turn is None or turn < now - _LATE:
            turn = self._turns[key] = self._next_turn(namespace, now)
        return turn - now

    def _next_turn(self, namespace: str, now: float) -> float:
        pause = len(self._of) / _PER_SECOND
        part = max(1.0, self._of[namespace] * pause / _TICKS)
        begin, given = self._parts.get(namespace, (now, 0))
        if begin + part <= now:
            begin, given = now, 0
        if given >= max(1, int(part / pause)):
            begin, given = begin + max(part, pause), 0
        self._parts[namespace] = begin, given + 1
        return begin

    def discard(self, key: K) -> None:
        """Forget an object that waits no longer."""
        namespace, _ = self._last.pop(key, ("", 0.0))
        self._turns.pop(key, None)
        if namespace:
            self._of[namespace] -= 1
            if not self._of[namespace]:
                del self._of[namespace]
                self._parts.pop(namespace, None)

    def keep(self, existing: Container[K]) -> None:
        """Forget objects that are not among the `existing`: the next `_CHECKS` in turn."""
        for key in list(islice(self._last, _CHECKS)):
            if key in existing:
                self._last[key] = self._last.pop(key)
            else:
                self.discard(key)
