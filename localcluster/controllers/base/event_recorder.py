"""Kubernetes events as controllers record them: in the background, with counted repeats."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

import structlog

from localcluster.base.clock import Clock, timestamp
from localcluster.base.errors import StatusError
from localcluster.controllers.base.api_protocol import EVENTS, Kind
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.objects import Obj

log = structlog.get_logger(__name__)

EventType = Literal["Normal", "Warning"]
REMEMBERED = 4096  # recent events whose count increases when they repeat


@dataclass(frozen=True, slots=True)
class Note:
    """The type, reason and message of an event."""

    type: EventType
    reason: str
    message: str


class EventRecorder:
    """Writes events in the order of recording; `record` never waits and never fails."""

    def __init__(self, client: CachedClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pending: asyncio.Queue[tuple[str, Kind, Obj, Note]] = asyncio.Queue()
        self._unwritten = 0
        self._written: OrderedDict[tuple[str, str, Note], Obj] = OrderedDict()

    def record(self, component: str, kind: Kind, regarding: Obj, note: Note) -> None:
        """Queue an event about the object for `run` to write."""
        self._unwritten += 1
        self._pending.put_nowait((component, kind, regarding, note))

    async def run(self) -> None:
        """Write the recorded events until cancelled."""
        while True:
            component, kind, regarding, note = await self._pending.get()
            try:
                await self._write(component, kind, regarding, note)
            except StatusError as error:
                # As in Kubernetes, an event is worth one try: its namespace may be going away.
                log.debug("failed to send an event", reason=note.reason, error=str(error))
            finally:
                self._unwritten -= 1

    @property
    def idle(self) -> bool:
        """True if every recorded event is written."""
        return self._unwritten == 0

    async def _write(self, component: str, kind: Kind, regarding: Obj, note: Note) -> None:
        key = component, str(regarding["metadata"]["uid"]), note
        known = self._written.get(key)
        if known is not None:
            self._written[key] = await self._client.update(EVENTS, self._again(known))
            return
        event = self._new(component, kind, regarding, note)
        namespace = event["metadata"]["namespace"]
        self._written[key] = await self._client.create(EVENTS, namespace, event)
        while len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def _again(self, event: Obj) -> Obj:
        return {
            **event,
            "count": event.get("count", 1) + 1,
            "lastTimestamp": timestamp(self._clock.now()),
        }

    def _new(self, component: str, kind: Kind, regarding: Obj, note: Note) -> Obj:
        meta, now = regarding["metadata"], timestamp(self._clock.now())
        namespace = meta.get("namespace", "default")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": meta["name"],
                "namespace": meta.get("namespace", ""),
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "type": note.type,
            "reason": note.reason,
            "message": note.message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "count": 1,
        }
