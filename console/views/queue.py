"""Waiting roots, in the scheduler's order, with reasons. Rows are created once per change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from console.base import messages
from console.base.messages import Owner, QueueChange, QueuePage, Waiting
from console.base.protocols import RefusedError, Viewer
from console.state.state import ClusterState
from console.views.refusals import Cause, cause, decided, safely
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.queue.scheduling_queue import rank_of

Place = tuple[Any, ...]
"""Sort key of the rows: first the roots that are ready, by the scheduler's rank, then the
others."""

HEAD: Final = 400
"""Rows whose positions are followed. Further ones are sent only when they change themselves."""

ROUNDS_KEPT: Final = 100
"""Rounds of `ask_solver` after which a result is old: half a minute."""

MOST_TOLD: Final = 1_000
"""Changed rows of one event. With more, every page requests the queue again."""

DECIDED: Final = 20
"""Searches for one response, for roots that the scheduler has not decided yet."""


ANEW: Final = QueueChange(changed=[], gone=[], total=0)


@dataclass(frozen=True, slots=True)
class Filters:
    """The viewer's filters of the queue."""

    namespace: str = ""
    priority: int | None = None
    reason: str = ""

    @property
    def any(self) -> bool:
        """True if any filter is set."""
        return bool(self.namespace or self.priority is not None or self.reason)

    def may_pass(self, namespace: str, priority: int) -> bool:
        """Return true if a row may pass; its reason is not checked here."""
        if self.namespace and namespace != self.namespace:
            return False
        return self.priority is None or priority >= self.priority


