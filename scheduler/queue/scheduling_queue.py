"""The scheduling queue: which root is decided next, and when refused ones are decided again.

Its three parts have the names of kube-scheduler's:

- active: by priority, then half-running groups first, then by creation and name
- unschedulable: did not fit. Active again when its shapes get capacity, when the root changes, and
  after `retry` seconds in any case, or soon if its search ran out of time
- backoff: binding it failed or it was given up (bind_backoff), or deciding it raised an error

All other entities (they lack members, a parent or a policy) are not in the queue and cost nothing.

One tenant's thousands of refused roots do not delay others: equal ones share one refusal, a root
whose new capacity others took meanwhile is not decided, and after some repeated decisions in a row
without effect, a root of the same priority gets its first one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.batching import Signature, alike, signature
from scheduler.core.search.place import Refusal
from scheduler.core.state.state import State
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.queue.bind_backoff import BindBackoff
from scheduler.queue.equal_refusals import EqualKind, EqualRefusals, Rank, SharedRefusal
from scheduler.queue.first_decisions import FirstDecisions
from scheduler.queue.renewals import Renewals
from scheduler.queue.timed_out_searches import LongSearches
from scheduler.queue.timers import Timers
from scheduler.queue.unschedulable import RefusedRoot, RefusedRoots
from scheduler.queue.wakeups import CapacityWakeups
from scheduler.support.device_budget import DeviceWork
from scheduler.support.metrics import QUEUES

_AGAIN: Final = 5.0
"""Seconds after which a root is decided again that was woken for capacity which others took."""

_STEPS: Final = 32
"""Such steps in one `refresh`. The other shapes are left to the next ones."""

_RETRIES: Final = 256
"""Refused roots that one `refresh` makes ready because they have waited long enough."""

_SKIPPED: Final = 64
"""Roots that one `pop` passes over at most."""


class Queue:
    """The roots by key. Times are seconds of a monotonic clock, passed by the caller."""

    def __init__(
        self, state: State, *, retry: float = 60.0, device_work: DeviceWork | None = None
    ) -> None:
        """Queue the roots of `state`; without `device_work` the work on devices has no limit."""
        self._state = state
        self._device_work = device_work
        self._retry = retry
        self.reset()

    def reset(self) -> None:
        """Begin a new term: nothing is queued, and nothing failed before."""
        self._heap: list[tuple[Rank, GroupKey]] = []
        self._active: dict[GroupKey, Rank] = {}
        self._ready: Counter[str] = Counter()  # how many of them each namespace has
        self._unschedulable = RefusedRoots()
        self._renewals = Renewals()
        self._news = 0  # how often there was new capacity, of devices for instance
        self._backoff = BindBackoff()
        self._due = Timers()
        self._long_searches = LongSearches()
        self._blocked: set[GroupKey] = set()
        self._behind = False
        self._now = 0.0
        self._equal = EqualRefusals()
        # Made ready on behalf of their equals, with the refusal that they had.
        self._heads: dict[GroupKey, tuple[EqualKind, SharedRefusal]] = {}
        # Made ready because there was capacity.
        self._woken: dict[GroupKey, RefusedRoot] = {}
        self._first_decisions = FirstDecisions()
        self._wakeups = CapacityWakeups(
            self._state, self._unschedulable, self._equal, self._little_work
        )

    def __len__(self) -> int:
        return len(self._active)

    def __bool__(self) -> bool:
        """Return whether a root is ready, or `refresh` has not checked everything yet."""
        return bool(self._active) or self._behind

    def others_ready(self, namespace: str) -> bool:
        """Return whether a root of another namespace is ready."""
        return len(self._ready) > (namespace in self._ready)

    def waiting(self) -> list[GroupKey]:
        """Return all entities, in the order in which they would be decided if all were ready."""
        keys = {*self._active, *self._unschedulable.roots, *self._backoff.waiting.keys}
        entities = ((key, self.entity(key)) for key in keys)
        ranked = ((rank_of(entity), key) for key, entity in entities if entity is not None)
        return [key for _, key in sorted(ranked)]

    def sizes(self) -> dict[str, int]:
        """Return the number of roots in each part."""
        sizes = (len(self._active), len(self._unschedulable.roots), len(self._backoff.waiting.keys))
        return dict(zip(QUEUES, sizes, strict=True))

    def refresh(self, changes: StateChanges, now: float) -> None:
        """Apply changes: entities to review, nodes with new capacity, waiting times that ended."""
        for _ in self.refresh_in_steps(changes, now):
            pass

    def refresh_in_steps(self, changes: StateChanges, now: float) -> Iterator[None]:
        """Apply changes in short steps; between two of them the state may change."""
        self._now = now
        # Whatever happened may help any root, so no refusal is current.
        if changes.everything:
            self._equal.expire_all()
        # Sorted: a set has no order, and a replayed snapshot must get the same one.
        for key in sorted(changes.entities):
            if key in changes.reconsider:
                self._backoff.reconsider(key, self._state.forest.groups.get(key))
                self.review(key)
            # A change that cannot help leaves the root in its part, if it may still be decided.
            elif self.entity(key) is None:
                self._drop(key)
                self._forget(key)
            yield
        self._wakeups.add(changes.rows, changes.match_ids)
        self._news += bool(changes.rows or changes.match_ids)
        # Bounded: with many shapes that wait, one event could delay the next decision for long.
        for _ in range(_STEPS):
            if not self._wakeups:
                break
            self._wake_for_capacity()
            yield
        self._behind = changes.more or bool(self._wakeups)
        # Asked for each pod event, mostly when nothing waits.
        if self._backoff.waiting.keys or self._due.keys or self._unschedulable.roots:
            yield from self._wake_due(now)

    def pop(self) -> GroupKey | None:
        """Return the next entity to decide; it has left the queue until a method below is called.

        None also if many were passed over: `bool` returns whether there are more.
        """
        key = self._pop_never_decided()
        if key is not None:
            return key
        for _ in range(_SKIPPED):
            if not self._heap:
                return None
            rank, key = heapq.heappop(self._heap)
            # An outdated entry: the root was dropped, or has another rank by now.
            if self._active.get(key) != rank:
                continue
            self._leave(key)
            if self.entity(key) is None:
                self._forget(key)
            elif not self._put_back(key):
                return key
        return None

    def _pop_never_decided(self) -> GroupKey | None:
        """Return a root whose first decision must not wait any longer."""
        while self._heap and self._active.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return None
        key = self._first_decisions.next(self._heap[0][0][0], self._active)
        if key is None or self.entity(key) is None:
            return None
        self._leave(key)
        return key

    def _put_back(self, key: GroupKey) -> bool:
        """Refuse a root again whose new capacity others took; return whether it was refused."""
        refused = self._woken.pop(key, None)
        if refused is None or refused.shape is None or key in self._state.nominations:
            return False
        # A sum over all nodes costs far less than a decision that fails.
        if self._wakeups.enough(refused):
            return False
        self._unschedulable.add(key, replace(refused, retry_at=self._now + self._retry))
        self._due.set(key, self._now + _AGAIN)
        # Others may take new capacity again and again: the numbers must not wait for the last time.
        self._renewals.refused(key, *refused.decided, current=self.version)
        # It was made ready on behalf of its equals: it joins them with their refusal.
        head, entity = self._heads.pop(key, None), self.entity(key)
        if head is not None and entity is not None:
            kind, shared = head
            self._unschedulable.leave_to_equals(key)
            self._equal.add(key, rank_of(entity), kind, shared.to(key), None)
        return True

    def pop_batch(
        self, kind: Signature, most: int, *, any_volumes: bool = False
    ) -> list[Group | Pod]:
        """Return up to `most` equal entities that follow each other at the head, as `pop` does.

        None of them has nominated places: these are tried first, by a decision of its own. With
        `any_volumes` they may differ in volumes that do not matter for where they fit.
        """
        found: list[Group | Pod] = []
        while self._heap and len(found) < most:
            rank, key = self._heap[0]
            if self._active.get(key) == rank:
                entity = self.entity(key)
                # Only roots that follow each other: a batch must not overtake a root in between.
                if entity is None or not self._equals(entity, kind, any_volumes=any_volumes):
                    break
                self._leave(key)
                found.append(entity)
            heapq.heappop(self._heap)
        return found

    def _equals(self, entity: Group | Pod, kind: Signature, *, any_volumes: bool) -> bool:
        """Return whether the entity has this signature; not if that raises an error."""
        if entity.key in self._state.nominations:
            return False
        try:
            own = signature(entity)
            if own is None or own == kind or not any_volumes:
                return own == kind
            return alike(self._state, own, kind)
        except Exception:  # noqa: BLE001 - raised again when it is decided alone
            return False

    def entity(self, key: GroupKey) -> Group | Pod | None:
        """Return the entity that may be decided now: a root with its quorum, or a waiting pod."""
        if key[0] == SINGLE_POD:
            return self._state.singles.get(key)
        group = self._state.forest.groups.get(key)
        if group is None or group.parent is not None or not group.to_be_decided:
            return None
        return group if self._state.forest.ready(group) else None

    def refuse(
        self, key: GroupKey, refusal: Refusal, now: float, *, known: SharedRefusal | None = None
    ) -> None:
        """Record that the root does not fit now, by a refusal that may be `known` from before."""
        self._drop(key)
        self._first_decisions.refused(key)
        self._long_searches.ended(key, now, timed_out=refusal.timed_out)
        short = refusal.shortage
        entity = self.entity(key)
        plain = isinstance(entity, Pod) or (entity is not None and not entity.composite)
        # Only the free slots of a single shape can be compared with what the root needs.
        exact = plain and len(refusal.shapes) == 1 and short.kind == "capacity"
        # Beyond the minimum, each further slot helps one more pod.
        needed = short.needed if short.minimum else 1
        shape = short.shape if exact else None
        priority = entity.priority if entity is not None else 0
        retry_at = now + self._retry
        # The numbers of a known refusal are as old as the refusal.
        decided = (now, self.version) if known is None else known.decided
        self._renewals.refused(key, *decided, current=self.version)
        self._unschedulable.add(
            key,
            RefusedRoot(priority, refusal.shapes, shape, needed, retry_at, short.minimum, decided),
        )

    def equal_kind(self, entity: Group | Pod) -> EqualKind | None:
        """Return what the entity and its equals have in common; None if it is decided alone."""
        state = self._state
        # Behind a closed starvation gate, or with nominated places, its result is its own.
        if state.starvation.closed_for is not None or entity.key in state.nominations:
            return None
        kind = signature(entity)
        return None if kind is None else EqualKind.of(entity, kind)

    @property
    def has_equal(self) -> bool:
        """True if any refused roots share a refusal."""
        return len(self._equal) > 0

    def known_refusal(self, entity: Group | Pod) -> SharedRefusal | None:
        """Return the refusal that is known for its equals; None if it has to be computed."""
        kind = self.equal_kind(entity) if self._equal else None
        return self._equal.known(kind) if kind is not None else None

    def share(
        self, key: GroupKey, kind: EqualKind | None, shared: SharedRefusal, *, known: bool
    ) -> None:
        """Share the refusal of a root that was just refused with its equals, if it has any."""
        if key not in self._unschedulable.roots:
            return  # made ready again, or gone, since then
        (head, _), entity = self._heads.pop(key, (None, None)), self.entity(key)
        # Other refusals are about this root, not about what it asks for.
        shareable = shared.refusal.shortage.kind in ("capacity", "constraint")
        if kind is not None and entity is not None and shareable:
            self._unschedulable.leave_to_equals(key)
            decided = None if known else self._now
            self._equal.add(key, rank_of(entity), kind, shared, decided)
        # It was ready for its former equals, which it can no longer represent.
        if head is not None and head != kind:
            self._pass_on(head, 1)

    def pass_on(self, key: GroupKey, kind: EqualKind | None, *, placed: bool) -> None:
        """Let the equals of a root that was placed or found victims follow; two for each placed."""
        if placed:
            self._first_decisions.on_root_placed()
        head, _ = self._heads.pop(key, (None, None))
        for each in dict.fromkeys((head, kind)):  # a set has no order to replay
            if each is not None:
                self._pass_on(each, 2 if placed else 1)

    def _pass_on(self, kind: EqualKind, count: int) -> None:
        """Make the first `count` refused roots of the kind ready."""
        shared = self._equal.expire(kind)
        while count > 0 and shared is not None:
            key = self._equal.first(kind)
            if key is None:
                return
            self.review(key)
            if key in self._active:
                # If it is dropped before its decision, another equal takes over (`_forget`).
                self._heads[key] = (kind, shared)
                count -= 1
            else:
                self._equal.discard(key)

    def retry_at(self, key: GroupKey, at: float) -> None:
        """Decide the root at that time, if not earlier."""
        self._due.set(key, at)

    def fail(self, key: GroupKey, now: float, *, refused: bool = False) -> float:
        """Record a failed Binding; return the seconds of the back-off, longer if `refused`."""
        self._drop(key)
        return self._backoff.fail(key, now, refused=refused)

    def pause(self, key: GroupKey, now: float) -> float:
        """Record that the root was given up: pause it unless it changes, and return the seconds."""
        self._drop(key)
        return self._backoff.pause(key, self._state.forest.groups.get(key), now)

    def back_off(self, key: GroupKey, until: float) -> None:
        """Do not decide the root before that time, whatever changes."""
        self._drop(key)
        self._forget(key)
        self._backoff.waiting.set(key, until)

    def succeed(self, key: GroupKey) -> None:
        """Record that the root was bound: its back-off starts from the beginning."""
        self._backoff.succeed(key)
        self._first_decisions.forget(key)
        self._long_searches.forget(key)

    def failures(self, key: GroupKey) -> int:
        """Return how often in a row binding the root failed."""
        return self._backoff.failures(key)

    def block(self, key: GroupKey) -> None:
        """Do not decide the root until `unblock`."""
        # Its equals must not wait for it: `_forget` makes another one ready.
        self._blocked.add(key)
        self._drop(key)
        self._forget(key)

    def unblock(self, key: GroupKey) -> None:
        """Let the root be decided again."""
        self._blocked.discard(key)
        self.review(key)

    def next_time(self) -> float | None:
        """Return when the next refused or failing entity is due, if any."""
        first = self._unschedulable.first_due()
        moments = (
            self._backoff.waiting.next(),
            self._due.next(),
            self._long_searches.next_time(),
            self._renewals.next_time(self.version),
            first[1] if first else None,
        )
        times = [moment for moment in moments if moment is not None]
        return min(times, default=None)

    def review_all(self) -> None:
        """Make all refused roots ready."""
        for key in list(self._unschedulable.roots):
            self.review(key)

    def review(self, key: GroupKey) -> None:
        """Make the root ready if it may be decided, else drop it."""
        if key in self._backoff.waiting.keys or key in self._blocked:
            return
        # Dropped first: the root may be in another part, or have another rank than before.
        self._drop(key)
        entity = self.entity(key)
        if entity is None:
            self._forget(key)
            return
        rank = rank_of(entity)
        self._active[key] = rank
        self._ready[key[1]] += 1
        heapq.heappush(self._heap, (rank, key))
        self._first_decisions.ready(key, rank, self._active)

    def _leave(self, key: GroupKey) -> None:
        """Remove the root from the active part."""
        if self._active.pop(key, None) is not None:
            self._ready[key[1]] -= 1
            if not self._ready[key[1]]:
                del self._ready[key[1]]

    def _drop(self, key: GroupKey) -> None:
        self._leave(key)
        self._woken.pop(key, None)
        self._due.discard(key)
        self._long_searches.discard(key)
        if key in self._unschedulable.roots:  # only refused roots have equals and numbers
            self._equal.discard(key)
            self._unschedulable.discard(key)
            self._renewals.discard(key)

    def _forget(self, key: GroupKey) -> None:
        """Forget a root that can no longer be decided; another may represent its equals."""
        self._first_decisions.forget(key)
        self._long_searches.forget(key)
        head, _ = self._heads.pop(key, (None, None))
        if head is not None:
            self._pass_on(head, 1)

    def _wake_for_capacity(self) -> None:
        """Make some roots ready that gain from new capacity, if there is enough for them in all."""
        for gain in self._wakeups.gaining_roots():
            if gain.first_of is not None:
                self._pass_on(gain.first_of, 1)
            else:
                self.review(gain.key)
            # `_put_back` checks again when it is popped: roots before it may take the capacity.
            self._woken[gain.key] = gain.refused

    def _little_work(self) -> AbstractContextManager[None]:
        """Limit the checks for all roots together, as each root's decision is limited."""
        if self._device_work is None:
            return nullcontext()
        return self._device_work.allowed("", alone=not self._active)

    def _wake_due(self, now: float) -> Iterator[None]:
        while (waited := self._backoff.waiting.pop_due(now)) is not None:
            self.review(waited)
            yield
        while (due_now := self._due.pop_due(now)) is not None:
            self.review(due_now)
            yield
        # Only in idle time: these searches are long, and nothing has changed for them.
        late = self._long_searches.pop_due(now) if not self._active else None
        if late is not None:
            self._equal.expire_old(late, now)
            self.review(late)
            yield
        if self._renews(now):
            yield
        # Bounded: thousands of roots may be due at the same moment.
        for _ in range(_RETRIES):
            due = self._unschedulable.first_due()
            if due is None or due[1] > now:
                break
            key, _ = due
            self._equal.expire_old(key, now)
            self.review(key)
            yield

    @property
    def version(self) -> object:
        """The basis of the numbers in refusals: nodes, what is free on them, their domains."""
        return self._state.nodes.version, self._state.topologies.version, self._news

    def _renews(self, now: float) -> bool:
        """Make a root with outdated numbers ready if nothing else is; return whether it did."""
        key = self._renewals.pop_due(now, self.version) if not self._active else None
        if key is None:
            return False
        if key not in self._state.nominations:  # otherwise it is decided when its capacity is free
            self._equal.expire_old(key, now)
            self.review(key)
        return True


def rank_of(entity: Group | Pod) -> Rank:
    """Return the rank in the queue. Raises LookupError for a group without an object."""
    if isinstance(entity, Pod):
        info = entity.info
        return (-info.priority, True, info.created, info.namespace, info.name, SINGLE_POD)
    spec = entity.spec
    if spec is None:
        raise LookupError(entity.key)
    kind, namespace, name = entity.key
    # Among equal priorities half-running groups go first, or others would take the capacity that
    # they need. They do not precede higher priorities: what an earlier leader began to bind is
    # completed from its Reservation.
    return (-entity.priority, not entity.incomplete, spec.created, namespace, name, kind)
