"""The waits of roots whose Bindings failed: a back-off after each failure, a pause when given up.

A failure of the server is retried after 1 s, doubling to 10 s; what the server has refused (403 or
422) after up to 5 minutes. A gang that was bound and deleted again because some member cannot be
bound pauses for 2 minutes, doubling to an hour: each attempt costs its other members their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import GroupKey, GroupSpec, Requirements
from scheduler.queue.timers import Timers

_FIRST: Final = 1.0
"""Seconds until a root whose Binding failed is decided again. Each failure doubles them."""

_LAST: Final = 10.0
"""Seconds at most after failures that may pass by themselves."""

_LAST_REFUSED: Final = 300.0
"""Seconds at most where the API server rejects the Bindings."""

_FIRST_PAUSE: Final = 120.0
"""Seconds that a root pauses after it was given up. Each further time doubles them."""

_LAST_PAUSE: Final = 3600.0
"""Seconds of a pause at most. A change of the group ends it."""

_REMEMBERED: Final = 20_000
"""Roots whose failures are remembered. The one that failed longest ago is forgotten first."""

_COMPARED: Final = 100
"""Groups of a tree, and kinds of members of a group, in which a change ends a pause."""


@dataclass(slots=True)
class _Pause:
    """A pause of a root; `spec` and `kinds` (of members) are those with which it was given up."""

    count: int
    spec: GroupSpec | None
    kinds: frozenset[Requirements]


class BindBackoff:
    """The waits of all roots. Times are seconds of a monotonic clock, passed by the caller.

    `waiting` are the roots that wait, with the end of their wait.
    """

    def __init__(self) -> None:
        self._failures: dict[GroupKey, int] = {}
        self._pauses: dict[GroupKey, _Pause] = {}
        self.waiting = Timers()

    def failures(self, key: GroupKey) -> int:
        """Return how often in a row binding the root failed."""
        return self._failures.get(key, 0)

    def fail(self, key: GroupKey, now: float, *, refused: bool = False) -> float:
        """Record a failed Binding, perhaps `refused` by the server; return the seconds to wait."""
        # Removed and added again, so that the oldest failure is the first to be forgotten.
        failures = self._failures.pop(key, 0)
        self._failures[key] = failures + 1
        _forget_oldest(self._failures)
        last = _LAST_REFUSED if refused else _LAST
        # The exponent is bounded: failures are counted without a limit.
        seconds: float = min(last, _FIRST * 2 ** min(failures, 12))
        self.waiting.set(key, now + seconds)
        return seconds

    def pause(self, key: GroupKey, group: Group | None, now: float) -> float:
        """Record that the root was given up; return the seconds that it waits."""
        self._failures.pop(key, None)
        before = self._pauses.pop(key, None)
        # A changed gang may be bindable: its pauses begin with the shortest one again.
        count = before.count + 1 if before is not None and not _changed(before, group) else 1
        spec = group.spec if group is not None else None
        self._pauses[key] = _Pause(count, spec, frozenset(_kinds(group)))
        _forget_oldest(self._pauses)
        seconds: float = min(_LAST_PAUSE, _FIRST_PAUSE * 2 ** min(count - 1, 12))
        self.waiting.set(key, now + seconds)
        return seconds

    def succeed(self, key: GroupKey) -> None:
        """Record that the root was bound: the next failure counts as the first."""
        self._failures.pop(key, None)
        self._pauses.pop(key, None)

    def reconsider(self, key: GroupKey, group: Group | None) -> None:
        """End the pause if the form of the root has changed since then."""
        pause = self._pauses.get(key)
        if pause is not None and _changed(pause, group):
            del self._pauses[key]
            self.waiting.discard(key)


def _changed(pause: _Pause, group: Group | None) -> bool:
    """Return whether the spec has changed, or members of a new kind wait.

    Members of known kinds may come and go: a Job replaces those that were deleted.
    """
    if group is None or group.spec != pause.spec:
        return True
    waiting = (shape.requirements for leaf in _some_leaves(group) for shape in leaf.pending)
    return any(kind not in pause.kinds for kind in islice(waiting, _COMPARED))


def _kinds(group: Group | None) -> Iterator[Requirements]:
    for leaf in _some_leaves(group) if group is not None else ():
        pods: Iterable[Pod] = leaf.members.values()
        # All members, not only those that wait: their replacements are of the same kinds.
        yield from (pod.shape.requirements for pod in pods)


def _some_leaves(group: Group) -> Iterator[Group]:
    """Yield the PodGroups among the first groups of the tree, in any order, at a bounded cost."""
    stack, left = [group], _COMPARED
    while stack and left:
        each = stack.pop()
        left -= 1
        if not each.composite:
            yield each
        # No more than can still be visited: a group may have thousands of children.
        stack.extend(islice(each.children.values(), left))


def _forget_oldest(entries: dict[GroupKey, int] | dict[GroupKey, _Pause]) -> None:
    if len(entries) > _REMEMBERED:
        del entries[next(iter(entries))]
