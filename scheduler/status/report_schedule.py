"""When groups and waiting pods are to be reported: what waits for it, and whose time has come.

Nothing of it is urgent, and Bindings go first. No I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Final

from kube.base.clock import Clock
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.status.conditions import confirmed
from scheduler.support.activity import Activity
from scheduler.support.config import Status
from scheduler.support.fair_keys import FairKeys

_BUSY_SECONDS: Final = 20.0
"""How much later groups that lack members, and their pods, are reported during Bindings or
evictions. Pods that wait for room are not, unless it is being made for them: autoscalers look for
their conditions."""

_NOMINATED_SECONDS: Final = 1.5
"""How much later pods with nominated places are reported when nothing is under way."""

_BINDING_SECONDS: Final = 60.0
"""How much later at most a root is reported while it is being bound."""


@dataclass(slots=True)
class _Due:
    """When a group is to be reported, and when at the latest."""

    at: float
    latest: float


class DueReports:
    """The groups to be reported, by root or alone, and the roots whose pods are.

    `arrived` is set when there is something. All times are of the monotonic clock, in seconds.
    """

    def __init__(self, state: State, activity: Activity, *, clock: Clock, config: Status) -> None:
        self.arrived = asyncio.Event()
        self._state = state
        self._activity = activity
        self._clock = clock
        self._config = config
        self.reset()

    def reset(self) -> None:
        """Begin a new term: nothing is due."""
        self.arrived.clear()
        self._groups: FairKeys[_Due] = FairKeys()
        self._pods: FairKeys[float] = FairKeys()
        self._numbers: FairKeys[float] = FairKeys()

    def __len__(self) -> int:
        """How many groups, and roots of pods, wait to be reported."""
        return len(self._groups) + len(self._pods)

    def done(self) -> None:
        """Whatever arrived is reported; `arrived` stays set if anything is left."""
        if not len(self) and not len(self._numbers):
            self.arrived.clear()

    def soon(self, key: GroupKey) -> None:
        """The group is reported after a moment, in which other changes of it are collected."""
        self._put(key, self._clock.monotonic(), self._config.delay_seconds)

    def bound(self, key: GroupKey) -> None:
        """The root is being bound: it is reported after that, in the order of such roots."""
        self.soon(key)
        self._groups.move_to_end(key)
        self._pods.discard(key)

    def again(self, key: GroupKey, wait: float) -> None:
        """The group, which could not be reported, is in `wait` seconds."""
        self._put(key, self._clock.monotonic() + wait, 0.0)

    def numbers(self, key: GroupKey, at: float) -> None:
        """Nothing but numbers changed: it is reported from `at` on."""
        self._numbers.put(key, at)
        self.arrived.set()

    def pods_after(self, key: GroupKey, wait: float) -> None:
        """The pods of the root or group are reported in `wait` seconds, and not before."""
        self._pods.put(key, self._clock.monotonic() + wait)

    def pods_within(self, key: GroupKey, wait: float) -> None:
        """They are in `wait` seconds, or before: asking again and again puts nothing off."""
        at, before = self._clock.monotonic() + wait, self._pods.get(key)
        self._pods.put(key, at if before is None else min(at, before))
        self.arrived.set()

    def pods_again(self, key: GroupKey, wait: float) -> None:
        """The root could not be reported: its pods are in `wait` seconds, if not due anyway."""
        if key not in self._pods:
            self.pods_after(key, wait)

    def take(self, has_turn: Callable[[GroupKey], bool], most: int) -> list[GroupKey]:
        """Remove up to `most` groups whose time and turn has come, and return them."""
        now, busy = self._clock.monotonic(), self._activity.busy
        for key in self._numbers.take(lambda _, at: at <= now, most):
            self.soon(key)
        return self._groups.take(
            lambda key, due: has_turn(key) and self._is_time(key, due, now, busy=busy), most
        )

    def take_pods(
        self, under_way: FairKeys[Any], want_room: Container[GroupKey], most: int
    ) -> list[GroupKey]:
        """The same of roots whose pods are due, not `under_way`; those that `want_room` first."""
        now, busy = self._clock.monotonic(), self._activity.busy

        def is_time(key: GroupKey, at: float) -> bool:
            late = self._late(key, busy=busy, wants_room=key in want_room)
            return at + late <= now and key not in under_way

        return self._pods.take(is_time, most)

    def _put(self, key: GroupKey, now: float, delay: float) -> None:
        if key not in self._groups:
            self._groups.put(key, _Due(now + delay, now + self._config.busy_seconds))
        self.arrived.set()

    def _is_time(self, key: GroupKey, due: _Due, now: float, *, busy: bool) -> bool:
        """Roots being bound are late, and while any are, so are roots that lack members.

        They are bound once the watch says so: a status written before would change again.
        """
        at = due.latest if busy else due.at
        if now < at:
            return False
        if key in self._activity.binding or self._unconfirmed(key):
            return now >= due.latest + _BINDING_SECONDS
        return not (busy and self._lacks_members(key)) or now >= at + _BUSY_SECONDS

    def _unconfirmed(self, key: GroupKey) -> bool:
        group = self._state.forest.groups.get(key)
        return group is not None and not confirmed(group)

    def _lacks_members(self, key: GroupKey) -> bool:
        group = self._state.forest.groups.get(key)
        return group is not None and group.parent is None and not group.quorate

    def _late(self, key: GroupKey, *, busy: bool, wants_room: bool) -> float:
        """How much later than others the root's pods are told why they wait.

        Where room is being made for them, autoscalers are to see the nominated node first.
        """
        if self._state.nominations.own(key):
            return _BUSY_SECONDS if busy else _NOMINATED_SECONDS
        if not busy:
            return 0.0
        return self._config.busy_seconds if wants_room else _BUSY_SECONDS
