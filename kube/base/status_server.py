"""HTTP for kubelets and collectors of metrics: health, metrics, and the pages of a process.

Any client of the port costs a bounded amount. A connection carries one request. Their number is
limited: the oldest connection of the client with the most is closed for a new one. A costly
response is created for all clients that ask at the same time, and takes a tenth of the time at
most.
"""

import asyncio
import http
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

import structlog
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    disable_created_metrics,
    generate_latest,
)

Check = Callable[[], bool]
Details = Callable[[], Iterable[str]]
Page = Callable[[], Awaitable[bytes | Sequence[bytes]]]
"""A JSON response; a large one in parts, which are sent one by one."""

CONNECTIONS: Final = 64
"""Open connections. For a further one, the oldest of the client with the most is closed."""
HEAD_BYTES: Final = 16 * 1024
"""Bytes of a request's head. A larger one gets the response 431."""
HEAD_SECONDS: Final = 5.0
"""Seconds that a request may take to arrive."""

STALLED_SECONDS: Final = 10.0
"""Seconds for which a client may stop reading a response that waits for it."""

_REST: Final = 9
"""Seconds until the next page is created, for each second that the last one took."""

_SHUTDOWN_SECONDS: Final = 1.0
"""Seconds for requests that are under way when the server stops."""

_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"

# The creation time of each series has no user, and was a fifth of all series.
disable_created_metrics()  # type: ignore[no-untyped-call]

log = structlog.get_logger()
_now, _sleep = time.monotonic, asyncio.sleep


class _Response(NamedTuple):
    parts: Sequence[bytes]
    content_type: str = _TEXT
    status: int = 200
    allow: str = ""

    def head(self) -> bytes:
        """Return the status line and the headers."""
        lines = [
            f"HTTP/1.1 {self.status} {http.HTTPStatus(self.status).phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {sum(map(len, self.parts))}",
            "Connection: close",
            *([f"Allow: {self.allow}"] if self.allow else ()),
        ]
        return "\r\n".join((*lines, "\r\n")).encode()


_Handler = Callable[[], Awaitable[_Response]]


class StatusServer:
    """An HTTP server for `/healthz`, `/readyz`, `/metrics` and more pages.

    It listens on a loopback or given address. Checks do no I/O. `/readyz` lists every check and is
    503 until all hold. `details` are further lines there, for problems that do not make the process
    unready.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ready: Mapping[str, Check] | None = None,
        details: Details = tuple,
        pages: Mapping[str, Page] | None = None,
        actions: Mapping[str, Page] | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """Serve these pages; `port` 0 takes a free one.

        `pages` maps a path to a coroutine that returns JSON bytes. `actions` maps a path to the
        action of a POST, whose result is the response.
        """
        self.port = port
        self._host = host
        self._open: dict[asyncio.Task[None], str] = {}  # the clients' addresses, oldest first
        self._handlers: dict[str, tuple[str, _Handler]] = {
            "/healthz": ("GET", _checks({})),
            "/readyz": ("GET", _checks(ready or {}, details)),
            "/metrics": ("GET", _Shared(_metrics(registry))),
            **{path: ("GET", _Shared(_json(page))) for path, page in (pages or {}).items()},
            **{path: ("POST", _shielded(_json(act))) for path, act in (actions or {}).items()},
        }

    async def __aenter__(self) -> Self:
        """Listen. Raises OSError if the address is taken."""
        # Not aiohttp's or uvicorn's server: neither bounds its connections or what is pipelined.
        self._listener = await asyncio.start_server(
            self._serve, self._host, self.port, limit=HEAD_BYTES
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the port and its connections."""
        self._listener.close()
        if self._open:
            _, left = await asyncio.wait(self._open, timeout=_SHUTDOWN_SECONDS)
            for task in left:
                task.cancel()
            await asyncio.gather(*left)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server makes one for each connection"
        if len(self._open) >= CONNECTIONS:
            self._free_slot()
        self._open[task] = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            await self._exchange(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # `close` would wait for a client that does not read.
            writer.transport.abort()
        finally:
            self._open.pop(task, None)
            writer.close()

    def _free_slot(self) -> None:
        clients = Counter(self._open.values())
        # A flood from one client closes its own connections, not the kubelet's.
        oldest = max(self._open, key=lambda task: clients[self._open[task]])
        del self._open[oldest]
        oldest.cancel()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            method, response = "", _Response([b"431: Request Header Fields Too Large"], status=431)
        else:
            method, response = await self._response(head)
        writer.write(response.head())
        for part in response.parts if method != "HEAD" else ():
            writer.write(part)
            async with asyncio.timeout(STALLED_SECONDS):
                await writer.drain()
        async with asyncio.timeout(STALLED_SECONDS):
            writer.close()
            await writer.wait_closed()

    async def _response(self, head: bytes) -> tuple[str, _Response]:
        """Return the method of the request, and the response."""
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", _Response([b"400: Bad Request"], status=400)
        method, path = words[0], words[1].partition("?")[0]
        wanted, handler = self._handlers.get(path, ("", None))
        if handler is None:
            return method, _Response([b"404: Not Found"], status=404)
        allowed = ("GET", "HEAD") if wanted == "GET" else (wanted,)
        if method not in allowed:
            allow = ",".join(allowed)
            return method, _Response([b"405: Method Not Allowed"], status=405, allow=allow)
        try:
            return method, await handler()
        except Exception:
            log.exception("page failed", path=path)
            return method, _Response([b"500: Internal Server Error"], status=500)


class _Shared:
    """A response that is costly to create: all clients that ask before it is begun get the same."""

    def __init__(self, make: _Handler) -> None:
        self._make = make
        self._one_at_a_time = asyncio.Lock()
        self._next: asyncio.Task[_Response] | None = None
        self._due = 0.0

    async def __call__(self) -> _Response:
        """Return the response as of now or later."""
        if self._next is None:
            self._next = asyncio.create_task(self._build())
        # Others may wait for it, too, when this client disconnects.
        return await asyncio.shield(self._next)

    async def _build(self) -> _Response:
        async with self._one_at_a_time:
            # Clients that ask during this wait share the response.
            await _sleep(self._due - _now())
            self._next = None
            begun = _now()
            try:
                return await self._make()
            finally:
                ended = _now()
                self._due = ended + _REST * (ended - begun)


def _shielded(act: _Handler) -> _Handler:
    """Return an action that goes on when its client disconnects."""

    async def respond() -> _Response:
        return await asyncio.shield(asyncio.ensure_future(act()))

    return respond


def _checks(checks: Mapping[str, Check], details: Details = tuple) -> _Handler:
    async def respond() -> _Response:
        results = {name: check() for name, check in checks.items()}
        lines = [f"[{'+' if good else '-'}]{name}" for name, good in results.items()]
        lines += [f"[!]{detail}" for detail in details()]
        good = all(results.values())
        lines.append("ok" if good else "not ok")
        text = "".join(f"{line}\n" for line in lines)
        return _Response([text.encode()], status=200 if good else 503)

    return respond


def _metrics(registry: CollectorRegistry) -> _Handler:
    async def respond() -> _Response:
        return _Response([generate_latest(registry)], CONTENT_TYPE_LATEST)

    return respond


def _json(page: Page) -> _Handler:
    async def respond() -> _Response:
        body = await page()
        return _Response([body] if isinstance(body, bytes) else body, _JSON)

    return respond
