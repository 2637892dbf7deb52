"""Reports outcomes: conditions and blockers of groups, conditions of pods, events.

Nothing here is urgent. Changes are collected for a moment, Bindings go first, and a condition that
is already written is not written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

import structlog

from api.constants import (
    CONDITION_DISRUPTION_TARGET,
    CONDITION_POD_SCHEDULED,
    REASON_INCOMPLETE,
    REASON_SCHEDULED,
)
from kube.clock import Clock, rfc3339
from kube.election import Fence
from kube.errors import Conflict, KubeError, NotFound
from kube.events import EventType
from kube.meta import Json
from kube.object_client import StatusPatcher
from kube.patch import PatchBuilder
from kube.resources import PODS
from scheduler.activity import Activity
from scheduler.conditions import (
    GroupView,
    PodView,
    blocker_json,
    condition_type,
    confirmed,
    group_views,
    has_leaving_pods,
    pod_views,
    waiting_for,
    waiting_pods,
)
from scheduler.config import Status
from scheduler.core.explain import Blocker
from scheduler.core.model import SINGLE_POD, GroupKey
from scheduler.core.state import State
from scheduler.group_events import GroupEvents
from scheduler.metrics import REPORTS_DUE, STATUS_WRITES
from scheduler.resources import GROUPS
from scheduler.watch.event_handlers import PendingPod
from scheduler.watch.objects import GroupObject

_log = structlog.get_logger()

_Write = Callable[[], Awaitable[None]]

_RETRY_SECONDS: Final = 10.0
_BUSY_SECONDS: Final = 20.0
"""How much later pods, and groups that lack members, are reported during Bindings or evictions."""

_BINDING_SECONDS: Final = 60.0
"""How much later at most a root is reported while it is being bound."""

_ROUND_ROOTS: Final = 100
"""Roots of one round; then those that became due meanwhile are included, the oldest first."""

_ROUND_WRITES: Final = 500
"""Writes of one round after which further pods wait for the next round."""


@dataclass(slots=True)
class _Due:
    """When a root is to be reported, and when at the latest."""

    at: float
    latest: float


class Reporter:
    """Collects roots to report and writes their statuses.

    Roots that are being bound are reported later, as their status is about to change.
    `observed` and `pending` are the maps of the event handlers, read at the moment of writing.
    """

    def __init__(
        self,
        api: StatusPatcher,
        state: State,
        events: GroupEvents,
        activity: Activity,
        *,
        clock: Clock,
        config: Status,
        observed: dict[GroupKey, GroupObject],
        pending: dict[str, PendingPod],
    ) -> None:
        self._api = api
        self._state = state
        self._events = events
        self._activity = activity
        self._clock = clock
        self._config = config
        self._observed = observed
        self._pending = pending
        self._blockers: dict[GroupKey, Blocker] = {}
        self._due: dict[GroupKey, _Due] = {}
        self._pods_due: dict[GroupKey, float] = {}
        self._written: dict[str, tuple[object, ...]] = {}
        self._work = asyncio.Event()

    def touched(self, keys: Iterable[GroupKey]) -> None:
        """Report these entities and groups soon."""
        now = self._clock.monotonic()
        for key in sorted(keys):
            self._schedule(key, now)

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """The root waits because of this blocker."""
        self._blockers[key] = blocker
        now = self._clock.monotonic()
        self._schedule(key, now)
        self._pods_due[key] = now + self._config.delay_seconds

    def placed(self, key: GroupKey) -> None:
        """The root is being bound."""
        self._blockers.pop(key, None)
        self._pods_due.pop(key, None)
        self._schedule(key, self._clock.monotonic())

    async def run(self, fence: Fence) -> None:
        """Write what is due until cancelled, and nothing once the lease may be lost."""
        while True:
            await self._work.wait()
            await self._clock.sleep(self._config.delay_seconds)
            while fence.valid() and await self.flush(fence):
                pass
            if not self._due and not self._pods_due:
                self._work.clear()

    async def flush(self, fence: Fence) -> bool:
        """Write what is due now, up to the limits of one round; whether more roots are due."""
        now, busy = self._clock.monotonic(), self._activity.busy
        ready = (key for key, due in self._due.items() if self._is_time(key, due, now, busy=busy))
        due = list(islice(ready, _ROUND_ROOTS))
        for key in due:
            del self._due[key]
        writes = [(key, write) for key in due for write in self._report(key)]
        more = len(due) == _ROUND_ROOTS
        if not more:
            writes += self._pod_writes(now - (_BUSY_SECONDS if busy else 0.0), len(writes))
        await self._carry_out(writes, fence)
        self._count_due()
        return more

    def _pod_writes(self, before: float, written: int) -> list[tuple[GroupKey, _Write]]:
        """The writes for pods that were due by then; `written` others are in this round already."""
        writes: list[tuple[GroupKey, _Write]] = []
        for key in [key for key, at in self._pods_due.items() if at <= before]:
            if written + len(writes) >= _ROUND_WRITES:
                break  # groups that change meanwhile go first
            del self._pods_due[key]
            writes += [(key, write) for write in self._report_pods(key)]
        return writes

    def _count_due(self) -> None:
        REPORTS_DUE.set(len(self._due) + len(self._pods_due))

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

    def _schedule(self, key: GroupKey, now: float) -> None:
        due = self._due.get(key)
        at = now + self._config.delay_seconds
        if due is None:
            self._due[key] = _Due(at, now + self._config.busy_seconds)
            self._count_due()
        self._work.set()

    def _report(self, key: GroupKey) -> Iterable[_Write]:
        """The writes that bring the tree under `key` up to date."""
        if key[0] == SINGLE_POD:
            if key not in self._state.singles:
                self._blockers.pop(key, None)
            return
        group = self._state.forest.groups.get(key)
        if group is None:
            self._blockers.pop(key, None)
            return
        if group.parent is not None:
            self._blockers.pop(key, None)
            return  # it is reported with its root
        not_ready = waiting_for(self._state, group)
        if not_ready is not None:
            self._blockers.pop(key, None)
            if group.pending_total:
                self._pods_due[key] = self._clock.monotonic() + self._config.pods_seconds
        blocker = not_ready or (self._blockers.get(key) if group.pending_total else None)
        for view in group_views(self._state, group, blocker):
            observed = self._observed.get(view.group.key)
            if observed is not None:
                yield self._group_write(view, observed)

    def _group_write(self, view: GroupView, observed: GroupObject) -> _Write:
        async def write() -> None:
            status, changed = self._status(view, observed)
            if status == (observed.status or {}):
                return
            key = view.group.key
            ops = PatchBuilder().at_version(observed.metadata.resource_version)
            ops.add("/status", status)
            resource = GROUPS[key[0]]
            answer = await self._api.patch(resource, key[2], ops, key[1], subresource="status")
            # The latest we know, until the watch delivers it.
            observed.status = status
            observed.metadata.resource_version = answer["metadata"]["resourceVersion"]
            STATUS_WRITES.labels(key[0], "written").inc()
            # A group that lacks members yet is not worth an event.
            if changed and view.reason is not None and view.reason != REASON_INCOMPLETE:
                kind: EventType = "Normal" if view.scheduled else "Warning"
                self._events.entity(key, kind, view.reason, view.message)

        return write

    def _status(self, view: GroupView, observed: GroupObject) -> tuple[Json, bool]:
        """The whole status wanted, and whether the condition's state changed."""
        before: Json = observed.status or {}
        now = rfc3339(self._clock.now())
        status = {**before, **view.counts}
        old = before.get("blocker")
        status.pop("blocker", None)
        if view.blocker is not None:
            same = old is not None and old.get("kind") == view.blocker.kind
            since = old["since"] if same and old is not None and "since" in old else now
            status["blocker"] = blocker_json(view.blocker, since)
        conditions, changed = _with_condition(view, observed, now)
        if (
            view.scheduled
            and any(map(_is_disruption_target, conditions))
            and not has_leaving_pods(self._state, view.group)
        ):
            conditions = [
                _cleared(each, now) if _is_disruption_target(each) else each for each in conditions
            ]
        status["conditions"] = conditions
        return status, changed

    def _report_pods(self, key: GroupKey) -> Iterable[_Write]:
        group = self._state.forest.groups.get(key)
        blocker = waiting_for(self._state, group) if group is not None else None
        blocker = blocker or self._blockers.get(key)
        if blocker is None:
            return
        for view in pod_views(key, waiting_pods(self._state, key), blocker):
            uid = view.pod.info.uid
            if uid in self._pending and self._written.get(uid) != view.significant:
                yield self._pod_write(view)

    def _pod_write(self, view: PodView) -> _Write:
        async def write() -> None:
            info = view.pod.info
            seen = self._pending.get(info.uid)
            if seen is None or not view.pod.waiting:
                return
            condition = {
                "type": CONDITION_POD_SCHEDULED,
                "status": "False",
                "reason": view.reason,
                "message": view.message,
                "lastTransitionTime": rfc3339(self._clock.now()),
            }
            ops = PatchBuilder().at_version(seen.resource_version)
            if CONDITION_POD_SCHEDULED in seen.conditions:
                index = seen.conditions.index(CONDITION_POD_SCHEDULED)
                ops.replace(f"/status/conditions/{index}", condition)
            elif seen.conditions:
                ops.add("/status/conditions/-", condition)
            else:
                ops.add("/status/conditions", [condition])
            await self._api.patch(PODS, info.name, ops, info.namespace, subresource="status")
            self._written[info.uid] = view.significant
            STATUS_WRITES.labels("Pod", "written").inc()

        return write

    async def _carry_out(self, writes: list[tuple[GroupKey, _Write]], fence: Fence) -> None:
        """Send the writes, a few at a time; none once the lease may be lost."""
        left = iter(writes)

        async def worker() -> None:
            for key, write in left:
                if not fence.valid():
                    return
                try:
                    await write()
                except NotFound:
                    STATUS_WRITES.labels(key[0], "gone").inc()
                except Conflict:
                    # It changed in between; its watch event will have arrived by then.
                    STATUS_WRITES.labels(key[0], "outdated").inc()
                    self._retry_later(key, self._config.delay_seconds)
                except KubeError as error:
                    STATUS_WRITES.labels(key[0], "failed").inc()
                    _log.warning("status not written", root="/".join(key), problem=str(error))
                    self._retry_later(key, _RETRY_SECONDS)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._config.writers, len(writes))):
                group.create_task(worker())
        self._forget_gone()

    def _retry_later(self, key: GroupKey, wait: float) -> None:
        at = self._clock.monotonic() + wait
        self._due.setdefault(key, _Due(at, at + self._config.busy_seconds))
        self._pods_due.setdefault(key, at)
        self._work.set()

    def _forget_gone(self) -> None:
        if len(self._written) > 2 * len(self._pending) + 1000:
            written = self._written.items()
            self._written = {uid: each for uid, each in written if uid in self._pending}


