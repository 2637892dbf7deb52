"""A pause before a root evicts again, if others took the place that it had made.

Beside another scheduler the replacement of an evicted pod may take the freed place at once. Without
a pause the root would evict it again and again, without an end and for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, KeysView, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import Effort
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, NodeInfo

FIRST_PAUSE: Final = 10.0
"""Seconds; it doubles each time."""

LONGEST_PAUSE: Final = 600.0
"""Seconds for which a place that others took again is not emptied, however often they did."""

_KEPT: Final = 2 * LONGEST_PAUSE
"""Seconds for which a root's evictions are remembered. Its going does not end that: a root that
comes and goes would never pause."""


@dataclass(slots=True)
class _Eviction:
    """The last eviction for a root; `left` are the UIDs of the `victims` that are not gone yet.

    `nodes` are those of its placement, as they were. `until` is set once it is
    known what came of it.
    """

    victims: tuple[str, ...]
    left: set[str]
    nodes: Mapping[str, NodeInfo]
    at: float
    lost: int = 0
    until: float | None = None


class EvictionBackoff:
    """Times are seconds of a monotonic clock, given by the caller."""

    def __init__(self) -> None:
        self._evictions: dict[GroupKey, _Eviction] = {}
        self._root_of: dict[str, GroupKey] = {}
        self._roots_on: dict[str, set[GroupKey]] = {}
        self._seen: dict[str, NodeInfo] = {}

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
        self._seen.update(eviction.nodes)
        for node in eviction.nodes:
            self._roots_on.setdefault(node, set()).add(plan.root)
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

    def node_changed(self, info: NodeInfo) -> list[GroupKey]:
        """The roots that wait for pods to end to use this node, if it is not as seen before."""
        roots = self._roots_on.get(info.name)
        if not roots or self._seen[info.name] is info:
            return []
        self._seen[info.name] = info
        return sorted(root for root in roots if self._evictions[root].left)

    def without_nodes(self, known: KeysView[str]) -> list[GroupKey]:
        """The roots that wait for pods to end on nodes that are gone."""
        gone = self._roots_on.keys() - known
        roots = {root for node in gone for root in self._roots_on[node]}
        return sorted(root for root in roots if self._evictions[root].left)

    def waits(
        self, root: GroupKey, shapes: Collection[Shape], state: State, effort: Effort
    ) -> bool:
        """Whether victims of the root are still about to end, on nodes that it can still use."""
        last = self._evictions.get(root)
        if last is None or not _usable(last, shapes, state):
            return False
        return state.units.depart(last.victims, effort.overdue)

    def pause(
        self, root: GroupKey, shapes: Collection[Shape], state: State, now: float
    ) -> tuple[float, float] | None:
        """Until when the root may not evict, and the whole pause in seconds; None if it may."""
        last = self._evictions.get(root)
        if last is None:
            return None
        if last.until is None:
            taken = _taken(last, shapes, state)
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
        self._roots_on.clear()
        self._seen.clear()

    def _forget(self, root: GroupKey) -> _Eviction | None:
        eviction = self._evictions.pop(root, None)
        for uid in eviction.left if eviction is not None else ():
            if self._root_of.get(uid) == root:
                del self._root_of[uid]
        for node in eviction.nodes if eviction is not None else ():
            self._roots_on[node].discard(root)
            if not self._roots_on[node]:
                del self._roots_on[node], self._seen[node]
        return eviction


def _pause(lost: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(lost - 1, 10))


def _taken(last: _Eviction, shapes: Collection[Shape], state: State) -> bool:
    """Whether all victims left and all nodes can be used: then others have the place.

    If a victim stayed or a node went, the root may choose other victims at once.
    """
    if not _usable(last, shapes, state):
        return False
    return not any(uid in state.pods and state.pods[uid].node for uid in last.victims)


def _usable(last: _Eviction, shapes: Collection[Shape], state: State) -> bool:
    """Whether pods of these shapes may still have the nodes, which are as large as they were.

    A node may be cordoned, tainted, relabelled or deleted while its victims end.
    """
    nodes = state.nodes
    for name, before in last.nodes.items():
        row = nodes.row_of.get(name)
        info = nodes.infos[row] if row is not None else None
        if info is None:
            return False
        now, then = info.allocatable, before.allocatable
        if any(now.get(resource, 0) < amount for resource, amount in then.items()):
            return False
        if not any(state.framework.permitted(shape)[row] for shape in shapes):
            return False
    return True


def _nodes(placement: Placement, state: State) -> dict[str, NodeInfo]:
    infos = (state.nodes.infos[row] for row in set(placement.rows))
    return {info.name: info for info in infos if info is not None}
