"""The HTTPS listener: uvicorn inside this process's event loop, certificates from memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

KEEP_ALIVE_SECONDS = 120
"""API servers keep idle connections for 90 s. Closing one first would race with a review."""

GRACE_SECONDS = 10
"""How long reviews in work may take when the server stops: longer than a review's time-out."""


HEAD_SECONDS = 10.0
"""How long the head of a request may take once it has begun."""


class _TimeoutProtocol(HttpToolsProtocol):
    """Closes connections that stay silent, or that send the head of a request too slowly.

    Uvicorn itself has no timeout for either; the body is read by the application.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer(KEEP_ALIVE_SECONDS)

    def on_message_begin(self) -> None:
        self._start_timer(HEAD_SECONDS)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Uvicorn(uvicorn.Server):
    """Uvicorn that reports when it is up, and leaves signals to the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """HTTPS on a bound socket, as an async context manager.

    Leaving it takes no more connections, answers what is in work, and closes the rest. `context`
    may be given new certificates at any time.
    """

    def __init__(self, app: FastAPI, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._socket = sock
        config: dict[str, Any] = {
            "http": _TimeoutProtocol,
            "ws": "none",
            "lifespan": "off",
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
            "timeout_keep_alive": KEEP_ALIVE_SECONDS,
            "timeout_graceful_shutdown": GRACE_SECONDS,
            "ssl_context_factory": lambda _config, _default: context,
        }
        self._uvicorn = _Uvicorn(uvicorn.Config(app, **config))
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to reach the listener from this machine."""
        host, port = self._socket.getsockname()[:2]
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104

    async def __aenter__(self) -> Self:
        """Return when connections are being answered."""
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
        up = asyncio.create_task(self._uvicorn.up.wait())
        await asyncio.wait({self._serving, up}, return_when=asyncio.FIRST_COMPLETED)
        if not up.done():
            up.cancel()
            await self._serving
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the listener. Raises what made it end by itself."""
        assert self._serving is not None, "entered before"
        self._uvicorn.should_exit = True
        await self._serving


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError: taken, or not our address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server((host, port), family=family, backlog=2048)
    # Inherited by every connection. An answer is sent in several writes; asyncio does not set this
    # here, and each write would wait up to 40 ms for the client's ACK of the one before.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock
