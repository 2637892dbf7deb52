"""A watch: the changes of one collection that match a selector, in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

from localcluster.base.errors import StatusError
from localcluster.base.resources import ResourceInfo
from localcluster.base.store import Collection, Event, Stored

Matcher = Callable[[Stored], bool]


def everything(_: Stored) -> bool:
    """Match every object; the matcher of a watch without selector."""
    return True


def at_revision(value: Stored, revision: int) -> Stored:
    """Return a copy of the object at another revision, for an object that leaves a selection."""
    return Stored(value.copy(), revision)


def select(event: Event, matches: Matcher) -> Event | None:
    """Return the event as a watcher with that selector sees it.

    An object that enters the selection is ADDED, one that leaves it DELETED.
    """
    is_in = event.type != "DELETED" and matches(event.value)
    was_in = event.old is not None and matches(event.old)
    if is_in:
        wanted = "MODIFIED" if was_in else "ADDED"
        return event if event.type == wanted else Event("ADDED", event.value)
    if not was_in or event.old is None:
        return None
    if event.type == "DELETED":
        return event
    return Event("DELETED", at_revision(event.old, event.revision))


def bookmark(info: ResourceInfo, revision: int, *, initial_end: bool = False) -> Event:
    """Return a BOOKMARK: everything up to this revision has been sent."""
    meta: dict[str, object] = {"creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": info.kind, "apiVersion": info.api_version, "metadata": meta}
    return Event("BOOKMARK", Stored(obj, revision))


def failure(error: StatusError) -> Event:
    """Return an ERROR, the last event of a failed watch."""
    return Event("ERROR", Stored(error.to_json(), 0))


class Watch:
    """A stream of events. Iterate it, or read batches; `close` ends it from either side."""

    def __init__(
        self,
        collection: Collection,
        matches: Matcher,
        *,
        initial: Iterable[Event] = (),
        replay: bool = False,
        timeout: float | None = None,
        make_bookmark: Callable[[], Event] | None = None,
        bookmark_every: float = 10.0,
        limit: int = 100_000,
        on_close: Callable[["Watch"], None] | None = None,
    ) -> None:
        """Listen from now on, after the `initial` events; a `replay` filters these by the selector.

        A watcher that falls `limit` events behind is disconnected.
        """
        self._collection = collection
        self._matches = matches
        self._queue: deque[Event] = deque()
        for event in initial:
            seen = select(event, matches) if replay else event
            if seen is not None:
                self._queue.append(seen)
        self._make_bookmark = make_bookmark
        self._bookmark_every = bookmark_every
        self._limit = limit
        self._on_close = on_close
        self._wake = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []
        self.closed = False
        collection.listeners.append(self._take)
        loop = asyncio.get_running_loop()
        if timeout is not None:
            self._timers.append(loop.call_later(timeout, self._time_out))
        if make_bookmark is not None:
            self._timers.append(loop.call_later(bookmark_every, self._bookmark))
        if self._queue:
            self._wake.set()

    async def batch(self) -> list[Event]:
        """Return all pending events, at least one; an empty list marks the end."""
        while not self._queue and not self.closed:
            self._wake.clear()
            await self._wake.wait()
        events = list(self._queue)
        self._queue.clear()
        return events

    def fail(self, error: StatusError) -> None:
        """End the stream with an ERROR event."""
        if not self.closed:
            self._queue.append(failure(error))
            self.close()

    def close(self) -> None:
        """End the stream; pending events can still be read."""
        if self.closed:
            return
        self.closed = True
        self._collection.listeners.remove(self._take)
        for timer in self._timers:
            timer.cancel()
        self._wake.set()
        if self._on_close is not None:
            self._on_close(self)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield each event; raises StatusError for an ERROR event."""
        try:
            while events := await self.batch():
                for event in events:
                    if event.type == "ERROR":
                        raise _error(event)
                    yield event
        finally:
            self.close()

    def _take(self, event: Event) -> None:
        seen = select(event, self._matches)
        if seen is None:
            return
        self._queue.append(seen)
        self._wake.set()
        if len(self._queue) > self._limit:
            self.close()

    def _time_out(self) -> None:
        if self._make_bookmark is not None:
            self._queue.append(self._make_bookmark())
        self.close()

    def _bookmark(self) -> None:
        if self.closed or self._make_bookmark is None:
            return
        self._queue.append(self._make_bookmark())
        self._wake.set()
        loop = asyncio.get_running_loop()
        self._timers = [timer for timer in self._timers if timer.when() > loop.time()]
        self._timers.append(loop.call_later(self._bookmark_every, self._bookmark))


def _error(event: Event) -> StatusError:
    status = event.value.obj
    return StatusError(status["code"], status["reason"], status["message"], status.get("details"))
