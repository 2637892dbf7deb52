"""Many requests to one API server as fast as it accepts them: bytes in, bytes out, no library.

The load generator must not dominate the measurement: a request costs about 20 µs here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

import httptools

from e2e.harness.support.kubeconfig import Access

Answer = tuple[int, bytes]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


class WireError(RuntimeError):
    """A response other than success. The text has the request and the response."""


def request(
    access: Access, method: str, path: str, body: object = None, content_type: str = JSON
) -> bytes:
    """Return one HTTP/1.1 request with the token of `access`."""
    data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {urlsplit(access.server).netloc}\r\n"
        f"Authorization: Bearer {access.token}\r\nAccept: application/json\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._body = bytearray()
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's TLS transports are not of this class, but have its interface.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        assert self._answer is not None
        body = bytes(self._body)
        self._body.clear()
        if not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), body))

    async def call(self, sent: bytes) -> Answer:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Wire:
    """A number of connections to one API server, open while in the context."""

    def __init__(self, access: Access, connections: int) -> None:
        self.access = access
        self._wanted = connections
        self._free: asyncio.LifoQueue[_Connection] = asyncio.LifoQueue()

    async def __aenter__(self) -> Self:
        for _ in range(self._wanted):
            self._free.put_nowait(await self._connect())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while not self._free.empty():
            self._free.get_nowait().close()
        await asyncio.sleep(0.05)  # the TLS close_notify

    async def call(self, sent: bytes) -> bytes:
        """Return the body of one response, on a free connection. Raises WireError."""
        connection = await self._free.get()
        try:
            if connection.closed:  # the server closes those that are idle for minutes
                connection = await self._connect()
            status, body = await connection.call(sent)
        finally:
            self._free.put_nowait(connection)
        if status >= 300:
            line = sent.split(b"\r\n", 1)[0].decode()
            raise WireError(f"{line}: HTTP {status}: {body[:500].decode(errors='replace')}")
        return body

    async def _connect(self) -> _Connection:
        where = urlsplit(self.access.server)
        assert where.hostname is not None
        assert where.port is not None
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, where.hostname, where.port, ssl=self.access.context
        )
        return connection

    async def send(self, requests: Iterable[bytes]) -> None:
        """Send all requests, on all connections. Raises WireError."""
        left = iter(requests)

        async def work() -> None:
            for sent in left:
                await self.call(sent)

        await asyncio.gather(*(work() for _ in range(self._wanted)))

    async def post(self, path: str, bodies: Sequence[object]) -> None:
        """Create these objects in one collection."""
        await self.send(request(self.access, "POST", path, body) for body in bodies)

    async def get(self, path: str) -> bytes:
        """Return the unchanged body of a GET. Raises WireError."""
        return await self.call(request(self.access, "GET", path))
