"""Kubernetes events: created once, counted when repeated, sent in the background.

An event's name is a hash of its content, so a repetition finds the first event even after a restart
of the process. Events are best effort: they are dropped and counted if the API server is
unreachable or too many are pending, and nothing ever waits for them.

Namespaces alternate, each with a few lanes: neither a flood of events in one of them nor a webhook
that is slow to reject them delays the events of others. All events about an object are in one lane,
and are sent in order.
"""

import asyncio
import hashlib
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

import structlog

from kube.base.clock import Clock, SystemClock, rfc3339
from kube.base.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from kube.base.metrics import EVENTS_DROPPED
from kube.client.client import Client
from kube.client.meta import Meta
from kube.client.patch import PatchBuilder
from kube.client.resources import EVENTS, Resource
from kube.concurrency.backoff import Backoff

EventType = Literal["Normal", "Warning"]

_Lane = tuple[str, int]
"""A namespace, and the number of one of its lanes."""

_ATTEMPTS = 5
"""Attempts to send an event. After them it is dropped."""
_LANES = 4
"""Events of one namespace that are sent at a time."""
SENDERS = 4 * _LANES
"""Events that are sent at a time."""
_REMEMBERED = 4096
"""Events whose counts are kept to join repetitions. Beyond it, the oldest count as new again."""

