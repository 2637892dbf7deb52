"""FailedScheduling on pods that wait, as kube-scheduler says it: `kubectl describe pod` shows it.

Of a large group few pods are told, and of a namespace few a second: the conditions of all pods say
the same, and the events of groups must not wait behind thousands of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from api.constants import EVENT_FAILED_SCHEDULING
from kube.base.clock import Clock
from scheduler.core.values.model import GroupKey
from scheduler.events.group_events import GroupEvents
from scheduler.status.conditions import PodView

OF_A_GROUP: Final = 16
"""Pods of a group that are told of one change."""

_BURST: Final = 50
_PER_SECOND: Final = 5.0
"""Events on the pods of one namespace: so many at once, and afterwards so many a second."""

_REMEMBERED: Final = 1000
"""Namespaces whose allowance is remembered. With more, idle ones are forgotten first."""


@dataclass(slots=True)
class _Allowance:
    """What a namespace may still send; it grows back with time."""

    left: float
    at: float

    def grow(self, now: float) -> None:
        self.left = min(_BURST, self.left + (now - self.at) * _PER_SECOND)
        self.at = now


class FirstPods:
    """Which pods of one report are told: the first of each group."""

    def __init__(self) -> None:
        self._seen: Counter[GroupKey] = Counter()

    def admits(self, view: PodView) -> bool:
        key = view.pod.key if view.pod.group is None else view.pod.group.key
        self._seen[key] += 1
        return self._seen[key] <= OF_A_GROUP


class PodEvents:
    """Records the events; those beyond the limits are not sent."""

    def __init__(self, events: GroupEvents, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._allowances: dict[str, _Allowance] = {}

    def failed(self, view: PodView) -> None:
        """The pod's condition has changed to this."""
        if self._may_send(view.pod.info.namespace):
            self._events.pod(view.pod, "Warning", EVENT_FAILED_SCHEDULING, view.message)

    def _may_send(self, namespace: str) -> bool:
        now = self._clock.monotonic()
        if len(self._allowances) > _REMEMBERED:
            self._forget(now)
        allowance = self._allowances.setdefault(namespace, _Allowance(_BURST, now))
        allowance.grow(now)
        if allowance.left < 1:
            return False
        allowance.left -= 1
        return True

    def _forget(self, now: float) -> None:
        """Namespaces that have been quiet need no memory; if none was, the limits begin anew."""
        for each in self._allowances.values():
            each.grow(now)
        kept = {name: it for name, it in self._allowances.items() if it.left < _BURST}
        self._allowances = kept if len(kept) <= _REMEMBERED else {}
