"""Schedule of the reports on groups and waiting pods. No I/O.

No report is urgent: Bindings have precedence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Final

from kube.base.clock import Clock
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.support.activity import Activity
from scheduler.support.config import Status
from scheduler.support.fair_keys import FairKeys

_BUSY_SECONDS: Final = 1.5
"""Extra delay, during Bindings or evictions, of groups that lack members and of their pods. It does
not apply to pods that wait for capacity, as autoscalers watch their conditions, except that it
always applies to those of preemptors."""

_BINDING_SECONDS: Final = 60.0
"""Limit of the extra delay of a root that is being bound."""


@dataclass(slots=True)
class _Due:
    """Time at which a group is due, and `latest`, the one during Bindings or evictions."""

    at: float
    latest: float


class DueReports:
    """Queue of the groups to report, and of the roots and groups whose pods to report.

    `arrived` remains set until it is empty. All times are of the monotonic clock, in seconds.
    """

    def __init__(self, state: State, activity: Activity, *, clock: Clock, config: Status) -> None:
        self.arrived = asyncio.Event()
        self._state = state
        self._activity = activity
        self._clock = clock
        self._config = config
        self.reset()

    def reset(self) -> None:
        """Start a new term, in which no report is due."""
        self.arrived.clear()
        self._groups: FairKeys[_Due] = FairKeys()
        self._pods: FairKeys[float] = FairKeys()
        self._numbers: FairKeys[float] = FairKeys()

    @property
    def size(self) -> int:
        """The number of groups, and of roots with pods, that are due now or later."""
        return self._groups.size + self._pods.size

    def done(self) -> None:
        """Clear `arrived` if no report is due."""
        if not self.size and not self._numbers.size:
            self.arrived.clear()

    def schedule_group(self, key: GroupKey) -> None:
        """Schedule the group after the usual delay, which collects further changes of it."""
        self._put(key, self._clock.monotonic(), self._config.delay_seconds)

    def on_root_bound(self, key: GroupKey) -> None:
        """Schedule a root that is being bound, behind those bound before it."""
        self.schedule_group(key)
        # Roots are reported in the order of their Bindings, not in that of their first change.
        self._groups.move_to_end(key)

    def retry_group(self, key: GroupKey, wait: float) -> None:
        """Schedule a group whose report failed, in `wait` seconds."""
        self._put(key, self._clock.monotonic() + wait, 0.0)

    def numbers(self, key: GroupKey, at: float) -> None:
        """Schedule a group at the time `at`, because only numbers of its status changed."""
        self._numbers.put(key, at)
        self.arrived.set()

    def pods_within(self, key: GroupKey, wait: float) -> None:
        """Schedule the pods of the root or group in at most `wait` seconds."""
        # The earlier time counts, or a root that changes all the time would never be reported.
        at, before = self._clock.monotonic() + wait, self._pods.get(key)
        self._pods.put(key, at if before is None else min(at, before))
        self.arrived.set()

    def take(self, has_turn: Callable[[GroupKey], bool], most: int) -> list[GroupKey]:
        """Remove and return up to `most` groups that are due and for which `has_turn` is True."""
        now, busy = self._clock.monotonic(), self._activity.busy
        for key in self._numbers.take(lambda _, at: at <= now, most):
            self.schedule_group(key)
        return self._groups.take(
            lambda key, due: has_turn(key) and self._is_time(key, due, now, busy=busy), most
        )

    def take_pods(
        self, under_way: FairKeys[Any], want_room: Container[GroupKey], most: int
    ) -> list[GroupKey]:
        """Remove and return up to `most` roots whose pods are due and not `under_way`.

        During Bindings or evictions, roots in `want_room` have a shorter delay than others.
        """
        now, busy = self._clock.monotonic(), self._activity.busy

        def is_time(key: GroupKey, at: float) -> bool:
            late = self._late(key, busy=busy, wants_room=key in want_room)
            return at + late <= now and key not in under_way

        return self._pods.take(is_time, most)

    def _put(self, key: GroupKey, now: float, delay: float) -> None:
        # The first change counts: a group that changes all the time is reported nevertheless.
        if key not in self._groups:
            self._groups.put(key, _Due(now + delay, now + self._config.busy_seconds))
        self.arrived.set()

    def _is_time(self, key: GroupKey, due: _Due, now: float, *, busy: bool) -> bool:
        """Return True if the report of the group is due now.

        Roots that are being bound are delayed, and during that time roots that lack members, too.
        """
        at = due.latest if busy else due.at
        if now < at:
            return False
        # Until the watch confirms all Bindings: a status written before would soon change again.
        if key in self._activity.binding or self._unconfirmed(key):
            return now >= due.latest + _BINDING_SECONDS
        return not (busy and self._misses_members(key)) or now >= at + _BUSY_SECONDS

    def _unconfirmed(self, key: GroupKey) -> bool:
        group = self._state.forest.groups.get(key)
        return group is not None and group.assumed_total > 0

    def _misses_members(self, key: GroupKey) -> bool:
        group = self._state.forest.groups.get(key)
        return group is not None and group.parent is None and not group.quorate

    def _late(self, key: GroupKey, *, busy: bool, wants_room: bool) -> float:
        """Return the extra delay of the root's pods, in seconds."""
        # Autoscalers must see the nominated node first: without it they would add nodes for pods
        # whose victims are terminating already.
        if self._state.nominations.own(key):
            return _BUSY_SECONDS
        if not busy:
            return 0.0
        return self._config.busy_seconds if wants_room else _BUSY_SECONDS
