"""Server-sent events: changes, sent to all viewers a few times a second.

Events that are the same for all viewers are created and encoded once. Each stream has a bounded
buffer. A viewer that does not keep up loses its content, and gets a `resync` event.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from console.base import messages
from console.base.protocols import NO_NODES, RefusedError, Viewer
from console.base.times import rfc3339
from console.following.following import Following
from console.following.history import RecentHistory
from console.views import workload as workload_view
from console.views.queue import ANEW
from scheduler.core.values.model import GroupKey

PERIOD: Final = 0.3
"""Seconds between two updates."""

HEARTBEAT: Final = 15.0
"""Seconds without an event after which a comment is sent, and the session is checked."""

BUFFER: Final = 32
"""Events of one stream that wait to be sent."""

LARGE: Final = 64 * 1024
"""Bytes of a workload's event above which it is sent less often: such an event has all of it."""

PER_SECOND: Final = 500_000
"""Bytes of large events per second: the next one waits as long as the last one takes at this
rate."""

LISTED: Final = 3.0
"""Seconds between two events about the list of workloads: each page requests it again."""

MOST_STREAMS: Final = 256
"""Streams of all sessions. Further ones get status 429."""

MOST_OF_SESSION: Final = 12
"""Streams of one session. A browser opens six connections to one server, and each tab has one
stream."""

_WORKLOAD: Final = "workload:"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StreamSubject:
    """The subject of a stream; `resource` is that of the map, `workload` an ID or empty."""

    map: bool = False
    queue: bool = False
    workloads: bool = False
    history: bool = False
    resource: str = "cpu"
    workload: str = ""


def wanted_of(listed: str, resource: str, viewer: Viewer) -> StreamSubject:
    """Parse a list of views: `map,queue,workloads,workload:ID,history`. Raises RefusedError."""
    views = [view for view in listed.split(",") if view]
    known = {"map", "queue", "workloads", "history"}
    workloads = [view for view in views if view.startswith(_WORKLOAD)]
    if len(workloads) > 1 or not known.issuperset(set(views) - set(workloads)):
        raise RefusedError(
            400, "views must be map, queue, workloads, history and at most one workload:ID."
        )
    if "map" in views and not viewer.nodes:
        raise RefusedError(403, NO_NODES)
    return StreamSubject(
        map="map" in views,
        queue="queue" in views,
        workloads="workloads" in views,
        history="history" in views,
        resource=resource[:253],
        workload=workloads[0].removeprefix(_WORKLOAD) if workloads else "",
    )


class Stream:
    """The events of one viewer. Iteration yields their bytes until the session ends."""

    def __init__(
        self,
        streams: Streams,
        viewer: Viewer,
        wanted: StreamSubject,
        again: Callable[[], Awaitable[Viewer | None]],
    ) -> None:
        self.viewer = viewer
        self.wanted = wanted
        self.told: bytes = b""
        """The last event of the workload that was sent."""
        self.due = False
        self.not_before = 0.0
        """`due` is true if the workload has to be sent, but not before `not_before` (monotonic)."""
        self.changed = False
        self.listed_at = float("-inf")
        """`changed` is true if the list of workloads is no longer what it was at `listed_at`."""
        self.step = ""
        self.current: bool | None = True
        """The last value of `current` that was sent; None if that event was lost."""
        self._streams = streams
        self._again = again
        self._events: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._behind = False
        self._ended = False

    def put(self, event: bytes) -> bool:
        """Queue the event; return true if it is not lost.

        If the viewer does not keep up, the complete buffer is dropped and `resync` is sent.
        """
        if self._behind:
            return False
        if len(self._events) >= BUFFER:
            self._events.clear()
            self._behind, self.current = True, None
            event = RESYNC
        self._events.append(event)
        self._more.set()
        return not self._behind

    def end(self) -> None:
        """End the stream, as its session is over."""
        self._ended = True
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._streams.opened(self)
        try:
            yield b": here\n\n"
            checked = self._streams.monotonic()
            while self._events or not self._ended:
                if not self._events:
                    try:
                        await asyncio.wait_for(self._more.wait(), HEARTBEAT)
                    except TimeoutError:
                        yield b": still here\n\n"
                self._more.clear()
                # A slow reader always has events: it is checked between them.
                now = self._streams.monotonic()
                if now - checked >= HEARTBEAT:
                    checked = now
                    if not await self._still_theirs():
                        break
                if self._events:
                    self._behind = False
                    yield self._events.popleft()
            yield END
        finally:
            self._streams.closed(self)

    async def _still_theirs(self) -> bool:
        """Return true while the session lasts. The rights of the viewer may have changed."""
        viewer = await self._again()
        if viewer is None:
            return False
        # With other rights, other objects are visible: the page must request them again.
        if (viewer.namespaces, viewer.nodes) != (self.viewer.namespaces, self.viewer.nodes):
            self.put(RESYNC)
        if self.wanted.map and not viewer.nodes:
            return False
        self.viewer = viewer
        return True


