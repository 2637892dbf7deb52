"""FailedScheduling events on waiting pods, as in kube-scheduler, and an event on their owner.

Only some pods of a large group get an event, and a namespace gets few events per second. The
conditions of all pods have the same message, and the events of groups must not wait behind those of
thousands of pods. The owner gets one event for all pods with the same message.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from api.constants import EVENT_FAILED_SCHEDULING, REASON_GROUP_WAITS
from kube.base.clock import Clock
from kube.events.events import ObjectReference
from scheduler.core.values.model import GroupKey
from scheduler.events.group_events import GroupEvents
from scheduler.status.conditions import PodView

OF_A_GROUP: Final = 16
"""Limit of pods of a group that get an event about one change."""

_BURST: Final = 50
"""Limit of events on the pods of one namespace at once. After that, `_PER_SECOND` applies."""

_PER_SECOND: Final = 5.0
"""Limit of events a second on the pods of one namespace after `_BURST`. More are dropped."""

_OWNERS: Final = 4096
"""Limit of events on owners that are remembered. With more, all are forgotten and may repeat."""

_OWNER_SECONDS: Final = 600.0
"""Seconds for which an event on an owner is not repeated when further pods have its message."""

_REMEMBERED: Final = 1000
"""Limit of namespaces whose allowance is kept. With more, idle ones are dropped first."""


@dataclass(slots=True)
class _EventRate:
    """Number of events that a namespace may still send; it grows over time up to the burst."""

    remaining: float
    at: float

    def grow(self, now: float) -> None:
        self.remaining = min(_BURST, self.remaining + (now - self.at) * _PER_SECOND)
        self.at = now


class FirstPods:
    """Choice of the pods of one report that get an event: the first ones of each group."""

    def __init__(self) -> None:
        self._seen: Counter[GroupKey] = Counter()

    def admits(self, view: PodView) -> bool:
        key = view.pod.key if view.pod.group is None else view.pod.group.key
        # Counted for each group: every group of a tree gets events on some of its pods.
        self._seen[key] += 1
        return self._seen[key] <= OF_A_GROUP


class PodEvents:
    """Recorder of the events; it drops those beyond the limits."""

    def __init__(self, events: GroupEvents, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._allowances: dict[str, _EventRate] = {}
        # By hash: users choose the UIDs of owners, of any length.
        self._on_owners: dict[int, float] = {}

    def failed(self, view: PodView, controller: ObjectReference | None) -> None:
        """Record events on the pod, whose condition changed to this view, and on its owner."""
        owner = self._owner(view, controller)
        if owner is not None:
            self._warn(owner, view)
        # Dropped and not delayed: the pod's condition has the message.
        if self._may_send(view.pod.info.namespace):
            self._events.pod(view.pod, "Warning", EVENT_FAILED_SCHEDULING, view.message)

    def _owner(self, view: PodView, controller: ObjectReference | None) -> ObjectReference | None:
        """Return the controller of the pod's root, else of the pod; None if the root reports it."""
        # A held pod waits for its own controller, whatever its group lacks.
        root = None if view.pod.hold is not None else self._events.root_controller(view.pod)
        if root is None:
            return controller
        # A group gets an event with each change of its status, except while it lacks members.
        return root if view.reason == REASON_GROUP_WAITS else None

    def _warn(self, owner: ObjectReference, view: PodView) -> None:
        # With the namespace, as a pod of another one may name the same UID.
        event, now = hash((owner, view.reason, view.message)), self._clock.monotonic()
        if now < self._on_owners.get(event, -_OWNER_SECONDS) + _OWNER_SECONDS:
            return
        if len(self._on_owners) >= _OWNERS:
            self._on_owners.clear()
        self._on_owners[event] = now
        self._events.warn(owner, view.pod, view.reason, view.message)

    def _may_send(self, namespace: str) -> bool:
        now = self._clock.monotonic()
        if len(self._allowances) > _REMEMBERED:
            self._forget(now)
        allowance = self._allowances.setdefault(namespace, _EventRate(_BURST, now))
        allowance.grow(now)
        if allowance.remaining < 1:
            return False
        allowance.remaining -= 1
        return True

    def _forget(self, now: float) -> None:
        """Drop the namespaces with a full allowance; if too many remain, drop all of them."""
        # A dropped namespace starts with a full allowance again. That bounds memory, whatever
        # number of namespaces a tenant creates.
        for each in self._allowances.values():
            each.grow(now)
        kept = {name: it for name, it in self._allowances.items() if it.remaining < _BURST}
        self._allowances = kept if len(kept) <= _REMEMBERED else {}
