"""The pace of writes that only correct numbers: these change with every node and pod. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K")

_SECONDS: Final = 2.0
"""Seconds between two writes of an object if only its numbers changed, at least."""

_PER_SECOND: Final = 20.0
"""Maximum writes per second in which only numbers changed, for groups and again for pods.
Namespaces share them equally, so one with many objects waits longer between two writes of each."""

_CHECKS: Final = 1000
"""Maximum objects that a round checks for whether they still wait. A later round checks the rest,
which count for the shares until then."""


class NumberWrites(Generic[K]):
    """The times of the last writes by object and namespace. Times are of the monotonic clock."""

    def __init__(self) -> None:
        self._last: dict[K, tuple[str, float]] = {}
        self._of: Counter[str] = Counter()

    def wrote(self, key: K, namespace: str, now: float) -> None:
        """Record a write of the object."""
        if key not in self._last:
            self._of[namespace] += 1
        self._last[key] = namespace, now

    def due_in(self, key: K, now: float) -> float:
        """Return the seconds until new numbers of the object are due, 0 or less if they are."""
        if key not in self._last:
            return 0.0
        namespace, last = self._last[key]
        share = self._of[namespace] * len(self._of) / _PER_SECOND
        return last + max(_SECONDS, share) - now

    def discard(self, key: K) -> None:
        """Forget an object that waits no longer."""
        namespace, _ = self._last.pop(key, ("", 0.0))
        if namespace:
            self._of[namespace] -= 1
            if not self._of[namespace]:
                del self._of[namespace]

    def keep(self, existing: Container[K]) -> None:
        """Forget objects that are not among the `existing`: the next `_CHECKS` in turn."""
        for key in list(islice(self._last, _CHECKS)):
            if key in existing:
                self._last[key] = self._last.pop(key)
            else:
                self.discard(key)
