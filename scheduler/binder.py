"""Sends Bindings: all pods of all decided roots side by side, with a fixed number of workers.

A decision that must not be left half done is in a Reservation before its first Binding is sent, so
that whoever leads next can end it (`recover`). A binding that fails is settled pod by pod (see
`_settle`); what is left of its gang goes back to the queue, which completes half-running gangs
first. A gang that is still short of its floor when its time is over is taken back: the members
bound for it are deleted, those that ran before stay.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import structlog

from kube.clock import Clock, rfc3339
from kube.election import Fence
from kube.errors import Conflict, KubeError, NotFound
from kube.resources import PODS
from scheduler.activity import Activity
from scheduler.api_protocols import BinderApi
from scheduler.core.forest import Pod
from scheduler.core.model import COMPOSITE_POD_GROUP, GroupKey
from scheduler.core.place import Placement
from scheduler.core.state import State
from scheduler.group_events import GroupEvents
from scheduler.metrics import BINDS, BINDS_OPEN, GANGS_GIVEN_UP, RESUMED
from scheduler.queue import Queue
from scheduler.reservations import Entry, Open, Record, Reservations, Reserved
from scheduler.retry import RETRIABLE, backoff, retry
from scheduler.volume_binder import Claims

_log = structlog.get_logger()

_bound, _retried, _refused = (BINDS.labels(result) for result in ("bound", "retried", "refused"))


@dataclass(slots=True)
class Intent:
    """A root being bound. It lives until its group stands or is taken back at `deadline`.

    `since` is when it was written down first; `reserved` are the UIDs that the Reservations in
    `records` name.
    """

    root: GroupKey
    deadline: float
    since: str = ""
    open: int = 0
    failed: bool = False
    bound: list[Pod] = field(default_factory=list)
    reserved: set[str] = field(default_factory=set)
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Order:
    intent: Intent
    pod: Pod
    node: str


class Binder:
    """Workers over one queue of Bindings. `changed` is called when a decision did not hold."""

    def __init__(
        self,
        api: BinderApi,
        state: State,
        queue: Queue,
        events: GroupEvents,
        activity: Activity,
        *,
        clock: Clock,
        workers: int = 160,
        timeout: float = 120.0,
        changed: Callable[[], None] = lambda: None,
        claims: Claims | None = None,
    ) -> None:
        self._api = api
        self._state = state
        self._queue = queue
        self._events = events
        self._activity = activity
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._changed = changed
        self._claims = claims
        self._orders: deque[_Order] = deque()
        self._intents: dict[GroupKey, Intent] = {}
        self._waiting = asyncio.Semaphore(0)
        self._reservations = Reservations(
            api, clock=clock, activity=activity, saturated=self._saturated
        )

    def submit(self, placement: Placement) -> None:
        """Queue the bindings of a root, behind those decided before it."""
        intent = self._intents.get(placement.root)
        if intent is None:
            deadline = self._clock.monotonic() + self._time_for(placement.root)
            intent = self._intents[placement.root] = Intent(placement.root, deadline)
        names = self._state.nodes.name_of
        orders = [
            _Order(intent, pod, names(row))
            for pod, row in zip(placement.pods, placement.rows, strict=True)
        ]
        self._add_open(intent, len(orders))
        if self._can_be_half(placement, intent):
            self._reservations.add(self._entry(intent, orders))
        else:
            self._release(orders)

    async def run(self, fence: Fence) -> None:
        """Send bindings while the lease holds; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reservations.run(fence))
            for _ in range(self._workers):
                group.create_task(self._work(fence, group))
            group.create_task(self._watch_deadlines(fence))

    def abandon(self) -> None:
        """Forget every decision that is not bound: another process may decide now."""
        self._orders.clear()
        self._intents.clear()
        self._waiting = asyncio.Semaphore(0)
        self._activity.binding.clear()
        self._reservations.begin()
        BINDS_OPEN.set(0)
        for pod in [pod for pod in self._state.pods.values() if pod.assumed]:
            self._state.forget(pod.info.uid)

    async def recover(self, fence: Fence) -> None:
        """Finish, or give up, what earlier leaders began to bind; before anything is decided."""
        for left in await self._reservations.read(fence):
            intent = self._intent_of(left)
            if not self._finish(intent, left):
                await self._learn(left)
                self._continue(intent, left)

    def _time_for(self, root: GroupKey) -> float:
        """Seconds that the bindings of a root may take."""
        group = self._state.forest.groups.get(root)
        spec = group.spec if group is not None else None
        return (spec.bind_within if spec is not None else 0.0) or self._timeout

    def _saturated(self) -> bool:
        return len(self._orders) >= 2 * self._workers

    def _can_be_half(self, placement: Placement, intent: Intent) -> bool:
        """Whether a crash among these bindings could leave less than a floor.

        One pod alone and extras of a group that stands cannot, nor what is written down already.
        """
        if intent.reserved:
            return any(pod.info.uid not in intent.reserved for pod in placement.pods)
        if placement.root[0] == COMPOSITE_POD_GROUP:
            return len(placement.pods) > 1
        return placement.minimums > 1

    def _entry(self, intent: Intent, orders: list[_Order]) -> Entry:
        pods = [Reserved(order.pod.info.uid, order.node) for order in orders]
        intent.reserved.update(pod.uid for pod in pods)
        intent.since = intent.since or rfc3339(self._clock.now())

        def stored(records: list[Record]) -> None:
            if self._intents.get(intent.root) is intent:
                intent.records += records
                self._release(orders)
            else:
                self._reservations.close(records)

        def failed(problem: str) -> None:
            intent.reserved.difference_update(pod.uid for pod in pods)
            for order in orders:
                self._reject(order, problem)
                self._close(intent)

        attempt = self._queue.failures(intent.root) + 1
        return Entry(intent.root, attempt, intent.since, pods, stored, failed)

    def _release(self, orders: list[_Order]) -> None:
        self._orders.extend(orders)
        for _ in orders:
            self._waiting.release()

    def _intent_of(self, left: Open) -> Intent:
        """An earlier leader's decision as ours, with what remains of its time."""
        since = datetime.fromisoformat(left.since) if left.since else self._clock.now()
        age = max(0.0, (self._clock.now() - since).total_seconds())
        deadline = self._clock.monotonic() + max(0.0, self._time_for(left.root) - age)
        intent = Intent(left.root, deadline, left.since, records=list(left.records))
        intent.reserved.update(pod.uid for pod in left.pods)
        return intent

    def _finish(self, intent: Intent, left: Open) -> bool:
        """Take the places that were decided, if that makes the group whole; else none."""
        orders: list[_Order] = []
        for reserved in left.pods:
            pod = self._state.pods.get(reserved.uid)
            if pod is None or not pod.waiting:
                continue
            row = self._state.nodes.row_of.get(reserved.node)
            if row is None or not pod.shape.slots_in(self._state.nodes, np.array([row])).any():
                break
            self._state.assume([pod], [row])
            orders.append(_Order(intent, pod, reserved.node))
        else:
            group = self._state.forest.groups.get(intent.root)
            if orders and group is not None and group.standing and group.parent is None:
                intent.bound = self._bound(left)
                self._intents[intent.root] = intent
                self._add_open(intent, len(orders))
                self._release(orders)
                RESUMED.labels("finished").inc()
                return True
        for order in orders:
            self._state.forget(order.pod.info.uid)
        return False

    async def _learn(self, left: Open) -> None:
        """Our cache may be behind the last leader's bindings: ask, before they are doubted."""
        for reserved in left.pods:
            pod = self._state.pods.get(reserved.uid)
            if pod is None or not pod.waiting:
                continue
            try:
                there = await self._api.get(PODS, pod.info.name, pod.info.namespace)
            except KubeError as error:
                _log.warning("pod not read", pod=pod.info.name, problem=str(error))
                continue
            node = (there.get("spec") or {}).get("nodeName")
            if node and there["metadata"].get("uid") == reserved.uid:
                self._state.set_pod(replace(pod.info, node=node))

    def _continue(self, intent: Intent, left: Open) -> None:
        """What is half bound is completed first, within its time; what is not is decided anew."""
        intent.bound = self._bound(left)
        if self._stands(intent):
            RESUMED.labels("given up").inc()
            self._reservations.close(intent.records)
        else:
            RESUMED.labels("continued").inc()
            self._intents[intent.root] = intent

    def _bound(self, left: Open) -> list[Pod]:
        pods = (self._state.pods.get(reserved.uid) for reserved in left.pods)
        return [pod for pod in pods if pod is not None and pod.info.node]

    async def _work(self, fence: Fence, group: asyncio.TaskGroup) -> None:
        while True:
            await self._waiting.acquire()
            order = self._orders.popleft()
            if self._claims is not None and self._claims.unbound(order.pod):
                # Making volumes takes its time, in which others can be bound.
                group.create_task(self._bind_claims(self._claims, order, fence))
                continue
            await self._bind(order, fence)
            self._close(order.intent)

    async def _bind_claims(self, claims: Claims, order: _Order, fence: Fence) -> None:
        problem = await claims.settle(order.pod, order.node, order.intent.deadline, fence)
        if not problem:
            self._release([order])
            return
        if fence.valid() and self._wanted(order):
            self._reject(order, problem)
        self._close(order.intent)

    async def _bind(self, order: _Order, fence: Fence) -> None:
        """Bind one pod, trying again while only the connection is at fault."""
        pod, waits = order.pod, backoff()
        while self._wanted(order):
            if not fence.valid():
                return  # the lease may be another's: whoever leads next decides anew
            try:
                info = pod.info
                await self._api.bind(info.namespace, info.name, info.uid, order.node)
            except RETRIABLE as error:
                _retried.inc()
                if self._clock.monotonic() >= order.intent.deadline:
                    self._reject(order, str(error))
                    return
                await self._clock.sleep(waits.next())
            except KubeError as error:
                await self._settle(order, error)
                return
            else:
                _bound.inc()
                order.intent.bound.append(pod)
                return

    def _wanted(self, order: _Order) -> bool:
        """Whether the decision still stands: the pod is there, unbound, and so is its node."""
        pod = order.pod
        if self._state.pods.get(pod.info.uid) is not pod or not pod.assumed:
            return False
        if pod.row < 0 or pod.info.terminating:
            self._reject(order, f"node {order.node} or the pod is going")
            return False
        return True

    async def _settle(self, order: _Order, error: KubeError) -> None:
        """The API server refused: accept what is there, or give the place back."""
        pod = order.pod.info
        _refused.inc()
        if not isinstance(error, Conflict | NotFound):
            self._reject(order, str(error))
            return
        try:
            there = await self._api.get(PODS, pod.name, pod.namespace)
        except NotFound:
            self._state.remove_pod(pod.uid)
            self._changed()
            return
        except KubeError as unreadable:
            self._reject(order, str(unreadable))
            return
        if there["metadata"].get("uid") != pod.uid:
            self._state.remove_pod(pod.uid)
        elif node := (there.get("spec") or {}).get("nodeName"):
            # Bound, by an answer that was lost or by somebody else; its watch event will say so.
            if node == order.node:
                order.intent.bound.append(order.pod)
        else:
            self._reject(order, str(error))
        self._changed()

    def _reject(self, order: _Order, problem: str) -> None:
        info = order.pod.info
        _log.warning(
            "binding failed",
            namespace=info.namespace,
            pod=info.name,
            node=order.node,
            problem=problem,
        )
        order.intent.failed = True
        self._state.forget(info.uid)
        self._changed()

    def _add_open(self, intent: Intent, count: int) -> None:
        intent.open += count
        BINDS_OPEN.inc(count)
        if intent.open:
            self._activity.binding.add(intent.root)
        else:
            self._activity.binding.discard(intent.root)

    def _close(self, intent: Intent) -> None:
        self._add_open(intent, -1)
        if intent.open:
            return
        if not intent.failed:
            self._queue.succeed(intent.root)
            self._end(intent)
            return
        intent.failed = False
        self._queue.fail(intent.root, self._clock.monotonic())
        self._changed()

    def _end(self, intent: Intent) -> None:
        """Nothing of it is left to do."""
        if self._intents.get(intent.root) is intent:
            del self._intents[intent.root]
        self._reservations.close(intent.records)
        intent.records = []

    async def _watch_deadlines(self, fence: Fence) -> None:
        while True:
            await self._clock.sleep(1.0)
            now = self._clock.monotonic()
            for intent in list(self._intents.values()):
                if intent.open:
                    continue
                if self._stands(intent):
                    self._end(intent)
                elif now >= intent.deadline:
                    await self._take_back(intent, fence)

    def _stands(self, intent: Intent) -> bool:
        """Whether nothing is half done: the group has its floor, or nothing of it runs."""
        group = self._state.forest.groups.get(intent.root)
        return group is None or not group.incomplete

    async def _take_back(self, intent: Intent, fence: Fence) -> None:
        """Delete what was bound for a gang that did not become whole in time.

        Nothing is decided for it meanwhile: a member that is about to go counts for nothing.
        """
        GANGS_GIVEN_UP.inc()
        seconds = self._time_for(intent.root)
        message = f"{len(intent.bound)} pods bound, the rest could not be in {seconds:g} s"
        self._events.entity(intent.root, "Warning", "GangBindFailed", message)
        self._queue.block(intent.root)
        try:
            for pod in intent.bound:
                if not await self._delete(pod, fence):
                    return  # whoever leads next finds the Reservation, and its time over
            self._end(intent)
        finally:
            self._queue.unblock(intent.root)
            self._changed()

    async def _delete(self, pod: Pod, fence: Fence) -> bool:
        """Delete a pod, trying again while only the connection is at fault; False if we may not."""
        info = pod.info

        async def delete() -> None:
            with suppress(NotFound, Conflict):  # gone, or a namesake: nothing of ours is there
                await self._api.delete(PODS, info.name, info.namespace, uid=info.uid)

        try:
            return await retry(delete, fence, self._clock)
        except KubeError as error:
            _log.error("pod not deleted", namespace=info.namespace, pod=info.name,
                       problem=str(error))  # fmt: skip
            return True
