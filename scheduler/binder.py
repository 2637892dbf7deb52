"""Sends Bindings: the pods of all decided roots concurrently, with a fixed number of workers.

A gang is in a Reservation before its first Binding is sent, so that the next leader can complete it
(`recover`). When a Binding fails, the pod gives back its place (see `_handle_refusal`) and its root
returns to the queue, where half-bound gangs go first. A gang that has fewer than minCount pods when
its time is over is given up: the members bound by this intent are deleted, those that ran before
stay.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
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
from scheduler.recovery import bound_pods, refresh_pods
from scheduler.reservations import (
    PendingDecision,
    Reservations,
    ReservedPod,
    StoredDecision,
    StoredReservation,
)
from scheduler.retry import RETRIABLE, backoff, retry
from scheduler.volume_binder import VolumeBinder

_log = structlog.get_logger()

_bound, _retried, _refused = (BINDS.labels(result) for result in ("bound", "retried", "refused"))


@dataclass(slots=True)
class Intent:
    """A root being bound, until enough of its pods are bound or it is given up at `deadline`.

    `since` is when it was first stored, `open` how many Bindings have no answer yet, and `reserved`
    are the UIDs of the pods in `reservations`.
    """

    root: GroupKey
    deadline: float
    since: str = ""
    open: int = 0
    failed: bool = False
    bound: list[Pod] = field(default_factory=list)
    reserved: set[str] = field(default_factory=set)
    reservations: list[StoredReservation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _PodBinding:
    intent: Intent
    pod: Pod
    node: str


class Binder:
    """Workers over one queue of Bindings. `on_change` is called when the state may have changed."""

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
        on_change: Callable[[], None] = lambda: None,
        volume_binder: VolumeBinder | None = None,
    ) -> None:
        self._api = api
        self._state = state
        self._queue = queue
        self._events = events
        self._activity = activity
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._on_change = on_change
        self._volume_binder = volume_binder
        self._queued: deque[_PodBinding] = deque()
        self._intents: dict[GroupKey, Intent] = {}
        self._available = asyncio.Semaphore(0)
        self._reservations = Reservations(
            api, clock=clock, activity=activity, saturated=self._saturated
        )

    def submit(self, placement: Placement) -> None:
        """Queue the Bindings of a root, behind those decided before it."""
        intent = self._intents.get(placement.root)
        if intent is None:
            deadline = self._clock.monotonic() + self._timeout_of(placement.root)
            intent = self._intents[placement.root] = Intent(placement.root, deadline)
        names = self._state.nodes.name_of
        bindings = [
            _PodBinding(intent, pod, names(row))
            for pod, row in zip(placement.pods, placement.rows, strict=True)
        ]
        self._add_open(intent, len(bindings))
        if self._needs_reservation(placement, intent):
            self._reservations.add(self._pending_decision(intent, bindings))
        else:
            self._enqueue(bindings)

    async def run(self, fence: Fence) -> None:
        """Send Bindings while the lease is held; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reservations.run(fence))
            for _ in range(self._workers):
                group.create_task(self._work(fence, group))
            group.create_task(self._watch_deadlines(fence))

    def reset(self) -> None:
        """Forget all decisions that are not bound: another process may have led meanwhile."""
        self._queued.clear()
        self._intents.clear()
        self._available = asyncio.Semaphore(0)
        self._activity.binding.clear()
        self._reservations.reset()
        BINDS_OPEN.set(0)
        for pod in [pod for pod in self._state.pods.values() if pod.assumed]:
            self._state.forget(pod.info.uid)

    async def recover(self, fence: Fence) -> None:
        """Complete or give up what earlier leaders began to bind, before anything is decided."""
        for decision in await self._reservations.read(fence):
            intent = self._intent_of(decision)
            if not self._bind_rest(intent, decision):
                await refresh_pods(self._api, self._state, decision)
                self._resume(intent, decision)

    def _timeout_of(self, root: GroupKey) -> float:
        """Seconds that binding the root may take."""
        group = self._state.forest.groups.get(root)
        spec = group.spec if group is not None else None
        return (spec.bind_within if spec is not None else 0.0) or self._timeout

    def _saturated(self) -> bool:
        return len(self._queued) >= 2 * self._workers

    def _needs_reservation(self, placement: Placement, intent: Intent) -> bool:
        """Whether a crash during these Bindings could leave fewer than minCount pods.

        It could not for a single pod, for extras of a running group, and for pods stored already.
        """
        if intent.reserved:
            return any(pod.info.uid not in intent.reserved for pod in placement.pods)
        if placement.root[0] == COMPOSITE_POD_GROUP:
            return len(placement.pods) > 1
        return placement.minimums > 1

    def _pending_decision(self, intent: Intent, bindings: list[_PodBinding]) -> PendingDecision:
        pods = [ReservedPod(binding.pod.info.uid, binding.node) for binding in bindings]
        intent.reserved.update(pod.uid for pod in pods)
        intent.since = intent.since or rfc3339(self._clock.now())

        def stored(reservations: list[StoredReservation]) -> None:
            if self._intents.get(intent.root) is intent:
                intent.reservations += reservations
                self._enqueue(bindings)
            else:
                self._reservations.close(reservations)

        def failed(problem: str) -> None:
            intent.reserved.difference_update(pod.uid for pod in pods)
            for binding in bindings:
                self._reject(binding, problem)
                self._answered(intent)

        attempt = self._queue.failures(intent.root) + 1
        return PendingDecision(intent.root, attempt, intent.since, pods, stored, failed)

    def _enqueue(self, bindings: list[_PodBinding]) -> None:
        self._queued.extend(bindings)
        for _ in bindings:
            self._available.release()

    def _intent_of(self, decision: StoredDecision) -> Intent:
        """Our intent for an earlier leader's decision, with the remaining time."""
        since = datetime.fromisoformat(decision.since) if decision.since else self._clock.now()
        age = max(0.0, (self._clock.now() - since).total_seconds())
        deadline = self._clock.monotonic() + max(0.0, self._timeout_of(decision.root) - age)
        intent = Intent(
            decision.root, deadline, decision.since, reservations=list(decision.reservations)
        )
        intent.reserved.update(pod.uid for pod in decision.pods)
        return intent

    def _bind_rest(self, intent: Intent, decision: StoredDecision) -> bool:
        """Assume the decided nodes for all pods still unbound, or for none; whether it did.

        It does if all of them still fit and the group is then complete.
        """
        bindings: list[_PodBinding] = []
        for reserved in decision.pods:
            pod = self._state.pods.get(reserved.uid)
            if pod is None or not pod.waiting:
                continue
            row = self._state.nodes.row_of.get(reserved.node)
            if row is None or not self._state.framework.slots_in(pod.shape, np.array([row])).any():
                break
            self._state.assume([pod], [row])
            bindings.append(_PodBinding(intent, pod, reserved.node))
        else:
            group = self._state.forest.groups.get(intent.root)
            if bindings and group is not None and group.standing and group.parent is None:
                intent.bound = bound_pods(self._state, decision)
                self._intents[intent.root] = intent
                self._add_open(intent, len(bindings))
                self._enqueue(bindings)
                RESUMED.labels("finished").inc()
                return True
        for binding in bindings:
            self._state.forget(binding.pod.info.uid)
        return False

    def _resume(self, intent: Intent, decision: StoredDecision) -> None:
        """Keep the intent of a half-bound group, which the queue completes first; drop others."""
        intent.bound = bound_pods(self._state, decision)
        if self._not_half_bound(intent):
            RESUMED.labels("given up").inc()
            self._reservations.close(intent.reservations)
        else:
            RESUMED.labels("continued").inc()
            self._intents[intent.root] = intent

    async def _work(self, fence: Fence, group: asyncio.TaskGroup) -> None:
        while True:
            await self._available.acquire()
            binding = self._queued.popleft()
            if self._volume_binder is not None and self._volume_binder.unbound(binding.pod):
                # Provisioning takes time, in which this worker can bind others.
                group.create_task(self._bind_volumes(self._volume_binder, binding, fence))
                continue
            await self._bind(binding, fence)
            self._answered(binding.intent)

    async def _bind_volumes(
        self, volume_binder: VolumeBinder, binding: _PodBinding, fence: Fence
    ) -> None:
        problem = await volume_binder.bind_volumes(
            binding.pod, binding.node, binding.intent.deadline, fence
        )
        if not problem:
            self._enqueue([binding])
            return
        if fence.valid() and self._still_valid(binding):
            self._reject(binding, problem)
        self._answered(binding.intent)

    async def _bind(self, binding: _PodBinding, fence: Fence) -> None:
        """Bind one pod, and retry while only the connection is at fault."""
        pod, waits = binding.pod, backoff()
        while self._still_valid(binding):
            if not fence.valid():
                return  # the lease may be lost: the next leader decides again
            try:
                info = pod.info
                await self._api.bind(info.namespace, info.name, info.uid, binding.node)
            except RETRIABLE as error:
                _retried.inc()
                if self._clock.monotonic() >= binding.intent.deadline:
                    self._reject(binding, str(error))
                    return
                await self._clock.sleep(waits.next())
            except KubeError as error:
                await self._handle_refusal(binding, error)
                return
            else:
                _bound.inc()
                binding.intent.bound.append(pod)
                return

    def _still_valid(self, binding: _PodBinding) -> bool:
        """Whether the pod still exists, is not bound, and its node exists."""
        pod = binding.pod
        if self._state.pods.get(pod.info.uid) is not pod or not pod.assumed:
            return False
        if pod.row < 0 or pod.info.terminating:
            self._reject(binding, f"node {binding.node} is gone or the pod is being deleted")
            return False
        return True

    async def _handle_refusal(self, binding: _PodBinding, error: KubeError) -> None:
        """The API server refused: accept a Binding that exists, else give the place back."""
        pod = binding.pod.info
        _refused.inc()
        if not isinstance(error, Conflict | NotFound):
            self._reject(binding, str(error))
            return
        try:
            obj = await self._api.get(PODS, pod.name, pod.namespace)
        except NotFound:
            self._state.remove_pod(pod.uid)
            self._on_change()
            return
        except KubeError as unreadable:
            self._reject(binding, str(unreadable))
            return
        if obj["metadata"].get("uid") != pod.uid:
            self._state.remove_pod(pod.uid)
        elif node := (obj.get("spec") or {}).get("nodeName"):
            # Bound, by a request whose answer was lost or by others; its watch event will follow.
            if node == binding.node:
                binding.intent.bound.append(binding.pod)
        else:
            self._reject(binding, str(error))
        self._on_change()

    def _reject(self, binding: _PodBinding, problem: str) -> None:
        info = binding.pod.info
        _log.warning(
            "binding failed",
            namespace=info.namespace,
            pod=info.name,
            node=binding.node,
            problem=problem,
        )
        binding.intent.failed = True
        self._state.forget(info.uid)
        self._on_change()

    def _add_open(self, intent: Intent, count: int) -> None:
        intent.open += count
        BINDS_OPEN.inc(count)
        if intent.open:
            self._activity.binding.add(intent.root)
        else:
            self._activity.binding.discard(intent.root)

    def _answered(self, intent: Intent) -> None:
        self._add_open(intent, -1)
        if intent.open:
            return
        if not intent.failed:
            self._queue.succeed(intent.root)
            self._complete(intent)
            return
        intent.failed = False
        self._queue.fail(intent.root, self._clock.monotonic())
        self._on_change()

    def _complete(self, intent: Intent) -> None:
        """The root needs no more Bindings."""
        if self._intents.get(intent.root) is intent:
            del self._intents[intent.root]
        self._reservations.close(intent.reservations)
        intent.reservations = []

    async def _watch_deadlines(self, fence: Fence) -> None:
        while True:
            await self._clock.sleep(1.0)
            now = self._clock.monotonic()
            for intent in list(self._intents.values()):
                if intent.open:
                    continue
                if self._not_half_bound(intent):
                    self._complete(intent)
                elif now >= intent.deadline:
                    await self._give_up(intent, fence)

    def _not_half_bound(self, intent: Intent) -> bool:
        """Whether the group has its minCount bound, or no pod at all."""
        group = self._state.forest.groups.get(intent.root)
        return group is None or not group.incomplete

    async def _give_up(self, intent: Intent, fence: Fence) -> None:
        """Delete what was bound for a gang that could not be completed in time.

        The gang is not decided until that is done: its members would still count as bound.
        """
        GANGS_GIVEN_UP.inc()
        seconds = self._timeout_of(intent.root)
        message = (
            f"{len(intent.bound)} pods bound, the rest could not be bound within {seconds:g} s"
        )
        self._events.entity(intent.root, "Warning", "GangBindFailed", message)
        self._queue.block(intent.root)
        try:
            for pod in intent.bound:
                if not await self._delete(pod, fence):
                    return  # the next leader finds the Reservation, and that its time is over
            self._complete(intent)
        finally:
            self._queue.unblock(intent.root)
            self._on_change()

    async def _delete(self, pod: Pod, fence: Fence) -> bool:
        """Delete a pod; False if the lease may be lost before it is deleted."""
        info = pod.info

        async def delete() -> None:
            with suppress(NotFound, Conflict):  # gone, or another pod has its name
                await self._api.delete(PODS, info.name, info.namespace, uid=info.uid)

        try:
            return await retry(delete, fence, self._clock)
        except KubeError as error:
            _log.error("pod not deleted", namespace=info.namespace, pod=info.name,
                       problem=str(error))  # fmt: skip
            return True