class QueueView:
    """The rows of all waiting roots. `follow` updates them in time that depends on changes."""

    def __init__(self, cluster: ClusterState) -> None:
        """Start empty, until the first `follow`."""
        self._cluster = cluster
        self._ordered: list[tuple[Place, GroupKey]] = []
        self._places: dict[GroupKey, Place] = {}
        self._rows: dict[GroupKey, Waiting] = {}
        self._open: set[GroupKey] = set()
        """Roots whose row has no decision yet."""
        self.by_namespace: Counter[str] = Counter()
        """Number of waiting roots in each namespace that has any."""
        self._changed: set[GroupKey] = set()
        self._gone: set[GroupKey] = set()
        self._head: dict[GroupKey, Waiting] = {}
        self._undecided: dict[GroupKey, None] = {}
        self._decided: dict[GroupKey, int] = {}
        self._rounds = 0

    def __len__(self) -> int:
        return len(self._ordered)

    def __iter__(self) -> Iterator[GroupKey]:
        """Yield the keys, in order."""
        return (key for _, key in self._ordered)

    def follow(self, roots: Iterable[GroupKey]) -> None:
        """Update the rows of these roots: they may wait now, or not, or for another reason."""
        for key in roots:
            entity = self._waiting(key)
            place = None if entity is None else _place(self._cluster, entity)
            before = self._places.get(key)
            if before is not None and before != place:
                self._leave(key, before)
            if place is None:
                continue
            if before != place:
                self._places[key] = place
                insort(self._ordered, (place, key))
                self.by_namespace[key[1]] += 1
                self._gone.discard(key)
            self._rows.pop(key, None)
            self._changed.add(key)

    def total(self, viewer: Viewer) -> int:
        """Return the number of waiting roots that the viewer may see."""
        if viewer.namespaces is None:
            return len(self._ordered)
        return sum(self.by_namespace[each] for each in viewer.namespaces)

    def page(self, viewer: Viewer, filters: Filters, after: str, limit: int) -> QueuePage:
        """Return the rows after the cursor by rights and filters. Raises RefusedError."""
        if filters.namespace and not viewer.sees(filters.namespace):
            raise RefusedError(403, "You do not have access to this namespace.")
        start = self._start(after)
        items: list[Waiting] = []
        total, following = 0, None
        asked = DECIDED
        for position, (place, key) in enumerate(self._ordered, 1):
            if not (viewer.sees(key[1]) and filters.may_pass(key[1], -place[1])):
                continue
            if filters.reason and self._row(key).reason != filters.reason:
                continue
            total += 1
            if position <= start:
                continue
            if len(items) == limit:
                # Without filters the counters give the total. With filters every row must be
                # checked.
                following = following or str(items[-1].position)
                if not filters.any:
                    total = self.total(viewer)
                    break
                continue
            row = self._row(key, position)
            if key in self._open and asked:
                asked -= 1
                row = self._asked(key, position)
            items.append(row)
        return QueuePage(items=items, next=following, total=total)

    def ask_solver(self) -> None:
        """Run the solver for one of the first rows without a decision of the scheduler.

        Call it before each `take_change`. If all have a result, the oldest is computed again once
        it is older than `ROUNDS_KEPT`.
        """
        # One root in each round: a search may block the event loop for a quarter of a second.
        self._rounds += 1
        key = next((each for each in self._undecided if each not in self._changed), None)
        if key is None:
            key = next(iter(self._decided), None)
            if key is None or self._rounds - self._decided[key] < ROUNDS_KEPT:
                return
        self._undecided.pop(key, None)
        self._decided.pop(key, None)
        place = self._places.get(key)
        if place is None:
            return
        self._rows.pop(key, None)
        position = bisect_left(self._ordered, (place, key)) + 1
        self._row(key, position)
        if key in self._open:
            self._asked(key, position)
        self._changed.add(key)

    def take_change(self) -> QueueChange | None:
        """Return the changes since the last call, for viewers of all; None if there are none.

        Returns `ANEW` if there are too many to send.
        """
        if not (self._changed or self._gone):
            return None
        if len(self._changed) + len(self._gone) > MOST_TOLD:
            self._head, self._changed, self._gone = {}, set(), set()
            return ANEW
        head: dict[GroupKey, Waiting] = {}
        told: list[Waiting] = []
        for position, (_, key) in enumerate(self._ordered[:HEAD], 1):
            row = head[key] = self._row(key, position)
            if key in self._open:
                self._undecided[key] = None
            if self._head.get(key) != row:
                told.append(row)
        for key in self._changed - head.keys():
            place = self._places.get(key)
            if place is not None:
                told.append(self._row(key, bisect_left(self._ordered, (place, key)) + 1))
        gone = [_id(key) for key in sorted(self._gone)]
        self._head, self._changed, self._gone = head, set(), set()
        return QueueChange(changed=told, gone=gone, total=len(self._ordered))

    def for_viewer(self, change: QueueChange, viewer: Viewer) -> QueueChange:
        """Return the part of a change that the viewer may see."""
        if viewer.namespaces is None:
            return change
        return QueueChange(
            changed=[row for row in change.changed if viewer.sees(row.namespace)],
            gone=[id_ for id_ in change.gone if viewer.sees(id_.partition("/")[0])],
            total=self.total(viewer),
        )

    def _start(self, after: str) -> int:
        if not after:
            return 0
        if not (after.isascii() and after.isdigit() and len(after) < 10):
            raise RefusedError(400, "The cursor is invalid.")
        return int(after)

    def _waiting(self, key: GroupKey) -> Group | Pod | None:
        entity = self._cluster.entity(key)
        if isinstance(entity, Group):
            # A native group without pods of Muster's is in no queue of Muster's.
            if entity.parent is not None or entity.of_others:
                return None
            unmet = entity.spec is not None and not entity.standing
            return entity if entity.pending_total or unmet else None
        return entity

    def _leave(self, key: GroupKey, place: Place) -> None:
        index = bisect_left(self._ordered, (place, key))
        del self._ordered[index]
        del self._places[key]
        self._undecided.pop(key, None)
        self._decided.pop(key, None)
        self._rows.pop(key, None)
        self._open.discard(key)
        self.by_namespace[key[1]] -= 1
        if not self.by_namespace[key[1]]:
            del self.by_namespace[key[1]]
        self._changed.discard(key)
        self._gone.add(key)

    def _row(self, key: GroupKey, position: int = 0) -> Waiting:
        """Return the row, moved to this position unless that is 0."""
        row = self._rows.get(key)
        if row is None:
            entity = self._waiting(key)
            assert entity is not None, "rows are followed"
            why = safely(self._cluster, entity, cause)
            row = self._rows[key] = _waiting_row(self._cluster, entity, position, why)
            if why.undecided:
                self._open.add(key)
            else:
                self._open.discard(key)
        elif position and row.position != position:
            row = self._rows[key] = msgspec.structs.replace(row, position=position)
        return row

    def _asked(self, key: GroupKey, position: int) -> Waiting:
        """Return the row with the solver's result, which is kept until the root changes."""
        entity = self._waiting(key)
        assert entity is not None, "rows are followed"
        why = safely(self._cluster, entity, decided)
        self._open.discard(key)
        self._decided.pop(key, None)
        self._decided[key] = self._rounds
        row = self._rows[key] = _waiting_row(self._cluster, entity, position, why)
        return row


