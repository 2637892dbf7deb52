"""A pool of HTTP/1.1 connections with little overhead, one request at a time on each.

Every pod needs a request of its own, so the cost of a request is most of the cost of Muster. This
pool takes a third of the CPU time of aiohttp's client. It supports only what API servers use: no
redirects, no cookies, no compression, bodies in one piece.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from kube.base.errors import LeaseLost
from kube.client import fencing
from kube.credentials.rest_config import Tls

_CLOSING_SECONDS: Final = 1.0
"""Seconds to wait for closed connections: uvloop may not report one aborted after its handshake."""
_IDLE_SECONDS: Final = 15.0
"""Seconds after which an idle connection is not used: a middlebox may have dropped it."""

_CONCURRENT_HANDSHAKES: Final = 16
"""Concurrent handshakes. Further connections are opened after them."""


@dataclass(frozen=True, slots=True)
class Response:
    """One response as received; `retry_after` and `date` are the headers of these names."""

    status: int
    body: bytes
    retry_after: str | None = None
    date: str | None = None


class ResponseTooLarge(OSError):  # noqa: N818 - named after what happened, as in kube.base.errors
    """The response has more bytes than the caller asked for; the rest of it is not read."""


class ConnectionPool:
    """Up to `limit` connections (0: any number) to one server, opened when they are needed.

    `server` is a URL without a path; `tls` is None for plain HTTP.
    """

    def __init__(
        self,
        server: str,
        tls: Tls | None,
        *,
        server_name: str | None = None,
        limit: int = 0,
    ) -> None:
        where = urlsplit(server)
        self._host = where.hostname or ""
        self._port = where.port or (80 if tls is None else 443)
        self._netloc = where.netloc
        self._tls = tls
        self._server_name = (server_name or self._host) if tls is not None else None
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._idle: deque[_Connection] = deque()
        self._open: set[_Connection] = set()
        self._closed = False

    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
        *,
        largest: int | None = None,
    ) -> Response:
        """Send one request and read the complete response.

        `timeout` seconds include the wait for a connection. Raises OSError, which TimeoutError and
        ssl.SSLError are, ResponseTooLarge for a body of more than `largest` bytes, and LeaseLost.
        """
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        length = "" if method == "GET" else f"Content-Length: {len(body or b'')}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._netloc}\r\n{lines}{length}\r\n"
        data = head.encode("latin-1") + (body or b"")
        async with asyncio.timeout(timeout):
            if self._slots is None:
                return await self._send(method, path, data, largest)
            async with self._slots:
                return await self._send(method, path, data, largest)

    async def open(self, connections: int) -> None:
        """Open connections until so many are idle, before they are needed. Raises OSError."""
        while not self._closed and (missing := connections - len(self._idle)) > 0:
            batch = [self._connect() for _ in range(min(missing, _CONCURRENT_HANDSHAKES))]
            made = await asyncio.gather(*batch, return_exceptions=True)
            self._idle += [connection for connection in made if isinstance(connection, _Connection)]
            for problem in made:
                if isinstance(problem, BaseException):
                    raise problem

    async def close(self) -> None:
        """Drop all connections; running and waiting requests fail."""
        self._closed = True
        self._idle.clear()
        gone = [connection.abort() for connection in self._open]
        if gone:
            await asyncio.wait(gone, timeout=_CLOSING_SECONDS)

    async def _send(self, method: str, path: str, data: bytes, largest: int | None) -> Response:
        if self._closed:
            raise ConnectionError("the client is closed")
        connection = self._take_idle() or await self._connect()
        try:
            # After the wait for a connection, in which the lease may have been lost.
            fencing.check(method, path)
            response = await connection.send(data, largest)
        except LeaseLost:
            # No byte was written, so the connection is as good as before.
            self._idle.append(connection)
            raise
        except BaseException:
            # Its response may still come, and must not be taken for that of another request.
            connection.abort()
            raise
        if connection.reusable:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.abort()
        return response

    def _take_idle(self) -> "_Connection | None":
        """Return the connection that was used last, unless it is closed or was idle too long.

        A connection from before a rotation of the certificates is closed, too: a server rejects an
        expired certificate.
        """
        while self._idle:
            # The one used last: in quiet times the others age and are closed.
            connection = self._idle.pop()
            rotated = connection.context is not self._context
            if rotated or time.monotonic() - connection.idle_since > _IDLE_SECONDS:
                connection.abort()
            elif connection.reusable:
                return connection
        return None

    @property
    def _context(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.context

    async def _connect(self) -> "_Connection":
        context = self._context
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._open, self._on_closed, context),
            self._host,
            self._port,
            ssl=context,
            server_hostname=self._server_name,
        )
        return connection

    def _on_closed(self, connection: "_Connection") -> None:
        """Forget an idle connection as soon as it is closed: its buffers take a quarter MiB."""
        with suppress(ValueError):
            self._idle.remove(connection)


class _Connection(asyncio.Protocol):
    """One connection, in `register` while open; `on_closed` is called when it ends."""

    def __init__(
        self,
        register: "set[_Connection]",
        on_closed: "Callable[[_Connection], None]",
        context: ssl.SSLContext | None,
    ) -> None:
        self.context = context
        self.idle_since = time.monotonic()
        self.reusable = True
        self._register = register
        self._on_closed = on_closed
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._body: list[bytes] = []
        self._remaining: int | None = None  # bytes that the body may still have
        self._retry_after: str | None = None
        self._date: str | None = None
        self._closed_future = asyncio.get_running_loop().create_future()

    def send(self, data: bytes, largest: int | None) -> asyncio.Future[Response]:
        """Write one request on an idle connection. The body has at most `largest` bytes."""
        self._remaining = largest
        assert self._transport is not None
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._response

    def abort(self) -> asyncio.Future[None]:
        """Close immediately; the future is done when the connection is closed."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()
        return self._closed_future

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports for TLS are not of this class, but have its interface.
        self._transport = cast("asyncio.Transport", transport)
        self._register.add(self)

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self.abort()  # without a pending request such a connection cannot be trusted
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"the response is not HTTP: {error}"))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        self._register.discard(self)
        self._on_closed(self)
        if not self._closed_future.done():
            self._closed_future.set_result(None)
        reset = ConnectionResetError("the server closed the connection")
        self._fail(exc if isinstance(exc, OSError) else reset)
        # These reference each other and would live until the next garbage collection.
        self._transport = None
        del self._parser

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"retry-after":
                self._retry_after = value.decode("latin-1")
            case b"date":
                self._date = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        if self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0:
                self._body.clear()
                self._fail(ResponseTooLarge("the response is larger than the limit"))
                self.abort()
                return
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # an informational response: the final one follows
        response = Response(status, b"".join(self._body), self._retry_after, self._date)
        self._body, self._retry_after, self._date = [], None, None
        self.reusable = self.reusable and self._parser.should_keep_alive()
        if self._response is not None and not self._response.done():
            self._response.set_result(response)

    def _fail(self, error: OSError) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