def _is_disruption_target(condition: Json) -> bool:
    return bool(
        condition.get("type") == CONDITION_DISRUPTION_TARGET and condition.get("status") == "True"
    )


def _cleared(condition: Json, now: str) -> Json:
    """The DisruptionTarget condition of a group that was evicted and runs again."""
    changes = {"status": "False", "reason": REASON_SCHEDULED, "message": "runs again"}
    return {**condition, **changes, "lastTransitionTime": now}


def _with_condition(view: GroupView, observed: GroupObject, now: str) -> tuple[list[Json], bool]:
    """The conditions with ours set, and whether it changed. Once True it stays True."""
    before: list[Json] = (observed.status or {}).get("conditions") or []
    name = condition_type(view.group)
    old = next((c for c in before if c.get("type") == name), None)
    if view.reason is None:
        return before, False
    if old is not None and old.get("status") == "True":
        # Only the message may change: where it runs.
        current = {**old, "message": view.message} if view.scheduled else old
        return [current if each is old else each for each in before], False
    status = "True" if view.scheduled else "False"
    changed = old is None or (old.get("status"), old.get("reason")) != (status, view.reason)
    transition = old is None or old.get("status") != status
    condition = {
        "type": name,
        "status": status,
        "reason": view.reason,
        "message": view.message,
        "observedGeneration": observed.metadata.generation,
        "lastTransitionTime": now
        if transition or old is None
        else old.get("lastTransitionTime", now),
    }
    return [c for c in before if c.get("type") != name] + [condition], changed