def _place(cluster: ClusterState, entity: Group | Pod) -> Place:
    """Return the sort key; roots that are not ready have no rank and come last."""
    if isinstance(entity, Pod):
        return (not entity.waiting, *rank_of(entity))
    if entity.spec is None:
        return (True, -entity.priority, True, "", *entity.key[1:], entity.key[0])
    ready = entity.to_be_decided and cluster.state.forest.ready(entity)
    return (not ready, *rank_of(entity))


def _waiting_row(cluster: ClusterState, entity: Group | Pod, position: int, why: Cause) -> Waiting:
    kind, namespace, name = entity.key
    if isinstance(entity, Pod):
        kind, owner, created = SINGLE_POD, _owner_message(entity), entity.info.created
        pods, minimum = 1, None
    else:
        owner, created = owner_of(cluster, entity), entity.spec.created if entity.spec else ""
        pods, minimum = pods_of(entity), minimum_of(entity)
    return Waiting(
        id=_id((kind, namespace, name)),
        position=position,
        namespace=namespace,
        kind=kind,
        name=name,
        owner=owner,
        priority=entity.priority,
        since=why.since or created or None,
        pods=pods,
        minimum=minimum,
        reason=why.reason,
        sentence=why.sentence,
        nearest=why.nearest,
        waits_for=why.waits_for,
    )


def _id(key: GroupKey) -> str:
    return f"{key[1]}/{key[0]}/{key[2]}"


def owner_of(cluster: ClusterState, group: Group) -> messages.Owner | None:
    """Return the owner that the group was created for."""
    obj = cluster.observed.get(group.key)
    controller = obj.metadata.controller if obj is not None else None
    if controller is not None:
        return Owner(kind=controller.kind, name=controller.name)
    if group.spec is not None and group.spec.owner is not None:
        kind, name = group.spec.owner
        return Owner(kind=kind, name=name)
    return None


def _owner_message(pod: Pod) -> messages.Owner | None:
    kind, _, name = pod.info.membership.maker.partition(" ")
    return Owner(kind=kind, name=name) if name else None


def pods_of(group: Group) -> int:
    """Return the number of pods of a subtree that have not ended and do not terminate."""
    members = (pod for each in group.subtree() for pod in each.members.values())
    return sum(not pod.info.terminating for pod in members)


def minimum_of(group: Group) -> int | None:
    """Return the fewest pods that meet the minimums of a subtree; None without a policy.

    For a composite the smallest children count.
    """
    if group.minimum is None:
        return None
    if not group.composite:
        return group.minimum
    least = sorted(minimum_of(child) or 0 for child in group.children.values())
    return sum(least[: group.minimum])
