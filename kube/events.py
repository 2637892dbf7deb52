"""Kubernetes events: created once, counted when repeated, sent in the background.

An event's name is a hash of its content, so a repetition finds the first event even after a restart
of the process. Events are best effort: when the API server is unreachable or too many are pending
they are dropped and counted, and nothing ever waits for them.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

import structlog

from kube.backoff import Backoff
from kube.client import Client
from kube.clock import Clock, SystemClock, rfc3339
from kube.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from kube.meta import Json, Meta
from kube.metrics import EVENTS_DROPPED
from kube.patch import PatchBuilder
from kube.resources import EVENTS, Resource

EventType = Literal["Normal", "Warning"]

_ATTEMPTS = 5
_REMEMBERED = 4096
_LONGEST_MESSAGE = 1024

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
        """From decoded metadata."""
        return cls(resource.api_version, resource.kind, meta.namespace, meta.name, meta.uid)

    @classmethod
    def of_object(cls, obj: Json) -> Self:
        """From a whole object as a dict."""
        meta = obj["metadata"]
        return cls(
            obj["apiVersion"],
            obj["kind"],
            meta.get("namespace", ""),
            meta["name"],
            meta.get("uid", ""),
        )


@dataclass(frozen=True, slots=True)
class _EventKey:
    regarding: ObjectReference
    type: EventType
    reason: str
    message: str

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or "default"

    def name(self, component: str) -> str:
        ref = self.regarding
        parts = (component, ref.kind, ref.uid, self.type, self.reason, self.message)
        text = "\0".join(parts)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{ref.name[:230].rstrip('.-')}.{digest}"


@dataclass(slots=True)
class _Occurrences:
    count: int
    first: datetime
    last: datetime


class Recorder:
    """Writes events in the name of one component; `run` must be running for them to be sent."""

    def __init__(
        self,
        client: Client,
        component: str,
        clock: Clock | None = None,
        *,
        capacity: int = 1000,
    ) -> None:
        """`capacity` bounds the different events waiting to be sent."""
        self._client = client
        self._component = component
        self._clock = clock or SystemClock()
        self._capacity = capacity
        self._pending: dict[_EventKey, _Occurrences] = {}
        # By the name of the event: whole events would take ten times the memory.
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def event(
        self, regarding: ObjectReference, event_type: EventType, reason: str, message: str
    ) -> None:
        """Record an event about an object. Never blocks and never fails."""
        event_key = _EventKey(regarding, event_type, reason, message[:_LONGEST_MESSAGE])
        now = self._clock.now()
        occurrences = self._pending.get(event_key)
        if occurrences is not None:
            occurrences.count += 1
            occurrences.last = now
            return
        if len(self._pending) >= self._capacity:
            EVENTS_DROPPED.labels("queue full").inc()
            return
        self._pending[event_key] = _Occurrences(1, now, now)
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Send recorded events in order, until cancelled."""
        while True:
            await self._wake.wait()
            while self._pending:
                event_key = next(iter(self._pending))
                await self._deliver(event_key, self._pending.pop(event_key))
            self._wake.clear()
            self._idle.set()

    async def drained(self) -> None:
        """Wait until all events recorded so far are sent or dropped."""
        await self._idle.wait()

    async def _deliver(self, event_key: _EventKey, occurrences: _Occurrences) -> None:
        backoff = Backoff(first=0.5, limit=10.0)
        for _ in range(_ATTEMPTS):
            try:
                await self._send(event_key, occurrences)
            except (Unreachable, ServerError, TooManyRequests):
                await self._clock.sleep(backoff.next())
            except ApiError as error:
                EVENTS_DROPPED.labels("refused").inc()
                _log.warning("event refused", reason=event_key.reason, problem=str(error))
                return
            else:
                return
        EVENTS_DROPPED.labels("unreachable").inc()

    async def _send(self, event_key: _EventKey, occurrences: _Occurrences) -> None:
        """Create the event, or raise the count of the existing one."""
        name = event_key.name(self._component)
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
        """None when created, else the count of the existing one."""
        try:
            await self._client.create(EVENTS, self._render(event_key, occurrences))
        except AlreadyExists:
            name = event_key.name(self._component)
            found = await self._client.get(EVENTS, name, event_key.namespace)
            return int(found.get("count") or 1)
        return None

    async def _raise_count(self, event_key: _EventKey, count: int, last: datetime) -> None:
        ops = PatchBuilder().add("/count", count).add("/lastTimestamp", rfc3339(last))
        name = event_key.name(self._component)
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
            "metadata": {"name": event_key.name(self._component), "namespace": event_key.namespace},
            "involvedObject": involved,
            "type": event_key.type,
            "reason": event_key.reason,
            "message": event_key.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": rfc3339(occurrences.first),
            "lastTimestamp": rfc3339(occurrences.last),
            "count": occurrences.count,
        }
