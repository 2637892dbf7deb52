"""Limits of idle and stalled connections, so that they cannot block others.

Uvicorn limits the number of connections, but not the time that one may be silent before or within
the head of a request. `kube.client.bounded_http` has the limits of size; bodies are limited where
they are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, cast

import uvicorn

from kube.client.bounded_http import BoundedProtocol, end_timer

MOST_CONNECTIONS: Final = 512
"""Connections at a time. A new one replaces the longest idle one, or gets status 503."""

QUIET_SECONDS: Final = 10.0
"""Seconds that a connection may have no request: from its start, or its last response, to a
complete head. Bytes that it sends meanwhile do not prolong it."""

STALLED_SECONDS: Final = 30.0
"""Seconds for which a client may read nothing of a response."""

HANDSHAKE_SECONDS: Final = 10.0
"""Seconds that a TLS handshake may take."""

MOST_HANDSHAKES: Final = 128
"""Connections in the TLS handshake. A new one replaces the oldest."""

_EXHAUSTED_SECONDS: Final = 1.0
"""Seconds without accepting after the process ran out of sockets."""


class PatientProtocol(BoundedProtocol):
    """One connection, with its time limits. A new one replaces the longest idle one."""

    _quiet: asyncio.TimerHandle | None = None

    # The base class promises a BaseTransport only; a server's connections can be written to and
    # closed.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.stalled_seconds = STALLED_SECONDS
        super().connection_made(transport)
        # From its limit on, Uvicorn responds with 503.
        if len(self.connections) >= MOST_CONNECTIONS:
            self._free_slot()
        self._begin_quiet()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin_quiet()

    def connection_lost(self, exc: Exception | None) -> None:
        end_timer(self._quiet)
        super().connection_lost(exc)

    def _begin_quiet(self) -> None:
        end_timer(self._quiet)
        self._quiet = self.loop.call_later(QUIET_SECONDS, self._end_quiet)

    def _end_quiet(self) -> None:
        if self.idle:
            self.transport.abort()

    def _free_slot(self) -> None:
        """Abort the longest idle connection. If all are busy, Uvicorn rejects this one."""
        others = (each for each in self.connections if isinstance(each, PatientProtocol))
        idle = [each for each in others if each is not self and each.idle]
        if idle:
            min(idle, key=lambda each: each.waiting_since).transport.abort()


class PatientServer(uvicorn.Server):
    """Uvicorn with these connections. It leaves signals to the process."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Without sockets: the listeners below take them, with limits of their own.
        await super().startup([])
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        protocol = partial(
            PatientProtocol, self.config, self.server_state, self.lifespan.state, _loop=loop
        )
        for sock in sockets or ():
            if tls is None:
                made = await loop.create_server(protocol, sock=sock, backlog=self.config.backlog)
                self.servers.append(made)
            else:
                listener = TlsListener(sock, protocol, tls, self.config.backlog)
                self.servers.append(cast("asyncio.Server", listener))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class TlsListener:
    """A listener with a limit of connections in the TLS handshake.

    asyncio's own server has no such limit, and each handshake takes the memory of a TLS session.
    """

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        backlog: int,
    ) -> None:
        """Listen from now on."""
        self._sock = sock
        self._protocol = protocol
        self._tls = tls
        self._beginning: dict[asyncio.Task[None], None] = {}
        sock.setblocking(False)
        sock.listen(backlog)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Stop accepting; connections whose TLS has begun continue."""
        for task in (self._accepting, *self._beginning):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all its tasks have ended."""
        await asyncio.gather(self._accepting, *self._beginning, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._sock)
            except OSError:
                # Out of file descriptors: an immediate retry would fail too, and occupy the event
                # loop.
                await asyncio.sleep(_EXHAUSTED_SECONDS)
                continue
            if len(self._beginning) >= MOST_HANDSHAKES:
                oldest = next(iter(self._beginning))
                del self._beginning[oldest]
                oldest.cancel()
            task = loop.create_task(self._begin(accepted))
            self._beginning[task] = None
            task.add_done_callback(lambda done: self._beginning.pop(done, None))

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except (OSError, asyncio.CancelledError):
            accepted.close()  # no TLS, or too slow


def served_by(config: uvicorn.Config, tls: ssl.SSLContext | None) -> PatientServer:
    """Return a server with this configuration, by https if there is `tls`."""
    config.limit_concurrency = MOST_CONNECTIONS
    config.load()
    config.ssl = tls
    return PatientServer(config)
