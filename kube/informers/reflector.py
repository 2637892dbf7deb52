"""The reflector: keeps a sink in sync with one resource of the API server by list and watch.

It survives restarts of the API server, lost and silent streams, expired resource versions, and data
that were restored from a snapshot. An object that cannot be decoded, or that the sink cannot apply,
is skipped, and all others go on.
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import structlog

from kube.base.clock import Clock, SystemClock
from kube.base.errors import (
    STARTING,
    ApiError,
    ConfigError,
    Forbidden,
    Gone,
    KubeError,
    ProtocolError,
    Silent,
    TooLarge,
    TooManyRequests,
    Unreachable,
)
from kube.base.metrics import QUARANTINED, WATCH_LAG, WATCH_RELISTS
from kube.client.client import Client, selectors
from kube.client.meta import HasMeta, Key
from kube.client.resources import Resource
from kube.concurrency.backoff import Backoff
from kube.concurrency.freeze import Freeze
from kube.concurrency.pace import Pace
from kube.informers.quarantine import Quarantine
from kube.informers.watching import (
    Change,
    Deleted,
    Undecodable,
    Upserted,
    WatchState,
    is_at,
    is_beyond,
    version_of_list,
)

T = TypeVar("T", bound=HasMeta)
T_contra = TypeVar("T_contra", contravariant=True)

# A server ends each watch after some minutes; a random length keeps many clients
# from reconnecting at the same moment.
_WATCH_SECONDS = (300.0, 600.0)
_SHORT_WATCH = 1.0
"""Seconds below which a watch that sent no line counts as failed, not as timed out."""

_TRIES_FROM_ONE_VERSION = 3
"""Failed watches from one version, after which the resource is listed again."""

_LOOK = 0.05
"""Seconds between two checks whether the cache is current."""

_LARGEST_PAGE = 32 * 1024 * 1024
"""Bytes of one page, five times 500 usual pods. Beyond it, pages have fewer objects."""

_log = structlog.get_logger()


class Sink(Protocol[T_contra]):
    """A receiver of the changes of one resource, in order, on the event loop; it must be fast.

    A method that raises leaves the sink consistent: with the object as it was before, or without.
    """

    def upsert(self, obj: T_contra) -> None:
        """Store the object, which exists in this form; it may come again unchanged."""

    def delete(self, key: Key) -> None:
        """Remove the object, which is gone."""


OnSetAside = Callable[[Key, bytes], None]
"""A function that gets a skipped object and its JSON: the least that the sink must know of it.

