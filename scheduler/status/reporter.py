"""Reports outcomes: conditions and blockers of groups, conditions of pods, events.

Nothing here is urgent. Changes are collected for a moment, Bindings go first, and a condition that
is already written is not written again. A round is bounded, and namespaces take turns in it, so
that nobody waits for long because another has thousands of groups, however large their trees are.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from api import features
from api.constants import REASON_INCOMPLETE
from api.features import FeatureGates
from kube.base.clock import rfc3339
from kube.base.errors import Conflict, KubeError, NotFound
from kube.client.meta import Json
from kube.client.object_client import StatusPatcher
from kube.client.patch import PatchBuilder
from kube.concurrency.backoff import retry_after
from kube.concurrency.failures import Failures
from kube.concurrency.pace import Pace
from kube.events.events import EventType
from kube.leader.election import Fence
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group
from scheduler.core.groups.tree_validation import priorities_differ
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.decoding.objects import GroupObject
from scheduler.events.group_events import GroupEvents
from scheduler.held_places.held_places import HeldPlaces
from scheduler.queue.shell import Shell
from scheduler.status.conditions import (
    GroupView,
    PodView,
    exceeding_views,
    group_view,
    has_leaving_pods,
    pod_views,
    unclaimed_views,
    waiting_for,
    waiting_pods,
)
from scheduler.status.group_status import only_numbers_differ, wanted_status
from scheduler.status.pod_conditions import PodConditions
from scheduler.status.pod_events import FirstPods, PodEvents
from scheduler.status.report_schedule import DueReports
from scheduler.support.config import Status
from scheduler.support.fair_keys import FairKeys
from scheduler.support.kinds import GROUPS
from scheduler.support.metrics import REPORTS_DUE, STATUS_WRITES
from scheduler.watch.event_handlers import PendingPod

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Write:
    """A status patch: of what, for which root or group that was due, and how."""

    target: GroupKey
    due: GroupKey
    send: Callable[[], Awaitable[None]]


_Report = Iterator[_Write | None]
"""What is to be written about one root, step by step; None where nothing has changed."""

_RETRY_SECONDS: Final = 10.0
_NUMBERS_SECONDS: Final = 15.0
_NUMBERS_PER_SECOND: Final = 20.0
"""How long a status stays as it is where only numbers changed: of nodes, of pods with room. It is
longer where there are so many groups that more than this would be written a second."""

_ROUND_ROOTS: Final = 100
"""Roots that one round begins with; then those that became due meanwhile are included."""

_ROUND_WRITES: Final = 500
"""Writes of one round; the rest waits for the next one."""

_ROUND_PODS: Final = 100
"""Writes of one round that pods have: groups that become due wait for them, for a second if the
server is slow."""

_ROUND_STEPS: Final = 2000
"""Groups, or pods, that one round looks at."""

_SMALL: Final = 64
"""Groups of a tree that is always reported as a whole. Of a larger one only groups that changed
are, as long as it waits for the same: its other groups then show older numbers."""


class Reporter:
    """Collects roots to report and writes their statuses.

    `observed` and `pending` are the maps of the event handlers, read at the moment of writing.
    Nothing is read during a freeze: a placement may be half assumed.
    """

    def __init__(
        self,
        api: StatusPatcher,
        shell: Shell,
        events: GroupEvents,
        *,
        config: Status,
        observed: dict[GroupKey, GroupObject],
        pending: dict[str, PendingPod],
        gates: FeatureGates = features.USUAL,
        held_places: HeldPlaces | None = None,
    ) -> None:
        """Without `held_places` none are held."""
        self._api = api
        self._held_places = held_places
        self._gates = gates
        self._state = shell.state
        self._events = events
        self._clock = clock = shell.clock
        self._config = config
        self._observed = observed
        self._pod_conditions = PodConditions(api, PodEvents(events, clock), clock, pending)
        self._due = DueReports(shell.state, shell.activity, clock=clock, config=config)
        self._pace = Pace("report", clock)
        self._freeze = shell.freeze
        # By root and step: one step's success says nothing of the others.
        self._failures: Failures[tuple[GroupKey, str]] = Failures(
            "report", lambda each: "/".join(each[0]), first=_RETRY_SECONDS
        )
        self.reset()

    def reset(self) -> None:
        """Begin a new term: what this process wrote before may have been overwritten since."""
        self._blockers: dict[GroupKey, Blocker] = {}
        self._reports: FairKeys[_Report] = FairKeys()
        self._pod_reports: FairKeys[_Report] = FairKeys()
        self._causes: dict[GroupKey, Blocker | None] = {}
        self._told: dict[GroupKey, tuple[object, ...]] = {}
        self._priorities_told: dict[GroupKey, str] = {}
        self._pod_conditions.reset()
        self._written_at: dict[GroupKey, float] = {}
        # Until when the API server asked not to be asked again about an object.
        self._not_before: dict[GroupKey, float] = {}
        self._due.reset()
        self._failures.clear()
        self._count_due()

    def touched(self, keys: Iterable[GroupKey]) -> None:
        """Report these entities and groups soon."""
        for key in sorted({self._reported_by(key) for key in keys}):
            self._due.soon(key)
        self._count_due()

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """The root waits because of this blocker."""
        self._blockers[key] = blocker
        self._due.soon(key)
        self._due.pods_within(key, self._config.delay_seconds)
        self._count_due()

    def placed(self, key: GroupKey) -> None:
        """The root is being bound."""
        self._blockers.pop(key, None)
        self._due.bound(key)
        self._count_due()

    def details(self) -> Iterator[str]:
        """Lines for `/readyz`: the roots whose report raises an error."""
        return self._failures.details()

    async def run(self, fence: Fence) -> None:
        """Write what is due until cancelled, and nothing once the lease may be lost."""
        while True:
            await self._due.arrived.wait()
            await self._clock.sleep(self._config.delay_seconds)
            while fence.valid() and await self.flush(fence):
                pass
            if not self._open():
                self._due.done()

    async def flush(self, fence: Fence) -> bool:
        """Write what is due now, up to the limits of one round; whether more of it is left."""
        await self._freeze.over()
        self._causes.clear()
        begun = self._due.take(self._has_turn, _ROUND_ROOTS)
        for key in begun:
            self._reports.put(key, self._report(key))
        writes = await self._collect("groups", self._reports, _ROUND_WRITES)
        more = len(begun) == _ROUND_ROOTS or len(self._reports) > 0
        for key in self._due.take_pods(self._pod_reports, self._blockers, _ROUND_ROOTS):
            self._pod_reports.put(key, self._report_pods(key))
        # Pods wait while groups are written, but not for ever.
        most = min(_ROUND_PODS, len(writes)) if more else _ROUND_PODS
        writes += await self._collect("pods", self._pod_reports, most)
        await self._carry_out(writes, fence)
        self._count_due()
        return more or len(self._pod_reports) > 0

    def _has_turn(self, key: GroupKey) -> bool:
        """Whether its report may begin: it is not under way, and few of its namespace are."""
        return key not in self._reports and self._reports.count(key[1]) < _ROUND_ROOTS

    async def _collect(self, what: str, reports: FairKeys[_Report], most: int) -> list[_Write]:
        """Up to `most` writes, a step of each namespace in turn; at most one for each target."""
        found: dict[GroupKey, _Write] = {}
        self._pace.begin()
        for _ in range(_ROUND_STEPS):
            turn = reports.turn()
            if turn is None or len(found) >= most:
                break
            key, report = turn
            try:
                write = next(report)
            except StopIteration:
                reports.discard(key)
                self._failures.succeeded((key, what))
            except Exception as error:  # noqa: BLE001 - logged, and tried again
                reports.discard(key)
                self._told.pop(key, None)
                self._failed(key, key, what, error)
            else:
                if write is not None:
                    found[write.target] = write
            if self._pace.over(key):
                await self._pace.give_way()
                await self._freeze.over()
        return list(found.values())

    def _open(self) -> int:
        """How many reports have begun."""
        return len(self._reports) + len(self._pod_reports)

    def _failed(self, key: GroupKey, target: GroupKey, step: str, error: Exception) -> None:
        """Nobody expected this error; it is about this root alone."""
        STATUS_WRITES.labels(key[0], "failed").inc()
        self._retry_later(key, target, self._failures.failed((key, step), error))

    def _count_due(self) -> None:
        REPORTS_DUE.set(self._open() + len(self._due))

    def _report(self, key: GroupKey) -> _Report:
        """What brings the tree under `key` up to date, or a group of a large tree alone."""
        if key[0] == SINGLE_POD:
            if key not in self._state.singles:
                self._blockers.pop(key, None)
            if key in self._state.unclaimed:
                self._due.pods_after(key, self._config.pods_seconds)
            return
        group = self._state.forest.groups.get(key)
        if group is None:
            self._forget(key)
            return
        top = group.top
        if top is group:
            yield from self._report_tree(top)
        elif top.size > _SMALL:
            yield self._report_group(group, self._cause(top))

    def _reported_by(self, key: GroupKey) -> GroupKey:
        """The group with which it is reported: in a small tree that is the root."""
        group = self._state.forest.groups.get(key)
        if group is None or (top := group.top).size > _SMALL:
            return key
        return top.key

    def _report_group(self, group: Group, blocker: Blocker | None) -> _Write | None:
        if group.parent is not None:
            self._forget(group.key)
        if group.exceeding or group.unclaimed:
            self._due.pods_within(group.key, self._config.pods_seconds)
        return self._group_write(group, blocker)

    def _forget(self, key: GroupKey) -> None:
        """It is no root, or not any more."""
        self._blockers.pop(key, None)
        self._told.pop(key, None)
        self._priorities_told.pop(key, None)

    def _tell_priorities(self, top: Group) -> None:
        """One event for each change of what differs in a tree that goes on all the same."""
        text = priorities_differ(top) if top.initially_scheduled else ""
        before = self._priorities_told.pop(top.key, "")
        if text:
            self._priorities_told[top.key] = text
            if text != before:
                self._events.entity(top.key, "Warning", "PrioritiesDiffer", text)

    def _report_tree(self, top: Group) -> _Report:
        self._tell_priorities(top)
        blocker = self._cause(top)
        significant = blocker.significant if blocker is not None else ()
        if top.size > _SMALL and self._told.get(top.key) == significant:
            yield self._report_group(top, blocker)
            at = self._state.forest.groups.get(blocker.at) if blocker is not None else None
            if at is not None and at.top is top:
                yield self._report_group(at, blocker)
            return
        if top.size > _SMALL:
            self._told[top.key] = significant
        else:
            self._told.pop(top.key, None)
        for group in top.subtree():
            yield self._report_group(group, blocker)

    def _cause(self, top: Group) -> Blocker | None:
        """Why the root waits, worked out once in a round."""
        key = top.key
        if key in self._causes:
            return self._causes[key]
        not_ready = waiting_for(self._state, top, self._gates)
        if not_ready is not None:
            self._forget_refusal(key)
            if top.pending_total:
                soon = not_ready.kind == "invalid"  # no more members will help
                wait = self._config.delay_seconds if soon else self._config.pods_seconds
                self._due.pods_after(key, wait)
        blocker = not_ready or (self._blockers.get(key) if top.pending_total else None)
        self._causes[key] = blocker
        return blocker

    def _forget_refusal(self, key: GroupKey) -> None:
        """It will be decided anew, unless it pauses as it could not be bound."""
        blocker = self._blockers.get(key)
        if blocker is not None and blocker.kind != "binding":
            del self._blockers[key]

    def _group_write(self, group: Group, blocker: Blocker | None) -> _Write | None:
        """The write that brings the group's status up to date; None if it is."""
        key = group.key
        observed = self._observed.get(key)
        if observed is None or group.spec is None:
            return None
        view = group_view(self._state, group, blocker)
        status, _ = self._status(view, observed)
        if status == (observed.status or {}):
            return None
        pause = max(_NUMBERS_SECONDS, len(self._observed) / _NUMBERS_PER_SECOND)
        at = self._written_at.get(key, -math.inf) + pause
        if self._clock.monotonic() < at and only_numbers_differ(status, observed.status or {}):
            self._due.numbers(key, at)
            return None
        return _Write(key, group.top.key, lambda: self._write_group(view))

    async def _write_group(self, view: GroupView) -> None:
        key = view.group.key
        observed = self._observed.get(key)
        if observed is None:
            return
        status, changed = self._status(view, observed)
        if status == (observed.status or {}):
            return
        ops = PatchBuilder().at_version(observed.metadata.resource_version)
        ops.add("/status", status)
        answer = await self._api.patch(GROUPS[key[0]], key[2], ops, key[1], subresource="status")
        # The latest we know, until the watch delivers it.
        observed.status = status
        observed.metadata.resource_version = answer["metadata"]["resourceVersion"]
        self._written_at[key] = self._clock.monotonic()
        STATUS_WRITES.labels(key[0], "written").inc()
        # A group that lacks members yet is not worth an event.
        if changed and view.reason is not None and view.reason != REASON_INCOMPLETE:
            kind: EventType = "Normal" if view.scheduled else "Warning"
            self._events.entity(key, kind, view.reason, view.message)

    def _status(self, view: GroupView, observed: GroupObject) -> tuple[Json, bool]:
        return wanted_status(
            view,
            observed.status or {},
            observed.metadata.generation,
            rfc3339(self._clock.now()),
            lambda: has_leaving_pods(self._state, view.group),
            held=self._held_places.status(view.group) if self._held_places is not None else None,
        )

    def _report_pods(self, key: GroupKey) -> _Report:
        first = FirstPods()
        for view in self._pod_views(key):
            told = first.admits(view)
            if not self._pod_conditions.says_the_same(view):
                yield self._pod_write(key, view, told=told)
                continue
            left = self._pod_conditions.numbers_due_in(view)
            if left is not None and left > 0:
                self._due.pods_after(key, left)
            yield None if left is None or left > 0 else self._pod_write(key, view, told=False)

    def _pod_views(self, key: GroupKey) -> Iterator[PodView]:
        group = self._state.forest.groups.get(key)
        if group is not None:
            yield from exceeding_views(group)
            yield from unclaimed_views((group.unclaimed or {}).values())
        elif key in self._state.unclaimed:
            yield from unclaimed_views((self._state.unclaimed[key],))
        if group is not None and group.parent is not None:
            return  # the others are reported with its root
        blocker = waiting_for(self._state, group, self._gates) if group is not None else None
        blocker = blocker or self._blockers.get(key)
        if blocker is not None:
            yield from pod_views(self._state, waiting_pods(self._state, key), blocker)

    def _pod_write(self, root: GroupKey, view: PodView, *, told: bool) -> _Write:
        return _Write(view.pod.key, root, lambda: self._pod_conditions.write(view, told=told))

    async def _carry_out(self, writes: list[_Write], fence: Fence) -> None:
        """Send the writes, a few at a time; none once the lease may be lost."""
        left = iter(writes)

        async def worker() -> None:
            for write in left:
                if not fence.valid():
                    return
                await self._send(write)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._config.writers, len(writes))):
                group.create_task(worker())
        await self._freeze.over()
        self._forget_gone()

    async def _send(self, write: _Write) -> None:
        kind, now = write.due[0], self._clock.monotonic()
        left = self._not_before.get(write.target, now) - now
        if left > 0:
            self._retry_later(write.due, write.target, left)
            return
        problem: Exception | None = None
        try:
            await write.send()
        except Exception as error:  # noqa: BLE001 - logged below, and tried again
            problem = error
        await self._freeze.over()
        match problem:
            case None:
                self._failures.succeeded((write.due, "write"))
            case NotFound():
                STATUS_WRITES.labels(kind, "gone").inc()
            case Conflict():
                # It changed in between; its watch event will have arrived by then.
                STATUS_WRITES.labels(kind, "outdated").inc()
                self._retry_later(write.due, write.target, self._config.delay_seconds)
            case KubeError():
                STATUS_WRITES.labels(kind, "failed").inc()
                _log.warning(
                    "failed to write a status", root="/".join(write.due), error=str(problem)
                )
                self._not_before[write.target] = now + retry_after(problem)
                self._retry_later(write.due, write.target, _RETRY_SECONDS)
            case _:
                self._failed(write.due, write.target, "write", problem)

    def _retry_later(self, root: GroupKey, target: GroupKey, wait: float) -> None:
        for key in (root, self._reported_by(target)):
            if key[0] in GROUPS:
                self._due.again(key, wait)
        self._due.pods_again(root, wait)

    def _forget_gone(self) -> None:
        now, asked = self._clock.monotonic(), self._not_before.items()
        self._not_before = {target: at for target, at in asked if at > now}
        for key, step in self._failures.keys() if self._failures else ():
            if key not in self._state.forest.groups and key not in self._state.singles:
                self._failures.succeeded((key, step))
        if len(self._written_at) > 2 * len(self._observed) + 1000:
            times = self._written_at.items()
            self._written_at = {key: at for key, at in times if key in self._observed}
        self._pod_conditions.forget_gone()
