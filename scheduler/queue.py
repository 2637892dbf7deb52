"""The scheduling queue: which root is decided next, and when refused ones are tried again.

Its three parts have the names of kube-scheduler's:

active         by priority, then half-running groups first, then by creation and name
unschedulable  did not fit; active again when room appears for its shapes, when the root changes,
               and after `retry` seconds in any case
backoff        binding it failed; waits 1 s, doubling to 10 s

All other entities (they lack members, a parent or a policy) are not here and cost nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.forest import Group, Pod
from scheduler.core.model import SINGLE_POD, GroupKey
from scheduler.core.nominations import Nomination
from scheduler.core.place import Refusal
from scheduler.core.search.batching import Signature, signature
from scheduler.core.shapes import Shape
from scheduler.core.state import Changes, State

_STALE: Final = 5.0
"""Seconds after which an entity that cannot gain from new room is decided all the same, so that its
status shows current numbers."""

QUEUES: Final = ("active", "unschedulable", "backoff")

_FIRST_BACKOFF: Final = 1.0
_LAST_BACKOFF: Final = 10.0

Rank = tuple[int, bool, str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Unschedulable:
    """Less room than `needed` pods of `shape` cannot help; None if that is not known."""

    priority: int
    shapes: frozenset[Shape]
    shape: Shape | None
    needed: int
    retry_at: float


class Queue:
    """Entities by key; times are seconds of a monotonic clock, given by the caller."""

    def __init__(self, state: State, *, retry: float = 60.0) -> None:
        self._state = state
        self._retry = retry
        self._heap: list[tuple[Rank, GroupKey]] = []
        self._active: dict[GroupKey, Rank] = {}
        # Insertion order is order of retry_at: each waits equally long.
        self._unschedulable: dict[GroupKey, _Unschedulable] = {}
        self._by_shape: dict[Shape, set[GroupKey]] = {}
        self._stale: dict[GroupKey, float] = {}
        self._failures: dict[GroupKey, int] = {}
        self._backing_off: dict[GroupKey, float] = {}
        self._due: dict[GroupKey, float] = {}
        self._blocked: set[GroupKey] = set()
        self._generation = 0

    def __len__(self) -> int:
        return len(self._active)

    def waiting(self) -> list[GroupKey]:
        """All entities, in the order in which they would be decided if all were ready."""
        keys = {*self._active, *self._unschedulable, *self._backing_off}
        entities = ((key, self.entity(key)) for key in keys)
        ranked = ((_rank(entity), key) for key, entity in entities if entity is not None)
        return [key for _, key in sorted(ranked)]

    def sizes(self) -> dict[str, int]:
        """How many roots each part has."""
        sizes = (len(self._active), len(self._unschedulable), len(self._backing_off))
        return dict(zip(QUEUES, sizes, strict=True))

    def refresh(self, changes: Changes, now: float) -> None:
        """Apply changes: entities to review, nodes with new room, waiting times that ended."""
        for key in sorted(changes.entities - changes.reconsider):
            if self.entity(key) is None:
                self._drop(key)
        for key in sorted(changes.reconsider):
            self.review(key)
        if changes.rows and self._unschedulable:
            self._wake_for_room(sorted(changes.rows), now)
        if self._state.nodes.generation != self._generation:
            # Nodes were added, removed or relabelled: counts that were made on them are outdated.
            self._generation = self._state.nodes.generation
            for key in self._unschedulable:
                self._stale.setdefault(key, now + _STALE)
        self._wake_due(now)

    def pop(self) -> GroupKey | None:
        """The next entity to decide; it has left the queue until a method below is called."""
        while self._heap:
            rank, key = heapq.heappop(self._heap)
            if self._active.get(key) == rank:
                del self._active[key]
                if self.entity(key) is not None:
                    return key
        return None

    def pop_batch(self, kind: Signature, most: int) -> list[Group | Pod]:
        """Up to `most` equal entities that follow each other at the head; as `pop`."""
        found: list[Group | Pod] = []
        while self._heap and len(found) < most:
            rank, key = self._heap[0]
            if self._active.get(key) == rank:
                entity = self.entity(key)
                if entity is None or signature(entity) != kind:
                    break
                del self._active[key]
                found.append(entity)
            heapq.heappop(self._heap)
        return found

    def entity(self, key: GroupKey) -> Group | Pod | None:
        """The entity that may be decided now: a root with its quorum, or a waiting pod."""
        if key[0] == SINGLE_POD:
            return self._state.singles.get(key)
        group = self._state.forest.groups.get(key)
        if group is None or group.parent is not None or not group.pending_total:
            return None
        return group if self._state.forest.ready(group) else None

    def refuse(self, key: GroupKey, refusal: Refusal, now: float) -> None:
        """It does not fit now."""
        self._drop(key)
        short = refusal.shortage
        entity = self.entity(key)
        plain = isinstance(entity, Pod) or (entity is not None and not entity.composite)
        exact = plain and len(refusal.shapes) == 1 and short.kind == "capacity"
        needed = short.needed if short.minimum else 1
        shape = short.shape if exact else None
        priority = entity.priority if entity is not None else 0
        retry_at = now + self._retry
        self._unschedulable[key] = _Unschedulable(priority, refusal.shapes, shape, needed, retry_at)
        for each in refusal.shapes:
            self._by_shape.setdefault(each, set()).add(key)

    def retry_at(self, key: GroupKey, at: float) -> None:
        """Decide it at that time, if not earlier."""
        self._due[key] = at

    def fail(self, key: GroupKey, now: float) -> None:
        """Binding it failed: try again after a back-off."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._drop(key)
        self._backing_off[key] = now + min(_LAST_BACKOFF, _FIRST_BACKOFF * 2 ** min(failures, 8))

    def succeed(self, key: GroupKey) -> None:
        """It was bound: the back-off begins anew."""
        self._failures.pop(key, None)

    def failures(self, key: GroupKey) -> int:
        """How often in a row binding it failed."""
        return self._failures.get(key, 0)

    def block(self, key: GroupKey) -> None:
        """Do not decide it until `unblock`."""
        self._blocked.add(key)
        self._drop(key)

    def unblock(self, key: GroupKey) -> None:
        """It may be decided again."""
        self._blocked.discard(key)
        self.review(key)

    def next_time(self) -> float | None:
        """When the next refused or failing entity is due, if any."""
        times = [*self._backing_off.values(), *self._due.values()]
        first = next(iter(self._unschedulable.values()), None)
        if first is not None:
            times.append(first.retry_at)
        times += list(self._stale.values())[:1]
        return min(times, default=None)

    def review(self, key: GroupKey) -> None:
        """Make it ready if it may be decided, else drop it."""
        if key in self._backing_off or key in self._blocked:
            return
        self._drop(key)
        entity = self.entity(key)
        if entity is not None:
            rank = _rank(entity)
            self._active[key] = rank
            heapq.heappush(self._heap, (rank, key))

    def _drop(self, key: GroupKey) -> None:
        self._active.pop(key, None)
        self._stale.pop(key, None)
        self._due.pop(key, None)
        refused = self._unschedulable.pop(key, None)
        if refused is None:
            return
        for shape in refused.shapes:
            waiting = self._by_shape[shape]
            waiting.discard(key)
            if not waiting:
                del self._by_shape[shape]

    def _wake_for_room(self, rows: list[int], now: float) -> None:
        """Make ready those with room for a shape on one of the rows, and enough room in all."""
        framework, nominations = self._state.framework, self._state.nominations
        region = np.array([row for row in rows if row < framework.nodes.size], np.int64)
        open_to = [s for s in self._by_shape if framework.optimistic_slots(s, region).any()]
        nominated = nominations.on(region.tolist()) if open_to else {}
        free_to = set(open_to)
        if nominated:
            with nominations.taken(region.tolist()):
                free_to = {s for s in open_to if framework.optimistic_slots(s, region).any()}
        woken: set[GroupKey] = set()
        for shape in open_to:
            if shape in free_to:
                woken |= self._by_shape[shape]
            else:
                woken |= self._gaining(shape, nominated)
        for key in sorted(woken):
            refused = self._unschedulable[key]
            if refused.shape is None or (
                int(framework.slots(refused.shape).sum()) >= refused.needed
            ):
                self.review(key)
            else:
                self._stale.setdefault(key, now + _STALE)

    def _gaining(self, shape: Shape, nominated: Mapping[GroupKey, Nomination]) -> set[GroupKey]:
        """Roots that gain where all room is nominated: of higher priority, or nominated there."""
        keys = self._by_shape[shape]
        lowest = min(nomination.priority for nomination in nominated.values())
        higher = {key for key in keys if self._unschedulable[key].priority > lowest}
        return higher | {key for key in keys & nominated.keys() if self._enough_free(key)}

    def _enough_free(self, key: GroupKey) -> bool:
        """Whether enough of its nominated places are free by now."""
        refused = self._unschedulable[key]
        shape = refused.shape
        return shape is None or self._state.nominations.free(key, shape) >= refused.needed

    def _wake_due(self, now: float) -> None:
        for key, at in list(self._backing_off.items()):
            if at <= now:
                del self._backing_off[key]
                self.review(key)
        for key in [key for key, at in self._due.items() if at <= now]:
            self.review(key)
        while self._stale:
            key, at = next(iter(self._stale.items()))
            if at > now:
                break
            del self._stale[key]
            self.review(key)
        while self._unschedulable:
            key, refused = next(iter(self._unschedulable.items()))
            if refused.retry_at > now:
                break
            self.review(key)


def _rank(entity: Group | Pod) -> Rank:
    if isinstance(entity, Pod):
        info = entity.info
        return (-info.priority, True, info.created, info.namespace, info.name, SINGLE_POD)
    spec = entity.spec
    if spec is None:
        raise LookupError(entity.key)
    kind, namespace, name = entity.key
    # Among equal priorities half-running gangs go first, or others would take the room they need.
    # They do not go before higher priorities: what an earlier leader began to bind is completed
    # from its Reservation.
    return (-entity.priority, not entity.incomplete, spec.created, namespace, name, kind)
