"""A pause before a root evicts again, if others took the slots that it had freed.

With another scheduler in the cluster, the replacement of an evicted pod may take the freed slot
immediately. Without a pause the root would evict it again, without end and without effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, KeysView, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.core.pods.shapes import Shape
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey, NodeInfo

FIRST_PAUSE: Final = 10.0
"""Seconds of the first pause. Each further one doubles them."""

LONGEST_PAUSE: Final = 600.0
"""Seconds of a pause at most, however often others took the slots again."""

_KEPT: Final = 2 * LONGEST_PAUSE
"""Seconds for which a root's evictions are remembered.

The deletion of the root does not end that: a root that is deleted and created again would never
pause.
"""


@dataclass(slots=True)
class _Eviction:
    """The last eviction for a root; `remaining` are the UIDs of the `victims` that still exist.

    `nodes` are those of its placement, as they were. `until` is set once the result is known.
    """

    victims: tuple[str, ...]
    remaining: set[str]
    nodes: Mapping[str, NodeInfo]
    at: float
    lost: int = 0
    until: float | None = None


class EvictionBackoff:
    """The evictions of all roots. Times are seconds of a monotonic clock, passed by the caller."""

    def __init__(self) -> None:
        self._evictions: dict[GroupKey, _Eviction] = {}
        self._root_of: dict[str, GroupKey] = {}
        self._roots_on: dict[str, set[GroupKey]] = {}
        self._seen: dict[str, NodeInfo] = {}

    def __len__(self) -> int:
        return len(self._evictions)

    def __contains__(self, root: GroupKey) -> bool:
        """Return whether an eviction for the root is remembered."""
        return root in self._evictions

    def evicted(self, plan: Plan, state: State, now: float) -> None:
        """Record that the plan is being carried out."""
        before = self.forget(plan.root)
        victims = tuple(uid for unit in plan.victims for uid in unit.pods)
        # Kept over evictions: it is what makes the pauses longer.
        lost = before.lost if before is not None else 0
        eviction = _Eviction(victims, set(victims), _nodes(plan.placement, state), now, lost)
        self._evictions[plan.root] = eviction
        self._root_of.update(dict.fromkeys(victims, plan.root))
        self._seen.update(eviction.nodes)
        for node in eviction.nodes:
            self._roots_on.setdefault(node, set()).add(plan.root)
        # The oldest are first: outdated ones are dropped as others are added.
        for root in list(self._evictions):
            if now - self._evictions[root].at < _KEPT:
                break
            self.forget(root)

    def on_pods_deleted(self, uids: Iterable[str]) -> list[GroupKey]:
        """Record that these pods are gone; return the roots whose last victims are among them."""
        ready = []
        for uid in uids:
            root = self._root_of.pop(uid, None)
            if root is not None:
                remaining = self._evictions[root].remaining
                remaining.discard(uid)
                if not remaining:
                    ready.append(root)
        return ready

    def node_changed(self, info: NodeInfo) -> list[GroupKey]:
        """Return the roots that wait for pods to end on this node, if it is not as seen before."""
        roots = self._roots_on.get(info.name)
        # A row changes with each pod. Only a new object of the node may make it unusable.
        if not roots or self._seen[info.name] is info:
            return []
        self._seen[info.name] = info
        # Sorted: a set has no order to replay.
        return sorted(root for root in roots if self._evictions[root].remaining)

    def without_nodes(self, known: KeysView[str]) -> list[GroupKey]:
        """Return the roots that wait for pods to end on nodes that are gone."""
        gone = self._roots_on.keys() - known
        roots = {root for node in gone for root in self._roots_on[node]}
        return sorted(root for root in roots if self._evictions[root].remaining)

    def waits(
        self, root: GroupKey, shapes: Collection[Shape], state: State, effort: SearchEffort
    ) -> bool:
        """Return whether victims of the root are about to end, on nodes that it can still use."""
        last = self._evictions.get(root)
        if last is None or not _usable(last, shapes, state):
            return False
        return state.units.depart(last.victims, effort.overdue)

    def pause(
        self, root: GroupKey, shapes: Collection[Shape], state: State, now: float
    ) -> tuple[float, float] | None:
        """Return until when the root pauses, and the pause in seconds; None if it may evict."""
        last = self._evictions.get(root)
        if last is None:
            return None
        # Found out once for each eviction: the same loss must not count at each decision.
        if last.until is None:
            taken = _taken(last, shapes, state)
            last.lost += taken
            last.until = last.at + _pause(last.lost) if taken else now
        return (last.until, _pause(last.lost)) if now < last.until else None

    def clear(self) -> None:
        """Forget everything: another process may have led meanwhile."""
        self._evictions.clear()
        self._root_of.clear()
        self._roots_on.clear()
        self._seen.clear()

    def forget(self, root: GroupKey) -> _Eviction | None:
        """End the back-off of a root, for instance because it got its slots."""
        eviction = self._evictions.pop(root, None)
        for uid in eviction.remaining if eviction is not None else ():
            # The pod may be a victim of another root by now.
            if self._root_of.get(uid) == root:
                del self._root_of[uid]
        for node in eviction.nodes if eviction is not None else ():
            self._roots_on[node].discard(root)
            if not self._roots_on[node]:
                del self._roots_on[node], self._seen[node]
        return eviction


def _pause(lost: int) -> float:
    # The exponent is bounded, as losses are counted without a limit.
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(lost - 1, 10))


def _taken(last: _Eviction, shapes: Collection[Shape], state: State) -> bool:
    """Return whether others have the slots: all victims left, and all nodes can be used.

    If a victim stayed or a node can no longer be used, the root may choose other victims at once.
    """
    if not _usable(last, shapes, state):
        return False
    return not any(uid in state.pods and state.pods[uid].node for uid in last.victims)


def _usable(last: _Eviction, shapes: Collection[Shape], state: State) -> bool:
    """Return whether pods of these shapes may still use the nodes, which are as large as they were.

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
