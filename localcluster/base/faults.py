"""Faults on purpose, so that clients can be tested against a server that fails."""

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
    """Requests that match wait `delay` seconds, and fail with `status` if that is not 0.

    `path` is a regular expression searched in the path; `skip` requests are let through first,
    then `count` are hit (None: all). With `after` the request is carried out before it fails: the
    answer is lost, not the write.
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
        """Whether this request is hit; counts it."""
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
        """The refusal."""
        reason, message = REASONS.get(self.status, ("", "a fault on purpose"))
        headers, details = {}, None
        if self.status == 429:
            headers["Retry-After"] = str(self.retry_after)
            details = {"retryAfterSeconds": self.retry_after}
        return StatusError(self.status, reason, message, details, headers)


@dataclass(slots=True)
class WatchFault:
    """Every so-many-th event of the watches that match is dropped or sent twice."""

    path: str = ""
    drop_every: int = 0
    duplicate_every: int = 0
    seen: int = 0

    def mangle(self, events: Iterable[Event]) -> list[Event]:
        """The events that are sent in place of these."""
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
    """The faults in force; add to and take from the lists at any time."""

    requests: list[RequestFault] = field(default_factory=list)
    watches: list[WatchFault] = field(default_factory=list)

    def take(self, method: str, path: str) -> list[RequestFault]:
        """The faults that hit a request."""
        return [fault for fault in self.requests if fault.takes(method, path)]

    def mangler(self, path: str) -> Callable[[list[Event]], list[Event]] | None:
        """What a watch on that path does to its events, None for nothing."""
        chosen = [fault for fault in self.watches if re.search(fault.path, path)]
        if not chosen:
            return None

        def mangle(events: list[Event]) -> list[Event]:
            for fault in chosen:
                events = fault.mangle(events)
            return events

        return mangle

    def clear(self) -> None:
        """A good day again."""
        self.requests.clear()
        self.watches.clear()


async def inject(faults: Iterable[RequestFault], *, after: bool) -> None:
    """Let the faults of one moment (before or after the work) happen. Raises StatusError."""
    for fault in faults:
        if fault.after == after:
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.status:
                raise fault.error()
