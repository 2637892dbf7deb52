"""Reporter of outcomes: conditions and blockers of groups, conditions of pods, and events.

No report is urgent. The reporter collects changes for a moment, lets Bindings go first, and writes
only conditions that differ. A round has a limit, and namespaces alternate in it. So no group waits
long because another namespace has thousands of groups, or large trees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from api import features
from api.features import FeatureGates
from kube.base.clock import rfc3339
from kube.base.errors import Conflict, KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.concurrency.backoff import retry_after
from kube.concurrency.failures import Failures
from kube.concurrency.pace import Pace
from kube.events.events import EventType
from kube.leader.election import Fence
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group
from scheduler.core.groups.tree_validation import priorities_differ
from scheduler.core.values.model import SINGLE_POD, GroupKey, plain_kind
from scheduler.decoding.objects import GroupObject
from scheduler.events.group_events import GroupEvents
from scheduler.held_places.held_places import HeldPlaces
from scheduler.queue.shell import Shell
from scheduler.status.conditions import (
    GroupView,
    PodView,
    group_view,
    has_leaving_pods,
    held_views,
    pod_views,
    waiting_for,
    waiting_pods,
)
from scheduler.status.group_status import only_numbers_differ, wanted_status
from scheduler.status.number_writes import NumberWrites
from scheduler.status.pod_conditions import PodConditions
from scheduler.status.pod_events import FirstPods, PodEvents
from scheduler.status.report_schedule import DueReports
from scheduler.support.config import Status
from scheduler.support.fair_keys import FairKeys
from scheduler.support.kinds import GROUP_RESOURCES
from scheduler.support.metrics import REPORTS_DUE, STATUS_WRITES
from scheduler.watch.event_handlers import PendingPod

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Write:
    """Patch of the status of `target`; `due` is the root or group whose report requires it."""

    target: GroupKey
    due: GroupKey
    send: Callable[[], Awaitable[None]]


_Report = Iterator[_Write | None]
"""The writes for one root or group, one object per step; None for an object without changes."""

_RETRY_SECONDS: Final = 10.0
"""Delay of a report whose write failed, and first back-off after an unexpected error."""

_ROUND_ROOTS: Final = 100
"""Limit of reports that start in a round, and of those under way in one namespace. The next round
also takes roots that became due meanwhile."""

_ROUND_WRITES: Final = 500
"""Limit of writes to groups in a round; the others wait for the next one."""

_ROUND_PODS: Final = 100
"""Limit of writes to pods in a round. Groups that become due wait for these, up to a second if the
API server is slow."""

_ROUND_STEPS: Final = 2000
"""Limit of groups, and of pods, that a round visits."""

_SMALL: Final = 64
"""Limit of groups of a small tree, which is always reported completely. In a larger tree that waits
for the same reason as before, only changed groups are: the others show older numbers."""


class Reporter:
    """Writer of the statuses of roots and groups that changed.

    `observed` and `pending` are the maps of the event handlers. The reporter reads them when it
    writes. It waits for the end of a freeze before it reads the state, because a placement may be
    assumed only in part.
    """

    def __init__(
        self,
        api: Client,
        shell: Shell,
        events: GroupEvents,
        *,
        config: Status,
        observed: dict[GroupKey, GroupObject],
        pending: dict[str, PendingPod],
        gates: FeatureGates = features.USUAL,
        held_places: HeldPlaces | None = None,
    ) -> None:
        """Start the first term. Without `held_places`, no group has any."""
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
        # By root and step: the success of one step must not end the back-off of another.
        self._failures: Failures[tuple[GroupKey, str]] = Failures(
            "report", lambda each: "/".join(each[0]), first=_RETRY_SECONDS
        )
        self.reset()

    def reset(self) -> None:
        """Start a new term: another leader may have overwritten what this process wrote."""
        self._blockers: dict[GroupKey, Blocker] = {}
        self._reports: FairKeys[_Report] = FairKeys()
        self._pod_reports: FairKeys[_Report] = FairKeys()
        self._causes: dict[GroupKey, Blocker | None] = {}
        # By root of a large tree: the significant part of the blocker in the last complete report.
        self._reported: dict[GroupKey, tuple[object, ...]] = {}
        self._reported_priorities: dict[GroupKey, str] = {}
        self._pod_conditions.reset()
        self._numbers: NumberWrites[GroupKey] = NumberWrites()
        # By object: the end of the wait that the API server asked for (Retry-After).
        self._not_before: dict[GroupKey, float] = {}
        self._due.reset()
        self._failures.clear()
        self._count_due()

    def touched(self, keys: Collection[GroupKey]) -> None:
        """Schedule reports of these groups and single pods, which changed."""
        # Sorted, because the order of a set differs between processes.
        for key in sorted({self._reported_by(key) for key in keys}):
            self._due.schedule_group(key)
        for key in keys:
            if self._holds_pods(key):
                self._due.pods_within(key, self._config.pods_seconds)
        self._count_due()

    def _holds_pods(self, key: GroupKey) -> bool:
        """Return True if pods of the group, or the single pod, wait for no decision."""
        group = self._state.forest.groups.get(key)
        if group is None:
            return key in self._state.held
        not_ready = group.parent is None and not self._state.forest.ready(group)
        return bool(group.held) or (not_ready and group.pending_total > 0)

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """Record that the scheduler refused the root with this blocker, and schedule its report."""
        self._blockers[key] = blocker
        self._due.schedule_group(key)
        self._due.pods_within(key, self._config.delay_seconds)
        self._count_due()

    def on_root_placed(self, key: GroupKey) -> None:
        """Record that the root is being bound, and schedule its report."""
        self._blockers.pop(key, None)
        self._due.on_root_bound(key)
        self._count_due()

    def last_refusal(self, key: GroupKey) -> str:
        """Return why the root was refused last, as pods show it; empty if that is not known."""
        blocker = self._blockers.get(key)
        return (blocker.nodes or blocker.summary) if blocker is not None else ""

    def details(self) -> Iterator[str]:
        """Yield lines for `/readyz` about roots whose report raises an unexpected error."""
        return self._failures.details()

    async def run(self, fence: Fence) -> None:
        """Write due reports until cancelled, but none without a valid lease."""
        while True:
            await self._due.arrived.wait()
            # A wave of events becomes one round, and not one round each.
            await self._clock.sleep(self._config.delay_seconds)
            while fence.valid() and await self.flush(fence):
                pass
            if not self._open():
                self._due.done()

    async def flush(self, fence: Fence) -> bool:
        """Write due reports, up to the limits of one round. Return True if more are due."""
        await self._freeze.over()
        # Kept for one round only: afterwards, other members or a decision may have come.
        self._causes.clear()
        begun = self._due.take(self._has_turn, _ROUND_ROOTS)
        for key in begun:
            self._reports.put(key, self._report(key))
        writes = await self._collect("groups", self._reports, _ROUND_WRITES)
        more = len(begun) == _ROUND_ROOTS or self._reports.size > 0
        for key in self._due.take_pods(self._pod_reports, self._blockers, _ROUND_ROOTS):
            self._pod_reports.put(key, self._report_pods(key))
        # Groups first: one status describes thousands of pods. But pods get some writes, too, so
        # that a steady flow of groups, even of unchanged ones, does not block them for ever.
        most = min(_ROUND_PODS, len(writes) + 1) if more else _ROUND_PODS
        writes += await self._collect("pods", self._pod_reports, most)
        await self._carry_out(writes, fence)
        self._count_due()
        return more or self._pod_reports.size > 0

    def _has_turn(self, key: GroupKey) -> bool:
        """Return True if no report of the group is under way, and not too many of its namespace."""
        return key not in self._reports and self._reports.count(key[1]) < _ROUND_ROOTS

    async def _collect(self, what: str, reports: FairKeys[_Report], most: int) -> list[_Write]:
        """Return up to `most` writes, after at most _ROUND_STEPS steps of namespaces in turn."""
        # By target, because reports of a root and of one of its groups may both write the group.
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
                # The report is not complete, so the next one must visit all groups.
                self._reported.pop(key, None)
                self._failed(key, key, what, error)
            else:
                if write is not None:
                    found[write.target] = write
            if self._pace.over(key):
                await self._pace.give_way()
                await self._freeze.over()
        return list(found.values())

    def _open(self) -> int:
        """Return the number of reports that are under way."""
        return self._reports.size + self._pod_reports.size

    def _failed(self, key: GroupKey, target: GroupKey, step: str, error: Exception) -> None:
        """Record an unexpected error of one root, and retry its report after a back-off."""
        STATUS_WRITES.labels(plain_kind(key[0]), "failed").inc()
        self._retry_later(key, target, self._failures.failed((key, step), error))

    def _count_due(self) -> None:
        REPORTS_DUE.set(self._open() + self._due.size)

    def _report(self, key: GroupKey) -> _Report:
        """Yield the writes for the tree under `key`, or for one group of a large tree."""
        # A single pod has no group to write. Its condition has a report of its own.
        if key[0] == SINGLE_POD:
            if key not in self._state.singles:
                self._blockers.pop(key, None)
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
        """Return the key under which the group is reported: that of its root in a small tree."""
        group = self._state.forest.groups.get(key)
        if group is None or (top := group.top).size > _SMALL:
            return key
        return top.key

    def _report_group(self, group: Group, blocker: Blocker | None) -> _Write | None:
        # It may have been a root before it got a parent.
        if group.parent is not None:
            self._forget(group.key)
        return self._group_write(group, blocker)

    def _forget(self, key: GroupKey) -> None:
        """Drop the entries of a key that is not, or no longer, a root."""
        self._blockers.pop(key, None)
        self._reported.pop(key, None)
        self._reported_priorities.pop(key, None)

    def _report_priorities(self, top: Group) -> None:
        """Record one event for each change of the priorities that differ in a scheduled tree."""
        # A tree that was never scheduled is Invalid for this, which its condition reports.
        text = priorities_differ(top) if top.initially_scheduled else ""
        before = self._reported_priorities.pop(top.key, "")
        if text:
            self._reported_priorities[top.key] = text
            if text != before:
                self._events.entity(top.key, "Warning", "PrioritiesDiffer", text)

    def _report_tree(self, top: Group) -> _Report:
        self._report_priorities(top)
        blocker = self._cause(top)
        significant = blocker.significant if blocker is not None else ()
        # A large tree that waits for the same reason: only the root and the group at fault have
        # new numbers. Its other groups are reported by themselves when they change.
        if top.size > _SMALL and self._reported.get(top.key) == significant:
            yield self._report_group(top, blocker)
            at = self._state.forest.groups.get(blocker.at) if blocker is not None else None
            if at is not None and at.top is top:
                yield self._report_group(at, blocker)
            return
        if top.size > _SMALL:
            self._reported[top.key] = significant
        else:
            self._reported.pop(top.key, None)
        for group in top.subtree():
            yield self._report_group(group, blocker)

    def _cause(self, top: Group) -> Blocker | None:
        """Return why the root waits, None if it does not; computed once in a round."""
        key = top.key
        if key in self._causes:
            return self._causes[key]
        not_ready = waiting_for(self._state, top, self._gates)
        if not_ready is not None:
            self._forget_refusal(key)
        # Without pending pods, a refusal is outdated: they were bound or deleted since.
        blocker = not_ready or (self._blockers.get(key) if top.pending_total else None)
        self._causes[key] = blocker
        return blocker

    def _forget_refusal(self, key: GroupKey) -> None:
        """Drop the refusal of a root that is not ready, unless its Bindings failed."""
        # Once it is ready, the scheduler decides it again; after failed Bindings, it waits first.
        blocker = self._blockers.get(key)
        if blocker is not None and blocker.kind != "binding":
            del self._blockers[key]

    def _group_write(self, group: Group, blocker: Blocker | None) -> _Write | None:
        """Return the write of the group's status; None if it is current or not due yet."""
        key = group.key
        observed = self._observed.get(key)
        if observed is None or group.spec is None or group.of_others:
            return None
        view = group_view(self._state, group, blocker)
        status, _ = self._status(view, observed)
        if status == (observed.status or {}):
            return None
        now = self._clock.monotonic()
        left = self._numbers.due_in(key, now)
        if left > 0 and only_numbers_differ(status, observed.status or {}):
            self._due.numbers(key, now + left)
            return None
        return _Write(key, group.top.key, lambda: self._write_group(view))

    async def _write_group(self, view: GroupView) -> None:
        await self._freeze.over()
        key = view.group.key
        observed = self._observed.get(key)
        if observed is None:
            return
        # Again with the current object: the watch may have delivered another since the round began.
        status, changed = self._status(view, observed)
        if status == (observed.status or {}):
            return
        ops = PatchBuilder().at_version(observed.metadata.resource_version)
        # As one value, since the status may not exist. The version protects what others wrote.
        ops.add("/status", status)
        response = await self._api.patch(
            GROUP_RESOURCES[key[0]], key[2], ops, key[1], subresource="status"
        )
        # Kept until the watch delivers it: the next write must not conflict with this one.
        observed.status = status
        observed.metadata.resource_version = response["metadata"]["resourceVersion"]
        if view.blocker is None:
            self._numbers.discard(key)
        else:
            self._numbers.wrote(key, key[1], self._clock.monotonic())
        STATUS_WRITES.labels(plain_kind(key[0]), "written").inc()
        if changed and view.reason is not None and view.event:
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
            # Counted even if nothing is written: a later report must not choose other pods.
            with_event = first.admits(view)
            if not self._pod_conditions.is_unchanged(view):
                yield self._pod_write(key, view, with_event=with_event)
                continue
            left = self._pod_conditions.numbers_due_in(view)
            if left is not None and left > 0:
                self._due.pods_within(key, left)
            # New numbers get no event, because they change all the time.
            yield None if left is None or left > 0 else self._pod_write(key, view, with_event=False)

    def _pod_views(self, key: GroupKey) -> Iterator[PodView]:
        group = self._state.forest.groups.get(key)
        if group is not None:
            for kind, held in list(group.held.items()):
                # The API server writes the condition of these pods, and they may be many.
                yield from held_views(held.values() if kind != "gate" else ())
        elif key in self._state.held:
            yield from held_views((self._state.held[key],))
        if group is not None and group.parent is not None:
            return  # waiting pods are reported with the root
        blocker = waiting_for(self._state, group, self._gates) if group is not None else None
        blocker = blocker or self._blockers.get(key)
        if blocker is not None:
            pods = waiting_pods(self._state, key)
            yield from pod_views(self._state, pods, blocker, self._gates)

    def _pod_write(self, root: GroupKey, view: PodView, *, with_event: bool) -> _Write:
        return _Write(
            view.pod.key, root, lambda: self._pod_conditions.write(view, with_event=with_event)
        )

    async def _carry_out(self, writes: list[_Write], fence: Fence) -> None:
        """Send the writes, a few at a time, and none without a valid lease."""
        # One iterator for all workers: a slow request delays only its own worker.
        left = iter(writes)

        async def worker() -> None:
            for write in left:
                # A decision may have begun since the writes were collected.
                await self._freeze.over()
                if not fence.valid():
                    return
                await self._send(write)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._config.writers, len(writes))):
                group.create_task(worker())
        await self._freeze.over()
        self._forget_deleted()

    async def _send(self, write: _Write) -> None:
        kind, now = plain_kind(write.due[0]), self._clock.monotonic()
        left = self._not_before.get(write.target, now) - now
        # Retry-After applies to the object, whatever report wants to write it.
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
                # The object changed. Its watch event should arrive before the next report.
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
            if key[0] in GROUP_RESOURCES:
                self._due.retry_group(key, wait)
        self._due.pods_within(root, wait)

    def _forget_deleted(self) -> None:
        now, asked = self._clock.monotonic(), self._not_before.items()
        self._not_before = {target: at for target, at in asked if at > now}
        # A deleted root never succeeds, and would remain in `/readyz` and the metric.
        state = self._state
        for key, step in self._failures.keys() if self._failures else ():
            if not any(key in each for each in (state.forest.groups, state.singles, state.held)):
                self._failures.succeeded((key, step))
        self._numbers.keep(self._observed)
        self._pod_conditions.forget_deleted()
