"""Sends Bindings: all pods of all decided roots side by side, with a fixed number of workers.

A binding that fails is settled pod by pod (see `_settle`); what is left of its gang goes back to
the queue, which completes half-running gangs first. A gang that is still short of its floor when
its time is over is taken back: the members bound for it are deleted, those that ran before stay.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from kube.backoff import Backoff
from kube.clock import Clock
from kube.election import Fence
from kube.errors import (
    ConfigError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kube.resources import PODS
from scheduler.core.forest import Pod
from scheduler.core.placement import Placement
from scheduler.core.state import State
from scheduler.core.values import GroupKey
from scheduler.metrics import BINDS, BINDS_OPEN, GANGS_GIVEN_UP
from scheduler.ports import Binds
from scheduler.queue import Queue

_log = structlog.get_logger()

_LATER = (Unreachable, ServerError, TooManyRequests, Unauthorized, ConfigError)
"""Errors of the connection or the server, not of this binding."""


@dataclass(slots=True)
class Intent:
    """A root being bound. It lives until its group stands or is taken back at `deadline`."""

    root: GroupKey
    deadline: float
    open: int = 0
    failed: bool = False
    bound: list[Pod] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Order:
    intent: Intent
    pod: Pod
    node: str


class Binder:
    """Workers over one queue of bindings. `given_up` is called with a root that is taken back."""

    def __init__(
        self,
        api: Binds,
        state: State,
        queue: Queue,
        *,
        clock: Clock,
        workers: int = 36,
        timeout: float = 120.0,
        changed: Callable[[], None] = lambda: None,
        given_up: Callable[[GroupKey, str], None] = lambda _key, _message: None,
    ) -> None:
        self._api = api
        self._state = state
        self._queue = queue
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._changed = changed
        self._given_up = given_up
        self._orders: deque[_Order] = deque()
        self._intents: dict[GroupKey, Intent] = {}
        self._waiting = asyncio.Semaphore(0)

    @property
    def busy(self) -> bool:
        """Whether a binding is decided and not answered."""
        return any(intent.open for intent in self._intents.values())

    def submit(self, placement: Placement) -> None:
        """Queue the bindings of a root, behind those decided before it."""
        intent = self._intents.get(placement.root)
        if intent is None:
            deadline = self._clock.monotonic() + self._timeout
            intent = self._intents[placement.root] = Intent(placement.root, deadline)
        intent.open += len(placement.pods)
        BINDS_OPEN.inc(len(placement.pods))
        for pod, row in zip(placement.pods, placement.rows, strict=True):
            self._orders.append(_Order(intent, pod, self._state.columns.name_of(row)))
            self._waiting.release()

    async def run(self, fence: Fence) -> None:
        """Send bindings while the lease holds; until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work(fence))
            group.create_task(self._watch_deadlines(fence))

    def abandon(self) -> None:
        """Forget every decision that is not bound: another process may decide now."""
        self._orders.clear()
        self._intents.clear()
        self._waiting = asyncio.Semaphore(0)
        BINDS_OPEN.set(0)
        for pod in [pod for pod in self._state.pods.values() if pod.assumed]:
            self._state.forget(pod.info.uid)

    async def _work(self, fence: Fence) -> None:
        while True:
            await self._waiting.acquire()
            order = self._orders.popleft()
            await self._bind(order, fence)
            self._close(order.intent)

    async def _bind(self, order: _Order, fence: Fence) -> None:
        """Bind one pod, trying again while only the connection is at fault."""
        pod, backoff = order.pod, Backoff(first=0.1, limit=5.0)
        while self._wanted(order):
            if not fence.valid():
                return  # the lease may be another's: whoever leads next decides anew
            try:
                info = pod.info
                await self._api.bind(info.namespace, info.name, info.uid, order.node)
            except _LATER as error:
                BINDS.labels("retried").inc()
                if self._clock.monotonic() >= order.intent.deadline:
                    self._reject(order, str(error))
                    return
                await self._clock.sleep(backoff.next())
            except KubeError as error:
                await self._settle(order, error)
                return
            else:
                BINDS.labels("bound").inc()
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
        BINDS.labels("refused").inc()
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

    def _close(self, intent: Intent) -> None:
        intent.open -= 1
        BINDS_OPEN.dec()
        if intent.open:
            return
        if not intent.failed:
            self._queue.succeed(intent.root)
            self._intents.pop(intent.root, None)
            return
        intent.failed = False
        self._queue.fail(intent.root, self._clock.monotonic())
        self._changed()

    async def _watch_deadlines(self, fence: Fence) -> None:
        while True:
            await self._clock.sleep(1.0)
            now = self._clock.monotonic()
            for intent in list(self._intents.values()):
                if not intent.open and (self._stands(intent) or now >= intent.deadline):
                    del self._intents[intent.root]
                    if not self._stands(intent):
                        await self._take_back(intent, fence)

    def _stands(self, intent: Intent) -> bool:
        """Whether nothing is half done: the group has its floor, or nothing of it runs."""
        group = self._state.forest.groups.get(intent.root)
        return group is None or not group.incomplete

    async def _take_back(self, intent: Intent, fence: Fence) -> None:
        """Delete what was bound for a gang that did not become whole in time."""
        GANGS_GIVEN_UP.inc()
        message = f"{len(intent.bound)} pods bound, the rest could not be in {self._timeout:g} s"
        self._given_up(intent.root, message)
        for pod in intent.bound:
            info = pod.info
            if not fence.valid():
                return
            try:
                await self._api.delete(PODS, info.name, info.namespace, uid=info.uid)
            except (NotFound, Conflict):
                continue  # gone, or a namesake: nothing of ours is left there
            except KubeError as error:
                _log.error("pod not deleted", namespace=info.namespace, pod=info.name,
                           problem=str(error))  # fmt: skip