_LONGEST_MESSAGE = 1024
"""Characters of an event's message, as the API server allows. The rest is cut off."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, resource: Resource, meta: Meta) -> Self:
        """Return the reference to an object with decoded metadata."""
        return cls(resource.api_version, resource.kind, meta.namespace, meta.name, meta.uid)


@dataclass(frozen=True, slots=True)
class _EventKey:
    regarding: ObjectReference
    type: EventType
    reason: str
    message: str
    component: str

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or "default"

    @property
    def lane(self) -> _Lane:
        ref = self.regarding
        return self.namespace, zlib.crc32((ref.uid or ref.name).encode()) % _LANES

    @property
    def name(self) -> str:
        ref = self.regarding
        parts = (self.component, ref.kind, ref.uid, self.type, self.reason, self.message)
        text = "\0".join(parts)
        # A repetition has the same name, even in another process, so creating it fails and its
        # count grows.
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{ref.name[:230].rstrip('.-')}.{digest}"


@dataclass(slots=True)
class _Occurrences:
    count: int
    first: datetime
    last: datetime


class Recorder:
    """A writer of events in the name of a component; `run` must be running for them to be sent."""

    def __init__(
        self,
        client: Client,
        component: str,
        clock: Clock | None = None,
        *,
        capacity: int = 1000,
        senders: int = SENDERS,
        attempts: int = _ATTEMPTS,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Limit the different events that wait by `capacity`, and those being sent by `senders`.

        At the limit, the lane with the most events drops one. An event that cannot be sent in
        `attempts` attempts is dropped, too. `pause` returns the seconds to wait before each.
        """
        self._client = client
        self._component = component
        self._clock = clock or SystemClock()
        self._capacity = capacity
        self._senders = senders
        self._attempts = attempts
        self._pause = pause
        self._pending: dict[_Lane, dict[_EventKey, _Occurrences]] = {}
        self._size = 0
        # Lanes with pending events, except those that a sender is busy with.
        self._turns: deque[_Lane] = deque()
        self._busy: set[_Lane] = set()
        # By the name of the event: complete events would take ten times the memory.
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._waiting = asyncio.Semaphore(0)
        self._idle = asyncio.Event()
        self._idle.set()

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None:
        """Record an event about an object. Never block and never fail.

        `component` reports it; if empty, the Recorder's own.
        """
        reporter = component or self._component
        event_key = _EventKey(regarding, event_type, reason, message[:_LONGEST_MESSAGE], reporter)
        now = self._clock.now()
        lane = event_key.lane
        pending = self._pending.get(lane, {})
        occurrences = pending.get(event_key)
        if occurrences is not None:
            occurrences.count += 1
            occurrences.last = now
            return
        if self._size >= self._capacity and not self._drop_event(len(pending)):
            return
        if lane not in self._pending:
            self._pending[lane] = {}
            if lane not in self._busy:
                self._add_turn(lane)
        self._pending[lane][event_key] = _Occurrences(1, now, now)
        self._size += 1
        self._idle.clear()

    async def run(self) -> None:
        """Send recorded events, in order within each lane, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._senders):
                group.create_task(self._send_in_turn())

    def _drop_event(self, own: int) -> bool:
        """Drop an event; return whether it was another lane's, with more than `own`."""
        EVENTS_DROPPED.labels("queue full").inc()
        most = max(self._pending.values(), key=len)
        if len(most) <= own + 1:
            return False
        most.popitem()
        self._size -= 1
        return True

    def _add_turn(self, lane: _Lane) -> None:
        self._turns.append(lane)
        self._waiting.release()

    async def _send_in_turn(self) -> None:
        while True:
            await self._waiting.acquire()
            if (seconds := self._pause()) > 0:
                await self._clock.sleep(seconds)
            lane = self._turns.popleft()
            # Other senders leave this lane alone meanwhile, which keeps its events in order.
            self._busy.add(lane)
            pending = self._pending[lane]
            event_key = next(iter(pending))
            occurrences = pending.pop(event_key)
            self._size -= 1
            if not pending:
                del self._pending[lane]
            await self._deliver(event_key, occurrences)
            self._busy.discard(lane)
            if lane in self._pending:
                self._add_turn(lane)
            elif not self._pending and not self._busy:
                self._idle.set()

    async def drained(self) -> None:
        """Wait until all events recorded so far are sent or dropped."""
        await self._idle.wait()

    async def _deliver(self, event_key: _EventKey, occurrences: _Occurrences) -> None:
        backoff = Backoff(first=0.5, limit=10.0)
        for _ in range(self._attempts):
            try:
                await self._send(event_key, occurrences)
            except (Unreachable, ServerError, TooManyRequests) as error:
                await self._clock.sleep(backoff.next(error))
            except KubeError as error:
                EVENTS_DROPPED.labels("refused").inc()
                _log.warning("failed to send an event", reason=event_key.reason, error=str(error))
                return
            except Exception:  # noqa: BLE001 - logged: an event is never worth a process
                EVENTS_DROPPED.labels("error").inc()
                _log.exception("failed to send an event", reason=event_key.reason)
                return
            else:
                return
        EVENTS_DROPPED.labels("unreachable").inc()

    async def _send(self, event_key: _EventKey, occurrences: _Occurrences) -> None:
        """Create the event, or raise the count of the existing one."""
        name = event_key.name
        before = self._counts.get(name)
        if before is None:
            before = await self._create(event_key, occurrences)
        if before is None:
            self._remember(name, occurrences.count)
            return
        try:
            await self._raise_count(event_key, before + occurrences.count, occurrences.last)
        except NotFound:  # API servers keep events for an hour only
            self._counts.pop(name, None)
            await self._client.create(EVENTS, self._render(event_key, occurrences))
            self._remember(name, occurrences.count)
        else:
            self._remember(name, before + occurrences.count)

    async def _create(self, event_key: _EventKey, occurrences: _Occurrences) -> int | None:
        """Create the event; return None, or the count of the existing one."""
        try:
            await self._client.create(EVENTS, self._render(event_key, occurrences))
        except AlreadyExists:
            name = event_key.name
            found = await self._client.get(EVENTS, name, event_key.namespace)
            return int(found.get("count") or 1)
        return None

    async def _raise_count(self, event_key: _EventKey, count: int, last: datetime) -> None:
        ops = PatchBuilder().add("/count", count).add("/lastTimestamp", rfc3339(last))
        name = event_key.name
        await self._client.patch(EVENTS, name, ops, event_key.namespace)

    def _remember(self, name: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)

    def _render(self, event_key: _EventKey, occurrences: _Occurrences) -> dict[str, Any]:
        ref = event_key.regarding
        involved = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name}
        if ref.namespace:
            involved["namespace"] = ref.namespace
        if ref.uid:
            involved["uid"] = ref.uid
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event_key.name, "namespace": event_key.namespace},
            "involvedObject": involved,
            "type": event_key.type,
            "reason": event_key.reason,
            "message": event_key.message,
            "source": {"component": event_key.component},
            "reportingComponent": event_key.component,
            "firstTimestamp": rfc3339(occurrences.first),
            "lastTimestamp": rfc3339(occurrences.last),
            "count": occurrences.count,
        }
