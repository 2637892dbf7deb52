"""The HTTPS listener: uvicorn in this process's event loop, with certificates from memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette

from kube.client.bounded_http import BoundedProtocol, end_timer
from webhooks.server.connections import Connections

KEEP_ALIVE_SECONDS = 120
"""Seconds before an idle connection is closed.

API servers keep theirs for 90 s: closing one first would race with a review.
"""

GRACE_SECONDS = 10
"""Seconds for reviews in flight when the server stops: longer than the timeout of a review."""


HEAD_SECONDS = 10.0
"""Seconds for the head of a request once it has begun."""

FIRST_SECONDS = 30.0
"""Seconds for a new connection without a request: API servers do not open such connections."""

STALLED_SECONDS = 10.0
"""Seconds for which a client may read nothing of a response."""


class _Protocol(BoundedProtocol):
    """A protocol that closes connections that stay silent or send a head too slowly.

    Uvicorn has no timeout for this. The application reads the body.
    """

    _timer: asyncio.TimerHandle | None = None
    _on_lost: Callable[[], None] | None = None
    _in_head = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.stalled_seconds = STALLED_SECONDS
        super().connection_made(transport)
        self._start_timer(FIRST_SECONDS)

    def when_lost(self, call: Callable[[], None]) -> Self:
        """Call `call` once the connection is lost."""
        self._on_lost = call
        return self

    def data_received(self, data: bytes) -> None:
        # The first byte of a head starts the timer. Later ones must not extend it.
        if self.idle and not self._in_head:
            self._in_head = True
            self._start_timer(HEAD_SECONDS)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        end_timer(self._timer)
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        end_timer(self._timer)
        if self._on_lost is not None:
            self._on_lost()
        super().connection_lost(exc)

    def _start_timer(self, seconds: float) -> None:
        end_timer(self._timer)
        self._timer = self.loop.call_later(seconds, self.transport.close)


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that reports when it is up, and leaves signals to the process.

    `Connections` accepts for it, which bounds their number and their handshakes.
    """

    def __init__(self, config: uvicorn.Config, context: ssl.SSLContext) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._context = context
        self._accepting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Without sockets uvicorn accepts nothing by itself.
        await super().startup([])
        assert sockets, "the listener binds its socket itself"
        connections = Connections(sockets[0], self._context, self._protocol)
        self._accepting = asyncio.create_task(connections.run())
        self.up.set()

    async def on_tick(self, counter: int) -> bool:
        if self._accepting is not None and self._accepting.done():
            # A bug of ours, as the task never ends by itself.
            self._accepting.result()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting is not None:
            # Stop accepting before the open connections end, so that none is accepted and then
            # dropped.
            self._accepting.cancel()
            await asyncio.wait({self._accepting})
        await super().shutdown(sockets)

    def _protocol(self, on_lost: Callable[[], None]) -> _Protocol:
        made = _Protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made.when_lost(on_lost)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn would take SIGTERM and skip the drain.
        yield


class Listener:
    """HTTPS on a bound socket, as an async context manager.

    On exit it accepts no more connections, completes reviews in flight, and closes the rest.
    `context` may get new certificates at any time.
    """

    def __init__(self, app: Starlette, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._socket = sock
        config: dict[str, Any] = {
            "http": _Protocol,
            "ws": "none",
            "lifespan": "off",
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
            "timeout_keep_alive": KEEP_ALIVE_SECONDS,
            "timeout_graceful_shutdown": GRACE_SECONDS,
        }
        self._uvicorn = _Uvicorn(uvicorn.Config(app, **config), context)
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to reach the listener from this machine."""
        host, port = self._socket.getsockname()[:2]
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104

    async def __aenter__(self) -> Self:
        """Start the listener, and return when it accepts connections."""
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
        up = asyncio.create_task(self._uvicorn.up.wait())
        # The server may fail before it is up. Waiting for that event alone would then never end.
        await asyncio.wait({self._serving, up}, return_when=asyncio.FIRST_COMPLETED)
        if not up.done():
            up.cancel()
            await self._serving
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End the listener. Raises the error that ended it earlier, if any."""
        assert self._serving is not None, "entered before"
        self._uvicorn.should_exit = True
        await self._serving


def address_of(sock: socket.socket) -> str:
    """Return the address that a socket is bound to, with the port: `0.0.0.0:9443`, `[::]:9443`."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises OSError for an unusable address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server((host, port), family=family, backlog=2048)
    # Every connection inherits this. A response is sent in several writes, and asyncio does not set
    # it here: each write would wait up to 40 ms for the client's ACK of the one before.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock
