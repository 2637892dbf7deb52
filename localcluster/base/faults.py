"""Fault injection, to test clients against a server that fails."""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from localcluster.base.errors import StatusError
from localcluster.base.store import Event

REASONS = {
    409: ("Conflict", "Operation cannot be fulfilled: a fault on purpose"),
    429: ("TooManyRequests", "The server has received too many requests: a fault on purpose"),
    500: ("InternalError", "Internal error occurred: a fault on purpose"),
    503: ("ServiceUnavailable", "The server is unavailable: a fault on purpose"),
    504: ("Timeout", "Timeout: a fault on purpose"),
}


@dataclass(slots=True)
class RequestFault:
    """Delay matching requests by `delay` seconds, and fail them with `status` unless it is 0.

    `path` is a regular expression searched in the path. The first `skip` requests pass, then
    `count` requests are hit (None: all). With `after` the request is carried out before it fails,
    so the response is lost but the write is not.
    """

    path: str = ""
    methods: frozenset[str] = frozenset()
    status: int = 0
    delay: float = 0.0
    skip: int = 0
    count: int | None = None
    retry_after: int = 1
    after: bool = False
    hits: int = 0

    def takes(self, method: str, path: str) -> bool:
        """Return True if this request is hit, and count it."""
        if self.methods and method not in self.methods:
            return False
        if self.count == 0 or not re.search(self.path, path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.count is not None:
            self.count -= 1
        self.hits += 1
        return True

    def error(self) -> StatusError:
        """Return the error response of this fault."""
        reason, message = REASONS.get(self.status, ("", "a fault on purpose"))
        headers, details = {}, None
        if self.status == 429:
            headers["Retry-After"] = str(self.retry_after)
            details = {"retryAfterSeconds": self.retry_after}
        return StatusError(self.status, reason, message, details, headers)


@dataclass(slots=True)
class WatchFault:
    """Drop or duplicate every n-th event of the matching watches."""

    path: str = ""
    drop_every: int = 0
    duplicate_every: int = 0
    seen: int = 0

    def mangle(self, events: Iterable[Event]) -> list[Event]:
        """Return the events to send instead of these."""
        out: list[Event] = []
        for event in events:
            self.seen += 1
            if self.drop_every and self.seen % self.drop_every == 0:
                continue
            out.append(event)
            if self.duplicate_every and self.seen % self.duplicate_every == 0:
                out.append(event)
        return out


@dataclass(slots=True)
class FaultPlan:
    """The active faults; callers may change the lists at any time."""

    requests: list[RequestFault] = field(default_factory=list)
    watches: list[WatchFault] = field(default_factory=list)

    def take(self, method: str, path: str) -> list[RequestFault]:
        """Return the faults that hit a request."""
        return [fault for fault in self.requests if fault.takes(method, path)]

    def mangler(self, path: str) -> Callable[[list[Event]], list[Event]] | None:
        """Return the function that changes the events of a watch on that path, or None."""
        chosen = [fault for fault in self.watches if re.search(fault.path, path)]
        if not chosen:
            return None

        def mangle(events: list[Event]) -> list[Event]:
            for fault in chosen:
                events = fault.mangle(events)
            return events

        return mangle

    def clear(self) -> None:
        """Remove all faults."""
        self.requests.clear()
        self.watches.clear()


async def inject(faults: Iterable[RequestFault], *, after: bool) -> None:
    """Apply the faults of one moment, before or after the request. Raises StatusError."""
    for fault in faults:
        if fault.after == after:
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.status:
                raise fault.error()