An error that it raises is logged; it must leave the sink consistent, too.
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of a resource's objects to a sink.

    `quarantine` is that of the process. Without `on_set_aside`, the sink keeps what it knew of a
    skipped object. `on_list` is called when a list begins, and when the sink has all of it: changes
    in between are in no order. The sink is not called during a `freeze`, which does not delay
    `on_list`.
    """

    quarantine: Quarantine = field(default_factory=Quarantine)
    on_set_aside: OnSetAside | None = None
    on_list: Callable[[bool], None] = lambda _under_way: None
    freeze: Freeze = field(default_factory=Freeze)


@dataclass(frozen=True, slots=True)
class Requests:
    """The parameters of reading a resource.

    `inactivity` is the number of seconds that a stream may be silent before it counts as lost; the
    server sends a bookmark about once a minute.
    """

    page_size: int = 500
    inactivity: float = 90.0
    jitter: random.Random = field(default_factory=random.SystemRandom)


class Reflector(Generic[T]):
    """A feed of one resource to one sink; `synced` is set once the first list is in the sink."""

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
        delivery: Delivery | None = None,
        requests: Requests | None = None,
    ) -> None:
        """Decode each object by `decode`, from any buffer; an error concerns that object alone."""
        self.synced = asyncio.Event()
        self._client = client
        self._resource = resource
        self._sink = sink
        self._path = resource.path(namespace)
        self._params = selectors(label_selector, field_selector)
        self._clock = clock or SystemClock()
        self._delivery = delivery or Delivery()
        self._requests = requests or Requests()
        self._backoff = Backoff(random=self._requests.jitter)
        self._state = WatchState(decode)
        QUARANTINED.labels(resource.full_name)  # 0, as no object is skipped yet
        self._pace = Pace(f"watch {resource.full_name}", self._clock)
        self._last_received = self._clock.monotonic()
        self._failed = float("-inf")
        self._whole_list = False
        self._expired = False
        self._version: str | None = None  # of the content of the sink
        self._may_be_restored = False
        # Lists are numbered: the last begun, the last complete, and the next that is required.
        self._begun = self._complete = self._wanted = 0
        self._listed = float("-inf")  # when the last complete list was begun
        self._interrupt: asyncio.Timeout | None = None

    @property
    def resource(self) -> Resource:
        """The resource that it follows."""
        return self._resource

    def lag(self) -> float:
        """Return the seconds since the last list, event, bookmark or accepted watch."""
        return self._clock.monotonic() - self._last_received

    def interrupted(self) -> bool:
        """Return whether the content may be old: it fails repeatedly, or receives nothing.

        A single failure does not count: watches end now and then, and restart immediately. A silent
        watch is renewed, and its acceptance counts as received.
        """
        failing = self._backoff.failures > 1 and self._failed >= self._last_received
        return failing or self.lag() > 2 * self._requests.inactivity

    async def catch_up(
        self, since: float, patience: float = 1.0, *, permitted: bool = True
    ) -> None:
        """Return once the sink has all that the server had at that monotonic time, or later.

        A watch may be silent because its connection is dead. If it is not at the server's version
        within `patience` seconds, or the resource is small, it is listed again. Retries for ever.
        If the right to read may be gone (`permitted` is False), it raises Forbidden after
        `STARTING` seconds of this response: waiting restores no right.
        """
        if self._listed >= since:
            return
        known = self._version
        wanted = await self._current_version(permitted=permitted)
        until = self._clock.monotonic() + patience
        while is_beyond(known, wanted) or not is_at(self._version, wanted):
            # One page is cheap to list, so the watch gets no time to catch up.
            if self._state.size <= self._requests.page_size or self._clock.monotonic() >= until:
                await self.relist()
                return
            await self._clock.sleep(_LOOK)

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        WATCH_LAG.labels(self._resource.full_name).set_function(self.lag)
        while True:
            await self._step()

    async def _step(self) -> None:
        """Do one list or one watch; the loop around it is trivial, as endless ones resist tests."""
        log = _log.warning
        failure: KubeError | None = None
        try:
            if await self._list_or_watch():
                return
        except Silent:
            # Usually nothing has happened. If the connection is dead, the next request finds out.
            _log.debug("renewed a silent watch", resource=self._resource.full_name)
            return
        except Gone as error:
            self._state.forget()
            failure = error
            if not self._expired:
                # The server responds again, so earlier failures no longer count. It makes a
                # watch of an old version list again, as happens to a resource that seldom changes.
                self._backoff.reset()
                log = _log.info
            self._expired = True
        except (Unreachable, TooManyRequests, ConfigError) as error:
            failure = error
            self._may_be_restored |= isinstance(error, Unreachable)
        except (ApiError, ProtocolError) as error:
            failure = error
            # The version itself may be what the server cannot serve, after a restore for
            # instance; a list always works, but is more expensive.
            if self._backoff.failures + 1 >= _TRIES_FROM_ONE_VERSION:
                self._state.forget()
        wait = self._backoff.next(failure)
        self._failed = self._clock.monotonic()
        log(
            "watch interrupted",
            resource=self._resource.full_name,
            problem=str(failure or "the watch ended at once"),
            failures=self._backoff.failures,
            wait=round(wait, 3),
        )
        await self._clock.sleep(wait)

    async def _list_or_watch(self) -> bool:
        """List or watch once; return False if a watch ended before it delivered anything."""
        try:
            async with asyncio.timeout(None) as self._interrupt:
                if self._may_be_restored:
                    await self._check_history()
                if self._state.version is not None and self._complete >= self._wanted:
                    return await self._watch()
                await self._list()
        except TimeoutError:
            _log.info("relisting", resource=self._resource.full_name)
        finally:
            self._interrupt = None
        return True

    async def _check_history(self) -> None:
        """Forget the version if the server's current one is earlier.

        API servers are stopped while etcd is restored, so this is necessary after a failure to
        reach one. A watch of a version that does not exist yet is accepted, and silent: it would
        miss all changes until the server comes to that version.
        """
        known = self._version
        if known is not None and is_beyond(known, await self._read_version()):
            _log.warning("older data were restored", resource=self._resource.full_name, known=known)
            self._state.forget()
        self._may_be_restored = False

    async def relist(self) -> None:
        """Abandon the current request, and wait for a list that begins after this call."""
        wanted = self._wanted = self._begun + 1
        if self._interrupt is not None:
            self._interrupt.reschedule(asyncio.get_running_loop().time())
        while self._complete < wanted:
            await self._clock.sleep(_LOOK)

    async def _current_version(self, *, permitted: bool) -> str:
        """Return the server's version of the resource by a consistent read; see `catch_up`."""
        waits = Backoff(random=self._requests.jitter)
        refused_since = math.inf
        while True:
            try:
                return await self._read_version()
            except KubeError as error:
                now = self._clock.monotonic()
                refused = isinstance(error, Forbidden)
                refused_since = min(refused_since, now) if refused else math.inf
                if not permitted and now - refused_since >= STARTING:
                    raise
                _log.warning(
                    "failed to read a resource version",
                    resource=self._resource.full_name,
                    error=str(error),
                )
                await self._clock.sleep(waits.next(error))

    async def _read_version(self) -> str:
        """Return the server's version of the resource by one consistent read. Raises KubeError."""
        params = self._params | {"limit": "1"}
        return version_of_list(await self._client.request("GET", self._path, params=params))

    async def _list(self) -> None:
        self._begun += 1
        number, begun = self._begun, self._clock.monotonic()
        WATCH_RELISTS.labels(self._resource.full_name).inc()
        self._state.begin_list()
        self._delivery.on_list(True)
        params = dict(self._params)
        if not self._whole_list:
            params["limit"] = str(self._requests.page_size)
        while True:
            body = await self._read_page(params)
            self._pace.begin()
            changes, token = self._state.feed_page(body)
            await self._apply(changes)
            if not token:
                break
            params["continue"] = token
        await self._apply(self._state.end_list())
        self._delivery.on_list(False)
        self._whole_list = False
        self._received()
        self._complete, self._listed = number, begun
        self.synced.set()

    async def _read_page(self, params: dict[str, str]) -> bytes:
        """Return the next page, with fewer objects than `limit` while these are too many bytes."""
        while True:
            limit = int(params.get("limit", "0"))
            largest = _LARGEST_PAGE if limit > 1 else None
            try:
                body = await self._client.request(
                    "GET", self._path, params=params, timeout=60, largest=largest
                )
            except Gone:
                # The history expired between two pages: a slow reader gets the list in one piece.
                self._whole_list = True
                raise
            except TooLarge:
                params["limit"] = str(max(1, limit // 8))
                continue
            if limit:
                # Large objects may be few: later pages have more objects again.
                params["limit"] = str(min(self._requests.page_size, limit * 2))
            return body

    async def _watch(self) -> bool:
        """Follow one stream to its end; return False if it ended before it delivered anything."""
        version = self._state.version
        assert version is not None
        params = self._params | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(self._requests.jitter.uniform(*_WATCH_SECONDS))),
        }
        useful = False
        opened: list[float] = []

        def accepted() -> None:
            self._last_received = self._clock.monotonic()
            opened.append(self._last_received)

        stream = self._client.watch_lines(
            self._path, params, inactivity=self._requests.inactivity, opened=accepted
        )
        try:
            async with aclosing(stream) as lines:
                async for line in lines:
                    self._pace.begin()
                    await self._apply(self._state.feed(line))
                    self._received()
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

    def _received(self) -> None:
        self._version = self._state.version
        self._last_received = self._clock.monotonic()

    def _reset_failures(self) -> None:
        """Forget failures: the stream delivered something, so the next one counts as the first."""
        self._expired = False
        self._backoff.reset()

    async def _apply(self, changes: Iterable[Change[T]]) -> None:
        """Pass the changes to the sink, in slices: a page may be long, and decoding it slow."""
        freeze = self._delivery.freeze
        for change in changes:
            if freeze.is_active:
                await freeze.over()
                self._pace.begin()
            if self._pace.over(self._take(change)):
                await self._pace.give_way()

    def _take(self, change: Change[T]) -> Key:
        """Pass one change to the sink. An error that it raises concerns this object alone."""
        match change:
            case Upserted(obj, raw):
                meta = obj.metadata
                key = (meta.namespace, meta.name)
                try:
                    self._sink.upsert(obj)
                except Exception as error:  # noqa: BLE001 - reported in four places
                    self._set_aside(key, meta.uid, raw, error)
                else:
                    self._release(key)
            case Deleted(key):
                try:
                    self._sink.delete(key)
                except Exception as error:  # noqa: BLE001 - reported in four places
                    self._delivery.quarantine.set_aside(self._resource, key, "", error)
                else:
                    self._release(key)
            case Undecodable(key, uid, raw, error):
                self._set_aside(key, uid, raw, error)
        return key

    def _release(self, key: Key) -> None:
        if self._delivery.quarantine:
            self._delivery.quarantine.release(self._resource, key)

    def _set_aside(self, key: Key, uid: str, raw: bytes, error: Exception) -> None:
        self._delivery.quarantine.set_aside(self._resource, key, uid, error)
        if self._delivery.on_set_aside is None:
            return
        try:
            self._delivery.on_set_aside(key, raw)
        except Exception:  # noqa: BLE001 - logged
            _log.exception(
                "failed to skip an undecodable object",
                resource=self._resource.full_name,
                namespace=key[0],
                name=key[1],
            )
