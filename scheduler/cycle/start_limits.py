"""The time limit of a start: roots with a `start-timeout` that get no nodes in time are given up.

The time counts from the moment at which a root has its quorum, and ends with its first start. A
root that has started once is never given up. Neither is a root while pods of it are bound or being
bound: its limit is checked again if they are lost before its minimum runs.

The wait is part of the root's group (`StartWait`), and the reporter writes it to the status. So a
new leader continues it. The time is measured by the monotonic clock: a step of the time of day
gives up nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from kube.base.clock import Clock, moment, rfc3339, since
from scheduler.core.groups.forest import Group
from scheduler.core.groups.groups import StartWait
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.core.values.wording import count
from scheduler.decoding import decode
from scheduler.decoding.objects import GroupObject
from scheduler.queue.timers import Timers
from scheduler.support.metrics import START_TIMEOUTS

_STEPS: Final = 64
"""Roots that one refresh of the queue gives up. Further ones are given up by the next ones."""

_TAKEOVER_SECONDS: Final = 10.0
"""Seconds for which a new leader gives up no root: it decides all of them first."""

_REASON: Final = 400
"""Characters of the last refusal that the message of a root repeats. The rest is left out."""

_log = structlog.get_logger()


class StartLimits:
    """The limits of all roots that wait for their first start, with O(1) work for each change."""

    def __init__(
        self,
        state: State,
        clock: Clock,
        observed: Mapping[GroupKey, GroupObject],
        last_refusal: Callable[[GroupKey], str] = lambda _key: "",
    ) -> None:
        """Limit the roots of `state`.

        `observed` are the group objects as the watch last delivered them. `last_refusal` returns
        why a root did not fit, for its message.
        """
        self._state = state
        self._clock = clock
        self._observed = observed
        self._last_refusal = last_refusal
        self._timers = Timers()
        self._deadlines: dict[GroupKey, float] = {}

    def reset(self) -> None:
        """Begin a new term with the waits that the statuses record. Costs O(groups)."""
        self._timers = Timers()
        self._deadlines.clear()
        soonest = self._clock.monotonic() + _TAKEOVER_SECONDS
        for key, observed in self._observed.items():
            group = self._state.forest.groups.get(key)
            if group is None or group.spec is None:
                continue
            limit = group.spec.start_within
            wait = decode.start_wait(observed, limit) if limit else None
            self._state.set_start_wait(group, wait)
            if wait is not None and not wait.given_up:
                self._timers.set(key, max(soonest, self._deadline(key, wait)))

    def changed(self, key: GroupKey) -> None:
        """Begin, continue or end the wait of an entity or group that changed or is gone."""
        group = self._state.forest.groups.get(key)
        if group is None or not group.awaits_start:
            self._end(key, group)
            return
        wait, limit = group.start_wait, group.spec.start_within if group.spec is not None else 0.0
        # The pods are new, or somebody has changed the limit.
        if wait is None or wait.limit != limit:
            self._end(key, group)
            self._begin(key, group, limit)
        elif not (wait.given_up or group.running_total or key in self._timers.keys):
            # Its Bindings failed after the limit was over.
            self._timers.set(key, self._deadline(key, wait))

    def expire(self, now: float) -> None:
        """Give up some of the roots whose limit is over at this monotonic time."""
        for _ in range(_STEPS):
            key = self._timers.pop_due(now)
            if key is None:
                return
            group = self._state.forest.groups.get(key)
            # While pods are bound or being bound, the gang is completed or released first.
            if group is not None and group.awaits_start and not group.running_total:
                self._give_up(key, group)

    def next_time(self) -> float | None:
        """Return the monotonic time at which the next limit is over, if there is one."""
        return self._timers.next()

    def _begin(self, key: GroupKey, group: Group, limit: float) -> None:
        wait = StartWait(rfc3339(self._clock.now()), limit)
        self._state.set_start_wait(group, wait)
        # From now, and not from the stamp, which has whole seconds.
        self._deadlines[key] = self._clock.monotonic() + limit
        self._timers.set(key, self._deadlines[key])

    def _end(self, key: GroupKey, group: Group | None) -> None:
        if group is not None and group.start_wait is not None:
            self._state.set_start_wait(group, None)
        if self._deadlines.pop(key, None) is not None:
            self._timers.discard(key)

    def _deadline(self, key: GroupKey, wait: StartWait) -> float:
        """Return when the limit is over. The stamp of a status counts from here on only once."""
        known = self._deadlines.get(key)
        if known is None:
            stamp = moment(wait.since)
            begun = since(self._clock, stamp.timestamp() if stamp is not None else None)
            known = self._deadlines[key] = begun + wait.limit
        return known

    def _give_up(self, key: GroupKey, group: Group) -> None:
        wait = group.start_wait
        if wait is None:
            return
        text = _text(group, wait.limit, self._last_refusal(key)[:_REASON])
        now = rfc3339(self._clock.now())
        self._state.set_start_wait(group, replace(wait, since=now, given_up=text))
        START_TIMEOUTS.inc()
        _log.info("start timed out", root="/".join(key), seconds=wait.limit)


def _text(group: Group, limit: float, refusal: str) -> str:
    """Return the message of a root that was given up."""
    minimum = group.minimum or 0
    needed = f"{minimum} child groups" if group.composite else count(minimum, "pod")
    why = f" Last refusal: {refusal}" if refusal else ""
    return (
        f"The group needs nodes for {needed} at once and got none within {limit:g} s (annotation"
        f" start-timeout).{why} Muster tries again when its pods are recreated, or when the"
        " annotation is changed or removed."
    )
