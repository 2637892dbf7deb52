"""Renewals: refused roots are decided again because their reported numbers may be outdated.

An event that cannot help a root does not make it ready, but its status contains the number of nodes
and their free resources. So it is decided again some seconds later, after all ready roots.
Namespaces alternate.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from scheduler.core.values.model import GroupKey

_AFTER: Final = 2.0
"""Seconds for which a refused root keeps its numbers. Some more pass until they are written."""

_PAUSE: Final = 0.01
"""Seconds between two decisions that renew the numbers of refused roots, at least."""

_REST: Final = 19.0
"""Seconds until the next such decision, for each second that the last one took.

All of them together take a twentieth of the time, however many roots and nodes there are, and
however often these change.
"""

_LONGEST: Final = 0.5
"""Seconds of one decision that count: in between, others may have been decided."""


class Renewals:
    """The refused roots of each namespace, the one with the oldest numbers at the front.

    Times are seconds of a monotonic clock. A `version` is equal to another if nothing changed.
    """

    def __init__(self) -> None:
        self._refused: dict[str, OrderedDict[GroupKey, tuple[float, object]]] = {}
        self._begun: float | None = None
        self._not_before = 0.0

    def refused(self, key: GroupKey, at: float, version: object, *, current: object) -> None:
        """Record that the root was refused `at` this time, on the basis of this version."""
        self.discard(key)
        roots = self._refused.setdefault(key[1], OrderedDict())
        roots[key] = at, version
        if version != current:
            # Behind a root with current numbers, it would be renewed no sooner than that one.
            roots.move_to_end(key, last=False)

    def discard(self, key: GroupKey) -> None:
        """Remove a root that is no longer refused."""
        roots = self._refused.get(key[1])
        if roots is not None and roots.pop(key, None) is not None and not roots:
            del self._refused[key[1]]

    def next_time(self, version: object) -> float | None:
        """Return when the next root is due, if any is outdated."""
        times = [at for at, of in map(_first, self._refused.values()) if of != version]
        return max(min(times) + _AFTER, self._not_before) if times else None

    def pop_due(self, now: float, version: object) -> GroupKey | None:
        """Remove and return a root that is outdated and due, while nothing else is ready."""
        # The cost of the last renewal is the time until the queue asks for the next one.
        if self._begun is not None:
            took, self._begun = min(now - self._begun, _LONGEST), None
            self._not_before = now + max(_PAUSE, _REST * took)
        if now < self._not_before:
            return None
        # Only the first root of each namespace: it is the oldest, so none is due before it.
        firsts = ((namespace, *_first(roots)) for namespace, roots in self._refused.items())
        due = (it for it, at, of in firsts if of != version and now >= at + _AFTER)
        namespace = next(due, None)
        if namespace is None:
            return None
        # The namespace is the last one now, so others come first.
        roots = self._refused[namespace] = self._refused.pop(namespace)
        key = next(iter(roots))
        self.discard(key)
        self._begun = now
        return key


def _first(roots: dict[GroupKey, tuple[float, object]]) -> tuple[float, object]:
    return next(iter(roots.values()))
