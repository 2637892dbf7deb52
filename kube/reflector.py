"""Keeps a sink in sync with one resource of the API server: list, watch, and start again.

It survives restarts of the API server, lost and silent streams, and expired resource versions.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

import structlog

from kube.backoff import Backoff
from kube.client import Client, selectors
from kube.clock import Clock, SystemClock
from kube.errors import (
    ApiError,
    ConfigError,
    Gone,
    ProtocolError,
    TooManyRequests,
    Unreachable,
)
from kube.meta import HasMeta, Key
from kube.metrics import WATCH_LAG, WATCH_RELISTS, WATCH_UNDECODABLE
from kube.resources import Resource
from kube.watching import Change, Deleted, Undecodable, Upserted, WatchState

T = TypeVar("T", bound=HasMeta)
T_contra = TypeVar("T_contra", contravariant=True)

# A server ends each watch after some minutes; a random length keeps many clients
# from reconnecting at the same moment.
_WATCH_SECONDS = (300.0, 600.0)
# A stream that ended sooner, without a line, is a failure and not a time-out.
_SHORT_WATCH = 1.0
_TRIES_FROM_ONE_VERSION = 3

_log = structlog.get_logger()


class Sink(Protocol[T_contra]):
    """Receives the changes of one resource, in order, on the event loop; it must be fast."""

    def upsert(self, obj: T_contra) -> None:
        """The object exists, in this form; may come again unchanged."""
        ...

    def delete(self, key: Key) -> None:
        """The object is gone."""
        ...


class Reflector(Generic[T]):
    """Feeds one sink from one resource. `synced` is set once the first list is in the sink."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        sink: Sink[T],
        *,
        decode: Callable[[bytes], T],
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        clock: Clock | None = None,
        jitter: random.Random | None = None,
        page_size: int = 500,
        inactivity: float = 120.0,
    ) -> None:
        """`decode` gets the bytes of one object (any buffer) and raises msgspec.DecodeError.

        `inactivity` is how many seconds a stream may be silent before it counts as lost; the
        server sends a bookmark about once a minute.
        """
        self.synced = asyncio.Event()
        self._client = client
        self._resource = resource
        self._sink = sink
        self._path = resource.path(namespace)
        self._params = selectors(label_selector, field_selector)
        self._clock = clock or SystemClock()
        self._jitter = jitter or random.SystemRandom()
        self._page_size = page_size
        self._inactivity = inactivity
        self._backoff = Backoff(random=self._jitter)
        self._state = WatchState(decode)
        self._last_received = self._clock.monotonic()
        self._whole_list = False
        self._expired = False

    def lag(self) -> float:
        """Seconds since the last sign of life: a list, an event or a bookmark."""
        return self._clock.monotonic() - self._last_received

    async def run(self) -> None:
        """Follow the resource until cancelled; only a bug in `decode` or the sink ends it."""
        WATCH_LAG.labels(self._resource.full_name).set_function(self.lag)
        while True:
            await self._step()

    async def _step(self) -> None:
        """One list or one watch; the loop around it is trivial: endless loops are hard to test."""
        try:
            if self._state.version is None:
                await self._list()
                return
            if await self._watch():
                return
            problem = "the watch ended at once"
        except Gone as error:
            self._state.forget()
            problem = str(error)
            if not self._expired:
                # The server answers again: earlier failures do not count any more.
                self._backoff.reset()
            self._expired = True
        except (Unreachable, TooManyRequests, ConfigError) as error:
            problem = str(error)
        except (ApiError, ProtocolError) as error:
            problem = str(error)
            # The version itself may be what the server cannot serve, after a restore for
            # instance; a list always works, but is more expensive.
            if self._backoff.failures + 1 >= _TRIES_FROM_ONE_VERSION:
                self._state.forget()
        wait = self._backoff.next()
        _log.warning(
            "watch interrupted",
            resource=self._resource.full_name,
            problem=problem,
            failures=self._backoff.failures,
            wait=round(wait, 3),
        )
        await self._clock.sleep(wait)

    async def _list(self) -> None:
        WATCH_RELISTS.labels(self._resource.full_name).inc()
        self._state.begin_list()
        params = dict(self._params)
        if not self._whole_list:
            params["limit"] = str(self._page_size)
        while True:
            try:
                body = await self._client.request("GET", self._path, params=params, timeout=60)
            except Gone:
                # History expired between two pages: a slow reader gets it in one piece.
                self._whole_list = True
                raise
            changes, token = self._state.feed_page(body)
            self._apply(changes)
            if not token:
                break
            params["continue"] = token
        self._apply(self._state.end_list())
        self._whole_list = False
        self._last_received = self._clock.monotonic()
        self.synced.set()

    async def _watch(self) -> bool:
        """One stream to its end; False if it ended before it delivered anything."""
        version = self._state.version
        assert version is not None
        params = self._params | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(self._jitter.uniform(*_WATCH_SECONDS))),
        }
        useful = False
        opened: list[float] = []
        stream = self._client.watch_lines(
            self._path,
            params,
            inactivity=self._inactivity,
            opened=lambda: opened.append(self._clock.monotonic()),
        )
        try:
            async with aclosing(stream) as lines:
                async for line in lines:
                    self._apply(self._state.feed(line))
                    self._last_received = self._clock.monotonic()
                    if not useful:
                        useful = True
                        self._reset_failures()
        finally:
            # A quiet resource sends no line for minutes; a stream that stayed open is a success,
            # even if an outage ended it.
            if opened and self._clock.monotonic() - opened[0] >= _SHORT_WATCH:
                useful = True
                self._reset_failures()
        return useful

    def _reset_failures(self) -> None:
        """The stream delivered something: the next failure counts as the first one."""
        self._expired = False
        self._backoff.reset()

    def _apply(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            match change:
                case Upserted():
                    self._sink.upsert(change.obj)
                case Deleted():
                    self._sink.delete(change.key)
                case Undecodable():
                    WATCH_UNDECODABLE.labels(self._resource.full_name).inc()
                    _log.error(
                        "object left out: it cannot be decoded",
                        resource=self._resource.full_name,
                        namespace=change.key[0],
                        name=change.key[1],
                        problem=change.error,
                    )