class Streams:
    """All streams, and the task that feeds them."""

    def __init__(
        self,
        following: Following,
        history: RecentHistory,
        *,
        period: float = PERIOD,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without streams; `period` is in seconds."""
        self.monotonic = monotonic
        self._following = following
        self._history = history
        self._period = period
        self._open: dict[Stream, None] = {}
        self._by_session: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, viewer: Viewer, wanted: StreamSubject, again: Callable[[], Awaitable[Viewer | None]]
    ) -> AsyncIterator[bytes]:
        """Open a stream; `again` returns the session's current viewer. Raises RefusedError."""
        of_session = self._by_session.get(viewer.session, 0)
        if len(self._open) >= MOST_STREAMS or of_session >= MOST_OF_SESSION:
            raise RefusedError(429, "Too many pages are open: close one, then try again.")
        if wanted.workload:
            workload_view.find(self._following.cluster, wanted.workload, viewer)
        return aiter(Stream(self, viewer, wanted, again))

    def opened(self, stream: Stream) -> None:
        """Register the stream once it is read. One that is never read takes no slot."""
        session = stream.viewer.session
        if stream.wanted.map and self._following.synced:
            # The page requests the map next: changes between the two must be sent, too.
            self._following.map.begin(stream.wanted.resource)
        self._open[stream] = None
        self._by_session[session] = self._by_session.get(session, 0) + 1

    def closed(self, stream: Stream) -> None:
        """Remove the stream, whose reader has left."""
        del self._open[stream]
        session = stream.viewer.session
        self._by_session[session] -= 1
        if not self._by_session[session]:
            del self._by_session[session]

    def end(self) -> None:
        """End all streams when the server stops."""
        for stream in list(self._open):
            stream.end()

    async def run(self) -> None:
        """Feed the streams until cancelled. A view that fails does not affect the others."""
        known = self._following.synced
        while True:
            await asyncio.sleep(self._period)
            if self._following.synced:
                if not known:  # open pages got status 503 until now
                    known = True
                    self._resync()
                await self._following.cluster.settled()
                try:
                    self.tick()
                except Exception:  # noqa: BLE001 - logged; the next round may do better
                    _log.exception("failed to update the console")
                    self._resync()

    def _resync(self) -> None:
        for stream in self._open:
            stream.put(RESYNC)

    def tick(self) -> None:
        """Send all changes since the last call."""
        self._following.refresh()
        self._history.follow()
        self._send_current()
        roots = self._following.take_roots()
        resources = {each.wanted.resource for each in self._open if each.wanted.map}
        self._following.map.forget(resources)
        for resource in resources:
            self._send_map(resource)
        self._send_queue()
        now = self.monotonic()
        for stream in list(self._open):
            if stream.wanted.workload and (roots or stream.due):
                self._send_workload(stream, roots, now)
            if stream.wanted.workloads:
                self._send_workloads(stream, roots, now)
            if stream.wanted.history:
                self._send_history(stream)

    def _send_current(self) -> None:
        current = self._following.current
        event = _event("cluster", messages.Cluster(current=current))
        for stream in self._open:
            if stream.current is not current and stream.put(event):
                stream.current = current

    def _send_map(self, resource: str) -> None:
        change = self._following.map.changes(resource)
        if change is not None and not (change.nodes or change.domains):
            return
        event = RESYNC if change is None else _event("map", change)
        for stream in self._open:
            if stream.wanted.map and stream.wanted.resource == resource:
                stream.put(event)

    def _send_queue(self) -> None:
        queue = self._following.queue
        followers = [stream for stream in self._open if stream.wanted.queue]
        if followers:
            queue.ask_solver()
        change = queue.take_change()
        if change is None or not followers:
            return
        if change is ANEW:
            for stream in followers:
                stream.put(RESYNC)
            return
        for_all = _event("queue", change)
        for stream in followers:
            if stream.viewer.namespaces is None:
                stream.put(for_all)
                continue
            part = queue.for_viewer(change, stream.viewer)
            if part.changed or part.gone:
                stream.put(_event("queue", part))

    def _send_workload(self, stream: Stream, roots: set[GroupKey], now: float) -> None:
        cluster = self._following.cluster
        try:
            subject = workload_view.find(cluster, stream.wanted.workload, stream.viewer)
        except RefusedError:
            if stream.told != b"gone":
                stream.told = b"gone"
                stream.put(RESYNC)
            return
        keys = {group.top.key for group in subject.groups}
        if subject.pod is not None:
            keys.add(cluster.state.entity(subject.pod))
        stream.due = stream.due or not roots.isdisjoint(keys)
        if not stream.due or now < stream.not_before:
            return
        stream.due = False
        whole = workload_view.complete_view(cluster, subject)
        event = _event("workload", whole)
        if len(event) > LARGE:
            stream.not_before = now + len(event) / PER_SECOND
        if event != stream.told:
            stream.told = event
            stream.put(event)

    def _send_workloads(self, stream: Stream, roots: set[GroupKey], now: float) -> None:
        """Report that some workload changed. The page requests its rows, by its filters."""
        if not stream.changed:
            stream.changed = any(stream.viewer.sees(root[1]) for root in roots)
        if stream.changed and now - stream.listed_at >= LISTED:
            stream.changed, stream.listed_at = False, now
            stream.put(_event("workloads", messages.WorkloadsChange(at=rfc3339(time.time()))))

    def _send_history(self, stream: Stream) -> None:
        step = self._history.latest(stream.viewer)
        if step is not None and step.at != stream.step:
            stream.step = step.at
            stream.put(_event("history", step))


def _event(name: str, data: Any) -> bytes:
    # JSON has no raw line breaks, so one line of data suffices.
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


RESYNC: Final = b"event: resync\ndata: {}\n\n"
END: Final = b"event: end\ndata: {}\n\n"
