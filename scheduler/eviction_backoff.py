"""A pause before a root evicts again, if others took the place that it had made.

Beside another scheduler the replacement of an evicted pod may take the freed place at once. Without
a pause the root would evict it again and again, without an end and for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.core.model import GroupKey
from scheduler.core.place import Placement
from scheduler.core.preemption.dry_run import Effort
from scheduler.core.preemption.plan import Plan
from scheduler.core.state import State

FIRST_PAUSE: Final = 10.0
"""Seconds; it doubles each time."""

LONGEST_PAUSE: Final = 600.0

_KEPT: Final = 2 * LONGEST_PAUSE
"""Seconds for which a root's evictions are remembered. Its going does not end that: a root that
comes and goes would never pause."""


@dataclass(slots=True)
class _Eviction:
    """The last eviction for a root; `left` are the UIDs of the `victims` that are not gone yet.

    `until` is set once it is known what came of it.
    """

    victims: tuple[str, ...]
    left: set[str]
    nodes: frozenset[str]
    at: float
    lost: int = 0
    until: float | None = None


class EvictionBackoff:
    """Times are seconds of a monotonic clock, given by the caller."""

    def __init__(self) -> None:
        self._evictions: dict[GroupKey, _Eviction] = {}
        self._root_of: dict[str, GroupKey] = {}

    def __len__(self) -> int:
        return len(self._evictions)

    def __contains__(self, root: GroupKey) -> bool:
        """Whether an eviction for the root is remembered."""
        return root in self._evictions

    def evicted(self, plan: Plan, state: State, now: float) -> None:
        """The plan is being carried out."""
        before = self._forget(plan.root)
        victims = tuple(uid for unit in plan.victims for uid in unit.pods)
        lost = before.lost if before is not None else 0
        eviction = _Eviction(victims, set(victims), _nodes(plan.placement, state), now, lost)
        self._evictions[plan.root] = eviction
        self._root_of.update(dict.fromkeys(victims, plan.root))
        # The oldest come first: what is too old is dropped as others are added.
        for root in list(self._evictions):
            if now - self._evictions[root].at < _KEPT:
                break
            self._forget(root)

    def gone(self, uids: Iterable[str]) -> list[GroupKey]:
        """The roots of which the last victims are among these pods, which are gone."""
        ready = []
        for uid in uids:
            root = self._root_of.pop(uid, None)
            if root is not None:
                left = self._evictions[root].left
                left.discard(uid)
                if not left:
                    ready.append(root)
        return ready

    def waits(self, root: GroupKey, state: State, effort: Effort) -> bool:
        """Whether victims of the root are still about to end, on nodes that are still there."""
        last = self._evictions.get(root)
        if last is None or not last.nodes <= state.nodes.row_of.keys():
            return False
        return state.units.depart(last.victims, effort.overdue)

    def pause(self, root: GroupKey, state: State, now: float) -> tuple[float, float] | None:
        """Until when the root may not evict, and the whole pause in seconds; None if it may."""
        last = self._evictions.get(root)
        if last is None:
            return None
        if last.until is None:
            taken = _taken(last, state)
            last.lost += taken
            last.until = last.at + _pause(last.lost) if taken else now
        return (last.until, _pause(last.lost)) if now < last.until else None

    def placed(self, root: GroupKey) -> None:
        """The root got its place."""
        self._forget(root)

    def clear(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        self._evictions.clear()
        self._root_of.clear()

    def _forget(self, root: GroupKey) -> _Eviction | None:
        eviction = self._evictions.pop(root, None)
        for uid in eviction.left if eviction is not None else ():
            if self._root_of.get(uid) == root:
                del self._root_of[uid]
        return eviction


def _pause(lost: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(lost - 1, 10))


def _taken(last: _Eviction, state: State) -> bool:
    """Whether all victims left and all nodes are there: then others have the place.

    If a victim stayed or a node went, the root may choose other victims at once.
    """
    if not last.nodes <= state.nodes.row_of.keys():
        return False
    return not any(uid in state.pods and state.pods[uid].node for uid in last.victims)


def _nodes(placement: Placement, state: State) -> frozenset[str]:
    return frozenset(map(state.nodes.name_of, placement.rows))
